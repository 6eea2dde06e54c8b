// sources: src/guest/where.c src/guest/report.c src/cell/*.c
// The zygote's reader of orders: any of them, in any order, for cells that live,
// are dead, or never were. Forks and deaths are ours; the book-keeping is its own.
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../src/guest/guest.h"
#include "../../src/guest/inmate.h"
#include "../../src/guest/report.h"
#include "fuzz.h"

enum { FIRST_PID = 5000, PIDS = 4096 };

struct inmate inmate; // inmate.c's
static struct feed feed;
static jmp_buf ended;
static enum { FREE, ALIVE, DEAD } process[PIDS];
static int made, open_ends;

static ssize_t take_recv(int fd, void *to, size_t size, int flags) {
  struct order order = {0};
  (void)fd, (void)flags;
  if (!feed.left)
    return 0;
  uint8_t choice = feed_byte(&feed);
  if (choice % 8 == 0) {
    errno = choice & 16 ? EINTR : EAGAIN;
    return -1;
  }
  order.type = choice % 8 < 4 ? ORDER_FORK : choice % 8 < 7 ? ORDER_REAP : choice >> 4;
  order.cell = feed_byte(&feed);
  memcpy(to, &order, size < sizeof order ? size : sizeof order);
  return choice == 255 ? 5 : (ssize_t)sizeof order;
}

static pid_t take_fork(const struct cell_plan *plan, struct cell_error *error) {
  (void)plan;
  if (made == PIDS || feed_byte(&feed) % 16 == 0)
    return cell_fail(error, -EAGAIN, "fork", "on purpose"), -EAGAIN;
  process[made] = ALIVE;
  return FIRST_PID + made++;
}

static int take_pair(int domain, int type, int protocol, int ends[2]) {
  (void)domain, (void)type, (void)protocol;
  if (feed_byte(&feed) % 16 == 0)
    return errno = EMFILE, -1;
  ends[0] = ends[1] = 100;
  open_ends += 2;
  return 0;
}

static int take_close(int fd) {
  (void)fd;
  open_ends--;
  return 0;
}

// waitid, the one raw call here: some have died meanwhile.
static long take_syscall(long number, ...) {
  va_list arguments;
  va_start(arguments, number);
  (void)va_arg(arguments, int);
  int pid = va_arg(arguments, int);
  siginfo_t *info = va_arg(arguments, siginfo_t *);
  va_end(arguments);
  MUST(number == SYS_waitid && pid >= FIRST_PID && pid < FIRST_PID + made && process[pid - FIRST_PID] != FREE);
  if (process[pid - FIRST_PID] == ALIVE && feed_byte(&feed) % 2)
    process[pid - FIRST_PID] = DEAD;
  info->si_pid = process[pid - FIRST_PID] == DEAD ? pid : 0;
  info->si_code = CLD_KILLED;
  return 0;
}

static pid_t take_waitpid(pid_t pid, int *status, int options) {
  (void)status, (void)options;
  MUST(pid >= FIRST_PID && pid < FIRST_PID + made && process[pid - FIRST_PID] != FREE); // each once
  process[pid - FIRST_PID] = FREE;
  return pid;
}

static int take_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *wait, const sigset_t *mask) {
  (void)fds, (void)count, (void)wait, (void)mask;
  return 1;
}

_Noreturn static void take_exit(int code) {
  longjmp(ended, code + 1);
}

#define recv take_recv
#define cell_fork take_fork
#define socketpair take_pair
#define close take_close
#define syscall take_syscall
#define waitpid take_waitpid
#define ppoll take_ppoll
#define _exit take_exit
#define sigprocmask(how, set, old) (void)(set)
#define sigaction(number, action, old) (void)(action)
#include "../../src/guest/zygote.c"
#undef close
#undef waitpid
#undef syscall

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  feed = (struct feed){data, size};
  memset(process, 0, sizeof process);
  child_count = 0;
  made = open_ends = 0;
  if (setjmp(ended) == 0)
    MUST(serve() != 0); // a cell is never made here: it leaves by _exit
  MUST(open_ends == 0 && child_count <= PROTOCOL_SLOT_MAX);
  int living = 0;
  for (int i = 0; i < made; i++)
    living += process[i] != FREE;
  MUST(living == (int)child_count);
  return 0;
}
