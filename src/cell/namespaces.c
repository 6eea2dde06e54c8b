// namespaces.c: the outer walls around a zygote, and the fork of a cell.
//
// cell_outer_spawn runs in the keeper's main thread, before its other threads:
//
//   caller --fork--> builder --clone(CLONE_PARENT)--> init
//
// The builder makes a mount namespace and the root in it, then init, whose
// namespaces it must be outside of to write its id maps, and ends. init thereby
// starts in the finished root, and is the caller's own child. Two ways:
//
//   by real root    the builder stays in the host's user namespace. init's has
//                   65536 ids that are nobody's on the host, so every cell has
//                   one that no process outside has (CELL_SEPARATE_UID).
//   unprivileged    the builder makes a user namespace in which it is root, and
//                   whose only id is the caller's own. init lives in the same.
//
// Errors travel back over a pipe as whole messages. All or nothing.
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "outer.h"

// Below 0x7ffe0000, from where on systemd has ids of its own.
enum { HOST_IDS_BASE = 0x70000000, HOST_RANGES = 0xfe0 };

const struct outer_namespace outer_namespaces[NAMESPACE_COUNT] = {
  {CELL_USER_NAMESPACE, CLONE_NEWUSER, "user"}, {CELL_PID_NAMESPACE, CLONE_NEWPID, "pid"},
  {CELL_MOUNT_NAMESPACE, CLONE_NEWNS, "mnt"},   {CELL_NETWORK_NAMESPACE, CLONE_NEWNET, "net"},
  {CELL_IPC_NAMESPACE, CLONE_NEWIPC, "ipc"},    {CELL_UTS_NAMESPACE, CLONE_NEWUTS, "uts"},
};

int outer_say(int fd, const struct message *message) {
  ssize_t written;
  do
    written = write(fd, message, sizeof *message);
  while (written < 0 && errno == EINTR);
  return written == (ssize_t)sizeof *message ? 0 : -EPIPE;
}

void outer_say_failed(int fd, const struct cell_error *error) {
  struct message message = {.kind = MESSAGE_FAILED, .error = *error};
  outer_say(fd, &message);
}

void outer_take_view(struct view *view) {
  struct stat status = {0};
  memset(view, 0, sizeof *view);
  for (size_t i = 0; i < NAMESPACE_COUNT; i++) {
    char path[32];
    snprintf(path, sizeof path, "/proc/self/ns/%s", outer_namespaces[i].link);
    if (readlink(path, view->links[i], LINK_MAX - 1) < 0)
      view->links[i][0] = '\0';
  }
  stat("/", &status);
  view->root_device = status.st_dev;
  view->root_inode = status.st_ino;
}

// ---- the builder ----

static int write_map(const char *directory, const char *file, uid_t inside, uid_t outside, uint32_t count) {
  char path[64], text[64];
  snprintf(path, sizeof path, "%s/%s", directory, file);
  snprintf(text, sizeof text, "%u %u %u\n", inside, outside, count);
  return cell_write_file(AT_FDCWD, path, text);
}

static int enter_user_namespace(const struct outer *outer, struct cell_error *error) {
  // The maps are this process's own only while it is dumpable.
  prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
  if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
    return cell_fail(error, errno, "user namespace", "unshare: %s", strerror(errno));
  int result = cell_write_file(AT_FDCWD, "/proc/self/setgroups", "deny");
  if (result == 0 || result == -ENOENT) // gVisor has no such file, and asks for none
    result = write_map("/proc/self", "uid_map", 0, outer->uid, 1);
  if (result == 0)
    result = write_map("/proc/self", "gid_map", 0, outer->gid, 1);
  return result < 0 ? cell_fail(error, result, "user namespace", "id maps: %s", strerror(-result)) : 0;
}

// One of some 4000 ranges above the ids that anything is known to use, chosen
// by init's pid, so that two zygotes of a machine rarely share one.
static int map_init_ids(pid_t init, struct cell_error *error) {
  const uid_t first = HOST_IDS_BASE + (((uid_t)init % HOST_RANGES) << 16);
  char directory[32];
  snprintf(directory, sizeof directory, "/proc/%d", init);
  int result = write_map(directory, "uid_map", 0, first, CELL_OUTER_IDS);
  if (result == 0)
    result = write_map(directory, "gid_map", 0, first, CELL_OUTER_IDS);
  return result < 0 ? cell_fail(error, result, "user namespace", "map %u ids from %u on: %s", CELL_OUTER_IDS, first,
                                strerror(-result))
                    : 0;
}

static unsigned long clone_flags(const struct outer *outer) {
  unsigned long flags = 0;
  for (size_t i = 0; i < NAMESPACE_COUNT; i++)
    if (cell_raises(outer->plan, outer_namespaces[i].layer))
      flags |= (unsigned long)outer_namespaces[i].flag;
  // The unprivileged builder is in these two already.
  return outer->by_root ? flags : flags & ~(unsigned long)(CLONE_NEWUSER | CLONE_NEWNS);
}

static int build(const struct outer *outer, struct cell_error *error) {
  int result = 0;
  if (!outer->by_root)
    result = enter_user_namespace(outer, error);
  else if (cell_wants(outer->plan, CELL_MOUNT_NAMESPACE) && unshare(CLONE_NEWNS) < 0)
    result = cell_fail(error, errno, "mount namespace", "unshare: %s", strerror(errno));
  if (result == 0 && cell_wants(outer->plan, CELL_OWN_ROOT))
    result = cell_root_enter(outer->root, outer->by_root, error);
  if (result < 0)
    return result;

  // The raw call, because the child is to be the caller's, not ours.
  long init = syscall(SYS_clone, clone_flags(outer) | CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, 0);
  if (init < 0)
    return cell_fail(error, errno, "namespaces", "clone init: %s", strerror(errno));
  if (init == 0)
    outer_run_init(outer);
  struct message message = {.kind = MESSAGE_INIT, .pid = (int32_t)init};
  outer_say(outer->report[1], &message); // first of all, so that the caller can end it
  if (outer->by_root && !cell_leaves_out(CELL_USER_NAMESPACE) && (result = map_init_ids((pid_t)init, error)) < 0)
    return result;
  return write(outer->go[1], "", 1) == 1 ? 0 : cell_fail(error, errno, "init", "it has ended");
}

_Noreturn static void run_builder(const struct outer *outer) {
  struct cell_error error = {0};
  if (build(outer, &error) < 0)
    outer_say_failed(outer->report[1], &error);
  _exit(0);
}

// ---- the caller ----

static void end_child(pid_t pid) {
  if (pid <= 0)
    return;
  kill(pid, SIGKILL);
  while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
    ;
}

static void wait_for(pid_t pid) {
  while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
    ;
}

// Until init says what stands, somebody says what failed, or all have ended.
static int follow(const struct outer *outer, pid_t *init, struct message *last, struct cell_error *error) {
  for (;;) {
    ssize_t size = read(outer->report[0], last, sizeof *last);
    if (size < 0 && errno == EINTR)
      continue;
    if (size != (ssize_t)sizeof *last)
      return cell_fail(error, EPIPE, "init", "it ended without a word");
    if (last->kind == MESSAGE_INIT)
      *init = last->pid;
    if (last->kind == MESSAGE_STANDS)
      return 0;
    if (last->kind == MESSAGE_FAILED) {
      *error = last->error;
      return error->code;
    }
  }
}

// From outside: the id that the host's kernel knows init by.
static bool has_foreign_uid(pid_t init) {
  char path[32], status[4096];
  unsigned uid = 0;
  snprintf(path, sizeof path, "/proc/%d/status", init);
  if (cell_read_file(path, status, sizeof status) < 0)
    return false;
  const char *line = strstr(status, "\nUid:");
  return line && sscanf(line, "\nUid: %u", &uid) == 1 && uid >= HOST_IDS_BASE;
}

static int spawn_behind_walls(struct outer *outer, pid_t *init_pid, struct cell_error *error) {
  struct message last = {0};
  pid_t init = -1;
  if (pipe2(outer->report, O_CLOEXEC) < 0)
    return cell_fail(error, errno, "init", "pipe: %s", strerror(errno));
  if (pipe2(outer->go, O_CLOEXEC) < 0) {
    close(outer->report[0]);
    close(outer->report[1]);
    return cell_fail(error, errno, "init", "pipe: %s", strerror(errno));
  }
  pid_t builder = fork();
  if (builder == 0)
    run_builder(outer);
  int result = builder < 0 ? cell_fail(error, errno, "init", "fork: %s", strerror(errno)) : 0;
  close(outer->report[1]);
  close(outer->go[0]);
  close(outer->go[1]);
  if (result == 0)
    result = follow(outer, &init, &last, error);
  close(outer->report[0]);
  if (builder > 0)
    wait_for(builder);
  if (result == 0 && outer->by_root && !cell_leaves_out(CELL_USER_NAMESPACE) && !has_foreign_uid(init))
    result = cell_fail(error, EPERM, "verify", "separate-uid was made but does not hold");
  if (result < 0) {
    end_child(init); // and with it everything in its pid namespace
    return result;
  }
  outer_settle_plan(outer, &last);
  *init_pid = init;
  return 0;
}

// Ids that no process of this user namespace is likely to have: high ones where
// the namespace has them (a plain host or container), else the last it has.
int cell_spare_ids(uid_t *first, uint32_t *count) {
  char map[4096];
  if (cell_read_file("/proc/self/uid_map", map, sizeof map) < 0)
    return -ENOENT;
  uint64_t top = 0;
  for (char *rest = map, *line; (line = strsep(&rest, "\n")) != NULL && *line;) {
    unsigned inside, outside, size;
    if (sscanf(line, "%u %u %u", &inside, &outside, &size) == 3 && (uint64_t)inside + size > top && size >= 4096)
      top = (uint64_t)inside + size;
  }
  *count = 1024;
  // By the keeper's pid here, too: cells of two zygotes are not to share an id.
  const uid_t range = (uid_t)getpid() % HOST_RANGES;
  *first = top > 0x80000000u ? HOST_IDS_BASE + (range << 16) : (uid_t)(top - 1100);
  return top >= 4096 ? 0 : -EINVAL;
}

static int spawn_plain(struct outer *outer, pid_t *init_pid, struct cell_error *error) {
  struct cell_plan *plan = outer->plan;
  plan->stands = 0;
  plan->has_proc = 0;
  if (cell_wants(plan, CELL_SEPARATE_UID) && cell_spare_ids(&plan->uid_base, &plan->uid_count) < 0)
    return cell_fail(error, EINVAL, "separate uid", "this user namespace has no ids to spare");
  pid_t init = fork();
  if (init == 0)
    _exit(outer->init_main(outer->arg));
  if (init < 0)
    return cell_fail(error, errno, "init", "fork: %s", strerror(errno));
  *init_pid = init;
  return 0;
}

int cell_outer_spawn(struct cell_plan *plan, const struct cell_root *root, int (*init_main)(void *), void *arg,
                     pid_t *init_pid, struct cell_error *error) {
  struct outer outer = {
    .plan = plan,
    .root = root,
    .init_main = init_main,
    .arg = arg,
    .by_root = cell_wants(plan, CELL_SEPARATE_UID),
    .uid = geteuid(),
    .gid = getegid(),
  };
  if (!(plan->want & CELL_OUTER_LAYERS))
    return spawn_plain(&outer, init_pid, error);
  outer_take_view(&outer.caller);
  return spawn_behind_walls(&outer, init_pid, error);
}

// ---- in the zygote ----

// Back to the zygote's own pid namespace, for its further children. A pidfd
// does without /proc; before Linux 5.8 only the file there will do.
static int return_to_own(void) {
  static int own = -1; // the zygote's, opened once; cells get /dev/null for it
  if (own < 0)
    own = (int)syscall(SYS_pidfd_open, getpid(), 0);
  if (own >= 0 && setns(own, CLONE_NEWPID) == 0)
    return 0;
  int file = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return -errno;
  int result = setns(file, CLONE_NEWPID) < 0 ? -errno : 0;
  close(file);
  return result;
}

pid_t cell_fork(const struct cell_plan *plan, struct cell_error *error) {
  const bool own_pid_namespace = cell_raises(plan, CELL_PID_NAMESPACE);
  if (own_pid_namespace && unshare(CLONE_NEWPID) < 0) {
    cell_fail(error, errno, "pid namespace", "unshare: %s%s", strerror(errno),
              errno == ENOSPC ? " (see sysctl user.max_pid_namespaces)" : "");
    return -1;
  }
  pid_t pid = fork();
  if (pid == 0)
    return 0;
  int fork_error = errno;
  int result = own_pid_namespace ? return_to_own() : 0;
  if (pid < 0) {
    cell_fail(error, fork_error, "fork", "%s", strerror(fork_error));
  } else if (result < 0) {
    // The next child could not have a namespace of its own: better none at all.
    end_child(pid);
    cell_fail(error, result, "pid namespace", "return to the zygote's: %s", strerror(-result));
    pid = -1;
  }
  return pid;
}
