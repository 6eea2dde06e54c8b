// inmate_solo.c: guest.h for a cell that its guard has walled (guard.c) and that
// has just booted its own interpreter: no zygote, no fork, no keeper. Caller:
// guest_node.c and guest_python.c, on the runtime's main thread.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../solo.h"
#include "guest.h"
#include "trial.h"
#include "where.h"

enum { EXIT_SETUP = 111, EXIT_NO_JOB = 112, PROBE_BYTES = 4 << 20, CPU_GRACE_S = 2 };

static volatile sig_atomic_t armed, sent; // the job has arrived; a frame has been begun

// Nobody asks such a cell where it is: its timeouts name no line.
void (*where_look)(void);
void where_tell(const struct where_frame *frames, size_t count) {
  (void)frames, (void)count;
}

// Nothing is forked, so there is nothing to learn from a trial.
bool trial_begin(void) {
  return false;
}
bool trial_running(void) {
  return false;
}
_Noreturn void trial_learn(void) {
  _exit(EXIT_SETUP);
}
void trial_apply(void) {}

static void say(enum solo_type type, const char *text) {
  struct solo_word word = {.type = type, .pid = getpid()};
  snprintf(word.text, sizeof word.text, "%s", text);
  if (send(SOLO_JOB_FD, &word, sizeof word, 0) != (ssize_t)sizeof word)
    _exit(EXIT_NO_JOB);
}

_Noreturn void guest_fail(const char *text) {
  say(SOLO_FAILED, text);
  _exit(EXIT_SETUP);
}

static const char *name; // of the runtime, until the cell parks

int guest_serve(const char *runtime, char why[256]) {
  name = strdup(runtime);
  return name ? 0 : (snprintf(why, 256, "no memory"), -1);
}

static void receive(void *to, size_t bytes) {
  for (size_t got = 0; got < bytes;) {
    ssize_t size = recv(SOLO_JOB_FD, (char *)to + got, bytes - got, 0);
    if (size < 0 && errno == EINTR)
      continue;
    if (size <= 0)
      _exit(EXIT_NO_JOB);
    got += (size_t)size;
  }
}

static char *receive_part(size_t bytes) {
  char *part = malloc(bytes + 1);
  if (!part)
    _exit(EXIT_NO_JOB);
  receive(part, bytes);
  part[bytes] = 0;
  return part;
}

static void on_abort(int number) {
  (void)number;
  guest_die();
}

void guest_take(struct guest_job *job) {
  struct job_header header;
  say(SOLO_READY, name);
  receive(&header, sizeof header);
  if (header.magic != JOB_MAGIC)
    _exit(EXIT_NO_JOB);
  *job = (struct guest_job){.code_bytes = header.code_bytes,
                            .input_bytes = header.input_bytes,
                            .env_bytes = header.env_bytes,
                            .files_bytes = header.files_bytes,
                            .memory_bytes = header.memory_bytes,
                            .max_result_bytes = header.max_result_bytes,
                            .max_result_nodes = header.max_result_nodes,
                            .flags = header.flags};
  job->code = receive_part(job->code_bytes);
  job->input = receive_part(job->input_bytes);
  job->env = receive_part(job->env_bytes);
  job->files = receive_part(job->files_bytes);
  // A second bound on its time, beside the engine's and for all its threads.
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  rlim_t seconds = (rlim_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + header.timeout_ms / 1000 * 4 + CPU_GRACE_S;
  struct rlimit limit = {.rlim_cur = seconds, .rlim_max = seconds};
  setrlimit(RLIMIT_CPU, &limit);
  struct sigaction action = {.sa_handler = on_abort, .sa_flags = SA_RESETHAND};
  sigaction(SIGABRT, &action, NULL);
  fcntl(SOLO_RESULT_FD, F_SETFD, FD_CLOEXEC);
  close(SOLO_JOB_FD); // a guest that held it could send descriptors through it
  armed = 1;
}

_Noreturn static void sleep_until_killed(void) {
  for (;;)
    poll(NULL, 0, -1);
}

_Noreturn void guest_send(enum frame_kind kind, const char *meta, size_t meta_bytes, const char *result,
                          size_t result_bytes) {
  struct frame_header header = {FRAME_MAGIC, kind, (uint32_t)meta_bytes, (uint32_t)result_bytes};
  struct iovec parts[3] = {{&header, sizeof header}, {(void *)meta, meta_bytes}, {(void *)result, result_bytes}};
  if (!armed || sent++)
    sleep_until_killed();
  for (int i = 0; i < 3; i++)
    while (parts[i].iov_len) {
      ssize_t size = write(SOLO_RESULT_FD, parts[i].iov_base, parts[i].iov_len);
      if (size < 0 && errno == EINTR)
        continue;
      if (size < 0)
        sleep_until_killed(); // the code has closed the pipe: the engine sees its end
      parts[i].iov_base = (char *)parts[i].iov_base + size;
      parts[i].iov_len -= (size_t)size;
    }
  sleep_until_killed();
}

_Noreturn void guest_die(void) {
  if (!armed)
    _exit(EXIT_SETUP);
  void *probe = mmap(NULL, PROBE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
  guest_send(probe == MAP_FAILED ? FRAME_OUT_OF_MEMORY : FRAME_ABORTED, NULL, 0, NULL, 0);
}

_Noreturn void guest_leave(int code) {
  _exit(code);
}

void guest_random(unsigned char bytes[32]) {
  if (getentropy(bytes, 32))
    _exit(EXIT_SETUP); // no randomness: no cell
}
