// cgroup.c: a control group (v2) for each cell, where one is delegated to us.
// Runs in the keeper, outside all walls; its main thread, or under its lock.
//
//   G/code-jail-PID/CELL    G: our own group, or the one above it
//
// What RLIMIT_DATA does not count is counted here: page tables, pipes, sockets,
// the tmpfs. A cell is placed when it parks, so that its group holds what the
// run adds. A group with processes of its own cannot pass controllers on: G is
// the root of all, or the host was put one below what was delegated.
#include <errno.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "internal.h"

#define TOP "/sys/fs/cgroup"
enum {
  PATH_BYTES = 1024,
  PARKED_BYTES = 64 << 20, // before there is a job
  SLACK_BYTES = 4 << 20,   // the kernel's own for a process; the closer limits are others'
  TRIAL_BYTES = 4 << 20,
  TRIES = 100, // to remove a group whose processes are just ending
};

static char base[PATH_BYTES]; // "": no groups are made

static int set(const char *group, const char *file, const char *text) {
  char path[PATH_BYTES + 64];
  snprintf(path, sizeof path, "%s/%s", group, file);
  return cell_write_file(AT_FDCWD, path, text);
}

static int set_number(const char *group, const char *file, uint64_t number) {
  char text[32];
  snprintf(text, sizeof text, "%llu", (unsigned long long)number);
  return set(group, file, text);
}

static int get(const char *group, const char *file, char *text, size_t size) {
  char path[PATH_BYTES + 64];
  snprintf(path, sizeof path, "%s/%s", group, file);
  return cell_read_file(path, text, size);
}

// The v2 group of this process ("0::/path" in /proc/self/cgroup). 0 or -errno.
static int own_group(char *path, size_t size) {
  char text[4096];
  int length = cell_read_file("/proc/self/cgroup", text, sizeof text);
  if (length < 0)
    return length;
  for (char *line = text, *next; line; line = next) {
    next = strchr(line, '\n');
    if (next)
      *next++ = '\0';
    if (strncmp(line, "0::/", 4) == 0)
      return (size_t)snprintf(path, size, TOP "%s", line[4] ? line + 3 : "") < size ? 0 : -ENAMETOOLONG;
  }
  return -ENOENT;
}

static void remove_group(const char *group) {
  for (int i = 0; i < TRIES && rmdir(group) < 0 && errno == EBUSY; i++)
    usleep(1000);
}

// A keeper's groups: its own at its end, or those of one that was killed.
static void remove_base(const char *path) {
  DIR *cells = opendir(path);
  for (struct dirent *cell; cells && (cell = readdir(cells));) {
    char inner[PATH_BYTES + 300];
    if (cell->d_type != DT_DIR || cell->d_name[0] == '.')
      continue;
    snprintf(inner, sizeof inner, "%s/%s", path, cell->d_name);
    remove_group(inner);
  }
  if (cells)
    closedir(cells);
  remove_group(path);
}

static void sweep(const char *group) {
  DIR *list = opendir(group);
  for (struct dirent *entry; list && (entry = readdir(list));) {
    char path[PATH_BYTES + 300];
    pid_t keeper = 0;
    int end = 0;
    if (sscanf(entry->d_name, "code-jail-%d%n", &keeper, &end) != 1 || entry->d_name[end] || keeper <= 0)
      continue; // a unit's, say: code-jail-1.service
    if (kill(keeper, 0) == 0 || errno != ESRCH)
      continue;
    snprintf(path, sizeof path, "%s/%s", group, entry->d_name);
    remove_base(path);
  }
  if (list)
    closedir(list);
}

// Root may write everywhere, also where systemd manages what it has not given away.
static bool is_delegated(const char *group) {
  char value[4];
  return access("/run/systemd/system", F_OK) < 0 || getxattr(group, "user.delegate", value, sizeof value) > 0 ||
         getxattr(group, "trusted.delegate", value, sizeof value) > 0;
}

// Makes base beneath group, with what a cell's group needs. 0 or -errno.
static int make_base(const char *group) {
  char controllers[1024];
  if (get(group, "cgroup.controllers", controllers, sizeof controllers) < 0)
    return -ENOENT;
  if (!strstr(controllers, "memory") || !strstr(controllers, "pids"))
    return -ENOTSUP;
  if (!is_delegated(group))
    return -EACCES;
  int result = set(group, "cgroup.subtree_control", "+memory +pids");
  if (result < 0)
    return result;
  sweep(group);
  if ((size_t)snprintf(base, sizeof base, "%s/code-jail-%d", group, (int)getpid()) >= sizeof base)
    return -ENAMETOOLONG;
  if (mkdir(base, 0755) < 0 && errno != EEXIST)
    return -errno;
  result = set(base, "cgroup.subtree_control", "+memory +pids");
  if (result < 0)
    remove_group(base);
  return result;
}

static void name_group(uint32_t cell, char group[PATH_BYTES + 16]) {
  snprintf(group, PATH_BYTES + 16, "%s/%u", base, cell);
}

static int make_group(const char *group, pid_t pid, uint64_t bytes, uint64_t processes) {
  if (mkdir(group, 0755) < 0)
    return -errno;
  set(group, "memory.swap.max", "0"); // not there where there is no swap
  int result = set(group, "memory.oom.group", "1");
  if (result == 0)
    result = set_number(group, "memory.max", bytes);
  if (result == 0)
    result = set_number(group, "pids.max", processes);
  if (result == 0)
    result = set_number(group, "cgroup.procs", (uint64_t)pid);
  if (result < 0)
    remove_group(group);
  return result;
}

// How often the kernel has ended something in it for want of memory.
static bool ran_out(const char *group) {
  char events[512];
  const char *line = get(group, "memory.events", events, sizeof events) < 0 ? NULL : strstr(events, "oom_kill ");
  return line && strtoul(line + strlen("oom_kill "), NULL, 10) > 0;
}

// In a child in a group of its own: a further process is refused, and memory
// beyond the limit is its end.
_Noreturn static void exceed(int go) {
  char byte;
  if (read(go, &byte, 1) != 1)
    _exit(1);
  pid_t further = fork();
  if (further >= 0)
    _exit(further == 0 ? 0 : 2);
  char *memory = mmap(NULL, 4 * TRIAL_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (size_t at = 0; memory != MAP_FAILED && at < 4 * TRIAL_BYTES; at += 4096)
    memory[at] = 1;
  _exit(3);
}

static bool groups_hold(void) {
  char group[PATH_BYTES + 16];
  int go[2], status = 0;
  if (pipe2(go, O_CLOEXEC) < 0)
    return false;
  pid_t child = fork();
  if (child == 0) {
    close(go[1]);
    exceed(go[0]);
  }
  close(go[0]);
  name_group(0, group);
  bool made = child > 0 && make_group(group, child, TRIAL_BYTES, 1) == 0;
  if (made && write(go[1], "", 1) != 1)
    made = false;
  close(go[1]);
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
    ;
  bool held = made && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && ran_out(group);
  if (made)
    remove_group(group);
  return held;
}

int cell_cgroup_probe(char reason[CELL_REASON_MAX]) {
  char group[PATH_BYTES];
  base[0] = '\0';
  int result = own_group(group, sizeof group);
  if (result == 0)
    result = make_base(group);
  char *slash = strrchr(group, '/');
  if ((result == -EBUSY || result == -ENOTSUP || result == -EACCES) && slash && slash >= group + strlen(TOP)) {
    *slash = '\0';
    result = make_base(group);
  }
  if (result == 0 && groups_hold()) {
    reason[0] = '\0';
    return 0;
  }
  snprintf(reason, CELL_REASON_MAX, "%s",
           result == 0          ? "a control group was made and did not hold"
           : result == -ENOTSUP ? "cgroup v2 has no memory and pids controllers here"
           : result == -EBUSY   ? "our own cgroup has processes: start the host in one below the delegated"
           : result == -EACCES || result == -EPERM || result == -EROFS ? "no cgroup v2 is delegated to us"
                                                                       : "no cgroup v2 at " TOP);
  cell_cgroup_close();
  return result < 0 ? result : -EPERM;
}

int cell_cgroup_enter(uint32_t cell, pid_t pid) {
  char group[PATH_BYTES + 16];
  if (!base[0])
    return 0;
  name_group(cell, group);
  int result = make_group(group, pid, PARKED_BYTES, CELL_THREADS_MAX);
  return result < 0 ? result : 1;
}

int cell_cgroup_limit(uint32_t cell, uint64_t memory_bytes) {
  char group[PATH_BYTES + 16];
  name_group(cell, group);
  return base[0] ? set_number(group, "memory.max", memory_bytes + SLACK_BYTES) : 0;
}

bool cell_cgroup_leave(uint32_t cell) {
  char group[PATH_BYTES + 16];
  name_group(cell, group);
  if (!base[0])
    return false;
  bool memory = ran_out(group);
  rmdir(group);
  return memory;
}

void cell_cgroup_close(void) {
  if (base[0])
    remove_base(base);
  base[0] = '\0';
}
