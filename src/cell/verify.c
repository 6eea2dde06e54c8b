// verify.c: walks into every wall of a finished cell. Runs in the cell, behind
// its filter, right before it parks; some 50 us.
//
// Each probe is something that works where the wall is missing. What seccomp
// refuses before the wall behind it is reached (a socket, a namespace) cannot
// be tried here: those walls were tried by init (namespaces.c), come in
// plan->stands, and cannot be left by a fork.
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "internal.h"

enum { TMPFS_KIND = 0x01021994 };

static bool stands(const struct cell_plan *plan, enum cell_layer layer) {
  return (plan->stands & CELL_BIT(layer)) != 0;
}

// In a user namespace of its own the cell's id has a name that no cell has in
// the outer one.
static bool user_namespace_holds(const struct cell_plan *plan) {
  return stands(plan, CELL_USER_NAMESPACE) && (!cell_has_own_user_namespace(plan) || getuid() == CELL_INSIDE_ID);
}

static bool pid_namespace_holds(const struct cell_plan *plan) {
  return stands(plan, CELL_PID_NAMESPACE) && getpid() == 1 && getppid() == 0;
}

// The scratch space is one that was made for this cell: its size, its owner,
// nothing in it executable, writable, and on another device than "/".
static bool mount_namespace_holds(const struct cell_plan *plan) {
  struct statvfs space;
  struct stat cell, root;
  if (statvfs("/cell", &space) < 0 || stat("/cell", &cell) < 0 || stat("/", &root) < 0)
    return false;
  bool own = cell.st_uid == getuid() && cell.st_dev != root.st_dev;
  bool sized = space.f_blocks * space.f_frsize <= plan->tmpfs_bytes + space.f_frsize;
  bool written = mkdir("/cell/.probe", 0700) == 0 && rmdir("/cell/.probe") == 0;
  return own && sized && written && (space.f_flag & ST_NOEXEC) && (space.f_flag & ST_NOSUID);
}

static bool uts_namespace_holds(const struct cell_plan *plan) {
  struct utsname name;
  return stands(plan, CELL_UTS_NAMESPACE) && uname(&name) == 0 && !strcmp(name.nodename, "cell");
}

static bool own_root_holds(const struct cell_plan *plan) {
  struct statfs kind;
  return stands(plan, CELL_OWN_ROOT) && statfs("/", &kind) == 0 && kind.f_type == TMPFS_KIND &&
         mkdir("/.probe", 0700) < 0 && errno == EROFS;
}

static bool capabilities_are_gone(void) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct sets[2];
  if (syscall(SYS_capget, &header, sets) < 0)
    return false;
  for (int i = 0; i < 2; i++)
    if (sets[i].effective | sets[i].permitted | sets[i].inheritable)
      return false;
  return true;
}

static bool new_privs_are_off(void) {
  return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1;
}

// Something that the file's own mode lets anyone open, and no rule names.
static bool landlock_holds(const struct cell_plan *plan) {
  const bool own_root = cell_wants(plan, CELL_OWN_ROOT);
  int fd = open(own_root ? "/canary" : "/", O_RDONLY | O_CLOEXEC);
  bool refused = fd < 0 && errno == EACCES;
  if (fd >= 0)
    close(fd);
  return refused;
}

// Two that need no right and would otherwise do nothing but succeed, one whose
// answer depends on an argument, and the control.
static bool seccomp_holds(void) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  bool socket_refused = fd < 0 && errno == EPERM;
  if (fd >= 0)
    close(fd);
  bool flock_refused = syscall(SYS_flock, 0, 8 /* LOCK_UN */) < 0 && errno == EPERM;
  void *shared = mmap(NULL, 4096, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  bool shared_refused = shared == MAP_FAILED && errno == EPERM;
  void *private = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  bool private_given = private != MAP_FAILED;
  if (shared != MAP_FAILED)
    munmap(shared, 4096);
  if (private != MAP_FAILED)
    munmap(private, 4096);
  return socket_refused && flock_refused && shared_refused && private_given;
}

// In its own user namespace the id has another name; that it owns a tmpfs which
// was made for the cell's outer id says that this is who we are. Elsewhere it
// is that id itself.
static bool uid_is_separate(const struct cell_plan *plan) {
  struct stat cell;
  if (cell_has_own_user_namespace(plan))
    return stands(plan, CELL_SEPARATE_UID) && stat("/cell", &cell) == 0 && cell.st_uid == getuid() && getuid() != 0;
  return getuid() >= plan->uid_base && getuid() - plan->uid_base < plan->uid_count && getuid() == geteuid() &&
         getgid() == getuid();
}

static bool holds(const struct cell_plan *plan, enum cell_layer layer) {
  switch (layer) {
  case CELL_USER_NAMESPACE:
    return user_namespace_holds(plan);
  case CELL_PID_NAMESPACE:
    return pid_namespace_holds(plan);
  case CELL_MOUNT_NAMESPACE:
    return mount_namespace_holds(plan);
  case CELL_NETWORK_NAMESPACE:
  case CELL_IPC_NAMESPACE:
    return stands(plan, layer);
  case CELL_UTS_NAMESPACE:
    return uts_namespace_holds(plan);
  case CELL_OWN_ROOT:
    return own_root_holds(plan);
  case CELL_NO_CAPABILITIES:
    return capabilities_are_gone();
  case CELL_NO_NEW_PRIVS:
    return new_privs_are_off();
  case CELL_LANDLOCK:
    return landlock_holds(plan);
  case CELL_SECCOMP:
    return seccomp_holds();
  case CELL_RLIMITS:
    return cell_rlimits_hold();
  case CELL_SEPARATE_UID:
    return uid_is_separate(plan);
  case CELL_CGROUP: // the keeper's
  case CELL_LAYER_COUNT:
    break;
  }
  return false;
}

int cell_verify(const struct cell_plan *plan, uint32_t *layers, struct cell_error *error) {
  *layers = 0;
  for (int i = 0; i < CELL_LAYER_COUNT; i++) {
    const enum cell_layer layer = (enum cell_layer)i;
    if (!cell_wants(plan, layer) || layer == CELL_CGROUP) // into which the keeper puts who has parked
      continue;
    if (!cell_leaves_out(layer) && !holds(plan, layer))
      return cell_fail(error, EPERM, "verify", "%s was made but does not hold", cell_layer_name(layer));
    *layers |= CELL_BIT(layer);
  }
  return 0;
}
