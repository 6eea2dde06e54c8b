// host.c: in the place of src/darwin/host.c and layers.c, so that the rest of the
// backend for macOS can be run on Linux. For tests alone.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backend_darwin.h"

int solo_spawn(char **arguments, const int fds[SOLO_FD_COUNT], pid_t *pid) {
  char *environment[] = {"PATH=/usr/bin:/bin", NULL};
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  for (int i = 0; i < SOLO_FD_COUNT; i++)
    posix_spawn_file_actions_adddup2(&actions, fds[i], i);
  posix_spawn_file_actions_addclosefrom_np(&actions, SOLO_FD_COUNT);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  int result = posix_spawn(pid, arguments[0], &actions, &attributes, arguments, environment);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return result;
}

bool solo_usage(pid_t pid, uint64_t *cpu_ns, uint64_t *bytes, uint64_t *peak_bytes) {
  char path[40], text[4096];
  snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t size = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
  if (fd >= 0)
    close(fd);
  text[size > 0 ? size : 0] = 0;
  const char *now = strstr(text, "\nVmRSS:"), *peak = strstr(text, "\nVmHWM:");
  clockid_t clock;
  struct timespec used;
  if (!now || !peak || clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &used))
    return false;
  *cpu_ns = (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
  *bytes = strtoull(now + 7, NULL, 10) * 1024;
  *peak_bytes = strtoull(peak + 7, NULL, 10) * 1024;
  return true;
}
