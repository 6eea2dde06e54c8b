// seccomp.c: the filters. Builds BPF from seccomp_table.h and installs it. Runs
// in the cell; the building is pure, so that test/c executes every program on
// every number.
//
// The kernel walks a new filter once for every system call number, to learn
// which are always allowed; those then cost nothing. A list of comparisons
// makes that walk cost 0.3 ms in each cell, a balanced tree some 20 us. And it
// compiles the filter, at half a microsecond an instruction: so answers are shared.
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/close_range.h>
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
  SCRATCH,   // ALLOW behind own mounts, else DENY: Landlock does not judge these
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
  ARG_CLOSE_RANGE,
  ARG_RECVFROM,
  // of no number
  FOREIGN, // another architecture's numbers, and x32's
  CLOSING, // the small filter
  RULE_COUNT,
};

#ifndef CODE_JAIL_WITHOUT_RULE
#define CODE_JAIL_WITHOUT_RULE RULE_COUNT // see internal.h
#endif

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
  return rule == ALLOW     ? "allowed"
         : rule == SCRATCH ? "behind own mounts"
         : rule == DENY    ? "EPERM"
         : rule == ABSENT  ? "ENOSYS"
                           : "some arguments";
}

// ---- a program under construction ----
//
// Instructions jump to labels, which are resolved when all are placed. Every
// jump of BPF goes forward, by at most 255 instructions: so the tree comes
// first, then the checks, then the few answers, which all share.

enum label {
  NEXT, // the instruction that follows
  TO_ALLOW,
  TO_REFUSE,
  TO_UNKNOWN,
  TO_NOTHING, // success, and nothing is done
  TO_KILL,
  TO_CHECK, // + rule
  FIRST_FREE = TO_CHECK + RULE_COUNT,
  LABELS_MAX = CELL_FILTER_MAX,
};

struct program {
  struct sock_filter *code;                           // borrowed
  size_t length, max;                                 // length beyond max: it did not fit
  uint16_t yes[CELL_FILTER_MAX], no[CELL_FILTER_MAX]; // labels, by instruction
  uint16_t place[LABELS_MAX];
  uint16_t labels;
};

static void begin(struct program *p, struct sock_filter *code, size_t max) {
  memset(p, 0, sizeof *p);
  p->code = code;
  p->max = max < CELL_FILTER_MAX ? max : CELL_FILTER_MAX;
  p->labels = FIRST_FREE;
}

static void emit(struct program *p, uint16_t code, uint16_t yes, uint16_t no, uint32_t value) {
  if (p->length < p->max) {
    p->code[p->length] = (struct sock_filter){code, 0, 0, value};
    p->yes[p->length] = yes;
    p->no[p->length] = no;
  }
  p->length++;
}

static void place(struct program *p, uint16_t label) {
  if (label < LABELS_MAX)
    p->place[label] = (uint16_t)p->length;
}

static void answer(struct program *p, uint16_t label, uint32_t action) {
  place(p, label);
  emit(p, BPF_RET | BPF_K, NEXT, NEXT, action);
}

static bool resolve(const struct program *p, size_t at, uint16_t label, uint8_t *jump) {
  size_t distance = label == NEXT ? 0 : p->place[label] - at - 1;
  *jump = (uint8_t)distance;
  return label == NEXT || (label < LABELS_MAX && p->place[label] > at && distance <= UINT8_MAX);
}

// Answers last, then the jumps. The length, or -E2BIG.
static int end(struct program *p) {
  answer(p, TO_ALLOW, SECCOMP_RET_ALLOW);
  answer(p, TO_REFUSE, SECCOMP_RET_ERRNO | EPERM);
  answer(p, TO_UNKNOWN, SECCOMP_RET_ERRNO | ENOSYS);
  answer(p, TO_NOTHING, SECCOMP_RET_ERRNO | 0);
  answer(p, TO_KILL, SECCOMP_RET_KILL_PROCESS);
  if (p->length > p->max)
    return -E2BIG;
  for (size_t at = 0; at < p->length; at++)
    if (!resolve(p, at, p->yes[at], &p->code[at].jt) || !resolve(p, at, p->no[at], &p->code[at].jf))
      return -E2BIG;
  return (int)p->length;
}

static void load(struct program *p, size_t offset) {
  emit(p, BPF_LD | BPF_W | BPF_ABS, NEXT, NEXT, (uint32_t)offset);
}
static void if_equal(struct program *p, uint32_t value, uint16_t yes, uint16_t no) {
  emit(p, BPF_JMP | BPF_JEQ | BPF_K, yes, no, value);
}
static void if_bits(struct program *p, uint32_t bits, uint16_t yes, uint16_t no) {
  emit(p, BPF_JMP | BPF_JSET | BPF_K, yes, no, bits);
}
static void if_from(struct program *p, uint32_t value, uint16_t yes, uint16_t no) {
  emit(p, BPF_JMP | BPF_JGE | BPF_K, yes, no, value);
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
    if_equal(p, values[i], TO_ALLOW, i + 1 < count ? NEXT : TO_REFUSE);
}

// Allowed if a pointer is NULL: nothing is passed.
static void allow_null(struct program *p, int argument) {
  load_low(p, argument);
  if_equal(p, 0, NEXT, TO_REFUSE);
  load_high(p, argument);
  if_equal(p, 0, TO_ALLOW, TO_REFUSE);
}

// ---- one function per ARG rule; on every way it ends at an answer ----

// What pthread_create asks for (glibc and musl), and it must be a thread. The
// flags that make namespaces, pidfds, tracees or processes are all outside.
static void check_clone(struct program *p) {
  const uint32_t usual = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
                         CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID | CLONE_CHILD_SETTID |
                         CLONE_DETACHED;
  load_low(p, 0);
  if_bits(p, ~usual, TO_REFUSE, NEXT);
  // A thread with a descriptor table of its own would multiply RLIMIT_NOFILE.
  if_bits(p, CLONE_VM, NEXT, TO_REFUSE);
  if_bits(p, CLONE_FILES, NEXT, TO_REFUSE);
  if_bits(p, CLONE_THREAD, TO_ALLOW, TO_REFUSE);
}

// RLIMIT_DATA does not count shared anonymous memory and stacks that grow; huge
// and locked pages are few and the host's. EPERM, not ENOMEM: it is refused
// whatever memory is left, and must not be taken for a run that is out of it.
static void check_mmap(struct program *p) {
  load_low(p, 3);
  if_bits(p, MAP_GROWSDOWN | MAP_HUGETLB | MAP_LOCKED, TO_REFUSE, NEXT);
  if_bits(p, MAP_ANONYMOUS, NEXT, TO_ALLOW);
  if_bits(p, MAP_SHARED, TO_REFUSE, TO_ALLOW); // of MAP_SHARED_VALIDATE it is a bit, too
}

// What allocators use. Not what pages out, collapses or merges: the interpreter's
// pages are everybody's, and what one cell does to them another can time.
static void check_madvise(struct program *p) {
  static const uint32_t advice[] = {
    MADV_NORMAL, MADV_RANDOM,     MADV_SEQUENTIAL, MADV_DONTNEED, MADV_FREE,   MADV_HUGEPAGE,
    MADV_DOFORK, MADV_NOHUGEPAGE, MADV_DONTFORK,   MADV_DONTDUMP, MADV_DODUMP,
    23, // MADV_POPULATE_WRITE, with which a new cell takes its own pages
  };
  allow_values(p, 2, advice, sizeof advice / sizeof *advice);
}

// Left out: F_SETOWN(_EX), F_SETSIG (signals to any process of the same uid),
// leases and notifications, F_SETPIPE_SZ (kernel memory). Record locks, which
// sqlite wants, succeed and do nothing: no process but the cell has its files,
// while the kernel bounds the number of locks nowhere, and a hundred thousand of
// them on /dev/null or the C library, which are the host's own, stalled every
// close() of these on the whole machine.
static void check_fcntl(struct program *p) {
  static const uint32_t commands[] = {
    F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL, F_GETLK, F_GETPIPE_SZ, F_GET_SEALS,
  };
  uint16_t other = p->labels++;
  load_low(p, 1);
  if_equal(p, F_SETFL, NEXT, other);
  load_low(p, 2);
  if_bits(p, O_ASYNC, TO_REFUSE, TO_ALLOW);
  place(p, other);
  if_equal(p, F_SETLK, TO_NOTHING, NEXT);
  if_equal(p, F_SETLKW, TO_NOTHING, NEXT);
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
    PR_SET_NAME,    PR_GET_NAME,     PR_GET_DUMPABLE,   PR_GET_NO_NEW_PRIVS,
    PR_GET_SECCOMP, PR_CAPBSET_READ, PR_GET_TIMERSLACK, 0x53564d41, // PR_SET_VMA: V8 and libc name mappings
  };
  allow_values(p, 0, options, sizeof options / sizeof *options);
}

static void check_membarrier(struct program *p) {
  static const uint32_t commands[] = {
    0,        // QUERY
    8,   16,  // PRIVATE_EXPEDITED and its registration
    32,  64,  // PRIVATE_EXPEDITED_SYNC_CORE and its registration
    128, 256, // PRIVATE_EXPEDITED_RSEQ and its registration
  };
  allow_values(p, 0, commands, sizeof commands / sizeof *commands);
}

static void check_getsockopt(struct program *p) {
  static const uint32_t options[] = {SO_TYPE,   SO_ERROR,    SO_SNDBUF,     SO_RCVBUF,
                                     SO_DOMAIN, SO_PROTOCOL, SO_ACCEPTCONN, SO_REUSEADDR};
  load_low(p, 1);
  if_equal(p, SOL_SOCKET, NEXT, TO_REFUSE);
  allow_values(p, 2, options, sizeof options / sizeof *options);
}

// One more filter, for this or all threads; no listener that answers for it.
static void check_seccomp(struct program *p) {
  static const uint32_t flags[] = {0, SECCOMP_FILTER_FLAG_TSYNC};
  load_low(p, 0);
  if_equal(p, SECCOMP_SET_MODE_FILTER, NEXT, TO_REFUSE);
  allow_values(p, 1, flags, sizeof flags / sizeof *flags);
}

static void emit_checks(struct program *p, uint32_t self) {
  static const uint32_t zero = 0, unix_family = AF_UNIX;
  for (int rule = ARG_FIRST; rule < RULE_COUNT; rule++) {
    place(p, (uint16_t)(TO_CHECK + rule));
    switch ((enum cell_rule)rule) {
    case ARG_CLONE:
      check_clone(p);
      break;
    case ARG_MMAP:
      check_mmap(p);
      break;
    case ARG_MADVISE:
      check_madvise(p);
      break;
    case ARG_FCNTL:
      check_fcntl(p);
      break;
    case ARG_IOCTL:
      check_ioctl(p);
      break;
    case ARG_PRCTL:
      check_prctl(p);
      break;
    case ARG_MEMBARRIER:
      check_membarrier(p);
      break;
    case ARG_GETSOCKOPT:
      check_getsockopt(p);
      break;
    case ARG_SECCOMP:
      check_seccomp(p);
      break;
    case ARG_SELF:
      allow_values(p, 0, &self, 1);
      break;
    case ARG_OWN_PID:
      allow_values(p, 0, &zero, 1);
      break;
    case ARG_SOCKETPAIR:
      allow_values(p, 0, &unix_family, 1);
      break;
    case ARG_CLOSE_RANGE:
      load_low(p, 2);
      if_bits(p, CLOSE_RANGE_UNSHARE, TO_REFUSE, TO_ALLOW);
      break;
    case ARG_RECVFROM:
      load_low(p, 3);
      if_bits(p, MSG_OOB, TO_REFUSE, TO_ALLOW);
      break;
    case ARG_SENDTO:
      load_low(p, 3);
      if_bits(p, MSG_OOB, TO_REFUSE, NEXT);
      allow_null(p, 4);
      break; // the destination
    default:
      break;
    }
  }
}

// ---- the tree over the numbers ----

enum { NUMBERS = 512 }; // the highest known number is below; the rest is unknown

struct range { // numbers from first up to the next range's first
  uint32_t first;
  uint8_t rule;
};

static size_t ranges_of_table(struct range ranges[NUMBERS], bool mounts) {
  uint8_t rules[NUMBERS] = {ABSENT};
  size_t count = 0;
  for (size_t i = 0; i < sizeof syscalls / sizeof *syscalls; i++)
    if (syscalls[i].number >= 0 && syscalls[i].number < NUMBERS)
      rules[syscalls[i].number] = syscalls[i].rule != SCRATCH ? syscalls[i].rule : mounts ? ALLOW : DENY;
  for (uint32_t number = 0; number < NUMBERS; number++)
    if (number == 0 || rules[number] != rules[number - 1])
      ranges[count++] = (struct range){number, rules[number]};
  return count;
}

static uint16_t label_of(uint8_t rule) {
  return rule == ALLOW || rule == CODE_JAIL_WITHOUT_RULE ? TO_ALLOW
         : rule == DENY                                  ? TO_REFUSE
         : rule == ABSENT                                ? TO_UNKNOWN
                                                         : TO_CHECK + rule;
}

// Halves the ranges until one is left; that one is no instruction, but where
// the last comparison leads. At least two ranges.
static void emit_tree(struct program *p, const struct range *ranges, size_t count) {
  const size_t half = count / 2;
  uint16_t lower = half == 1 ? label_of(ranges[0].rule) : NEXT;
  uint16_t upper = count - half == 1 ? label_of(ranges[half].rule) : p->labels++;
  if_from(p, ranges[half].first, upper, lower);
  if (half > 1)
    emit_tree(p, ranges, half);
  if (count - half > 1) {
    place(p, upper);
    emit_tree(p, ranges + half, count - half);
  }
}

int cell_filter_seal(struct sock_filter *code, size_t max, pid_t self, bool mounts) {
  struct program p;
  struct range ranges[NUMBERS];
  size_t count = ranges_of_table(ranges, mounts);
  const uint16_t foreign = CODE_JAIL_WITHOUT_RULE == FOREIGN ? TO_ALLOW : TO_KILL;
  begin(&p, code, max);
  // Another architecture's numbers mean other calls; so do x32's, which come
  // as the same architecture with a bit set.
  load(&p, offsetof(struct seccomp_data, arch));
  if_equal(&p, NATIVE_ARCH, NEXT, foreign);
  load(&p, offsetof(struct seccomp_data, nr));
  if_from(&p, 0x40000000, foreign, NEXT);
  if_from(&p, NUMBERS, TO_UNKNOWN, NEXT);
  emit_tree(&p, ranges, count);
  emit_checks(&p, (uint32_t)self);
  return end(&p);
}

// Stacked on the large one, which has seen to the architecture; of two answers
// the kernel takes the stricter.
int cell_filter_close(struct sock_filter *code, size_t max) {
  struct program p;
  if (CODE_JAIL_WITHOUT_RULE == CLOSING)
    return 0;
  begin(&p, code, max);
  load(&p, offsetof(struct seccomp_data, nr));
  if_equal(&p, __NR_recvmsg, TO_REFUSE, NEXT);
  if_equal(&p, __NR_sendmsg, TO_REFUSE, NEXT);
  if_equal(&p, __NR_seccomp, TO_REFUSE, NEXT);
  if_equal(&p, __NR_prlimit64, NEXT, TO_ALLOW);
  allow_null(&p, 2); // its new limit
  return end(&p);
}
