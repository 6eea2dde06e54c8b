// sources: src/cell/cell.c src/cell/landlock.c src/cell/rlimits.c src/cell/filters.c src/cell/seccomp.c
//
// The filters as programs: executed here, instruction by instruction, on every
// system call number and on the arguments that make a difference. Nothing is
// installed.
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/close_range.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "../../src/cell/internal.h"
#include "bpf.h"

#if defined(__x86_64__)
#define NATIVE AUDIT_ARCH_X86_64
#define FOREIGN AUDIT_ARCH_I386
#else
#define NATIVE AUDIT_ARCH_AARCH64
#define FOREIGN AUDIT_ARCH_ARM
#endif

enum { SELF = 7, PASS = SECCOMP_RET_ALLOW };
#define EPERM_ (SECCOMP_RET_ERRNO | EPERM)
#define ENOSYS_ (SECCOMP_RET_ERRNO | ENOSYS)
#define KILL_ SECCOMP_RET_KILL_PROCESS

static struct sock_filter seal[CELL_FILTER_MAX], small[CELL_FILTER_MAX];
static int seal_length, small_length, points, failures;
static size_t steps; // of the last run

static void point(bool good, const char *name) {
  printf("%sok %d - %s\n", good ? "" : "not ", ++points, name);
  failures += !good;
}

static uint32_t call6(const struct sock_filter *code, int length, uint32_t number, const uint64_t *arguments) {
  struct seccomp_data data = {.nr = (int)number, .arch = NATIVE};
  memcpy(data.args, arguments, sizeof data.args);
  return bpf_run(code, length, &data, &steps);
}

#define SEALED(number, ...) call6(seal, seal_length, number, (uint64_t[6]){__VA_ARGS__})
#define CLOSED(number, ...) call6(small, small_length, number, (uint64_t[6]){__VA_ARGS__})

static const struct cell_syscall *named(uint32_t number) {
  size_t count;
  const struct cell_syscall *table = cell_syscalls(&count);
  for (size_t i = 0; i < count; i++)
    if (table[i].number == (int)number)
      return &table[i];
  return NULL;
}

static void test_table(void) {
  size_t count, longest = 0;
  const struct cell_syscall *table = cell_syscalls(&count);
  bool once = true, explained = true, as_said = true, unknown = true, total = true;
  for (size_t i = 0; i < count; i++) {
    once = once && named((uint32_t)table[i].number) == &table[i] && table[i].number < 512;
    explained = explained && table[i].why && strlen(table[i].why) > 3;
  }
  for (uint32_t number = 0; number < 512; number++) {
    const struct cell_syscall *entry = named(number);
    uint32_t answer = SEALED(number, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull);
    const char *rule = entry ? cell_rule_name(entry->rule) : "ENOSYS";
    total = total && answer != BPF_MALFORMED;
    if (!entry)
      unknown = unknown && answer == ENOSYS_;
    if (!strcmp(rule, "allowed"))
      as_said = as_said && answer == PASS;
    if (!strcmp(rule, "EPERM"))
      as_said = as_said && answer == EPERM_;
    if (!strcmp(rule, "ENOSYS"))
      as_said = as_said && answer == ENOSYS_;
    if (steps > longest)
      longest = steps;
  }
  point(seal_length > 0 && seal_length <= CELL_FILTER_MAX, "the large filter fits");
  point(small_length > 0 && small_length < 24, "the small filter is small");
  point(count > 250 && once, "every number is named once");
  point(explained, "every line of the table has a reason");
  point(total, "every number 0..511 gets an answer");
  point(as_said, "every number gets the answer that the table says");
  point(unknown, "a number without a line answers ENOSYS");
  point(longest < 40, "no number takes more than 40 steps");
  printf("# %d instructions, %zu lines, at most %zu steps\n", seal_length, count, longest);
}

static void test_architectures(void) {
  bool foreign = true, x32 = true, beyond = true;
  for (uint32_t number = 0; number < 512; number++) {
    struct seccomp_data data = {.nr = (int)number, .arch = FOREIGN};
    foreign = foreign && bpf_run(seal, seal_length, &data, &steps) == KILL_;
    x32 = x32 && SEALED(0x40000000u | number, 0) == KILL_;
    beyond = beyond && SEALED(512 + number * 1000, 0) == ENOSYS_;
  }
  struct seccomp_data none = {.nr = __NR_read, .arch = 0};
  point(foreign && bpf_run(seal, seal_length, &none, &steps) == KILL_, "another architecture kills");
  point(x32 && SEALED(0xffffffff, 0) == KILL_, "x32 kills");
  point(beyond, "numbers beyond the table answer ENOSYS");
}

static void test_processes(void) {
  const uint64_t thread = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
                          CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID;
  static const uint64_t never[] = {
    17 /* SIGCHLD */, 0, CLONE_VM | CLONE_VFORK, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNS, CLONE_NEWNET, CLONE_PARENT,
    CLONE_PTRACE,
  };
  bool refused = true;
  for (size_t i = 0; i < sizeof never / sizeof *never; i++)
    refused = refused && SEALED(__NR_clone, never[i]) == EPERM_ &&
              (never[i] < 256 || SEALED(__NR_clone, thread | never[i]) == EPERM_);
  point(SEALED(__NR_clone, thread) == PASS, "clone of a thread, as libc asks for it");
  point(refused, "clone of a process, of namespaces, of tracees");
  point(SEALED(__NR_clone, thread | CLONE_PIDFD) == EPERM_, "clone with a pidfd");
  point(SEALED(__NR_clone3, 0) == ENOSYS_, "clone3 answers ENOSYS, so that libc takes clone");
  point(SEALED(__NR_execve, 0) == EPERM_ && SEALED(__NR_execveat, 0) == EPERM_, "no exec");

  point(SEALED(__NR_kill, SELF, 9) == PASS && SEALED(__NR_tgkill, SELF, 99, 6) == PASS &&
          SEALED(__NR_tkill, SELF, 6) == PASS,
        "signals to itself");
  point(SEALED(__NR_kill, SELF | 0x100000000, 9) == PASS, "the kernel ignores the high half, too");
  static const uint64_t others[] = {0, 1, SELF + 1, 0xffffffff, ~0ull, 0xfffffff8};
  refused = true;
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    refused = refused && SEALED(__NR_kill, others[i], 9) == EPERM_ && SEALED(__NR_tgkill, others[i], SELF, 9) == EPERM_;
  point(refused, "signals to others, groups, everyone");

  point(SEALED(__NR_prlimit64, 0, 7, 0, 1) == PASS, "prlimit of itself");
  point(SEALED(__NR_prlimit64, 1, 7, 0, 1) == EPERM_, "prlimit of another");
  point(SEALED(__NR_setpgid, 1, 0) == EPERM_ && SEALED(__NR_getsid, 1) == EPERM_, "groups of another");
  point(SEALED(__NR_sched_getaffinity, 0) == PASS && SEALED(__NR_sched_setaffinity, 0) == EPERM_,
        "affinity is read only");
}

static void test_memory(void) {
  const uint64_t anonymous = MAP_ANONYMOUS;
  point(SEALED(__NR_mmap, 0, 1, 3, MAP_PRIVATE | anonymous) == PASS, "mmap, private");
  point(SEALED(__NR_mmap, 0, 1, 3, MAP_PRIVATE | anonymous | MAP_NORESERVE | MAP_STACK | MAP_FIXED) == PASS,
        "mmap, as V8 and libc ask");
  point(SEALED(__NR_mmap, 0, 1, 3, MAP_SHARED, 5) == PASS, "mmap of a file, shared");
  point(SEALED(__NR_mmap, 0, 1, 3, MAP_SHARED | anonymous) == EPERM_, "mmap, shared and anonymous");
  point(SEALED(__NR_mmap, 0, 1, 3, 3 | anonymous) == EPERM_, "mmap, shared-validate and anonymous");
  point(SEALED(__NR_mmap, 0, 1, 3, (1ull << 40) | MAP_SHARED | anonymous) == EPERM_, "the same with high bits");
  point(SEALED(__NR_mmap, 0, 1, 3, MAP_PRIVATE | anonymous | MAP_GROWSDOWN) == EPERM_, "mmap, growing down");
  point(SEALED(__NR_mmap, 0, 1, 3, MAP_PRIVATE | anonymous | MAP_HUGETLB) == EPERM_ &&
          SEALED(__NR_mmap, 0, 1, 3, MAP_PRIVATE | anonymous | MAP_LOCKED) == EPERM_,
        "mmap, huge and locked");
  point(SEALED(__NR_madvise, 0, 1, MADV_DONTNEED) == PASS && SEALED(__NR_madvise, 0, 1, MADV_MERGEABLE) == EPERM_,
        "madvise, all but MERGEABLE");
  point(SEALED(__NR_mprotect, 0, 1, 7) == PASS, "mprotect: compilers need it");
}

static void test_descriptors(void) {
  static const uint64_t good[] = {F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC, F_GETLK};
  static const uint64_t bad[] = {F_SETOWN,     F_SETOWN_EX, F_SETSIG, F_SETLEASE, F_NOTIFY,
                                 F_SETPIPE_SZ, F_GETOWN,    99,       ~0ull};
  bool given = true, refused = true;
  for (size_t i = 0; i < sizeof good / sizeof *good; i++)
    given = given && SEALED(__NR_fcntl, 3, good[i]) == PASS;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    refused =
      refused && SEALED(__NR_fcntl, 3, bad[i]) == EPERM_ && SEALED(__NR_fcntl, 3, bad[i] | 0x500000000) == EPERM_;
  point(given, "fcntl: flags, copies, questions");
  point(SEALED(__NR_fcntl, 3, F_SETLK) == (SECCOMP_RET_ERRNO | 0) &&
          SEALED(__NR_fcntl, 3, F_SETLKW) == (SECCOMP_RET_ERRNO | 0) && SEALED(__NR_fcntl, 3, F_OFD_SETLK) == EPERM_,
        "fcntl: record locks succeed and do nothing");
  point(SEALED(__NR_close_range, 3, ~0u, 0) == PASS && SEALED(__NR_close_range, 3, ~0u, CLOSE_RANGE_UNSHARE) == EPERM_,
        "close_range gives no table of one's own");
  point(SEALED(__NR_recvfrom, 3, 0, 0, 0) == PASS && SEALED(__NR_recvfrom, 3, 0, 0, MSG_OOB) == EPERM_ &&
          SEALED(__NR_sendto, 3, 0, 0, 0, 0, 0) == PASS && SEALED(__NR_sendto, 3, 0, 0, MSG_OOB, 0, 0) == EPERM_,
        "no urgent data");
  point(SEALED(__NR_madvise, 0, 4096, MADV_DONTNEED) == PASS &&
          SEALED(__NR_madvise, 0, 4096, 23 /* POPULATE_WRITE: trial.c */) == PASS &&
          SEALED(__NR_madvise, 0, 4096, 21 /* PAGEOUT */) == EPERM_,
        "madvise: what allocators use");
  struct sock_filter bare[CELL_FILTER_MAX];
  struct seccomp_data chmod = {.nr = __NR_fchmodat, .arch = NATIVE};
  int bare_length = cell_filter_seal(bare, CELL_FILTER_MAX, SELF, false);
  point(bpf_run(bare, bare_length, &chmod, &steps) == EPERM_ && SEALED(__NR_fchmodat, 3) == PASS,
        "without mounts of its own no file's mode is a cell's to change");
  point(refused, "fcntl: owners, signals, leases, pipe sizes");
  point(SEALED(__NR_fcntl, 3, F_SETFL, O_NONBLOCK) == PASS && SEALED(__NR_fcntl, 3, F_SETFL, O_ASYNC) == EPERM_ &&
          SEALED(__NR_fcntl, 3, F_SETFL, O_ASYNC | O_NONBLOCK) == EPERM_,
        "fcntl F_SETFL: not O_ASYNC");
  point(SEALED(__NR_ioctl, 0, TCGETS) == PASS && SEALED(__NR_ioctl, 0, FIONREAD) == PASS, "ioctl: questions");
  static const uint64_t requests[] = {TIOCSTI, 0x541c /* TIOCLINUX */, FIOASYNC, 0x8901, 0x8902, TIOCSCTTY};
  refused = true;
  for (size_t i = 0; i < sizeof requests / sizeof *requests; i++)
    refused = refused && SEALED(__NR_ioctl, 0, requests[i]) == EPERM_ &&
              SEALED(__NR_ioctl, 0, requests[i] | (1ull << 32)) == EPERM_;
  point(refused, "ioctl: terminals and owners, with high bits as well");
}

static void test_sockets(void) {
  point(SEALED(__NR_socketpair, AF_UNIX, SOCK_STREAM) == PASS, "socketpair, Unix");
  point(SEALED(__NR_socketpair, AF_INET, SOCK_STREAM) == EPERM_, "socketpair, other");
  point(SEALED(__NR_socket, AF_UNIX, SOCK_STREAM) == EPERM_, "socket");
  point(SEALED(__NR_sendto, 3, 1, 1, 0, 0, 0) == PASS, "send");
  point(SEALED(__NR_sendto, 3, 1, 1, 0, 0x1000, 16) == EPERM_ &&
          SEALED(__NR_sendto, 3, 1, 1, 0, 0x100000000, 16) == EPERM_,
        "send to an address, wherever the pointer's bits are");
  point(SEALED(__NR_getsockopt, 3, SOL_SOCKET, SO_ERROR) == PASS, "getsockopt SO_ERROR");
  point(SEALED(__NR_getsockopt, 3, SOL_SOCKET, 77) == EPERM_, "getsockopt SO_PEERPIDFD");
  point(SEALED(__NR_getsockopt, 3, 6, SO_ERROR) == EPERM_, "getsockopt of another level");
  point(SEALED(__NR_setsockopt, 3, SOL_SOCKET, SO_SNDBUF) == EPERM_, "setsockopt");
}

static void test_prctl(void) {
  static const uint64_t bad[] = {
    PR_SET_PDEATHSIG, PR_SET_DUMPABLE,        PR_SET_SECCOMP, PR_SET_MM,
    PR_SET_PTRACER,   PR_SET_CHILD_SUBREAPER, PR_CAP_AMBIENT, 67 /* PR_SET_MEMORY_MERGE */};
  bool refused = true;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    refused = refused && SEALED(__NR_prctl, bad[i]) == EPERM_;
  point(SEALED(__NR_prctl, PR_SET_NAME) == PASS, "prctl: names");
  point(refused, "prctl: what changes the process");
  point(SEALED(__NR_membarrier, 8) == PASS && SEALED(__NR_membarrier, 1) == EPERM_ &&
          SEALED(__NR_membarrier, 2) == EPERM_,
        "membarrier: private forms only");
}

static void test_stack_of_two(void) {
  point(SEALED(__NR_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC) == PASS, "one more filter");
  point(SEALED(__NR_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER) == EPERM_, "no listener");
  point(SEALED(__NR_seccomp, SECCOMP_SET_MODE_STRICT, 0) == EPERM_, "no strict mode");
  point(SEALED(__NR_recvmsg, 3) == PASS && SEALED(__NR_sendmsg, 3) == PASS, "messages before the job");
  point(CLOSED(__NR_recvmsg, 3) == EPERM_ && CLOSED(__NR_sendmsg, 3) == EPERM_, "no messages after");
  point(CLOSED(__NR_seccomp, 1) == EPERM_, "no filter after");
  point(CLOSED(__NR_prlimit64, 0, 7, 0, 1) == PASS, "limits can be read after");
  point(CLOSED(__NR_prlimit64, 0, 7, 0x1000) == EPERM_ && CLOSED(__NR_prlimit64, 0, 7, 0x100000000) == EPERM_,
        "limits cannot be set after");
  bool rest = true;
  for (uint32_t number = 0; number < 512; number++)
    if (number != __NR_recvmsg && number != __NR_sendmsg && number != __NR_seccomp && number != __NR_prlimit64)
      rest = rest && CLOSED(number, ~0ull, ~0ull, ~0ull) == PASS;
  point(rest, "the small filter leaves all else to the large one");
}

static void test_no_room(void) {
  struct sock_filter guarded[65];
  bool safe = true;
  for (size_t max = 0; max < 64; max++) {
    memset(guarded, 0x5a, sizeof guarded);
    safe = safe && cell_filter_seal(guarded, max, SELF, true) == -E2BIG && guarded[max].k == 0x5a5a5a5a;
  }
  point(safe, "a program that does not fit writes nothing beyond its room");
}

int main(void) {
  seal_length = cell_filter_seal(seal, CELL_FILTER_MAX, SELF, true);
  small_length = cell_filter_close(small, CELL_FILTER_MAX);
  test_table();
  test_architectures();
  test_processes();
  test_memory();
  test_descriptors();
  test_sockets();
  test_prctl();
  test_stack_of_two();
  test_no_room();
  printf("1..%d\n", points);
  return failures != 0;
}
