// inmate.c: a cell from parked to dead: verify, park, take one job, send one
// frame. Caller: guest_node.c and guest_python.c, on the runtime's main thread.
#include "guest.h"
#include "inmate.h"
#include "report.h"
#include "where.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { PROBE_BYTES = 4 << 20 };

struct inmate inmate = {.job = -1, .far = -1, .tmpfs = {-1, -1}};
static volatile sig_atomic_t armed, sent; // the job has arrived; a frame has been begun

static void on_abort(int number) {
  (void)number;
  guest_die();
}

static void forget(int *fd) {
  if (*fd >= 0)
    close(*fd);
  *fd = -1;
}

// Says that this cell is ready, with its baseline, and lets go of the keeper.
static void park(void) {
  struct cell_error error = {0};
  struct report report = {.type = REPORT_PARKED, .cell = inmate.id};
  if (cell_verify(inmate.plan, &report.layers, &error)) {
    report_failure(PROTOCOL_FD, inmate.id, &error);
    _exit(INMATE_SETUP);
  }
  struct timespec used;
  if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) == 0)
    report.cpu_ns = (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
  int fds[3] = {inmate.far, inmate.tmpfs[0], inmate.tmpfs[1]};
  size_t count = 1 + (inmate.tmpfs[0] >= 0) + (inmate.tmpfs[1] >= 0);
  if (report_send(PROTOCOL_FD, &report, NULL, 0, fds, count))
    _exit(INMATE_SETUP);
  close(PROTOCOL_FD);
  forget(&inmate.far);
  forget(&inmate.tmpfs[0]);
  forget(&inmate.tmpfs[1]);
}

static int receive_header(struct job_header *header, int fds[3]) {
  char control[CMSG_SPACE(3 * sizeof(int))];
  struct iovec part = {header, sizeof *header};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  ssize_t size;
  do
    size = recvmsg(inmate.job, &message, MSG_CMSG_CLOEXEC | MSG_WAITALL);
  while (size < 0 && errno == EINTR);
  struct cmsghdr *head = size > 0 ? CMSG_FIRSTHDR(&message) : NULL;
  if (size != sizeof *header || header->magic != JOB_MAGIC || !head || head->cmsg_type != SCM_RIGHTS ||
      head->cmsg_len != CMSG_LEN(3 * sizeof(int)))
    return -1;
  memcpy(fds, CMSG_DATA(head), 3 * sizeof(int));
  return 0;
}

static char *receive_part(size_t bytes) {
  char *part = malloc(bytes + 1);
  size_t got = 0;
  if (!part)
    return NULL;
  while (got < bytes) {
    ssize_t size = recv(inmate.job, part + got, bytes - got, 0);
    if (size < 0 && errno == EINTR)
      continue;
    if (size <= 0)
      return NULL;
    got += (size_t)size;
  }
  part[bytes] = 0;
  return part;
}

// The job has come and this cell cannot do it: says so over the job socket,
// which no guest ever holds, so that the run goes to another cell.
_Noreturn static void hand_back(const char *stage, const char *cause) {
  char why[JOB_BACK_MAX];
  int size = snprintf(why, sizeof why, "%s: %s", stage, cause);
  ssize_t sent = write(inmate.job, why, (size_t)size < sizeof why ? (size_t)size : sizeof why - 1);
  _exit(sent > 0 ? INMATE_SETUP : INMATE_NO_JOB);
}

static void receive_job(struct guest_job *job, struct job_header *header, int fds[3]) {
  if (receive_header(header, fds))
    _exit(INMATE_NO_JOB);
  job->code_bytes = header->code_bytes;
  job->input_bytes = header->input_bytes;
  job->env_bytes = header->env_bytes;
  job->files_bytes = header->files_bytes;
  job->memory_bytes = header->memory_bytes;
  job->max_result_bytes = header->max_result_bytes;
  job->max_result_nodes = header->max_result_nodes;
  job->flags = header->flags;
  if (!(job->code = receive_part(job->code_bytes)) || !(job->input = receive_part(job->input_bytes)) ||
      !(job->env = receive_part(job->env_bytes)) || !(job->files = receive_part(job->files_bytes)))
    hand_back("job", strerror(errno));
}

static void place_descriptors(const int fds[3]) {
  // Out of the way first: one may have arrived under another's number.
  int target[3] = {1, 2, PROTOCOL_RESULT_FD}, high[3];
  for (int i = 0; i < 3; i++) {
    if ((high[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 32)) < 0)
      hand_back("its pipes", strerror(errno));
    close(fds[i]);
  }
  for (int i = 0; i < 3; i++) {
    if (dup3(high[i], target[i], O_CLOEXEC) < 0)
      hand_back("its pipes", strerror(errno));
    close(high[i]);
  }
}

void guest_take(struct guest_job *job) {
  struct cell_error error = {0};
  struct job_header header = {0};
  int fds[3];
  where_arm();
  park();
  receive_job(job, &header, fds);
  place_descriptors(fds);
  // As pid 1 the default action of a signal is to ignore it.
  struct sigaction action = {.sa_handler = on_abort, .sa_flags = SA_RESETHAND};
  sigaction(SIGABRT, &action, NULL);
  if (cell_close(inmate.plan, header.memory_bytes, header.timeout_ms, &error))
    hand_back(error.stage, error.cause);
  // A guest that held this socket could send descriptors through it.
  close(inmate.job);
  armed = 1;
  where_about(job->code, job->code_bytes, header.timeout_ms, inmate.plan->language);
}

_Noreturn static void sleep_until_killed(void) {
  for (;;)
    poll(NULL, 0, -1);
}

_Noreturn void guest_send(enum frame_kind kind, const char *meta, size_t meta_bytes, const char *result,
                          size_t result_bytes) {
  struct frame_header header = {FRAME_MAGIC, kind, (uint32_t)meta_bytes, (uint32_t)result_bytes};
  struct iovec parts[3] = {{&header, sizeof header}, {(void *)meta, meta_bytes}, {(void *)result, result_bytes}};
  int first = 0;
  if (!armed || sent++)
    sleep_until_killed();
  where_end();
  while (first < 3) {
    ssize_t size = writev(PROTOCOL_RESULT_FD, parts + first, 3 - first);
    if (size < 0 && errno == EINTR)
      continue;
    if (size < 0)
      break; // the code has closed the pipe: the engine sees its end
    while (first < 3 && (size_t)size >= parts[first].iov_len)
      size -= (ssize_t)parts[first++].iov_len;
    if (first < 3) {
      parts[first].iov_base = (char *)parts[first].iov_base + size;
      parts[first].iov_len -= (size_t)size;
    }
  }
  sleep_until_killed();
}

_Noreturn void guest_die(void) {
  if (!armed)
    _exit(INMATE_SETUP);
  void *probe = mmap(NULL, PROBE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  guest_send(probe == MAP_FAILED ? FRAME_OUT_OF_MEMORY : FRAME_ABORTED, NULL, 0, NULL, 0);
}

_Noreturn void guest_leave(int code) {
  _exit(code);
}

void guest_random(unsigned char bytes[32]) {
  for (size_t got = 0; got < 32;) {
    ssize_t size = getrandom(bytes + got, 32 - got, 0);
    if (size > 0)
      got += (size_t)size;
    else if (errno != EINTR)
      _exit(INMATE_SETUP); // no randomness: no cell
  }
}
