// guest_python.c: guest.h for lib/guest/python.py, as a plain library that it
// loads with ctypes.PyDLL (the interpreter lock is held during every call).
// No Python.h: one build serves every version. Loaded once, in the zygote; once
// a job has been taken only cj_send and cj_leave still act.
#include <dlfcn.h>
#include <unistd.h>

#include "guest.h"
#include "trial.h"

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

// 0 in each cell, with the interpreter told of the fork; negative: *why.
EXPORT int cj_serve(const char *runtime, char why[256]) {
  if (guest.state != BOOTING)
    return -1;
  guest.state = SERVING;
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
