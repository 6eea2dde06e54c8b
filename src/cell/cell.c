// cell.c: the order in which a process becomes a cell.
//
// A cell is forked from a zygote that already lives behind the outer walls
// (namespaces.c, root.c). cell_enter raises the walls of the one cell around
// it, cell_seal takes the system calls away that raising them needed, cell_verify
// walks into each wall, and cell_close shuts the last doors when a job is there.
// Runs in the cell, on its only thread. Any failure is fatal to the cell: the
// caller reports it and ends; nothing goes on half-walled.
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"
#include "layer_names.h"

const char *cell_layer_name(enum cell_layer layer) {
  return (unsigned)layer < CELL_LAYER_COUNT ? layer_names[layer] : "unknown";
}

int cell_fail(struct cell_error *error, int code, const char *stage, const char *format, ...) {
  va_list arguments;
  if (code == 0)
    code = EIO;
  if (code > 0)
    code = -code;
  error->code = code;
  snprintf(error->stage, sizeof error->stage, "%s", stage);
  va_start(arguments, format);
  vsnprintf(error->cause, sizeof error->cause, format, arguments);
  va_end(arguments);
  return code;
}

int cell_write_file(int dir_fd, const char *path, const char *text) {
  int fd = openat(dir_fd, path, O_WRONLY | O_CLOEXEC);
  if (fd < 0)
    return -errno;
  size_t length = strlen(text);
  ssize_t written = write(fd, text, length);
  int result = written < 0 ? -errno : (size_t)written == length ? 0 : -EIO;
  close(fd);
  return result;
}

int cell_read_file(const char *path, char *text, size_t size) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return -errno;
  ssize_t count = read(fd, text, size - 1);
  int result = count < 0 ? -errno : (int)count;
  text[count < 0 ? 0 : count] = '\0';
  close(fd);
  return result;
}

// ---- the steps of cell_enter ----

static int mount_scratch(const struct cell_plan *plan, const char *path, uid_t uid, int *fd, struct cell_error *error) {
  char options[128];
  snprintf(options, sizeof options, "mode=0700,size=%llu,nr_inodes=%u,uid=%u,gid=%u",
           (unsigned long long)plan->tmpfs_bytes, plan->tmpfs_inodes, uid, uid);
  if (mount("cell", path, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, options) < 0)
    return cell_fail(error, errno, "mount scratch", "a tmpfs on %s (%s): %s", path, options, strerror(errno));
  *fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
  return *fd < 0 ? cell_fail(error, errno, "mount scratch", "open %s: %s", path, strerror(errno)) : 0;
}

// Everything of /proc that is not about processes stays out (subset=pid), and
// of what is, Landlock shows three files. Without Landlock mountinfo and others
// would tell of the host, so there an empty directory takes its place; the
// zygote's own /proc must be covered in either case.
static int mount_proc(const struct cell_plan *plan, struct cell_error *error) {
  const unsigned long flags = MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC;
  if (plan->has_proc && cell_wants(plan, CELL_LANDLOCK)) {
    if (mount("proc", "/proc", "proc", flags, "subset=pid") == 0)
      return 0;
    if (errno != EINVAL) // before 5.8 there is no subset
      return cell_fail(error, errno, "mount /proc", "an own /proc: %s", strerror(errno));
  }
  if (mount("none", "/proc", "tmpfs", flags, "mode=0555,size=4k,nr_inodes=2") < 0)
    return cell_fail(error, errno, "mount /proc", "an empty /proc: %s", strerror(errno));
  return 0;
}

static int become(uid_t uid, struct cell_error *error) {
  // Raw calls: libc's would look for other threads to take along.
  if (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, uid, uid, uid) < 0 ||
      syscall(SYS_setresuid, uid, uid, uid) < 0)
    return cell_fail(error, errno, "set uid", "become uid %u: %s", uid, strerror(errno));
  return 0;
}

// Scratch space where no tmpfs can be mounted.
static int enter_folder(const struct cell_plan *plan, uint32_t cell, struct cell_error *error) {
  char path[CELL_SCRATCH_MAX + 16];
  if (!plan->scratch[0])
    return 0;
  snprintf(path, sizeof path, "%s/%u", plan->scratch, cell);
  return chdir(path) < 0 ? cell_fail(error, errno, "working directory", "%s: %s", path, strerror(errno)) : 0;
}

// self: the process's own directory in the zygote's /proc.
static int own_user_namespace(int self, uid_t uid, gid_t gid, struct cell_error *error) {
  char map[48];
  // Changing uid made the process undumpable, and so its maps root's. Nobody
  // can look meanwhile: no other process is in this pid namespace.
  prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
  if (unshare(CLONE_NEWUSER) < 0)
    return cell_fail(error, errno, "user namespace", "an own user namespace: %s%s", strerror(errno),
                     errno == ENOSPC ? " (see sysctl user.max_user_namespaces)" : "");
  int result = cell_write_file(self, "setgroups", "deny");
  if (result == 0) {
    snprintf(map, sizeof map, "%d %u 1\n", CELL_INSIDE_ID, uid);
    result = cell_write_file(self, "uid_map", map);
  }
  if (result == 0) {
    snprintf(map, sizeof map, "%d %u 1\n", CELL_INSIDE_ID, gid);
    result = cell_write_file(self, "gid_map", map);
  }
  return result < 0 ? cell_fail(error, result, "user namespace", "its id maps: %s", strerror(-result)) : 0;
}

static int drop_capabilities(struct cell_error *error) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct none[2] = {{0}};
  // The bounding set first: lowering it takes a capability. Numbers this
  // kernel does not know give EINVAL, and without CAP_SETPCAP EPERM: then
  // no_new_privs alone keeps exec from giving any back.
  for (unsigned long capability = 0; capability < 64; capability++)
    if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0)
      break;
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); // EINVAL before 4.3: then there is none
  if (syscall(SYS_capset, &header, none) < 0)
    return cell_fail(error, errno, "capabilities", "drop all: %s", strerror(errno));
  return 0;
}

// The order is law; each step says why it stands where it stands.
int cell_enter(const struct cell_plan *plan, uint32_t cell, int tmpfs[2], struct cell_error *error) {
  const bool mounts = cell_raises(plan, CELL_MOUNT_NAMESPACE);
  const bool switch_uid = cell_raises(plan, CELL_SEPARATE_UID) && plan->uid_count > 0;
  const uid_t uid = switch_uid ? plan->uid_base + cell % plan->uid_count : geteuid();
  const gid_t gid = switch_uid ? uid : getegid();
  int result = 0;
  int self = -1;
  tmpfs[0] = tmpfs[1] = -1;

  // First, while the zygote's /proc is in sight: the own directory in it, for
  // the id maps that can only be written after /proc has been covered.
  if (cell_has_own_user_namespace(plan)) {
    self = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (self < 0)
      return cell_fail(error, errno, "user namespace", "open /proc/self: %s", strerror(errno));
  }

  // The session is the zygote's, which has no terminal: one of a cell's own
  // would be one scheduling group each, and a full share of the machine.
  umask(077);

  // Mounts while the zygote's capabilities are there. The namespace belongs to
  // the zygote's user namespace: whatever a cell is in its own later, it has
  // no power over these mounts.
  if (mounts) {
    if (unshare(CLONE_NEWNS) < 0)
      result = cell_fail(error, errno, "mount namespace", "%s", strerror(errno));
    if (result == 0)
      result = mount_scratch(plan, "/cell", uid, &tmpfs[0], error);
    if (result == 0)
      result = mount_scratch(plan, "/tmp", uid, &tmpfs[1], error);
    if (result == 0)
      result = mount_proc(plan, error);
    if (result < 0)
      goto fail;
  }
  // Only now: a directory entered before would be the one beneath the mount.
  if (chdir(mounts ? "/cell" : "/") < 0) {
    result = cell_fail(error, errno, "working directory", "%s", strerror(errno));
    goto fail;
  }

  // Lower priority needs no right. Before the uid changes, because some
  // kernels ask the right of the old one to touch a task of the new. A host that
  // is lower still has given us that: to raise it would need a right.
  if (plan->nice > getpriority(PRIO_PROCESS, 0) && setpriority(PRIO_PROCESS, 0, plan->nice) < 0) {
    result = cell_fail(error, errno, "priority", "%s", strerror(errno));
    goto fail;
  }

  // The uid after the mounts, which needed the capabilities it takes away, and
  // before the user namespace, in which the other uid has no name.
  if (switch_uid && (result = become(uid, error)) < 0)
    goto fail;

  // As its owner: root without CAP_DAC_OVERRIDE may not enter it.
  if (!mounts && (result = enter_folder(plan, cell, error)) < 0)
    goto fail;

  // A user namespace of its own: threads are counted per user and namespace,
  // or one cell's would leave its siblings none.
  if (self >= 0 && (result = own_user_namespace(self, uid, gid, error)) < 0)
    goto fail;

  // Limits after the user namespace: a thread limit set before it would become
  // the namespace's own maximum as its parent counts it, siblings included.
  // Where the limit on data does not hold, the others may all the same.
  struct cell_error unmet = {0};
  if (!cell_leaves_out(CELL_RLIMITS) && cell_rlimits_enter(plan, &unmet) < 0 && cell_wants(plan, CELL_RLIMITS)) {
    *error = unmet;
    result = unmet.code;
    goto fail;
  }

  // The new namespace gave all capabilities, over nothing but itself; they go.
  if (!cell_leaves_out(CELL_NO_CAPABILITIES) && (result = drop_capabilities(error)) < 0)
    goto fail;

  // Needed by Landlock and seccomp once there are no capabilities; from here on
  // no exec gives anything.
  if (!cell_leaves_out(CELL_NO_NEW_PRIVS) && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) {
    result = cell_fail(error, errno, "no_new_privs", "%s", strerror(errno));
    goto fail;
  }
  // After the last change of ids, which sets it anew. No core is written, not
  // even into a pipe, and no process of the same uid may look inside.
  if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0) {
    result = cell_fail(error, errno, "dumpable", "%s", strerror(errno));
    goto fail;
  }

  // Where no pid namespace does it, a cell ends with the zygote by this; the
  // guest cannot change it, and no change of ids comes after it.
  if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0) {
    result = cell_fail(error, errno, "death signal", "%s", strerror(errno));
    goto fail;
  }

  // Landlock last: it takes away the paths and the mounting that all above used.
  if (cell_raises(plan, CELL_LANDLOCK) && (result = cell_landlock_enter(plan, error)) < 0)
    goto fail;
  if (self >= 0)
    close(self);
  return 0;

fail:
  if (self >= 0)
    close(self);
  for (int i = 0; i < 2; i++)
    if (tmpfs[i] >= 0)
      close(tmpfs[i]);
  tmpfs[0] = tmpfs[1] = -1;
  return result;
}

int cell_seal(const struct cell_plan *plan, struct cell_error *error) {
  struct sock_filter code[CELL_FILTER_MAX];
  if (!cell_raises(plan, CELL_SECCOMP))
    return 0;
  // In a cold start an exec lies between, which made the process dumpable again.
  if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
    return cell_fail(error, errno, "dumpable", "%s", strerror(errno));
  int length = cell_filter_seal(code, CELL_FILTER_MAX, getpid(), cell_wants(plan, CELL_MOUNT_NAMESPACE));
  if (length < 0)
    return cell_fail(error, length, "seccomp", "the filter does not fit");
  int result = cell_filter_install(code, length);
  return result < 0 ? cell_fail(error, result, "seccomp", "install: %s", strerror(-result)) : 0;
}

int cell_close(const struct cell_plan *plan, uint64_t memory_bytes, uint32_t timeout_ms, struct cell_error *error) {
  struct sock_filter code[CELL_FILTER_MAX];
  int result = 0;
  // Limits before the filter that takes setting them away.
  if (cell_raises(plan, CELL_RLIMITS))
    result = cell_rlimits_close(memory_bytes, timeout_ms, error);
  else if (!cell_leaves_out(CELL_RLIMITS))
    cell_rlimits_try(plan, memory_bytes, timeout_ms);
  if (result < 0 || !cell_raises(plan, CELL_SECCOMP))
    return result;
  result = cell_filter_close(code, CELL_FILTER_MAX);
  if (result > 0)
    result = cell_filter_install(code, result);
  return result < 0 ? cell_fail(error, result, "seccomp", "close: %s", strerror(-result)) : 0;
}
