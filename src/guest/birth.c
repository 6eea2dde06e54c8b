// birth.c: see birth.h. In init and in the zygote's first moments: behind the
// outer walls, still our own static program.
#include "birth.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"
#include "inmate.h"
#include "report.h"
#include "spawner.h"

static void on_child(int number) {
  (void)number;
}

_Noreturn static void fail_cell(const char *what) {
  struct cell_error error = {0};
  cell_fail(&error, -errno, "cold start", "%s: %s", what, strerror(errno));
  report_failure(PROTOCOL_FD, inmate.id, &error);
  _exit(INMATE_SETUP);
}

// In a cold cell, walled: makes the descriptors what zygote.c expects, then execs.
_Noreturn static void exec_cold(const struct closure *closure) {
  int from[5], high[5];
  spawner_cell(from);
  // Out of the way first, then down to their numbers.
  for (int i = 0; i < 5; i++)
    high[i] = from[i] < 0 ? -1 : fcntl(from[i], F_DUPFD_CLOEXEC, 32);
  for (int i = 0; i < 5; i++)
    if (from[i] < 0)
      close(PROTOCOL_JOB_FD + i);
    else if (high[i] < 0 || dup2(high[i], PROTOCOL_JOB_FD + i) < 0)
      fail_cell("its descriptors");
  if (fcntl(PROTOCOL_FD, F_SETFD, 0))
    fail_cell("its descriptors");
  size_t count = 0;
  while (closure->envp[count])
    count++;
  char *envp[16] = {SPAWNER_COLD "=1"};
  for (size_t i = 0; i < count && i < 14; i++)
    envp[i + 1] = closure->envp[i];
  execve(closure->argv[0], closure->argv, envp);
  fail_cell(closure->argv[0]);
}

static void lower_group(void) {
  int fd = open("/proc/self/autogroup", O_WRONLY | O_CLOEXEC);
  if (fd < 0)
    return; // no such grouping here: each cell's own priority counts
  ssize_t written = write(fd, "10", 2);
  (void)written;
  close(fd);
}

_Noreturn static void fail(int to, const char *what) {
  struct cell_error error = {0};
  cell_fail(&error, -errno, "zygote", "%s: %s", what, strerror(errno));
  report_failure(to, 0, &error);
  _exit(127);
}

_Noreturn static void become_zygote(const struct birth *birth) {
  struct cell_error error = {0};
  int end = fcntl(birth->zygote_end, F_DUPFD, 10), null = open("/dev/null", O_RDWR);
  if (end < 0 || null < 0)
    fail(birth->zygote_end, "no descriptors");
  // These first: null may have the number that is the socket's from now on.
  for (int fd = 0; fd < 3; fd++)
    if (dup2(null, fd) < 0)
      fail(end, "no standard streams");
  if (dup2(end, PROTOCOL_FD) < 0)
    fail(end, "no socket");
  close(end);
  if (null > PROTOCOL_FD)
    close(null);
  if (birth->zygote_end > PROTOCOL_FD)
    close(birth->zygote_end);
  close(birth->lifeline);
  // A session without a terminal; and one scheduling group (where the kernel
  // groups by session) at low weight for all its cells together.
  setsid();
  lower_group();
  // Where no pid namespace does it: the zygote ends with init, init with the
  // keeper's main thread, which made it and lives as long as the keeper.
  if (prctl(PR_SET_PDEATHSIG, SIGKILL))
    fail(PROTOCOL_FD, "it cannot be made to end with init");
  if (cell_zygote_filter(&error) == 0) {
    if (birth->cold) {
      char why[256];
      if (spawner_serve(birth->closure->runtime, why) == 0)
        exec_cold(birth->closure);
      guest_fail(why);
    }
    execve(birth->closure->argv[0], birth->closure->argv, birth->closure->envp);
    bool wrong = errno == ENOENT || errno == EACCES || errno == ENOEXEC; // and would be the next time
    cell_fail(&error, -errno, wrong ? "config" : "boot", "%s cannot be started in its root: %s",
              birth->closure->argv[0], strerror(errno));
  }
  report_failure(PROTOCOL_FD, 0, &error);
  _exit(127);
}

int birth_init(void *argument) {
  const struct birth *birth = argument;
  struct sigaction action = {.sa_handler = on_child};
  sigset_t blocked, open_mask;
  if (prctl(PR_SET_PDEATHSIG, SIGKILL))
    fail(birth->zygote_end, "init cannot be made to end with the keeper");
  sigaction(SIGCHLD, &action, NULL);
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGCHLD);
  sigprocmask(SIG_BLOCK, &blocked, &open_mask);
  // A copy of the keeper's own sockets here would outlive it.
  for (int fd = 3; fd < 256; fd++)
    if (fd != birth->lifeline && fd != birth->zygote_end)
      close(fd);
  pid_t child = fork();
  if (child == 0) {
    signal(SIGCHLD, SIG_DFL);
    sigprocmask(SIG_SETMASK, &open_mask, NULL);
    become_zygote(birth);
  }
  if (child < 0)
    fail(birth->zygote_end, "fork");
  close(birth->zygote_end);
  for (;;) {
    struct pollfd source = {.fd = birth->lifeline, .events = POLLIN};
    int status;
    if (ppoll(&source, 1, NULL, &open_mask) > 0)
      return 0;
    for (pid_t gone; (gone = waitpid(-1, &status, WNOHANG)) > 0;)
      if (gone == child)
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
}
