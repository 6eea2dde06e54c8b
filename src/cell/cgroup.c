// cgroup.c: whether a control group could hold a cell's memory. Runs in the
// keeper, once. Cells are not placed in groups of their own yet: their memory
// is held by RLIMIT_DATA, the size of their tmpfs and the keeper's watch, so
// this only finds out what to say of the missing layer.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

// The v2 group of this process ("0::/path" in /proc/self/cgroup), as a path
// below /sys/fs/cgroup. 0 or -errno.
static int own_group(char *path, size_t size) {
  char text[4096];
  int length = cell_read_file("/proc/self/cgroup", text, sizeof text);
  if (length < 0)
    return length;
  for (char *line = text, *next; line; line = next) {
    next = strchr(line, '\n');
    if (next)
      *next++ = '\0';
    if (strncmp(line, "0::", 3) == 0)
      return (size_t)snprintf(path, size, "/sys/fs/cgroup%s", line + 3) < size ? 0 : -ENAMETOOLONG;
  }
  return -ENOENT;
}

int cell_cgroup_probe(char reason[CELL_REASON_MAX]) {
  char group[1024], file[1100], controllers[1024];
  int result = own_group(group, sizeof group);
  if (result == 0) {
    snprintf(file, sizeof file, "%s/cgroup.controllers", group);
    result = cell_read_file(file, controllers, sizeof controllers);
  }
  if (result < 0) {
    snprintf(reason, CELL_REASON_MAX, "no cgroup v2 at /sys/fs/cgroup");
    return result;
  }
  if (strstr(controllers, "memory") == NULL) {
    snprintf(reason, CELL_REASON_MAX, "cgroup v2 has no memory controller here");
    return -ENOTSUP;
  }
  snprintf(file, sizeof file, "%s/cgroup.subtree_control", group);
  if (access(file, W_OK) < 0) {
    snprintf(reason, CELL_REASON_MAX, "cgroup v2 is not delegated to this user");
    return -EACCES;
  }
  snprintf(reason, CELL_REASON_MAX, "not used: rlimits and the keeper's watch hold the memory");
  return 0;
}
