// cell.h: the walls of a cell. Plain C and the kernel: no uv, curl, napi, JSON.
//
// Two moments. `outer_*` is called once per zygote, by the keeper's child, and
// builds the namespaces and the root that all cells of the zygote live in.
// `cell_*` is called in every cell, in the order that cell.c states, which is law.
#ifndef CODE_JAIL_CELL_H
#define CODE_JAIL_CELL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// The names a result reports, in this order; a layer is a bit: 1u << CELL_X.
enum cell_layer {
  CELL_USER_NAMESPACE,
  CELL_PID_NAMESPACE,
  CELL_MOUNT_NAMESPACE,
  CELL_NETWORK_NAMESPACE,
  CELL_IPC_NAMESPACE,
  CELL_UTS_NAMESPACE,
  CELL_OWN_ROOT,
  CELL_NO_CAPABILITIES,
  CELL_NO_NEW_PRIVS,
  CELL_LANDLOCK,
  CELL_SECCOMP,
  CELL_RLIMITS,
  CELL_CGROUP,
  CELL_SEPARATE_UID,
  CELL_LAYER_COUNT,
};
#define CELL_BIT(layer) (1u << (layer))
const char *cell_layer_name(enum cell_layer layer); // "user-namespace", ...

enum { CELL_REASON_MAX = 112, CELL_PATHS_MAX = 24576, CELL_SCRATCH_MAX = 64 };

// An error is filled once, where its cause is known.
struct cell_error {
  int code;        // negative errno
  char stage[32];  // "mount /cell", "seccomp", "verify landlock"
  char cause[160]; // the likely cause and the remedy, in words
};

// What is to be built: made by the keeper, sent to the zygote, copied by fork
// into every cell. Plain data, no pointers, so that it can be sent.
struct cell_plan {
  uint32_t want;   // layers that every cell must have; one that fails is fatal to the cell
  uint32_t stands; // of these, what the outer walls already gave and verified
  char reason[CELL_LAYER_COUNT][CELL_REASON_MAX]; // for each layer not in want: why
  uint32_t language;                              // 0 javascript, 1 python
  uint32_t cold;                                  // 1: walls up to Landlock before exec, seccomp after boot
  uid_t uid_base;                                 // CELL_SEPARATE_UID: cell n becomes uid_base + n % uid_count
  uint32_t uid_count;
  uint64_t tmpfs_bytes; // size of /cell and of /tmp each
  uint32_t tmpfs_inodes;
  int32_t nice;      // priority of a cell
  uint32_t has_proc; // an own /proc can be mounted
  // Without a mount namespace: the folder in which each cell has one of its own,
  // made by the keeper and named by the cell's number. "": none.
  char scratch[CELL_SCRATCH_MAX];
  int32_t outside_pid;        // a pid outside (the keeper's), for probes that must not reach it; 0 none
  char paths[CELL_PATHS_MAX]; // what Landlock lets a cell read and map: absolute paths, NUL after each
};

// ---- outer walls: once per zygote, called by the keeper ----

enum cell_root_kind {
  CELL_ROOT_DIR,    // an empty directory, 0755
  CELL_ROOT_BIND,   // source, a file or a directory, read-only, nosuid, nodev
  CELL_ROOT_DEVICE, // source, a device node of the host's /dev
  CELL_ROOT_FILE,   // a small file whose content is source
  CELL_ROOT_LINK,   // a symbolic link to source
};

// Entries are made in order; missing parents of a target are made. A bind
// whose source is not there fails the build, with the path in the cause.
struct cell_root_entry {
  enum cell_root_kind kind;
  const char *target; // absolute, within the new root; borrowed
  const char *source; // borrowed; NULL for DIR
};
struct cell_root {
  struct cell_root_entry *entries; // owned by the caller
  size_t count;
};

// Starts init (pid 1 of a new pid namespace) as a child of this process, behind
// the user, pid, mount, network, ipc and uts namespaces and in the root, as far
// as plan->want asks; there calls init_main(arg), whose value is its exit code.
// All or nothing: on an error no process is left and the host is as before.
// On success sets plan->stands to what was verified from inside, uid_base and
// uid_count as cells see them, has_proc. Must be called from a single-threaded
// process (the keeper's main thread, before its watch thread starts).
// Where plan->want names no namespace at all, init is a plain forked child.
// init_main finds the plan as it stands then; the caller has it on return.
int cell_outer_spawn(struct cell_plan *plan, const struct cell_root *root, int (*init_main)(void *), void *arg,
                     pid_t *init_pid, struct cell_error *error);

// What this host lets us build, by trying it end to end in children that then
// end: sets plan->want, plan->reason and has_proc. Whether it is enough only
// cell_plan_acceptable says. Slow (some ms): once per keeper.
int cell_plan_probe(struct cell_plan *plan, struct cell_error *error);

// 0 if plan's walls give file-system, network and signal isolation; else
// -EPERM with the reason of the first that is missing.
int cell_plan_acceptable(const struct cell_plan *plan, struct cell_error *error);

// ---- control groups: the keeper's, where plan->want has CELL_CGROUP ----

// Places a cell that parks in a group of its own; its memory counts from there on.
// 1, or 0 where there are no groups; else -errno.
int cell_cgroup_enter(uint32_t cell, pid_t pid);
// The limit of its run. 0 or -errno.
int cell_cgroup_limit(uint32_t cell, uint64_t memory_bytes);
// Removes the group of a cell that has ended; whether the kernel ended it for want of memory.
bool cell_cgroup_leave(uint32_t cell);
// Removes all that is left, once every cell has ended.
void cell_cgroup_close(void);

// ---- in the zygote ----

// The filter a zygote boots under: io_uring_setup answers ENOSYS (its rings
// would be memory shared by all cells), and nothing else is refused. Sets
// no_new_privs. For cold starts as well: rings made at boot would be refused later.
int cell_zygote_filter(struct cell_error *error);

// Forks with a new pid namespace for the child, where plan wants one, through
// libc's fork() (atfork handlers run). Returns as fork does.
pid_t cell_fork(const struct cell_plan *plan, struct cell_error *error);

// ---- in a cell, in this order ----

// Every descriptor above 2 that is not in keep becomes /dev/null (same number:
// libuv still writes to the numbers it knew). keep: numbers below 64; what lies
// beyond is closed, and RLIMIT_NOFILE keeps its number from being used again.
int cell_descriptors(const int *keep, size_t keep_count, struct cell_error *error);

// Walls up to and including Landlock: mounts, limits, uid, user namespace,
// capabilities, no_new_privs. tmpfs[0..1]: O_PATH descriptors of /cell and
// /tmp for the memory watch, -1 where there are none; the caller closes them.
int cell_enter(const struct cell_plan *plan, uint32_t cell, int tmpfs[2], struct cell_error *error);

// The large seccomp filter, with TSYNC. After it only listed calls exist;
// recvmsg, sendmsg, prlimit64 (for itself) and seccomp are still among them.
int cell_seal(const struct cell_plan *plan, struct cell_error *error);

// Walks into every wall of plan->want and sets *layers to those that held.
// Returns -EPERM with the first that did not hold.
int cell_verify(const struct cell_plan *plan, uint32_t *layers, struct cell_error *error);

// Once the job has arrived and before its text is compiled: RLIMIT_DATA to what
// is in use now + memory_bytes, RLIMIT_CPU, then the small filter that takes
// recvmsg, sendmsg, prlimit64 (setting) and seccomp away. Once.
int cell_close(const struct cell_plan *plan, uint64_t memory_bytes, uint32_t timeout_ms, struct cell_error *error);

// Fills error and returns code, which it makes negative: for every stage.
int cell_fail(struct cell_error *error, int code, const char *stage, const char *format, ...)
  __attribute__((format(printf, 4, 5)));

#endif
