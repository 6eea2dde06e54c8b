// landlock.c: which paths a cell may touch, whatever the mounts show. Runs in
// the cell, last of cell_enter. Adapts to the kernel's ABI (1 to 7, and later).
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"

// The newest form of the kernel's structure; fields that an older kernel does
// not know stay 0, which it accepts.
struct ruleset {
  uint64_t fs;
  uint64_t net;
  uint64_t scoped;
};

// Rights by bit, as the kernel numbers them: older headers lack the later ones.
enum {
  FS_FIRST_COUNT = 13,             // ABI 1: EXECUTE ... MAKE_SYM
  FS_REFER = 1 << 13,              // ABI 2: link and rename between directories
  FS_TRUNCATE = 1 << 14,           // ABI 3
  FS_IOCTL_DEV = 1 << 15,          // ABI 5
  NET_ALL = (1 << 0) | (1 << 1),   // ABI 4: TCP bind, connect
  SCOPE_ALL = (1 << 0) | (1 << 1), // ABI 6: abstract Unix sockets, signals
  LOG_NOTHING = 1 << 0,            // ABI 7: a guest must not fill the host's audit log
};

enum {
  FILE_READ = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_EXECUTE,
  TREE_READ = FILE_READ | LANDLOCK_ACCESS_FS_READ_DIR,
  FILE_WRITE = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | FS_TRUNCATE,
  // No execute, sockets, FIFOs or devices.
  TREE_WRITE = FILE_WRITE | LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_REMOVE_DIR |
               LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
               LANDLOCK_ACCESS_FS_MAKE_SYM | FS_REFER,
};

int cell_landlock_abi(void) {
  long abi = syscall(__NR_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
  return abi > 0 ? (int)abi : 0;
}

static struct ruleset ruleset_of(int abi) {
  struct ruleset all = {.fs = (1 << FS_FIRST_COUNT) - 1};
  if (abi >= 2)
    all.fs |= FS_REFER;
  if (abi >= 3)
    all.fs |= FS_TRUNCATE;
  if (abi >= 4)
    all.net = NET_ALL;
  if (abi >= 5)
    all.fs |= FS_IOCTL_DEV;
  if (abi >= 6)
    all.scoped = SCOPE_ALL;
  return all;
}

// What a rule may say of something that is no directory.
static uint64_t file_rights(uint64_t rights) {
  return rights & (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_READ_FILE |
                   FS_TRUNCATE | FS_IOCTL_DEV);
}

static int allow(int ruleset, uint64_t handled, const char *path, uint64_t rights) {
  struct stat status;
  int fd = open(path, O_PATH | O_CLOEXEC);
  if (fd < 0)
    return -errno;
  int result = fstat(fd, &status) < 0 ? -errno : 0;
  if (result == 0) {
    if (!S_ISDIR(status.st_mode))
      rights = file_rights(rights);
    struct landlock_path_beneath_attr rule = {.allowed_access = rights & handled, .parent_fd = fd};
    if (syscall(__NR_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0)
      result = -errno;
  }
  close(fd);
  return result;
}

static int allow_plan(const struct cell_plan *plan, int ruleset, uint64_t handled, struct cell_error *error) {
  const char *end = plan->paths + sizeof plan->paths;
  for (const char *path = plan->paths; path < end && *path; path += strlen(path) + 1) {
    if (memchr(path, '\0', (size_t)(end - path)) == NULL)
      return cell_fail(error, EINVAL, "landlock", "the list of paths does not end");
    int result = allow(ruleset, handled, path, TREE_READ);
    if (result < 0)
      return cell_fail(error, result, "landlock", "%s: %s", path, strerror(-result));
  }
  return 0;
}

// What every cell has, where it is there: its scratch space, a few devices, and
// of /proc the numbers of its own process. /dev/zero is not among them: shared
// mappings of it are memory that RLIMIT_DATA does not count.
static int allow_common(const struct cell_plan *plan, int ruleset, uint64_t handled, struct cell_error *error) {
  const bool mounts = cell_wants(plan, CELL_MOUNT_NAMESPACE);
  const bool proc = mounts && plan->has_proc;
  const struct {
    bool applies;
    const char *path;
    uint64_t rights;
  } rules[] = {
    {mounts, "/cell", TREE_WRITE},
    {mounts, "/tmp", TREE_WRITE},
    {!mounts && plan->scratch[0], ".", TREE_WRITE}, // its own folder, which it has entered
    {true, "/dev/null", FILE_WRITE},
    {true, "/dev/full", FILE_WRITE},
    {true, "/dev/random", FILE_WRITE},
    {true, "/dev/urandom", FILE_WRITE},
    {proc, "/proc/1/stat", LANDLOCK_ACCESS_FS_READ_FILE},
    {proc, "/proc/1/statm", LANDLOCK_ACCESS_FS_READ_FILE},
    {proc, "/proc/1/status", LANDLOCK_ACCESS_FS_READ_FILE},
    {!mounts, "/proc/self/stat", LANDLOCK_ACCESS_FS_READ_FILE},
    {!mounts, "/proc/self/statm", LANDLOCK_ACCESS_FS_READ_FILE},
    {!mounts, "/proc/self/status", LANDLOCK_ACCESS_FS_READ_FILE},
  };
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
    int result = rules[i].applies ? allow(ruleset, handled, rules[i].path, rules[i].rights) : 0;
    if (result < 0 && result != -ENOENT)
      return cell_fail(error, result, "landlock", "%s: %s", rules[i].path, strerror(-result));
  }
  return 0;
}

int cell_landlock_enter(const struct cell_plan *plan, struct cell_error *error) {
  const int abi = cell_landlock_abi();
  if (abi < 1)
    return cell_fail(error, ENOSYS, "landlock", "this kernel has none, or it is not switched on");
  struct ruleset all = ruleset_of(abi);
  int ruleset = (int)syscall(__NR_landlock_create_ruleset, &all, sizeof all, 0);
  if (ruleset < 0)
    return cell_fail(error, errno, "landlock", "create (ABI %d): %s", abi, strerror(errno));
  int result = allow_plan(plan, ruleset, all.fs, error);
  if (result == 0)
    result = allow_common(plan, ruleset, all.fs, error);
  if (result == 0 && syscall(__NR_landlock_restrict_self, ruleset, abi >= 7 ? LOG_NOTHING : 0) < 0)
    result = cell_fail(error, errno, "landlock", "restrict: %s", strerror(errno));
  close(ruleset);
  return result;
}
