// guest_python.c: guest.h for lib/guest/python.py, as a plain library that it
// loads with ctypes.PyDLL (the interpreter lock is held during every call).
// No Python.h: one build serves every version. Loaded once, in the zygote; once
// a job has been taken only cj_send, cj_where and cj_leave still act.
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "guest.h"
#include "trial.h"
#include "where.h"

#define EXPORT __attribute__((visibility("default")))

static struct { // owner: the main thread
  enum { BOOTING, SERVING, TAKEN } state;
  pid_t pid;
} guest;

static void call(const char *name) {
  void (*function)(void) = dlsym(RTLD_DEFAULT, name);
  if (function)
    function();
}

// ---- where ----

// python.py has faulthandler registered for WHERE_SIGNAL, which shows a stack
// from within a signal, whatever the code does. We stand before it: it writes
// into a pipe under the number that it was told, and we read what it wrote.
enum { DUMP_FD = 63 }; // the last that a cell may have
static void (*dump)(int number);
static int (*interrupt)(int number); // PyErr_SetInterruptEx, from Python 3.10 on

// "  File "code.py", line 3 in f"
static bool read_frame(const char *line, struct where_frame *frame) {
  static const char head[] = "  File \"code.py\", line ";
  if (strncmp(line, head, sizeof head - 1))
    return false;
  char *end;
  frame->line = (uint32_t)strtoul(line + sizeof head - 1, &end, 10);
  frame->name[0] = 0;
  if (!strncmp(end, " in ", 4))
    strncat(frame->name, end + 4, sizeof frame->name - 1);
  return frame->line > 0;
}

static size_t tell_dump(char *text) {
  static struct where_frame frames[WHERE_FRAMES_MAX];
  size_t count = 0;
  for (char *line = text, *end; (end = strchr(line, '\n')) && count < WHERE_FRAMES_MAX; line = end + 1) {
    *end = 0;
    count += read_frame(line, &frames[count]);
  }
  where_tell(frames, count);
  return count;
}

static void look(void) {
  static char text[16384];
  int ends[2];
  if (fcntl(DUMP_FD, F_GETFD) >= 0 || pipe2(ends, O_CLOEXEC | O_NONBLOCK))
    return;
  if (dup3(ends[1], DUMP_FD, O_CLOEXEC) == DUMP_FD) {
    dump(WHERE_SIGNAL);
    close(DUMP_FD);
    ssize_t size = read(ends[0], text, sizeof text - 1);
    text[size > 0 ? size : 0] = 0;
    // Nobody on the stack: the event loop waits. python.py's own handler knows its tasks.
    if (tell_dump(text) == 0 && interrupt)
      interrupt(WHERE_SIGNAL);
  }
  close(ends[0]);
  close(ends[1]);
}

static void stand_before_dump(void) {
  struct sigaction action;
  if (sigaction(WHERE_SIGNAL, NULL, &action) || (action.sa_flags & SA_SIGINFO) || action.sa_handler == SIG_DFL ||
      action.sa_handler == SIG_IGN)
    return; // a Python without faulthandler
  dump = action.sa_handler;
  interrupt = (int (*)(int))dlsym(RTLD_DEFAULT, "PyErr_SetInterruptEx");
  where_look = look;
}

// ---- the library ----

// What python.py tells its faulthandler.
EXPORT int cj_dump_fd(void) {
  return DUMP_FD;
}

// In its handler: text as faulthandler writes it, which is taken apart.
EXPORT void cj_where(char *text) {
  if (guest.state == TAKEN && getpid() == guest.pid)
    tell_dump(text);
}

// 0 in each cell, with the interpreter told of the fork; negative: *why.
EXPORT int cj_serve(const char *runtime, char why[256]) {
  if (guest.state != BOOTING)
    return -1;
  guest.state = SERVING;
  stand_before_dump();
  pid_t zygote = getpid();
  call("PyOS_BeforeFork"); // once: the zygote runs no more Python
  int code = 0;
  if (!trial_begin()) {
    code = guest_serve(runtime, why);
    trial_apply();
  }
  call(code == 0 && getpid() != zygote ? "PyOS_AfterFork_Child" : "PyOS_AfterFork_Parent");
  return code;
}

// This is the trial cell: it rehearses, and then takes no job.
EXPORT int cj_trial(void) {
  return trial_running();
}

// The boot cannot go on.
EXPORT void cj_fail(const char *text) {
  if (guest.state != TAKEN)
    guest_fail(text);
}

EXPORT int cj_take(struct guest_job *job) {
  if (guest.state != SERVING)
    return -1;
  if (trial_running())
    trial_learn();
  guest_take(job);
  guest.state = TAKEN;
  guest.pid = getpid();
  return 0;
}

// Returns only in a rehearsal. Where a run may fork (no seccomp there), its
// child must not answer in its parent's name: it ends as a program does.
EXPORT void cj_send(int kind, const char *meta, size_t meta_bytes, const char *result, size_t result_bytes) {
  if (guest.state != TAKEN)
    return;
  if (getpid() != guest.pid)
    guest_leave(kind == FRAME_OK ? 0 : 1);
  guest_send(kind, meta, meta_bytes, result, result_bytes);
}

EXPORT void cj_leave(int code) {
  guest_leave(code);
}

EXPORT void cj_random(unsigned char bytes[32]) {
  guest_random(bytes);
}
