// host.c: what the engine takes from macOS: a guard's start, and what a process
// uses. See backend_darwin.h.
#include <errno.h>
#include <libproc.h>
#include <mach/mach_time.h>
#include <spawn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "../backend_darwin.h"

// Everything of ours that is not named here is closed in it by the kernel; it
// leads a process group of its own, and no signal is blocked or ignored.
int solo_spawn(char **arguments, const int fds[SOLO_FD_COUNT], pid_t *pid) {
  char *environment[] = {"PATH=/usr/bin:/bin", NULL};
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  if (posix_spawn_file_actions_init(&actions))
    return ENOMEM;
  int result = posix_spawnattr_init(&attributes);
  if (result) {
    posix_spawn_file_actions_destroy(&actions);
    return result;
  }
  // All numbers of ours are higher (see solo_cell_start): none is overwritten before it is used.
  for (int i = 0; i < SOLO_FD_COUNT && result == 0; i++)
    result = posix_spawn_file_actions_adddup2(&actions, fds[i], i);
  short flags = POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_CLOEXEC_DEFAULT | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
  if (result == 0)
    result = posix_spawnattr_setflags(&attributes, flags);
  if (result == 0)
    result = posix_spawnattr_setpgroup(&attributes, 0);
  if (result == 0)
    result = posix_spawnattr_setsigmask(&attributes, &none);
  if (result == 0)
    result = posix_spawnattr_setsigdefault(&attributes, &all);
  if (result == 0)
    result = posix_spawn(pid, arguments[0], &actions, &attributes, arguments, environment);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return result;
}

bool solo_usage(pid_t pid, uint64_t *cpu_ns, uint64_t *bytes, uint64_t *peak_bytes) {
  struct rusage_info_v4 usage;
  mach_timebase_info_data_t base;
  if (proc_pid_rusage(pid, RUSAGE_INFO_V4, (rusage_info_t *)&usage) || mach_timebase_info(&base) || !base.denom)
    return false;
  *cpu_ns = (uint64_t)((__uint128_t)(usage.ri_user_time + usage.ri_system_time) * base.numer / base.denom);
  *bytes = usage.ri_phys_footprint;
  *peak_bytes = usage.ri_lifetime_max_phys_footprint;
  return true;
}
