// plan.c: what this host lets us build, and whether that is enough. Runs once
// in each keeper, before its zygote; some 5 ms.
//
// No return code is believed. Each tier, from the strongest on, is built in
// children: the outer walls around a small root, in them a cell, entered,
// sealed and verified. The first that stands is the plan; where a stronger one
// failed, the stage that it failed at is the reason for what is missing.
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "internal.h"

#define CAPABILITY_BIT(number) (1ull << (number))
enum { CAPABILITY_SETGID = 6, CAPABILITY_SETUID = 7, CAPABILITY_SYS_ADMIN = 21 };

// ---- what can be asked, for reasons ----

static long read_number(const char *path, long otherwise) {
  char text[32];
  return cell_read_file(path, text, sizeof text) > 0 ? strtol(text, NULL, 10) : otherwise;
}

static unsigned long long read_status(const char *field, int base) {
  char text[4096], *line;
  if (cell_read_file("/proc/self/status", text, sizeof text) < 0 || !(line = strstr(text, field)))
    return 0;
  return strtoull(line + strlen(field), NULL, base);
}

static bool has_capability(int number) {
  return (read_status("\nCapEff:", 16) & CAPABILITY_BIT(number)) != 0;
}

// Why namespaces were refused, as far as the host lets us see, and what to do.
// NULL where the stage's own words say more.
static const char *remedy(const struct cell_error *error) {
  const bool denied = error->code == -EPERM || error->code == -EACCES;
  if (read_number("/proc/sys/user/max_user_namespaces", 1) == 0)
    return "user namespaces are switched off: sysctl user.max_user_namespaces";
  if (error->code == -ENOSPC)
    return "no further namespace is given: sysctl user.max_*_namespaces";
  if (denied && read_number("/proc/sys/kernel/unprivileged_userns_clone", 1) == 0)
    return "user namespaces need root: sysctl kernel.unprivileged_userns_clone=1";
  if (denied && read_number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", 0) == 1)
    return "AppArmor: sysctl kernel.apparmor_restrict_unprivileged_userns=0, or a profile";
  if ((denied || error->code == -ENOSYS) && read_status("\nSeccomp:", 10) == 2)
    return "refused by a container's seccomp profile (Docker: --security-opt seccomp=...)";
  return NULL;
}

static void explain(struct cell_plan *plan, enum cell_layer layer, const char *format, ...)
  __attribute__((format(printf, 3, 4)));
static void explain(struct cell_plan *plan, enum cell_layer layer, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(plan->reason[layer], CELL_REASON_MAX, format, arguments);
  va_end(arguments);
}

static bool can_set_uid(void) {
  return geteuid() == 0 && has_capability(CAPABILITY_SETUID) && has_capability(CAPABILITY_SETGID);
}

// ---- one attempt ----

struct outcome { // shared with the children that try
  uint32_t layers;
  uint32_t has_proc;
  struct cell_error error;
};

struct attempt {
  struct cell_plan plan;
  struct outcome *outcome;
};

// In the cell that is tried: all that a real one goes through.
_Noreturn static void try_cell(const struct cell_plan *plan, struct outcome *outcome) {
  int tmpfs[2];
  int result = cell_descriptors(NULL, 0, &outcome->error);
  if (result == 0)
    result = cell_enter(plan, 0, tmpfs, &outcome->error);
  if (result == 0)
    result = cell_seal(plan, &outcome->error);
  if (result == 0)
    result = cell_verify(plan, &outcome->layers, &outcome->error);
  if (result == 0)
    result = cell_close(plan, 16 << 20, 1000, &outcome->error);
  _exit(result == 0 ? 0 : 1);
}

static int await(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
    ;
  return status;
}

// As init: a zygote that makes one cell. It is not pid 1 itself, as the real
// one is not.
static int try_init(void *argument) {
  struct attempt *attempt = argument;
  pid_t zygote = fork();
  if (zygote == 0) {
    pid_t cell = cell_fork(&attempt->plan, &attempt->outcome->error);
    if (cell == 0)
      try_cell(&attempt->plan, attempt->outcome);
    if (cell > 0)
      await(cell);
    _exit(0);
  }
  if (zygote > 0)
    await(zygote);
  else
    cell_fail(&attempt->outcome->error, errno, "fork", "%s", strerror(errno));
  return 0;
}

// Everything as it will be, but for the runtime: it reads nothing.
static int try_plan(const struct cell_plan *like, uint32_t want, struct outcome *outcome) {
  static struct cell_root_entry entries[] = {
    {CELL_ROOT_DIR, "/cell", NULL},
    {CELL_ROOT_DIR, "/tmp", NULL},
    {CELL_ROOT_DIR, "/proc", NULL},
    {CELL_ROOT_DEVICE, "/dev/null", "/dev/null"},
  };
  const struct cell_root root = {entries, sizeof entries / sizeof *entries};
  struct attempt *attempt = calloc(1, sizeof *attempt); // too large for the stack
  pid_t init = -1;
  memset(outcome, 0, sizeof *outcome);
  if (attempt == NULL)
    return cell_fail(&outcome->error, ENOMEM, "probe", "no memory");
  attempt->plan = *like;
  attempt->plan.want = want;
  attempt->plan.cold = 0;
  attempt->plan.paths[0] = '\0';
  attempt->outcome = outcome;
  struct cell_error error = {0};
  int result = cell_outer_spawn(&attempt->plan, &root, try_init, attempt, &init, &error);
  if (result == 0) {
    await(init);
    outcome->has_proc = attempt->plan.has_proc;
    if (outcome->layers != want && outcome->error.code == 0)
      cell_fail(&outcome->error, EIO, "probe", "a cell ended without a word");
    result = outcome->error.code;
  } else {
    outcome->error = error;
  }
  free(attempt);
  return result;
}

// ---- what every tier may have ----

// A machine that has run out of something says nothing about what it can do.
static bool is_shortage(int code) {
  return code == -EMFILE || code == -ENFILE || code == -ENOMEM || code == -EAGAIN || code == -EINTR;
}

// In a child, because what it does cannot be undone. 1 it can be done, 0 it
// cannot, negative: there was no asking.
static int child_can(int (*act)(void)) {
  pid_t child = fork();
  if (child == 0)
    _exit(-act());
  if (child < 0)
    return -errno;
  const int status = await(child);
  int code = WIFEXITED(status) ? -WEXITSTATUS(status) : -EIO;
  return is_shortage(code) ? code : code == 0;
}

static int hold_limits(void) {
  struct cell_plan none = {0};
  struct cell_error error;
  int result = cell_rlimits_enter(&none, &error);
  return result < 0 ? result : cell_rlimits_hold() ? 0 : -EPERM;
}

static int install_filters(void) {
  struct sock_filter code[CELL_FILTER_MAX];
  int length = cell_filter_seal(code, CELL_FILTER_MAX, getpid(), true);
  if (length < 0)
    return length;
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : cell_filter_install(code, length);
}

static int common_layers(struct cell_plan *plan, uint32_t *want, struct cell_error *error) {
  const int filters = child_can(install_filters), limits = child_can(hold_limits);
  const int shortage = filters < 0 ? filters : limits < 0 ? limits : 0;
  if (shortage)
    return cell_fail(error, shortage, "probe", "the walls cannot be tried: %s", strerror(-shortage));
  *want = CELL_BIT(CELL_NO_CAPABILITIES) | CELL_BIT(CELL_NO_NEW_PRIVS);
  if (cell_landlock_abi() >= 1)
    *want |= CELL_BIT(CELL_LANDLOCK);
  else
    explain(plan, CELL_LANDLOCK, "needs Linux 5.13 with landlock among the active LSMs");
  if (filters)
    *want |= CELL_BIT(CELL_SECCOMP);
  else
    explain(plan, CELL_SECCOMP, "this kernel refuses system call filters");
  if (limits || cell_leaves_out(CELL_RLIMITS))
    *want |= CELL_BIT(CELL_RLIMITS);
  else
    explain(plan, CELL_RLIMITS, "a limit on data was set and exceeded (gVisor, or before Linux 4.7)");
  return 0;
}

// ---- the tiers ----

// From the strongest on. Without a root of its own a cell sees the host's files
// and /proc as far as Landlock and its uid let it: there a uid of its own is
// worth more than namespaces.
static const struct {
  bool root, namespaces, uid;
} tiers[] = {
  {true, true, true}, {true, true, false}, {false, true, true}, {false, false, true}, {false, true, false}, {0},
};
enum { TIER_COUNT = sizeof tiers / sizeof *tiers };

static uint32_t tier_layers(int tier) {
  const uint32_t root = CELL_BIT(CELL_OWN_ROOT) | CELL_BIT(CELL_MOUNT_NAMESPACE);
  return (tiers[tier].root ? root : 0) | (tiers[tier].namespaces ? CELL_OUTER_LAYERS & ~root : 0) |
         (tiers[tier].uid ? CELL_BIT(CELL_SEPARATE_UID) : 0);
}

// Not worth trying: what root alone can do.
static bool tier_needs_more(int tier) {
  return tiers[tier].uid && (!can_set_uid() || (tiers[tier].namespaces && !has_capability(CAPABILITY_SYS_ADMIN)));
}

static void explain_missing(struct cell_plan *plan, const struct cell_error *why) {
  const uint32_t missing = (CELL_OUTER_LAYERS | CELL_BIT(CELL_SEPARATE_UID)) & ~plan->want;
  const char *hint = why->code ? remedy(why) : NULL;
  for (int i = 0; i < CELL_LAYER_COUNT; i++) {
    const enum cell_layer layer = (enum cell_layer)i;
    if (!(missing & CELL_BIT(i)))
      continue;
    if (layer == CELL_SEPARATE_UID && !can_set_uid())
      explain(plan, layer, "needs root: without it every cell has our own uid");
    else if (hint)
      explain(plan, layer, "%s: %s", why->stage, hint);
    else if (why->code)
      explain(plan, layer, "%s: %s", why->stage, why->cause);
  }
}

int cell_plan_probe(struct cell_plan *plan, struct cell_error *error) {
  struct cell_error first = {0}; // of the strongest tier that was tried
  struct outcome *outcome = mmap(NULL, sizeof *outcome, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (outcome == MAP_FAILED)
    return cell_fail(error, errno, "probe", "no memory");
  memset(plan->reason, 0, sizeof plan->reason);
  uint32_t common = 0;
  int result = common_layers(plan, &common, &outcome->error);
  plan->want = 0;
  for (int tier = 0; tier < TIER_COUNT && !is_shortage(result); tier++) {
    if (tier_needs_more(tier))
      continue;
    const uint32_t want = common | tier_layers(tier);
    result = try_plan(plan, want, outcome);
    if (result == 0) {
      plan->want = want;
      plan->has_proc = outcome->has_proc;
      break;
    }
    if (first.code == 0)
      first = outcome->error;
  }
  explain_missing(plan, &first);
  if (result < 0)
    *error = outcome->error; // not even the weakest
  else if (cell_cgroup_probe(plan->reason[CELL_CGROUP]) == 0)
    plan->want |= CELL_BIT(CELL_CGROUP);
  munmap(outcome, sizeof *outcome);
  return result;
}

int cell_plan_acceptable(const struct cell_plan *plan, struct cell_error *error) {
  // Landlock hides the host's files by rule, an own root by leaving them out;
  // seccomp refuses every socket with an address, and signals to others.
  if (!cell_wants(plan, CELL_OWN_ROOT) && !cell_wants(plan, CELL_LANDLOCK))
    return cell_fail(error, EPERM, "file-system isolation", "%s; own-root: %s", plan->reason[CELL_LANDLOCK],
                     plan->reason[CELL_OWN_ROOT]);
  if (!cell_wants(plan, CELL_NETWORK_NAMESPACE) && !cell_wants(plan, CELL_SECCOMP))
    return cell_fail(error, EPERM, "network isolation", "%s", plan->reason[CELL_SECCOMP]);
  if (!cell_wants(plan, CELL_PID_NAMESPACE) && !cell_wants(plan, CELL_SECCOMP))
    return cell_fail(error, EPERM, "signal isolation", "%s", plan->reason[CELL_SECCOMP]);
  return 0;
}
