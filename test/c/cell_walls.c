// sources: src/cell/cell.c src/cell/cgroup.c src/cell/descriptors.c src/cell/init.c src/cell/landlock.c src/cell/namespaces.c src/cell/plan.c src/cell/rlimits.c src/cell/root.c src/cell/filters.c src/cell/seccomp.c src/cell/verify.c
//
// Real cells, and what a process in one can no longer do. Every refusal is
// tried outside first, where it must work (the control), and every tier that
// this machine has is built: by root, unprivileged, and without namespaces.
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../src/cell/internal.h"

enum { MEMORY = 48 << 20, SCRATCH = 4 << 20, POINTS_MAX = 512, NOBODY = 65534 };

// Written by cells, printed by the test: shared memory made before any wall.
static struct {
  int count;
  struct {
    bool good;
    char name[104];
  } point[POINTS_MAX];
} * board;
static const char *tier;
static int printed, failures;
static pid_t victim;       // a process outside
static int leaked[2];      // a pipe that no cell may keep
static int credentials[2]; // a socket on which the kernel says who writes

__attribute__((format(printf, 2, 3))) static void point(bool good, const char *format, ...) {
  if (board->count == POINTS_MAX)
    return;
  char text[80];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  board->point[board->count].good = good;
  snprintf(board->point[board->count].name, sizeof board->point->name, "%s: %s", tier, text);
  board->count++;
}

static void print_points(void) {
  if (board->count == POINTS_MAX) {
    printf("not ok %d - more points than the board holds\n", ++printed);
    failures++;
  }
  for (int i = 0; i < board->count; i++) {
    printf("%sok %d - %s\n", board->point[i].good ? "" : "not ", ++printed, board->point[i].name);
    failures += !board->point[i].good;
  }
  board->count = 0;
  fflush(stdout);
}

static int outcome(long result) {
  return result < 0 ? errno : 0;
}

static int opens(const char *path, int flags) {
  int fd = open(path, flags | O_CLOEXEC);
  int result = outcome(fd);
  if (fd >= 0)
    close(fd);
  return result;
}

// ---- attempts: 0 where it worked, else errno ----

static int read_host_file(void) {
  return opens("/etc/passwd", O_RDONLY);
}
static int list_root(void) {
  return opens("/", O_RDONLY | O_DIRECTORY);
}
static int read_mounts_of_self(void) {
  return opens("/proc/self/mountinfo", O_RDONLY);
}
static int read_command_line(void) {
  return opens("/proc/self/cmdline", O_RDONLY);
}
static int read_name_of_first(void) {
  return opens("/proc/1/comm", O_RDONLY);
}
static int read_host_name(void) {
  return opens("/proc/sys/kernel/hostname", O_RDONLY);
}
static int closed(int fd) {
  int result = outcome(fd);
  if (fd >= 0)
    close(fd);
  return result;
}
static int internet_socket(void) {
  return closed(socket(AF_INET, SOCK_STREAM, 0));
}
static int unix_socket(void) {
  return closed(socket(AF_UNIX, SOCK_STREAM, 0));
}
static int signal_outside(void) {
  return outcome(kill(victim, 0));
}
static int signal_group(void) {
  return outcome(kill(0, 0));
}
static int another_process(void) {
  pid_t pid = fork();
  if (pid == 0)
    _exit(0);
  int result = outcome(pid);
  if (pid > 0)
    waitpid(pid, NULL, 0);
  return result;
}
static int shared_memory(void) {
  void *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED)
    return errno;
  munmap(map, 4096);
  return 0;
}
static int memory_file(void) {
  return closed((int)syscall(SYS_memfd_create, "x", 0));
}
static int own_signal_on_input(void) {
  int pair[2];
  if (pipe(pair))
    return errno;
  int result = outcome(fcntl(pair[0], F_SETOWN, getpid()));
  close(pair[0]);
  close(pair[1]);
  return result;
}
static int pidfd_of_self(void) {
  return closed((int)syscall(SYS_pidfd_open, getpid(), 0));
}
static int death_signal(void) {
  return outcome(prctl(PR_SET_PDEATHSIG, 0));
}
static int affinity(void) {
  unsigned long cores[16];
  long size = syscall(SYS_sched_getaffinity, 0, sizeof cores, cores);
  return size < 0 ? errno : outcome(syscall(SYS_sched_setaffinity, 0, size, cores));
}
static int priority(void) {
  return outcome(setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0)));
}
static int lock_file(void) {
  int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
  int result = fd < 0 ? errno : outcome(syscall(SYS_flock, fd, 2 | 4));
  close(fd);
  return result;
}

static const struct {
  const char *name;
  int (*attempt)(void);
  bool by_landlock; // and by nothing else
} walls[] = {
  {"read a file of the host", read_host_file, false},
  {"list the root", list_root, true},
  {"read its own mounts", read_mounts_of_self, false},
  {"read its own command line", read_command_line, false},
  {"read the name of process 1", read_name_of_first, false},
  {"read the kernel's settings", read_host_name, false},
  {"an internet socket", internet_socket, false},
  {"a Unix socket", unix_socket, false},
  {"signal a process outside", signal_outside, false},
  {"signal its group", signal_group, false},
  {"another process", another_process, false},
  {"shared anonymous memory", shared_memory, false},
  {"a memory file", memory_file, false},
  {"F_SETOWN", own_signal_on_input, false},
  {"a pidfd", pidfd_of_self, false},
  {"a death signal", death_signal, false},
  {"set affinity", affinity, false},
  {"set priority", priority, false},
  {"flock", lock_file, false},
};

static void try_controls(void) {
  for (size_t i = 0; i < sizeof walls / sizeof *walls; i++) {
    int result = walls[i].attempt();
    point(result == 0, "control: %s works outside (%s)", walls[i].name, strerror(result));
  }
}

static void try_walls(const struct cell_plan *plan) {
  for (size_t i = 0; i < sizeof walls / sizeof *walls; i++)
    if (!walls[i].by_landlock || cell_wants(plan, CELL_LANDLOCK))
      point(walls[i].attempt() != 0, "refused: %s", walls[i].name);
}

// ---- what a cell still can do, and its limits ----

static void try_scratch(const struct cell_plan *plan) {
  char block[4096];
  struct statvfs space;
  if (!cell_wants(plan, CELL_MOUNT_NAMESPACE)) {
    point(opens("/tmp/never", O_WRONLY | O_CREAT) != 0, "nowhere to write without a mount namespace");
    return;
  }
  int fd = open("/cell/file", O_RDWR | O_CREAT | O_CLOEXEC, 0700);
  point(fd >= 0 && write(fd, "x", 1) == 1, "writes a file of its own");
  void *map = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
  void *code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
  point(map != MAP_FAILED && code == MAP_FAILED, "maps it, but not as code");
  point(mkdir("/cell/a", 0700) == 0 && rename("/cell/file", "/cell/a/file") == 0, "renames across directories");
  point(mkdir("/other", 0700) < 0 && errno == EROFS, "the root is read-only");
  point(opens("/rt/file", O_WRONLY) == EACCES || opens("/rt/file", O_WRONLY) == EROFS, "a bound file is read-only");
  point(opens("/rt/file", O_RDONLY) == 0 &&
          opens("/canary", O_RDONLY) == (cell_wants(plan, CELL_LANDLOCK) ? EACCES : 0),
        "reads what is named, and behind Landlock nothing else");
  memset(block, 'x', sizeof block);
  size_t written = 0;
  signal(SIGXFSZ, SIG_IGN);
  for (int files = 0; files < 2; files++) {
    char name[32];
    snprintf(name, sizeof name, "/tmp/full%d", files);
    int full = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    for (ssize_t count; (count = write(full, block, sizeof block)) > 0;)
      written += (size_t)count;
    close(full);
  }
  point(written > SCRATCH / 2 && written <= SCRATCH, "its scratch space ends at its size (%zu)", written);
  point(statvfs("/cell", &space) == 0 && space.f_bavail > 0, "/cell is not /tmp");
  int files = 0;
  for (; files < 1000; files++) {
    char name[32];
    snprintf(name, sizeof name, "/cell/f%d", files);
    int made = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (made < 0)
      break;
    close(made);
  }
  point(files > 10 && files < 200, "and at its number of files (%d)", files);
}

static void try_identity(const struct cell_plan *plan, uint32_t cell) {
  struct utsname name;
  struct rlimit core;
  uname(&name);
  point(prctl(PR_GET_DUMPABLE) == 0 && getrlimit(RLIMIT_CORE, &core) == 0 && core.rlim_max == 0, "leaves no core");
  if (cell_has_own_user_namespace(plan))
    point(getuid() == CELL_INSIDE_ID && getgid() == CELL_INSIDE_ID, "has the inside id");
  else if (cell_wants(plan, CELL_SEPARATE_UID))
    point(getuid() == plan->uid_base + cell && getgid() == getuid(), "has the id of its number");
  if (cell_wants(plan, CELL_PID_NAMESPACE)) {
    point(getpid() == 1 && getppid() == 0, "is pid 1 and has no parent");
    point(strcmp(name.nodename, "cell") == 0, "is called cell");
  }
  point(kill(getpid(), 0) == 0 && raise(0) == 0, "may signal itself");
  if (cell_wants(plan, CELL_LANDLOCK))
    point(opens("/proc/self/stat", O_RDONLY) == 0 && opens("/proc/self/statm", O_RDONLY) == 0 &&
            opens("/proc/self/status", O_RDONLY) == 0,
          "sees its own numbers in /proc");
}

static void try_descriptors(void) {
  struct stat null, it;
  point(stat("/dev/null", &null) == 0 && fstat(leaked[1], &it) == 0 && it.st_rdev == null.st_rdev &&
          write(leaked[1], "x", 1) == 1,
        "an inherited descriptor is /dev/null");
  int count = 0, fds[CELL_DESCRIPTORS_MAX];
  while (count < CELL_DESCRIPTORS_MAX && (fds[count] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
    count++;
  point(count > 16 && count < CELL_DESCRIPTORS_MAX, "descriptors end (%d more)", count);
  for (int i = 0; i < count; i++)
    close(fds[i]);
  point(opens("/dev/null", O_WRONLY) == 0 && opens("/dev/urandom", O_RDONLY) == 0, "devices it may have");
}

static bool allocates(size_t bytes) {
  char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return false;
  munmap(memory, bytes);
  return true;
}

static void try_close(const struct cell_plan *plan) {
  struct cell_error error = {0};
  struct msghdr message = {0};
  struct rlimit limit;
  int pair[2];
  point(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0 && send(pair[0], "x", 1, 0) == 1, "a socket pair of its own");
  point(recvmsg(pair[1], &message, MSG_DONTWAIT) == 0, "recvmsg before the job");
  point(allocates(4u * MEMORY), "memory before the job");
  int result = cell_close(plan, MEMORY, 1000, &error);
  point(result == 0, "closes (%s %s)", error.stage, error.cause);
  point(recvmsg(pair[1], &message, MSG_DONTWAIT) < 0 && errno == EPERM, "no recvmsg after");
  point(sendmsg(pair[1], &message, MSG_DONTWAIT) < 0 && errno == EPERM, "no sendmsg after");
  point(allocates(MEMORY - (1 << 20)) && !allocates(MEMORY + (2 << 20)) && errno == ENOMEM, "memory ends at the limit");
  point(getrlimit(RLIMIT_CPU, &limit) == 0 && limit.rlim_max < 600, "processor time ends");
  point(getrlimit(RLIMIT_DATA, &limit) == 0 && setrlimit(RLIMIT_DATA, &limit) < 0 && errno == EPERM,
        "limits are final");
  point(cell_close(plan, MEMORY, 1000, &error) < 0, "closes once");
}

static void say_who(void) {
  // Before cell_close: the socket is the test's own way out.
  if (write(credentials[1], "x", 1) != 1)
    point(false, "credentials: %s", strerror(errno));
}

static void full_cell(const struct cell_plan *plan, uint32_t cell) {
  if (cell == 0) {
    try_walls(plan);
    try_identity(plan, cell);
    try_descriptors();
    try_scratch(plan);
    say_who();
    try_close(plan);
  } else {
    say_who();
  }
}

static void *idle(void *argument) {
  pause();
  return argument;
}

static int fill_threads(void) {
  pthread_attr_t attributes;
  pthread_t thread;
  int count = 1;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 64 << 10);
  while (count < 200 && pthread_create(&thread, &attributes, idle, NULL) == 0)
    count++;
  return count;
}

// ---- making cells ----

struct task {
  struct cell_plan plan;
  void (*body)(const struct cell_plan *plan, uint32_t cell);
  uint32_t cells;
  bool together; // all at once, so that they may hinder each other
};

static int enter_and_seal(struct cell_plan *plan, uint32_t cell, struct cell_error *error) {
  int keep[] = {credentials[1]}, tmpfs[2];
  uint32_t layers;
  int result = cell_descriptors(keep, 1, error);
  if (result == 0)
    result = cell_enter(plan, cell, tmpfs, error);
  if (result == 0)
    point((tmpfs[0] >= 0) == cell_wants(plan, CELL_MOUNT_NAMESPACE) && (tmpfs[0] >= 0) == (tmpfs[1] >= 0),
          "cell %u: scratch space is handed out", cell);
  if (result == 0)
    result = cell_seal(plan, error);
  if (result == 0)
    result = cell_verify(plan, &layers, error);
  if (result == 0 && layers != (plan->want & ~CELL_BIT(CELL_CGROUP)))
    result = cell_fail(error, EIO, "verify", "layers %x of %x", layers, plan->want);
  return result;
}

static int be_init(void *argument) {
  struct task *task = argument;
  struct cell_error error = {0};
  pid_t zygote = fork();
  if (zygote == 0) {
    pid_t cells[4];
    if (cell_zygote_filter(&error) < 0 || syscall(SYS_io_uring_setup, 1, NULL) != -1 || errno != ENOSYS)
      point(false, "the zygote's filter (%s)", error.cause);
    for (uint32_t i = 0; i < task->cells && i < 4; i++) {
      cells[i] = cell_fork(&task->plan, &error);
      if (cells[i] == 0) {
        int result = enter_and_seal(&task->plan, i, &error);
        point(result == 0, "cell %u: enters, seals, verifies (%s %s)", i, error.stage, error.cause);
        if (result == 0)
          task->body(&task->plan, i);
        _exit(0);
      }
      if (cells[i] < 0)
        point(false, "fork: %s %s", error.stage, error.cause);
      if (!task->together)
        waitpid(cells[i], NULL, 0);
      else
        usleep(100000);
    }
    if (task->together)
      for (uint32_t i = 0; i < task->cells; i++) {
        kill(cells[i], SIGKILL);
        waitpid(cells[i], NULL, 0);
      }
    _exit(0);
  }
  waitpid(zygote, NULL, 0);
  return 42;
}

static const struct cell_root_entry base[] = {
  {CELL_ROOT_DIR, "/cell", NULL},
  {CELL_ROOT_DIR, "/tmp", NULL},
  {CELL_ROOT_DIR, "/proc", NULL},
  {CELL_ROOT_DEVICE, "/dev/null", "/dev/null"},
  {CELL_ROOT_DEVICE, "/dev/urandom", "/dev/urandom"},
  {CELL_ROOT_BIND, "/rt/file", "/etc/os-release"},
  {CELL_ROOT_BIND, "/rt/tree", "/usr/share"},
  {CELL_ROOT_FILE, "/etc/made", "text"},
  {CELL_ROOT_LINK, "/rt/link", "/rt/file"},
};
enum { BASE_COUNT = sizeof base / sizeof *base };

static int spawn(struct task *task, const struct cell_root_entry *more, struct cell_error *error) {
  struct cell_root_entry entries[BASE_COUNT + 1];
  memcpy(entries, base, sizeof base);
  if (more)
    entries[BASE_COUNT] = *more;
  struct cell_root root = {entries, BASE_COUNT + (more ? 1 : 0)};
  pid_t init = -1;
  int status = 0;
  int result = cell_outer_spawn(&task->plan, &root, be_init, task, &init, error);
  if (result < 0)
    return result;
  waitpid(init, &status, 0);
  point(WIFEXITED(status) && WEXITSTATUS(status) == 42, "init ends with its function's value");
  return 0;
}

static void name_paths(struct cell_plan *plan) {
  static const char full[] = "/rt\0/etc\0", plain[] = "/usr/share\0";
  if (cell_wants(plan, CELL_OWN_ROOT))
    memcpy(plan->paths, full, sizeof full);
  else
    memcpy(plan->paths, plain, sizeof plain);
}

static int count_lines(const char *path) {
  char *text = calloc(1, 1 << 18);
  int lines = 0;
  if (text && cell_read_file(path, text, 1 << 18) >= 0)
    for (const char *at = text; (at = strchr(at, '\n')); at++)
      lines++;
  free(text);
  return lines;
}

static int count_descriptors(void) {
  int count = 0;
  for (int fd = 0; fd < 1024; fd++)
    count += fcntl(fd, F_GETFD) >= 0;
  return count;
}

// Who wrote, as the kernel saw it from out here.
static struct ucred next_writer(void) {
  struct ucred who = {0};
  char byte, control[CMSG_SPACE(sizeof who)];
  struct iovec part = {&byte, 1};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  if (recvmsg(credentials[0], &message, MSG_DONTWAIT) == 1 && CMSG_FIRSTHDR(&message))
    memcpy(&who, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof who);
  return who;
}

static void test_refusals_of_root(struct task *task) {
  char fifo[64]; // of this run alone: others may be under way
  snprintf(fifo, sizeof fifo, "/tmp/cell_walls.%d.fifo", (int)getpid());
  const struct {
    struct cell_root_entry entry;
    const char *says;
  } bad[] = {
    {{CELL_ROOT_BIND, "/rt/none", "/nonexistent/file"}, "/nonexistent/file"},
    {{CELL_ROOT_BIND, "/rt/fifo", fifo}, "no file or directory"},
    {{CELL_ROOT_BIND, "/rt/null", "/dev/null"}, "no file or directory"},
    {{CELL_ROOT_DEVICE, "/dev/file", "/etc/os-release"}, "no character device"},
    {{CELL_ROOT_BIND, "relative", "/etc/os-release"}, "relative"},
  };
  mkfifo(fifo, 0666);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct cell_error error = {0};
    int mounts = count_lines("/proc/self/mountinfo"), descriptors = count_descriptors();
    int result = spawn(task, &bad[i].entry, &error);
    point(result < 0 && strstr(error.cause, bad[i].says), "a bad root is refused: %.40s", error.cause);
    point(waitpid(-1, NULL, WNOHANG) == -1 && count_lines("/proc/self/mountinfo") == mounts &&
            count_descriptors() == descriptors,
          "and nothing of it is left");
  }
  unlink(fifo);
}

static void crowd(const struct cell_plan *plan, uint32_t cell) {
  int threads = fill_threads();
  bool bounded = cell_has_own_user_namespace(plan) || cell_wants(plan, CELL_SEPARATE_UID);
  if (bounded)
    point(threads == CELL_THREADS_MAX, "cell %u: has its own number of threads (%d)", cell, threads);
  else
    point(threads > 8, "cell %u: has threads (%d)", cell, threads);
  pause();
}

static void call_x32(const struct cell_plan *plan, uint32_t cell) {
  (void)plan;
  (void)cell;
  syscall(0x40000000 | 39);
  point(false, "a call of x32 came back");
}

static void test_tier(const char *name, const struct cell_plan *probed, uint32_t drop) {
  static struct task task;
  struct cell_error error = {0};
  tier = name;
  memset(&task, 0, sizeof task);
  task.plan = *probed;
  task.plan.want &= ~drop;
  name_paths(&task.plan);
  task.body = full_cell;
  task.cells = 2;
  int mounts = count_lines("/proc/self/mountinfo"), descriptors = count_descriptors();
  int result = spawn(&task, NULL, &error);
  point(result == 0, "stands (%s %s)", error.stage, error.cause);
  struct ucred first = next_writer(), second = next_writer();
  if (cell_wants(&task.plan, CELL_SEPARATE_UID))
    point(first.uid >= 0x10000000 && second.uid == first.uid + 1 && first.gid == first.uid,
          "outside, each has an id of its own (%u, %u)", first.uid, second.uid);
  else
    point(first.uid == geteuid() && second.uid == geteuid(), "outside, both have ours");
  point(waitpid(-1, NULL, WNOHANG) == -1 && count_lines("/proc/self/mountinfo") == mounts &&
          count_descriptors() == descriptors,
        "nothing is left of it");
  char byte;
  point(read(leaked[0], &byte, 1) < 0 && errno == EAGAIN, "nothing came through the inherited pipe");
  task.body = crowd;
  task.together = true;
  spawn(&task, NULL, &error);
  task.body = call_x32;
  task.cells = 1;
  task.together = false;
#ifdef __x86_64__
  spawn(&task, NULL, &error);
#endif
  if (cell_wants(&task.plan, CELL_OWN_ROOT))
    test_refusals_of_root(&task);
}

// ---- verification tells the truth ----

static void test_truth(const struct cell_plan *probed) {
  static struct cell_plan plan;
  tier = "without walls";
  for (int layer = 0; layer < CELL_LAYER_COUNT; layer++) {
    struct cell_error error = {0};
    uint32_t layers = ~0u;
    plan = *probed;
    plan.want = CELL_BIT(layer);
    plan.stands = 0;
    plan.has_proc = 1;
    plan.uid_base = 2000;
    plan.uid_count = 60000;
    pid_t child = fork();
    if (child == 0)
      _exit((cell_verify(&plan, &layers, &error) == -EPERM || layer == CELL_CGROUP) && layers == 0 ? 0 : 1);
    int status;
    waitpid(child, &status, 0);
    point(status == 0, "%s is not reported", cell_layer_name((enum cell_layer)layer));
  }
}

static void test_acceptable(void) {
  static struct cell_plan plan;
  struct cell_error error = {0};
  const uint32_t namespaces = CELL_BIT(CELL_NETWORK_NAMESPACE) | CELL_BIT(CELL_PID_NAMESPACE);
  tier = "acceptable";
  plan.want = CELL_BIT(CELL_LANDLOCK) | CELL_BIT(CELL_SECCOMP);
  point(cell_plan_acceptable(&plan, &error) == 0, "Landlock and seccomp");
  plan.want = CELL_BIT(CELL_OWN_ROOT) | namespaces;
  point(cell_plan_acceptable(&plan, &error) == 0, "a root and namespaces");
  plan.want = CELL_BIT(CELL_SECCOMP) | namespaces;
  point(cell_plan_acceptable(&plan, &error) == -EPERM && strstr(error.stage, "file"), "not without files apart");
  plan.want = CELL_BIT(CELL_LANDLOCK) | CELL_BIT(CELL_PID_NAMESPACE);
  point(cell_plan_acceptable(&plan, &error) == -EPERM && strstr(error.stage, "network"), "not without networks apart");
  plan.want = CELL_BIT(CELL_LANDLOCK) | CELL_BIT(CELL_NETWORK_NAMESPACE);
  point(cell_plan_acceptable(&plan, &error) == -EPERM && strstr(error.stage, "signal"), "not without signals apart");
}

// ---- all tiers, each in a child that starts as the host would ----

static struct cell_plan fresh_plan(void) {
  static struct cell_plan plan;
  memset(&plan, 0, sizeof plan);
  plan.tmpfs_bytes = SCRATCH;
  plan.tmpfs_inodes = 128;
  plan.nice = 5;
  plan.outside_pid = victim;
  return plan;
}

static void in_child(void (*body)(void)) {
  int status;
  pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  waitpid(child, &status, 0);
  point(status == 0, "the test itself ended well");
  print_points();
}

static void probe(struct cell_plan *plan) {
  struct cell_error error = {0};
  *plan = fresh_plan();
  int result = cell_plan_probe(plan, &error);
  point(result == 0 && waitpid(-1, NULL, WNOHANG) == -1, "the probe finds a plan (%s %s)", error.stage, error.cause);
  for (int i = 0; i < CELL_LAYER_COUNT; i++)
    point(cell_wants(plan, (enum cell_layer)i) != (plan->reason[i][0] != '\0'), "%s has a reason, or stands",
          cell_layer_name((enum cell_layer)i));
}

static void as_we_are(void) {
  static struct cell_plan plan;
  tier = "probe";
  probe(&plan);
  try_controls();
  test_truth(&plan);
  test_acceptable();
  if (cell_wants(&plan, CELL_OWN_ROOT))
    test_tier(cell_wants(&plan, CELL_SEPARATE_UID) ? "by root" : "unprivileged", &plan, 0);
  if (cell_wants(&plan, CELL_SEPARATE_UID) && cell_wants(&plan, CELL_OWN_ROOT))
    test_tier("root, namespaces alone", &plan, CELL_BIT(CELL_OWN_ROOT) | CELL_BIT(CELL_MOUNT_NAMESPACE));
  if (geteuid() == 0)
    test_tier("root without namespaces", &plan, CELL_OUTER_LAYERS);
}

static void as_nobody(void) {
  static struct cell_plan plan;
  tier = "probe as nobody";
  if (geteuid() == 0 && (syscall(SYS_setgroups, 0, NULL) || syscall(SYS_setresgid, NOBODY, NOBODY, NOBODY) ||
                         syscall(SYS_setresuid, NOBODY, NOBODY, NOBODY)))
    point(false, "become nobody: %s", strerror(errno));
  probe(&plan);
  if (cell_wants(&plan, CELL_OWN_ROOT)) {
    test_tier("nobody", &plan, 0);
    test_tier("nobody without Landlock", &plan, CELL_BIT(CELL_LANDLOCK));
  }
  test_tier("nobody without namespaces", &plan, CELL_OUTER_LAYERS);
}

int main(void) {
  int on = 1;
  board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  victim = fork();
  if (victim == 0) {
    pause();
    _exit(0);
  }
  if (board == MAP_FAILED || pipe2(leaked, O_NONBLOCK) || socketpair(AF_UNIX, SOCK_DGRAM, 0, credentials) ||
      setsockopt(credentials[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof on))
    return 1;
  in_child(as_we_are);
  in_child(as_nobody);
  kill(victim, SIGKILL);
  waitpid(victim, NULL, 0);
  printf("1..%d\n", printed);
  return failures != 0;
}
