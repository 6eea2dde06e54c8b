// seccomp.c: the filters. Builds BPF from seccomp_table.h and installs it. Runs
// in the cell; the building is pure, so that test/c executes every program on
// every number.
//
// The kernel walks a new filter once for every system call number, to learn
// which are always allowed; those then cost nothing. A list of comparisons
// makes that walk cost 0.3 ms in each cell, a balanced tree some 20 us.
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#else
#error "no system call table for this architecture"
#endif

// Younger than some headers we are built with; the same number everywhere.
#ifndef __NR_fchmodat2
#define __NR_fchmodat2 452
#endif
#ifndef __NR_memfd_secret
#define __NR_memfd_secret 447
#endif

enum cell_rule {
  ABSENT, // 0: also whatever the table does not name
  ALLOW,
  DENY,
  ARG_FIRST, // from here on an argument decides
  ARG_CLONE = ARG_FIRST,
  ARG_MMAP,
  ARG_MADVISE,
  ARG_FCNTL,
  ARG_IOCTL,
  ARG_PRCTL,
  ARG_SELF,
  ARG_OWN_PID,
  ARG_MEMBARRIER,
  ARG_SOCKETPAIR,
  ARG_SENDTO,
  ARG_GETSOCKOPT,
  ARG_SECCOMP,
  RULE_COUNT,
};

#define CALL(name, rule, why) \
  { __NR_##name, #name, rule, why }
static const struct cell_syscall syscalls[] = {
#include "seccomp_table.h"
};
#undef CALL

const struct cell_syscall *cell_syscalls(size_t *count) {
  *count = sizeof syscalls / sizeof *syscalls;
  return syscalls;
}

const char *cell_rule_name(uint8_t rule) {
  return rule == ALLOW ? "allowed" : rule == DENY ? "EPERM" : rule == ABSENT ? "ENOSYS" : "some arguments";
}

// ---- a program under construction ----

struct program {
  struct sock_filter *code; // borrowed
  size_t length, max;       // length beyond max: it did not fit
  uint32_t self;            // the one process that may be signalled
};

enum { ALLOWED = SECCOMP_RET_ALLOW };
#define REFUSED (SECCOMP_RET_ERRNO | EPERM)
#define UNKNOWN (SECCOMP_RET_ERRNO | ENOSYS)
#define KILLED SECCOMP_RET_KILL_PROCESS

static void emit(struct program *p, uint16_t code, size_t yes, size_t no, uint32_t value) {
  if (yes > UINT8_MAX || no > UINT8_MAX)
    p->length = p->max; // a jump too far: reported as too long
  if (p->length < p->max)
    p->code[p->length] = (struct sock_filter){code, (uint8_t)yes, (uint8_t)no, value};
  p->length++;
}

static void load(struct program *p, size_t offset) {
  emit(p, BPF_LD | BPF_W | BPF_ABS, 0, 0, (uint32_t)offset);
}
static void answer(struct program *p, uint32_t action) {
  emit(p, BPF_RET | BPF_K, 0, 0, action);
}
static void if_equal(struct program *p, uint32_t value, size_t yes, size_t no) {
  emit(p, BPF_JMP | BPF_JEQ | BPF_K, yes, no, value);
}
static void if_bits(struct program *p, uint32_t bits, size_t yes, size_t no) {
  emit(p, BPF_JMP | BPF_JSET | BPF_K, yes, no, bits);
}

// Both halves of an argument; little endian on both architectures. Where the
// kernel takes an int, it ignores the high half, and so must a check.
static void load_low(struct program *p, int argument) {
  load(p, offsetof(struct seccomp_data, args) + (size_t)argument * 8);
}
static void load_high(struct program *p, int argument) {
  load(p, offsetof(struct seccomp_data, args) + (size_t)argument * 8 + 4);
}

// Allowed if the low half of the argument is one of the values.
static void allow_values(struct program *p, int argument, const uint32_t *values, size_t count) {
  load_low(p, argument);
  for (size_t i = 0; i < count; i++)
    if_equal(p, values[i], count - i, 0);
  answer(p, REFUSED);
  answer(p, ALLOWED);
}

// Allowed if a pointer is NULL: nothing is passed.
static void allow_null(struct program *p, int argument) {
  load_low(p, argument);
  if_equal(p, 0, 0, 2);
  load_high(p, argument);
  if_equal(p, 0, 1, 0);
  answer(p, REFUSED);
  answer(p, ALLOWED);
}

// ---- one function per ARG rule; each ends with an answer on every way ----

// What pthread_create asks for (glibc and musl), and it must be a thread. The
// flags that make namespaces, pidfds, tracees or processes are all outside.
static void check_clone(struct program *p) {
  const uint32_t usual = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
                         CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID | CLONE_CHILD_SETTID |
                         CLONE_DETACHED;
  load_low(p, 0);
  if_bits(p, ~usual, 1, 0);
  if_bits(p, CLONE_THREAD, 1, 0);
  answer(p, REFUSED);
  answer(p, ALLOWED);
}

// RLIMIT_DATA does not count shared anonymous memory and stacks that grow; huge
// and locked pages are few and the host's. EPERM, not ENOMEM: it is refused
// whatever memory is left, and must not be taken for a run that is out of it.
static void check_mmap(struct program *p) {
  load_low(p, 3);
  if_bits(p, MAP_GROWSDOWN | MAP_HUGETLB | MAP_LOCKED, 2, 0);
  if_bits(p, MAP_ANONYMOUS, 0, 2);
  if_bits(p, MAP_SHARED, 0, 1); // of MAP_SHARED_VALIDATE it is a bit, too
  answer(p, REFUSED);
  answer(p, ALLOWED);
}

static void check_madvise(struct program *p) {
  load_low(p, 2);
  if_equal(p, MADV_MERGEABLE, 0, 1);
  answer(p, REFUSED);
  answer(p, ALLOWED);
}

// Left out: F_SETOWN(_EX), F_SETSIG (signals to any process of the same uid),
// leases and notifications, F_SETPIPE_SZ (kernel memory). Record locks stay,
// because sqlite needs them; two cells can signal each other with those they
// take on a file both have, as on /dev/null.
static void check_fcntl(struct program *p) {
  static const uint32_t commands[] = {
    F_DUPFD,  F_DUPFD_CLOEXEC, F_GETFD,     F_SETFD,      F_GETFL,      F_GETLK,     F_SETLK,
    F_SETLKW, F_OFD_GETLK,     F_OFD_SETLK, F_OFD_SETLKW, F_GETPIPE_SZ, F_GET_SEALS,
  };
  load_low(p, 1);
  if_equal(p, F_SETFL, 0, 4);
  load_low(p, 2);
  if_bits(p, O_ASYNC, 0, 1);
  answer(p, REFUSED);
  answer(p, ALLOWED);
  allow_values(p, 1, commands, sizeof commands / sizeof *commands);
}

// The kernel takes the command as 32 bits; a high half cannot hide another.
static void check_ioctl(struct program *p) {
  static const uint32_t commands[] = {
    TCGETS,     TIOCGWINSZ, FIONREAD, FIONBIO, FIOCLEX, FIONCLEX,
    0x802c542a, // TCGETS2: isatty of newer libcs
  };
  allow_values(p, 1, commands, sizeof commands / sizeof *commands);
}

static void check_prctl(struct program *p) {
  static const uint32_t options[] = {
    PR_SET_NAME, PR_GET_NAME, PR_GET_DUMPABLE, PR_GET_NO_NEW_PRIVS, PR_GET_SECCOMP, PR_CAPBSET_READ, PR_GET_TIMERSLACK,
    0x53564d41, // PR_SET_VMA: V8 and libc name their mappings
  };
  allow_values(p, 0, options, sizeof options / sizeof *options);
}

static void check_self(struct program *p) {
  allow_values(p, 0, &p->self, 1);
}

static void check_own_pid(struct program *p) {
  static const uint32_t zero = 0;
  allow_values(p, 0, &zero, 1);
}

static void check_membarrier(struct program *p) {
  static const uint32_t commands[] = {
    0,       // QUERY
    8,   16, // PRIVATE_EXPEDITED and its registration
    32,  64, // PRIVATE_EXPEDITED_SYNC_CORE and its registration
    128, 256 // PRIVATE_EXPEDITED_RSEQ and its registration
  };
  allow_values(p, 0, commands, sizeof commands / sizeof *commands);
}

static void check_socketpair(struct program *p) {
  static const uint32_t family = AF_UNIX;
  allow_values(p, 0, &family, 1);
}

static void check_getsockopt(struct program *p) {
  static const uint32_t options[] = {SO_TYPE,   SO_ERROR,    SO_SNDBUF,     SO_RCVBUF,
                                     SO_DOMAIN, SO_PROTOCOL, SO_ACCEPTCONN, SO_REUSEADDR};
  load_low(p, 1);
  if_equal(p, SOL_SOCKET, 1, 0);
  answer(p, REFUSED);
  allow_values(p, 2, options, sizeof options / sizeof *options);
}

// One more filter, for this or all threads; no listener that answers for it.
static void check_seccomp(struct program *p) {
  static const uint32_t flags[] = {0, SECCOMP_FILTER_FLAG_TSYNC};
  load_low(p, 0);
  if_equal(p, SECCOMP_SET_MODE_FILTER, 1, 0);
  answer(p, REFUSED);
  allow_values(p, 1, flags, sizeof flags / sizeof *flags);
}

static void emit_check(struct program *p, enum cell_rule rule) {
  switch (rule) {
  case ARG_CLONE:
    check_clone(p);
    return;
  case ARG_MMAP:
    check_mmap(p);
    return;
  case ARG_MADVISE:
    check_madvise(p);
    return;
  case ARG_FCNTL:
    check_fcntl(p);
    return;
  case ARG_IOCTL:
    check_ioctl(p);
    return;
  case ARG_PRCTL:
    check_prctl(p);
    return;
  case ARG_SELF:
    check_self(p);
    return;
  case ARG_OWN_PID:
    check_own_pid(p);
    return;
  case ARG_MEMBARRIER:
    check_membarrier(p);
    return;
  case ARG_SOCKETPAIR:
    check_socketpair(p);
    return;
  case ARG_SENDTO:
    allow_null(p, 4);
    return; // the destination
  case ARG_GETSOCKOPT:
    check_getsockopt(p);
    return;
  case ARG_SECCOMP:
    check_seccomp(p);
    return;
  default:
    answer(p, REFUSED);
    return; // a rule without a check allows nothing
  }
}

// ---- the tree over the numbers ----

enum { NUMBERS = 512 }; // the highest known number is below; the rest is unknown

struct range { // numbers from first up to the next range's first
  uint32_t first;
  uint8_t rule;
};

static size_t ranges_of_table(struct range ranges[NUMBERS]) {
  uint8_t rules[NUMBERS] = {ABSENT};
  size_t count = 0;
  for (size_t i = 0; i < sizeof syscalls / sizeof *syscalls; i++)
    if (syscalls[i].number >= 0 && syscalls[i].number < NUMBERS)
      rules[syscalls[i].number] = syscalls[i].rule;
  for (uint32_t number = 0; number < NUMBERS; number++)
    if (number == 0 || rules[number] != rules[number - 1])
      ranges[count++] = (struct range){number, rules[number]};
  return count;
}

// A leaf answers, or jumps to its rule's check, whose place is not known yet:
// the jump holds the rule until emit_checks has put it down.
static void emit_leaf(struct program *p, uint8_t rule) {
  if (rule >= ARG_FIRST)
    emit(p, BPF_JMP | BPF_JA, 0, 0, rule);
  else
    answer(p, rule == ALLOW ? ALLOWED : rule == DENY ? REFUSED : UNKNOWN);
}

static void emit_tree(struct program *p, const struct range *ranges, size_t count) {
  if (count == 1) {
    emit_leaf(p, ranges->rule);
    return;
  }
  size_t half = count / 2, fork = p->length;
  emit(p, BPF_JMP | BPF_JGE | BPF_K, 0, 0, ranges[half].first);
  emit_tree(p, ranges, half);
  size_t distance = p->length - fork - 1;
  if (distance > UINT8_MAX)
    p->length = p->max + 1;
  else if (fork < p->max)
    p->code[fork].jt = (uint8_t)distance;
  emit_tree(p, ranges + half, count - half);
}

static void emit_checks(struct program *p, size_t tree_start) {
  size_t tree_end = p->length;
  for (uint8_t rule = ARG_FIRST; rule < RULE_COUNT; rule++) {
    size_t place = p->length;
    emit_check(p, rule);
    for (size_t at = tree_start; at < tree_end && at < p->max; at++)
      if (p->code[at].code == (BPF_JMP | BPF_JA) && p->code[at].k == rule && p->code[at].jf == 0) {
        p->code[at].k = (uint32_t)(place - at - 1);
        p->code[at].jf = 1; // placed; JA ignores it, and it is cleared below
      }
  }
  for (size_t at = tree_start; at < tree_end && at < p->max; at++)
    if (p->code[at].code == (BPF_JMP | BPF_JA))
      p->code[at].jf = 0;
}

static int finish(const struct program *p) {
  return p->length <= p->max ? (int)p->length : -E2BIG;
}

int cell_filter_seal(struct sock_filter *code, size_t max, pid_t self) {
  struct program p = {code, 0, max, (uint32_t)self};
  struct range ranges[NUMBERS];
  size_t count = ranges_of_table(ranges);

  // Another architecture's numbers mean other calls; so do x32's, which come
  // as the same architecture with a bit set.
  load(&p, offsetof(struct seccomp_data, arch));
  if_equal(&p, NATIVE_ARCH, 1, 0);
  answer(&p, KILLED);
  load(&p, offsetof(struct seccomp_data, nr));
  emit(&p, BPF_JMP | BPF_JGE | BPF_K, 0, 1, 0x40000000);
  answer(&p, KILLED);
  emit(&p, BPF_JMP | BPF_JGE | BPF_K, 0, 1, NUMBERS);
  answer(&p, UNKNOWN);

  size_t tree_start = p.length;
  emit_tree(&p, ranges, count);
  emit_checks(&p, tree_start);
  return finish(&p);
}

// Stacked on the large one, which has seen to the architecture; of two answers
// the kernel takes the stricter.
int cell_filter_close(struct sock_filter *code, size_t max) {
  struct program p = {code, 0, max, 0};
  load(&p, offsetof(struct seccomp_data, nr));
  if_equal(&p, __NR_recvmsg, 5, 0);
  if_equal(&p, __NR_sendmsg, 4, 0);
  if_equal(&p, __NR_seccomp, 3, 0);
  if_equal(&p, __NR_prlimit64, 0, 1);
  emit(&p, BPF_JMP | BPF_JA, 0, 0, 2);
  answer(&p, ALLOWED);
  answer(&p, REFUSED);
  allow_null(&p, 2); // prlimit64's new limit
  return finish(&p);
}

int cell_filter_install(const struct sock_filter *code, int length) {
  struct sock_fprog program = {(unsigned short)length, (struct sock_filter *)code};
  long result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
  if (result < 0)
    return -errno;
  return result > 0 ? -EBUSY : 0; // a thread that has a filter of its own
}

int cell_zygote_filter(struct cell_error *error) {
  struct sock_filter code[8];
  struct program p = {code, 0, sizeof code / sizeof *code, 0};
  load(&p, offsetof(struct seccomp_data, nr));
  if_equal(&p, __NR_io_uring_setup, 0, 1);
  answer(&p, UNKNOWN);
  answer(&p, ALLOWED);
  // Nothing a zygote executes is to gain anything; and without it a filter
  // takes CAP_SYS_ADMIN.
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
    return cell_fail(error, errno, "zygote filter", "no_new_privs: %s", strerror(errno));
  int result = cell_filter_install(code, finish(&p));
  return result < 0 ? cell_fail(error, result, "zygote filter", "%s", strerror(-result)) : 0;
}
