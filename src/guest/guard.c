// guard.c: code-jail-keeper where there is no keeper: starts one cell, and ends
// it. One guard per cell, started by the engine (backend_darwin.c):
//
//   guard <folder for scratch> <allow weak: 0 | 1> [readable paths...] -- <program> [arguments...]
//
// The cell is walled before its interpreter is executed, so that nothing of the
// host's ever runs unwalled with the user's text. The guard lives until its cell
// is gone: at the end of its socket (the engine asks, or the host is dead) it
// kills. It then tells how the cell ended, and removes its folder.
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../solo.h"
#include "wall.h"

enum { NOTICE_FD = 6, EXIT_SETUP = 111 };

static int notice; // the handler's end of a pipe

static void on_child(int number) {
  int saved = errno;
  (void)number;
  (void)!write(notice, "", 1);
  errno = saved;
}

// ---- the cell ----

static int set_limit(int resource, rlim_t value) {
  struct rlimit limit = {.rlim_cur = value, .rlim_max = value}, is;
  return setrlimit(resource, &limit) || getrlimit(resource, &is) || is.rlim_max != value ? -1 : 0;
}

_Noreturn static void fail(const char *stage, const char *cause) {
  struct solo_word word = {.type = SOLO_FAILED, .pid = getpid()};
  snprintf(word.text, sizeof word.text, "%s: %s", stage, cause);
  (void)!send(SOLO_JOB_FD, &word, sizeof word, 0);
  _exit(EXIT_SETUP);
}

_Noreturn static void become_cell(const struct wall *wall, bool allow_weak, char **program) {
  struct solo_word word = {.type = SOLO_WALLED, .pid = getpid()};
  char home[WALL_PATH_MAX + 8], temporary[WALL_PATH_MAX + 8];
  signal(SIGCHLD, SIG_DFL);
  signal(SIGPIPE, SIG_DFL);
  close(SOLO_GUARD_FD); // held by a cell, its end would not be seen
  close(NOTICE_FD);
  close(notice);
  if (setpgid(0, 0) == 0 && getpgrp() == getpid())
    word.layers |= SOLO_BIT(SOLO_GROUP);
  if (chdir(wall->scratch))
    fail("folder", strerror(errno));
  if (set_limit(RLIMIT_CORE, 0) == 0 && set_limit(RLIMIT_NOFILE, 256) == 0 && set_limit(RLIMIT_FSIZE, 64 << 20) == 0)
    word.layers |= SOLO_BIT(SOLO_RLIMITS);
  word.layers |= wall_build(wall, word.text);
  if ((word.layers & SOLO_ISOLATED) != SOLO_ISOLATED && !allow_weak) {
    char why[sizeof word.text];
    memcpy(why, word.text, sizeof why);
    fail("isolation", why);
  }
  if (send(SOLO_JOB_FD, &word, sizeof word, 0) != (ssize_t)sizeof word)
    _exit(EXIT_SETUP);
  snprintf(home, sizeof home, "HOME=%s", wall->scratch);
  snprintf(temporary, sizeof temporary, "TMPDIR=%s", wall->scratch);
  char *environment[] = {"LANG=C.UTF-8", "PATH=/usr/bin:/bin", home, temporary, NULL};
  execve(program[0], program, environment);
  fail("config", strerror(errno));
}

// ---- the guard ----

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *at) {
  (void)status, (void)kind, (void)at;
  (void)!remove(path);
  return 0;
}

// The cell's descriptors are not ours: their ends must be its own.
static void let_go(void) {
  int null = open("/dev/null", O_RDWR);
  for (int fd = 0; null >= 0 && fd < SOLO_GUARD_FD; fd++)
    dup2(null, fd);
  if (null > NOTICE_FD)
    close(null);
}

// Until the cell has exited; kills it once nobody listens.
static void watch(pid_t cell, struct solo_end *end) {
  struct pollfd sources[] = {{.fd = SOLO_GUARD_FD, .events = POLLIN}, {.fd = NOTICE_FD, .events = POLLIN}};
  siginfo_t info = {0};
  // It stays a zombie while its group is killed: the number cannot be another's.
  while (waitid(P_PID, (id_t)cell, &info, WEXITED | WNOHANG | WNOWAIT) || info.si_pid != cell) {
    poll(sources, 2, -1);
    if (sources[0].revents) {
      kill(cell, SIGKILL); // itself too: it may have left its group
      kill(-cell, SIGKILL);
      sources[0].fd = -1;
      sources[0].revents = 0;
    }
    char byte;
    if (sources[1].revents)
      (void)!read(NOTICE_FD, &byte, 1);
  }
  kill(-cell, SIGKILL);
  struct rusage usage = {0};
  wait4(cell, &end->wait_status, 0, &usage);
  end->cpu_ns = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000u +
                (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000u;
  end->peak_bytes = (uint64_t)usage.ru_maxrss * WALL_MAXRSS_UNIT;
}

static int prepare(char **arguments, struct wall *wall) {
  char folder[WALL_PATH_MAX];
  int ends[2];
  snprintf(folder, sizeof folder, "%s/code-jail-XXXXXX", arguments[1]);
  if (!mkdtemp(folder) || !realpath(folder, wall->scratch) || pipe(ends))
    return -1;
  int high = fcntl(ends[1], F_DUPFD, NOTICE_FD + 1); // out of the way first
  if (high < 0 || dup2(ends[0], NOTICE_FD) < 0)
    return -1;
  notice = high;
  fcntl(notice, F_SETFL, O_NONBLOCK);
  for (int i = 0; i < 2; i++)
    if (ends[i] != NOTICE_FD)
      close(ends[i]);
  return 0;
}

int main(int argc, char **arguments) {
  struct wall wall = {.readable = arguments + 3};
  struct solo_end end = {0};
  int at = 3;
  while (at < argc && strcmp(arguments[at], "--"))
    at++;
  if (at + 1 >= argc)
    return 2; // nobody's to start by hand
  wall.readable_count = (size_t)at - 3;
  wall.program = arguments[at + 1];
  signal(SIGPIPE, SIG_IGN);
  if (prepare(arguments, &wall))
    fail("folder", strerror(errno));
  struct sigaction action = {.sa_handler = on_child, .sa_flags = SA_NOCLDSTOP};
  sigaction(SIGCHLD, &action, NULL);
  pid_t cell = fork();
  if (cell == 0)
    become_cell(&wall, arguments[2][0] == '1', arguments + at + 1);
  if (cell < 0)
    fail("fork", strerror(errno));
  let_go();
  watch(cell, &end);
  (void)!send(SOLO_GUARD_FD, &end, sizeof end, 0);
  char canary[WALL_PATH_MAX + 16]; // of wall_build, which may not remove it any more
  snprintf(canary, sizeof canary, "%s.canary", wall.scratch);
  unlink(canary);
  nftw(wall.scratch, remove_one, 16, FTW_DEPTH | FTW_PHYS);
  return 0;
}
