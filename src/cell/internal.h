// internal.h: what the files of src/cell share with each other (and test/c with
// them). Everything else goes through cell.h.
#ifndef CODE_JAIL_CELL_INTERNAL_H
#define CODE_JAIL_CELL_INTERNAL_H

#include <linux/filter.h>

#include "cell.h"

enum {
  CELL_INSIDE_ID = 1000, // uid and gid as a cell sees them, in its own user namespace
  CELL_OUTER_ID = 2000,  // first of the cells' ids in the outer one: never the same
  CELL_OUTER_ID_COUNT = 60000,
  CELL_OUTER_IDS = 65536,    // ids of the outer user namespace, where root builds it
  CELL_DESCRIPTORS_MAX = 64, // RLIMIT_NOFILE of a cell
  // RLIMIT_NPROC of a cell, its main thread included: 4 of libuv's pool, 4 of
  // V8's and 2 of Node's own (cold starts only), and room for a dozen of the user's.
  CELL_THREADS_MAX = 24,
  CELL_FILTER_MAX = 1024, // instructions
};

// The namespaces and the root that the outer walls consist of.
#define CELL_OUTER_LAYERS                                                                           \
  (CELL_BIT(CELL_USER_NAMESPACE) | CELL_BIT(CELL_PID_NAMESPACE) | CELL_BIT(CELL_MOUNT_NAMESPACE) |  \
   CELL_BIT(CELL_NETWORK_NAMESPACE) | CELL_BIT(CELL_IPC_NAMESPACE) | CELL_BIT(CELL_UTS_NAMESPACE) | \
   CELL_BIT(CELL_OWN_ROOT))

static inline bool cell_wants(const struct cell_plan *plan, enum cell_layer layer) {
  return (plan->want & CELL_BIT(layer)) != 0;
}

// test/mutations builds with one wall left out, or one rule of the filter, and
// believed to stand all the same: some test must miss it. A package has them all.
#if defined(CODE_JAIL_PACKAGE) && (defined(CODE_JAIL_WITHOUT) || defined(CODE_JAIL_WITHOUT_RULE))
#error "CODE_JAIL_WITHOUT takes a wall away: it is for test/mutations alone"
#endif
#ifndef CODE_JAIL_WITHOUT
#define CODE_JAIL_WITHOUT CELL_LAYER_COUNT
#endif
static inline bool cell_leaves_out(enum cell_layer layer) {
  return layer == CODE_JAIL_WITHOUT;
}
static inline bool cell_raises(const struct cell_plan *plan, enum cell_layer layer) {
  return cell_wants(plan, layer) && !cell_leaves_out(layer);
}

// A cell gets a user namespace of its own only where it can write its own
// id maps, which are files of /proc.
static inline bool cell_has_own_user_namespace(const struct cell_plan *plan) {
  return cell_raises(plan, CELL_USER_NAMESPACE) && plan->has_proc;
}

// ---- cell.c ----
// Writes text, whole, into an existing file beneath dir_fd. 0 or -errno.
int cell_write_file(int dir_fd, const char *path, const char *text);
// Reads at most size - 1 bytes and ends them with NUL. Count or -errno.
int cell_read_file(const char *path, char *text, size_t size);

// ---- root.c (in the builder, in a mount namespace of its own) ----
// Makes root's tree the root of this process and nothing else reachable.
// own_proc: mount a fresh /proc (real root) instead of carrying the host's over.
int cell_root_enter(const struct cell_root *root, bool own_proc, struct cell_error *error);

// ---- namespaces.c ----
// Unmapped ids for cells where no user namespace gives them: first of a range.
int cell_spare_ids(uid_t *first, uint32_t *count);

// ---- landlock.c ----
int cell_landlock_abi(void); // 0: there is none
int cell_landlock_enter(const struct cell_plan *plan, struct cell_error *error);

// ---- seccomp.c ----
// Both build a program for the calling architecture and return its length, or
// -E2BIG. Pure: self is the only process id that may be signalled.
int cell_filter_seal(struct sock_filter *code, size_t max, pid_t self, bool mounts);
int cell_filter_close(struct sock_filter *code, size_t max);
int cell_filter_install(const struct sock_filter *code, int length);

struct cell_syscall {
  int number;
  const char *name;
  uint8_t rule; // enum cell_rule in seccomp.c
  const char *why;
};
const struct cell_syscall *cell_syscalls(size_t *count);
const char *cell_rule_name(uint8_t rule);

// ---- rlimits.c ----
int cell_rlimits_enter(const struct cell_plan *plan, struct cell_error *error);
int cell_rlimits_close(uint64_t memory_bytes, uint32_t timeout_ms, struct cell_error *error);
// As the one above, where limits on data do not hold: what else may help.
void cell_rlimits_try(const struct cell_plan *plan, uint64_t memory_bytes, uint32_t timeout_ms);
// By effect: memory beyond a limit is refused, and so is a descriptor.
bool cell_rlimits_hold(void);

// ---- cgroup.c ----
// 0 where a v2 group is delegated to us and one in it was seen to hold; else
// -errno, and reason says what is missing.
int cell_cgroup_probe(char reason[CELL_REASON_MAX]);

#endif
