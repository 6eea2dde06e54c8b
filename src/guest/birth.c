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

#include "report.h"
#include "spawner.h"

static void on_child(int number) {
  (void)number;
}

// In a cold cell, walled: makes the descriptors what zygote.c expects, then execs.
_Noreturn static void exec_cold(const struct closure *closure) {
  int from[5], high[5];
  spawner_cell(from);
  // Out of the way first, then down to their numbers.
  for (int i = 0; i < 5; i++)
    high[i] = from[i] < 0 ? -1 : fcntl(from[i], F_DUPFD_CLOEXEC, 32);
  for (int i = 0; i < 5; i++)
    if (high[i] >= 0)
      dup2(high[i], PROTOCOL_JOB_FD + i);
    else
      close(PROTOCOL_JOB_FD + i);
  fcntl(PROTOCOL_FD, F_SETFD, 0);
  size_t count = 0;
  while (closure->envp[count])
    count++;
  char *envp[16] = {SPAWNER_COLD "=1"};
  for (size_t i = 0; i < count && i < 14; i++)
    envp[i + 1] = closure->envp[i];
  execve(closure->argv[0], closure->argv, envp);
  _exit(127);
}

static void lower_group(void) {
  int fd = open("/proc/self/autogroup", O_WRONLY | O_CLOEXEC);
  if (fd < 0)
    return; // no such grouping here: each cell's own priority counts
  ssize_t written = write(fd, "10", 2);
  (void)written;
  close(fd);
}

_Noreturn static void become_zygote(const struct birth *birth) {
  struct cell_error error = {0};
  int end = fcntl(birth->zygote_end, F_DUPFD, 10), null = open("/dev/null", O_RDWR);
  for (int fd = 0; fd < 3; fd++)
    dup2(null, fd);
  dup2(end, PROTOCOL_FD);
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
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (cell_zygote_filter(&error) == 0) {
    if (birth->cold) {
      char why[256];
      if (spawner_serve(birth->closure->runtime, why) == 0)
        exec_cold(birth->closure);
      _exit(127);
    }
    execve(birth->closure->argv[0], birth->closure->argv, birth->closure->envp);
    cell_fail(&error, -errno, "config", "%s cannot be started in its root: %s", birth->closure->argv[0],
              strerror(errno));
  }
  report_failure(PROTOCOL_FD, 0, &error);
  _exit(127);
}

int birth_init(void *argument) {
  const struct birth *birth = argument;
  struct sigaction action = {.sa_handler = on_child};
  sigset_t blocked, open_mask;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
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
  close(birth->zygote_end);
  while (child > 0) {
    struct pollfd source = {.fd = birth->lifeline, .events = POLLIN};
    if (ppoll(&source, 1, NULL, &open_mask) > 0)
      break;
    for (pid_t gone; (gone = waitpid(-1, NULL, WNOHANG)) > 0;)
      if (gone == child)
        child = -1;
  }
  return 0;
}
