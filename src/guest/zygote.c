// zygote.c: the life of a zygote and of its cells, whatever the language.
//
// Caller: guest_node.c and guest_python.c, from the runtime's main thread; and
// keeper.c, whose spawner plays the zygote in a cold start. The zygote blocks
// in serve() and never sees a job: guest_serve returns only in a new cell.
//
// A dead cell is reported to the keeper and reaped only by its consent
// (ORDER_REAP), so that its pid cannot belong to anything else before.
#include "guest.h"
#include "inmate.h"
#include "report.h"
#include "spawner.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { UNREAPED_MAX = 64 }; // deaths told and not yet answered

static struct cell_plan plan;

static struct {
  uint32_t cell;
  pid_t pid;
  bool told;
} children[PROTOCOL_SLOT_MAX];
static size_t child_count;

_Noreturn void guest_fail(const char *text) {
  struct report report = {.type = REPORT_FAILED};
  report_send(PROTOCOL_FD, &report, text, strnlen(text, 4000), NULL, 0);
  _exit(INMATE_SETUP);
}

// ---- the zygote ----

// V8 marks its heap MADV_DONTFORK; undo that for every mapping. The two that
// refuse (vvar, vsyscall) do not matter.
static int let_memory_fork(char why[256]) {
  FILE *maps = fopen("/proc/self/maps", "re");
  if (!maps)
    return snprintf(why, 256, "zygote: cannot read /proc/self/maps: %s", strerror(errno)), -1;
  char line[1024], mode[8];
  unsigned long from, to;
  int result = 0;
  while (fgets(line, sizeof line, maps)) {
    if (sscanf(line, "%lx-%lx %7s", &from, &to, mode) != 3)
      continue;
    madvise((void *)from, to - from, MADV_DOFORK);
    // Memory that two cells could both write would be a channel between them.
    if (mode[1] == 'w' && mode[3] == 's') {
      line[strcspn(line, "\n")] = 0;
      snprintf(why, 256, "the runtime or a preload shares writable memory with its forks: %.180s", line);
      result = -1;
    }
  }
  fclose(maps);
  return result;
}

static int thread_count(void) {
  int threads = 0;
  DIR *tasks = opendir("/proc/self/task");
  for (struct dirent *entry; tasks && (entry = readdir(tasks));)
    threads += entry->d_name[0] != '.';
  if (tasks)
    closedir(tasks);
  return threads;
}

// Node has two idle threads of its own from the start, which nothing waits for
// under --single-threaded. The library is loaded before any preload.
static int threads_at_boot;
static bool cold; // the guest's own code clears the environment before it serves
__attribute__((constructor)) static void remember_boot(void) {
  threads_at_boot = thread_count();
  cold = getenv(SPAWNER_COLD) != NULL;
}

// A forked child has one thread only, and shares what the zygote has open: a
// preload that started threads or left files or sockets open cannot be served.
static int check_quiet(char why[256]) {
  int threads = thread_count() - threads_at_boot, result = 0;
  if (threads > 0) {
    snprintf(why, 256, "a preload has started %d thread(s), which a forked cell would not have", threads);
    return -1;
  }
  DIR *fds = opendir("/proc/self/fd");
  if (!fds)
    return snprintf(why, 256, "zygote: cannot read /proc/self/fd: %s", strerror(errno)), -1;
  for (struct dirent *entry; (entry = readdir(fds));) {
    int fd = atoi(entry->d_name);
    char path[64], target[256];
    if (fd <= PROTOCOL_FD || fd == dirfd(fds))
      continue;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(path, target, sizeof target - 1);
    if (size < 0)
      continue;
    target[size] = 0;
    // What libuv itself opens at boot; cells get /dev/null in their place.
    if (!strcmp(target, "anon_inode:[eventpoll]") || !strcmp(target, "anon_inode:[eventfd]") ||
        !strncmp(target, "pipe:", 5) || !strcmp(target, "/dev/null"))
      continue;
    snprintf(why, 256, "a preload left a descriptor open: %.200s", target);
    result = -1;
  }
  closedir(fds);
  return result;
}

// No more at once than both sockets hold for certain: the keeper answers each,
// and neither side may ever wait for the other's reading.
static void report_deaths(void) {
  size_t told = 0;
  for (size_t i = 0; i < child_count; i++)
    told += children[i].told;
  for (size_t i = 0; i < child_count && told < UNREAPED_MAX; i++) {
    siginfo_t info = {0};
    struct rusage usage = {0};
    if (children[i].told)
      continue;
    // The raw call gives the usage too; WNOWAIT leaves the zombie, and its pid.
    if (syscall(SYS_waitid, P_PID, children[i].pid, &info, WEXITED | WNOHANG | WNOWAIT, &usage) || !info.si_pid)
      continue;
    struct report report = {.type = REPORT_GONE, .cell = children[i].cell};
    report.wait_status = info.si_code == CLD_EXITED ? (info.si_status & 0xff) << 8 : info.si_status & 0x7f;
    report.cpu_ns = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000u +
                    (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000u;
    report.rss_bytes = (uint64_t)usage.ru_maxrss * 1024u;
    children[i].told = report_send(PROTOCOL_FD, &report, NULL, 0, NULL, 0) == 0;
  }
}

static void reap(uint32_t id) {
  for (size_t i = 0; i < child_count; i++)
    if (children[i].cell == id) {
      waitpid(children[i].pid, NULL, 0);
      children[i] = children[--child_count];
      return;
    }
}

static void on_child(int number) {
  (void)number;
} // only to interrupt ppoll

// In the child: from here on nothing of the zygote may be left behind.
static int begin_cell(uint32_t id, const int job[2], struct cell_error *error) {
  inmate.id = id;
  inmate.far = job[0];
  inmate.job = job[1];
  int keep[] = {PROTOCOL_FD, inmate.far, inmate.job};
  return cell_descriptors(keep, 3, error) || cell_enter(&plan, id, inmate.tmpfs, error);
}

// Makes one cell. Returns 0 in the cell, 1 in the zygote.
static int make_cell(uint32_t id) {
  struct cell_error error = {0};
  int job[2];
  if (child_count == PROTOCOL_SLOT_MAX || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, job)) {
    cell_fail(&error, -(child_count == PROTOCOL_SLOT_MAX ? EAGAIN : errno), "fork", "no room for a further cell");
    report_failure(PROTOCOL_FD, id, &error);
    return 1;
  }
  pid_t pid = cell_fork(&plan, &error);
  if (pid != 0) {
    // Both ends, before the next fork: a sibling must not inherit them.
    close(job[0]);
    close(job[1]);
    if (pid < 0)
      report_failure(PROTOCOL_FD, id, &error);
    else {
      children[child_count].cell = id;
      children[child_count].pid = pid;
      children[child_count++].told = false;
    }
    return 1;
  }
  signal(SIGCHLD, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  if (begin_cell(id, job, &error)) {
    report_failure(PROTOCOL_FD, id, &error);
    _exit(INMATE_SETUP);
  }
  return 0;
}

// Forks cells as the keeper asks. Returns 0 in each cell.
static int serve(void) {
  struct sigaction action = {.sa_handler = on_child, .sa_flags = SA_NOCLDSTOP};
  sigset_t blocked, open;
  sigaction(SIGCHLD, &action, NULL);
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGCHLD);
  sigprocmask(SIG_BLOCK, &blocked, &open);
  sigdelset(&open, SIGCHLD);
  for (;;) {
    struct pollfd source = {.fd = PROTOCOL_FD, .events = POLLIN};
    struct order order;
    // Orders first: what they answer must not pile up behind further reports.
    ssize_t size = recv(PROTOCOL_FD, &order, sizeof order, MSG_DONTWAIT);
    if (size < 0 && errno != EAGAIN)
      continue;
    if (size < 0) {
      report_deaths();
      ppoll(&source, 1, NULL, &open); // or SIGCHLD
      continue;
    }
    if (size != sizeof order)
      _exit(0); // the keeper has gone
    if (order.type == ORDER_REAP)
      reap(order.cell);
    if (order.type == ORDER_FORK && make_cell(order.cell) == 0)
      return 0;
  }
}

static int receive_plan(int fd, char why[256]) {
  struct {
    struct order order;
    struct cell_plan plan;
  } message;
  ssize_t size;
  do
    size = read(fd, &message, sizeof message);
  while (size < 0 && errno == EINTR);
  if (size != sizeof message || message.order.type != ORDER_PLAN)
    return snprintf(why, 256, "zygote: no plan from the keeper: %s", size < 0 ? strerror(errno) : "not a whole one"),
           -1;
  plan = message.plan;
  inmate.plan = &plan;
  inmate.id = message.order.cell;
  return 0;
}

// An unheard word would be waited for.
static int say_ready(const char *runtime, char why[256]) {
  char text[256];
  int size = snprintf(text, sizeof text, "runtime=%s", runtime) + 1;
  struct report report = {.type = REPORT_READY};
  int result = report_send(PROTOCOL_FD, &report, text, (size_t)size, NULL, 0);
  return result ? snprintf(why, 256, "zygote: the keeper cannot be told: %s", strerror(-result)), -1 : 0;
}

// A cold cell has just booted its own runtime, behind all walls but seccomp.
static int resume_cold(char why[256]) {
  struct cell_error error = {0};
  if (receive_plan(SPAWNER_PLAN_FD, why))
    return -1;
  close(SPAWNER_PLAN_FD);
  inmate.job = PROTOCOL_JOB_FD;
  inmate.far = SPAWNER_FAR_FD;
  for (int i = 0; i < 2; i++)
    inmate.tmpfs[i] = fcntl(SPAWNER_TMPFS_FD + i, F_GETFD) < 0 ? -1 : SPAWNER_TMPFS_FD + i;
  if (cell_seal(&plan, &error) == 0)
    return 0;
  report_failure(PROTOCOL_FD, inmate.id, &error);
  _exit(INMATE_SETUP);
}

int guest_serve(const char *runtime, char why[256]) {
  if (cold)
    return resume_cold(why);
  if (receive_plan(PROTOCOL_FD, why) || check_quiet(why) || let_memory_fork(why) || say_ready(runtime, why))
    return -1;
  serve();
  struct cell_error error = {0};
  if (cell_seal(&plan, &error) == 0)
    return 0;
  report_failure(PROTOCOL_FD, inmate.id, &error);
  _exit(INMATE_SETUP);
}

int spawner_serve(const char *runtime, char why[256]) {
  if (receive_plan(PROTOCOL_FD, why) || say_ready(runtime, why))
    return -1;
  return serve();
}

// Plan and identity, in a pipe that keeps them until the cell has booted.
static int plan_pipe(void) {
  struct {
    struct order order;
    struct cell_plan plan;
  } message = {{.type = ORDER_PLAN, .cell = inmate.id}, plan};
  _Static_assert(sizeof message <= 65536, "must fit in a pipe");
  int ends[2];
  if (pipe(ends))
    return -1;
  if (write(ends[1], &message, sizeof message) != (ssize_t)sizeof message)
    return -1;
  close(ends[1]);
  return ends[0];
}

void spawner_cell(int fds[5]) {
  fds[0] = inmate.job;
  fds[1] = inmate.far;
  fds[2] = plan_pipe();
  fds[3] = inmate.tmpfs[0];
  fds[4] = inmate.tmpfs[1];
}
