// warden.c: a VM's process, and its end. Static; started by the daemon's engine:
//
//   code-jail-warden [--private] [--cgroup FOLDER] -- PROGRAM ARGUMENT...
//
// PROGRAM (Firecracker's jailer, or QEMU) becomes pid 1 of a pid namespace; with
// --private also in network, ipc and uts namespaces of its own, of which the first
// has no interface at all. "pid N" on stdout names it as the host sees it.
//
// The warden ends it when its standard input ends, which is the engine's way to
// say so, and what happens when the daemon dies in any way. By then, whatever
// PROGRAM made of itself: the pid namespace ends with its pid 1, and what moved
// to the cgroup FOLDER is killed there. FOLDER is removed, and with a dead daemon's
// last VM the one above it; "end STATUS" is the last line, as wait(2) gives it.
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { REMOVE_WAIT_MS = 5000, LOOK_MS = 5 };

_Noreturn static void fail(const char *what) {
  dprintf(2, "code-jail-warden: %s: %s\n", what, strerror(errno));
  _exit(125);
}

_Noreturn static void become_program(char **argv) {
  sigset_t none;
  // Until PROGRAM changes its uid: the warden's end is then told by its pipe alone.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  int null = open("/dev/null", O_RDWR);
  if (null < 0 || dup2(null, 0) < 0 || dup2(2, 1) < 0)
    fail("/dev/null");
  execv(argv[0], argv);
  fail(argv[0]);
}

// Until the engine hangs up, or PROGRAM has ended by itself.
static void wait_for_end(int pidfd) {
  struct pollfd look[] = {{.fd = 0, .events = POLLIN}, {.fd = pidfd, .events = POLLIN}};
  char ignored[64];
  for (;;) {
    if (poll(look, 2, -1) < 0 && errno != EINTR)
      return;
    if (look[1].revents || (look[0].revents && read(0, ignored, sizeof ignored) <= 0))
      return;
  }
}

// rmdir refuses until the last process in it is gone.
static void end_cgroup(const char *folder) {
  char path[PATH_MAX];
  struct timespec look = {.tv_nsec = LOOK_MS * 1000000L};
  snprintf(path, sizeof path, "%s/cgroup.kill", folder);
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd >= 0 && write(fd, "1", 1) != 1)
    dprintf(2, "code-jail-warden: %s: %s\n", path, strerror(errno));
  if (fd >= 0)
    close(fd);
  for (int waited = 0; rmdir(folder) && errno == EBUSY && waited < REMOVE_WAIT_MS; waited += LOOK_MS)
    nanosleep(&look, NULL);
}

int main(int argc, char **argv) {
  char *cgroup = NULL;
  pid_t engine = getppid();
  int namespaces = CLONE_NEWPID;
  int at = 1;
  for (; at < argc && strcmp(argv[at], "--"); at++) {
    if (!strcmp(argv[at], "--private"))
      namespaces |= CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS;
    else if (!strcmp(argv[at], "--cgroup") && at + 1 < argc)
      cgroup = argv[++at];
    else
      break;
  }
  if (at + 1 >= argc || strcmp(argv[at], "--")) {
    dprintf(2, "usage: code-jail-warden [--private] [--cgroup FOLDER] -- PROGRAM ARGUMENT...\n");
    return 2;
  }
  signal(SIGPIPE, SIG_IGN);
  setsid(); // a terminal's signals are the daemon's to answer
  if (unshare(namespaces))
    fail("namespaces (only root can make them)");
  pid_t pid = fork();
  if (pid < 0)
    fail("fork");
  if (!pid)
    become_program(argv + at + 1);
  int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
  if (pidfd < 0) {
    kill(pid, SIGKILL);
    fail("pidfd_open (Linux 5.3)");
  }
  dprintf(1, "pid %d\n", pid);
  wait_for_end(pidfd);
  int status = 0;
  kill(pid, SIGKILL); // not reaped yet: the number is still its own
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
    ;
  if (cgroup) {
    end_cgroup(cgroup);
    if (getppid() != engine) // nobody else will; it is refused while others are in it
      rmdir(dirname(cgroup));
  }
  dprintf(1, "end %d\n", status);
  return 0;
}
