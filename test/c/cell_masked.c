// sources: src/cell/cell.c src/cell/cgroup.c src/cell/descriptors.c src/cell/init.c src/cell/landlock.c src/cell/namespaces.c src/cell/plan.c src/cell/rlimits.c src/cell/root.c src/cell/filters.c src/cell/seccomp.c src/cell/verify.c
//
// Hosts that refuse something: each feature the walls are built from is taken
// away, by a filter, from a child that then probes. Whatever is missing, the
// plan must be one whose cells were seen to hold, its gaps must have reasons,
// and nothing half-built may stay behind.
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../src/cell/internal.h"

enum { NOBODY = 65534 };
#define NAMESPACES                                                                                   \
  (CELL_BIT(CELL_USER_NAMESPACE) | CELL_BIT(CELL_PID_NAMESPACE) | CELL_BIT(CELL_NETWORK_NAMESPACE) | \
   CELL_BIT(CELL_IPC_NAMESPACE) | CELL_BIT(CELL_UTS_NAMESPACE))
#define ROOT (CELL_BIT(CELL_OWN_ROOT) | CELL_BIT(CELL_MOUNT_NAMESPACE))

static int printed, failures;

static void point(bool good, const char *who, const char *mask, const char *what, const char *more) {
  printf("%sok %d - %s, %s: %s (%s)\n", good ? "" : "not ", ++printed, who, mask, what, more);
  failures += !good;
}

static const struct {
  const char *name;
  int number;
  uint32_t bits; // refused only where argument 0 has one of these; 0: always
  int error;
  uint32_t lost; // layers that cannot stand then
  bool fatal;    // not even the weakest tier can stand
} masks[] = {
  {"nothing", -1, 0, 0, 0, false},
  {"no unshare", __NR_unshare, 0, EPERM, NAMESPACES | ROOT, false},
  {"no new user namespace", __NR_unshare, CLONE_NEWUSER, ENOSPC, 0, false},
  {"no new pid namespace", __NR_unshare, CLONE_NEWPID, ENOSPC, NAMESPACES | ROOT, false},
  {"no clone with namespaces", __NR_clone, CLONE_NEWNET, EPERM, NAMESPACES | ROOT, false},
  {"no setns", __NR_setns, 0, EPERM, NAMESPACES | ROOT, false},
  {"no mount", __NR_mount, 0, EACCES, ROOT, false},
  {"no umount", __NR_umount2, 0, EPERM, ROOT, false},
  {"no pivot_root", __NR_pivot_root, 0, EINVAL, ROOT, false},
  {"no mount_setattr", 442, 0, ENOSYS, 0, false},
  {"no close_range", 436, 0, ENOSYS, 0, false},
  {"no pidfd_open", __NR_pidfd_open, 0, ENOSYS, 0, false},
  {"no sethostname", __NR_sethostname, 0, EPERM, NAMESPACES | ROOT, false},
  {"no Landlock", 444, 0, ENOSYS, CELL_BIT(CELL_LANDLOCK), false},
  {"Landlock that does not bind", 446, 0, EOPNOTSUPP, 0, true},
  {"no filters", __NR_seccomp, 0, EINVAL, CELL_BIT(CELL_SECCOMP), false},
  {"no prlimit", __NR_prlimit64, 0, EPERM, CELL_BIT(CELL_RLIMITS), false},
  {"no setresuid", __NR_setresuid, 0, EPERM, CELL_BIT(CELL_SEPARATE_UID), false},
  {"no setgroups", __NR_setgroups, 0, EPERM, CELL_BIT(CELL_SEPARATE_UID), false},
  {"no capset", __NR_capset, 0, EPERM, 0, true},
  {"no setsid", __NR_setsid, 0, EPERM, 0, false},
};
enum { MASK_COUNT = sizeof masks / sizeof *masks };

static int refuse(size_t mask) {
  struct sock_filter code[] = {
    {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr)},
    {BPF_JMP | BPF_JEQ | BPF_K, 0, 3, (uint32_t)masks[mask].number},
    {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, args)},
    {BPF_JMP | BPF_JSET | BPF_K, 0, 1, masks[mask].bits},
    {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | (uint32_t)masks[mask].error},
    {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
  };
  if (masks[mask].number < 0)
    return 0;
  if (masks[mask].bits == 0)
    code[3] = (struct sock_filter){BPF_JMP | BPF_JA, 0, 0, 0};
  struct sock_fprog program = {sizeof code / sizeof *code, code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) ? -1 : 0;
}

// What the probing child tells; shared memory.
static struct {
  struct cell_plan plan;
  struct cell_error error;
  int result;
  bool clean, explained;
} * told;

static int count_mounts(void) {
  char *text = calloc(1, 1 << 18);
  int lines = 0;
  if (text && cell_read_file("/proc/self/mountinfo", text, 1 << 18) >= 0)
    for (const char *at = text; (at = strchr(at, '\n')); at++)
      lines++;
  free(text);
  return lines;
}

static int count_descriptors(void) {
  int count = 0;
  for (int fd = 0; fd < 256; fd++)
    count += fcntl(fd, F_GETFD) >= 0;
  return count;
}

static void probe_masked(size_t mask) {
  if (refuse(mask))
    _exit(2);
  int mounts = count_mounts(), descriptors = count_descriptors();
  told->result = cell_plan_probe(&told->plan, &told->error);
  told->clean = waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD && count_mounts() == mounts &&
                count_descriptors() == descriptors;
  told->explained = true;
  for (int i = 0; i < CELL_LAYER_COUNT; i++)
    if (!cell_wants(&told->plan, (enum cell_layer)i) && !told->plan.reason[i][0])
      told->explained = false;
  _exit(0);
}

static void test_mask(const char *who, bool drop, size_t mask) {
  int status;
  memset(told, 0, sizeof *told);
  told->plan.tmpfs_bytes = 1 << 20;
  told->plan.tmpfs_inodes = 64;
  pid_t child = fork();
  if (child == 0) {
    if (drop && (syscall(SYS_setgroups, 0, NULL) || syscall(SYS_setresgid, NOBODY, NOBODY, NOBODY) ||
                 syscall(SYS_setresuid, NOBODY, NOBODY, NOBODY)))
      _exit(3);
    probe_masked(mask);
  }
  waitpid(child, &status, 0);
  char wanted[32];
  snprintf(wanted, sizeof wanted, "%x", told->plan.want);
  point(status == 0, who, masks[mask].name, "the probe comes back", wanted);
  point(told->clean, who, masks[mask].name, "nothing half-built is left", wanted);
  if (masks[mask].fatal) {
    point(told->result < 0 && told->error.cause[0], who, masks[mask].name, "no plan, and why", told->error.cause);
    return;
  }
  point(told->result == 0, who, masks[mask].name, "there is a plan", told->error.cause);
  point(!(told->plan.want & masks[mask].lost), who, masks[mask].name, "it claims nothing that cannot be", wanted);
  const char *reason = told->plan.reason[CELL_OWN_ROOT];
  point(told->explained, who, masks[mask].name, "what is missing has a reason", reason[0] ? reason : "all stands");
}

int main(void) {
  told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (told == MAP_FAILED)
    return 1;
  for (size_t mask = 0; mask < MASK_COUNT; mask++)
    test_mask("as we are", false, mask);
  for (size_t mask = 0; geteuid() == 0 && mask < MASK_COUNT; mask++)
    test_mask("as nobody", true, mask);
  printf("1..%d\n", printed);
  return failures != 0;
}
