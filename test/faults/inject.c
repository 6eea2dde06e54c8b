// inject.c: runs a keeper, unchanged, and makes one system call of one of its
// processes fail: `inject FOLDER KEEPER`. By ptrace: the call becomes getpid(),
// which every filter allows, and its value the wanted error. x86_64.
//
// FOLDER/fault says which: `PROCESS NUMBER OCCURRENCE ERRNO DEPTH`, or `record`
// for none; without that file the keeper just runs. A process is named by its
// descent: `k` is the keeper, `k.2` the second process or thread that it
// started, `k.2.*` each that this one starts; cells are DEPTH below the keeper.
// FOLDER/log gets a line for each thing seen:
//   call PROCESS NUMBER OCCURRENCE VALUE   (record)
//   exec PROCESS                           (record)
//   hit PROCESS                            the call was made to fail
//   inside PROCESS                         user's code runs: it asks access("/marker")
//   left PROCESS                           still there long after the keeper
//   end
// FOLDER/facts gets what /proc says of the cell at that moment. Nothing is
// counted in a cell from then on: the calls are the user's.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
  TASKS_MAX = 512,
  CALLS_MAX = 512,
  NAME_MAX_BYTES = 64,
  PATIENCE_MS = 3000, // from the keeper's end to everybody's
  OPTIONS = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
            PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL,
};

struct task {
  pid_t id;
  char name[NAME_MAX_BYTES]; // "" until its parent's event has told
  int children;
  bool held, free, failing; // stopped without a name; the user's; a call that is to fail
  long number;
  int counts[CALLS_MAX];
};

static struct task tasks[TASKS_MAX];
static size_t task_count;
static const char *folder;
static char fault_path[512]; // once it is gone nothing fails any more
static int log_fd;
static bool recording;
static struct {
  char name[NAME_MAX_BYTES];
  long number;
  int occurrence, error, depth;
  bool done;
} fault;

static void say(const char *format, const char *name, long number, int occurrence, long value) {
  char line[256];
  int size = snprintf(line, sizeof line, format, name, number, occurrence, value);
  ssize_t written = write(log_fd, line, (size_t)size);
  (void)written;
}

static struct task *task_of(pid_t id) {
  for (size_t i = 0; i < task_count; i++)
    if (tasks[i].id == id)
      return &tasks[i];
  if (task_count == TASKS_MAX)
    exit(3);
  tasks[task_count] = (struct task){.id = id};
  return &tasks[task_count++];
}

static void forget(pid_t id) {
  struct task *task = task_of(id);
  *task = tasks[--task_count];
}

// ---- what the cell is, from outside ----

static void copy_file(FILE *to, pid_t id, const char *name) {
  char path[64], text[8192];
  snprintf(path, sizeof path, "/proc/%d/%s", (int)id, name);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t size = fd < 0 ? 0 : read(fd, text, sizeof text);
  fprintf(to, "[%s]\n%.*s", name, (int)(size < 0 ? 0 : size), text);
  if (fd >= 0)
    close(fd);
}

static void copy_link(FILE *to, pid_t id, const char *name) {
  char path[64], target[256];
  snprintf(path, sizeof path, "/proc/%d/%s", (int)id, name);
  ssize_t size = readlink(path, target, sizeof target);
  if (size > 0)
    fprintf(to, "%s %.*s\n", name, (int)size, target);
}

static void write_facts(pid_t id) {
  static const char *const namespaces[] = {"user", "pid", "mnt", "net", "ipc", "uts"};
  char path[512];
  snprintf(path, sizeof path, "%s/facts", folder);
  FILE *to = fopen(path, "we");
  if (!to)
    exit(3);
  copy_file(to, id, "status");
  copy_file(to, id, "limits");
  fprintf(to, "[links]\n");
  for (size_t i = 0; i < sizeof namespaces / sizeof *namespaces; i++) {
    snprintf(path, sizeof path, "ns/%s", namespaces[i]);
    copy_link(to, id, path);
  }
  for (int fd = 0; fd < 1024; fd++) {
    snprintf(path, sizeof path, "fd/%d", fd);
    copy_link(to, id, path);
  }
  fclose(to);
}

// ---- calls ----

static int depth_of(const char *name) {
  int depth = 0;
  for (; *name; name++)
    depth += *name == '.';
  return depth;
}

static bool is_named(const char *name) {
  size_t size = strcspn(fault.name, "*");
  bool same = !strncmp(name, fault.name, size);
  return same && (fault.name[size] ? !strchr(name + size, '.') : !name[size] && !fault.done);
}

// Who is not stopped at every call runs at its own speed.
static void go_on(const struct task *task, int signal) {
  bool watched = recording || is_named(task->name) || depth_of(task->name) == fault.depth;
  ptrace(watched && !task->free ? PTRACE_SYSCALL : PTRACE_CONT, task->id, 0, signal);
}

static bool is_marker(pid_t id, long number, unsigned long path) {
  long word;
  errno = 0;
  if (number != SYS_access)
    return false;
  word = ptrace(PTRACE_PEEKDATA, id, path, 0);
  return errno == 0 && memcmp(&word, "/marker", sizeof word) == 0;
}

static void on_call(struct task *task) {
  struct __ptrace_syscall_info info;
  if (task->free || ptrace(PTRACE_GET_SYSCALL_INFO, task->id, sizeof info, &info) <= 0)
    return;
  if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
    task->number = (long)info.entry.nr;
    if (task->number < 0 || task->number >= CALLS_MAX)
      return;
    if (is_marker(task->id, task->number, info.entry.args[0])) {
      task->free = true;
      write_facts(task->id);
      say("inside %s\n", task->name, 0, 0, 0);
      return;
    }
    int occurrence = ++task->counts[task->number];
    if (recording || task->number != fault.number || occurrence != fault.occurrence || !is_named(task->name) ||
        access(fault_path, F_OK))
      return;
    task->failing = true;
    ptrace(PTRACE_POKEUSER, task->id, offsetof(struct user_regs_struct, orig_rax), SYS_getpid);
  } else if (info.op == PTRACE_SYSCALL_INFO_EXIT && task->number >= 0 && task->number < CALLS_MAX) {
    if (recording)
      say("call %s %ld %d %ld\n", task->name, task->number, task->counts[task->number], (long)info.exit.rval);
    if (!task->failing)
      return;
    task->failing = false;
    ptrace(PTRACE_POKEUSER, task->id, offsetof(struct user_regs_struct, rax), -(long)fault.error);
    fault.done = true;
    say("hit %s\n", task->name, 0, 0, 0);
  }
}

// ---- stops ----

static void on_birth(pid_t parent) {
  unsigned long id = 0;
  ptrace(PTRACE_GETEVENTMSG, parent, 0, &id);
  struct task *child = task_of((pid_t)id), *of = task_of(parent);
  snprintf(child->name, sizeof child->name, "%.50s.%d", of->name, ++of->children);
  child->free = of->free;
  if (child->held)
    go_on(child, 0);
  child->held = false;
}

static void on_stop(pid_t id, int status) {
  struct task *task = task_of(id);
  int number = WSTOPSIG(status), event = status >> 16, deliver = 0;
  if (event == PTRACE_EVENT_STOP && !task->name[0]) {
    task->held = true; // it came before its parent's event
    return;
  }
  if (event == PTRACE_EVENT_STOP && number != SIGTRAP) {
    ptrace(PTRACE_LISTEN, id, 0, 0); // stopped, and stays so
    return;
  }
  if (event == PTRACE_EVENT_CLONE || event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK)
    on_birth(id);
  else if (event == PTRACE_EVENT_EXEC && recording)
    say("exec %s\n", task->name, 0, 0, 0);
  else if (!event && number == (SIGTRAP | 0x80))
    on_call(task);
  else if (!event)
    deliver = number;
  go_on(task, deliver);
}

static long now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

// Until all have ended; those that outlive the keeper are named.
static int follow(pid_t keeper) {
  int status, result = 0;
  long until = 0;
  while (task_count) {
    pid_t id = waitpid(-1, &status, __WALL | (until ? WNOHANG : 0));
    if (id == 0 && now_ms() > until)
      break;
    if (id == 0)
      usleep(2000);
    if (id < 0 && errno != EINTR)
      break;
    if (id <= 0)
      continue;
    if (WIFSTOPPED(status)) {
      on_stop(id, status);
      continue;
    }
    forget(id);
    if (id == keeper) {
      result = status;
      until = now_ms() + PATIENCE_MS;
    }
  }
  for (size_t i = 0; i < task_count; i++)
    say("left %s\n", tasks[i].name, 0, 0, 0);
  say("end%s\n", "", 0, 0, 0);
  return result;
}

static bool read_fault(void) {
  char text[128] = "";
  snprintf(fault_path, sizeof fault_path, "%s/fault", folder);
  FILE *from = fopen(fault_path, "re");
  bool any = from && fgets(text, sizeof text, from);
  if (from)
    fclose(from);
  recording = any && !strncmp(text, "record", 6);
  return recording || (any && sscanf(text, "%63s %ld %d %d %d", fault.name, &fault.number, &fault.occurrence,
                                     &fault.error, &fault.depth) == 5);
}

int main(int count, char **arguments) {
  char path[512];
  int go[2];
  if (count < 3)
    return 2;
  folder = arguments[1];
  if (!read_fault()) {
    execv(arguments[2], (char *[]){arguments[2], NULL});
    return 2;
  }
  snprintf(path, sizeof path, "%s/log", folder);
  log_fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (log_fd < 0 || pipe2(go, O_CLOEXEC))
    return 2;
  pid_t keeper = fork();
  if (keeper == 0) {
    char byte;
    if (read(go[0], &byte, 1) == 1)
      execv(arguments[2], (char *[]){arguments[2], NULL});
    _exit(2);
  }
  for (int fd = 3; fd < 256; fd++) // the keeper's socket above all: its end must be the engine's to see
    if (fd != log_fd && fd != go[1])
      close(fd);
  snprintf(task_of(keeper)->name, NAME_MAX_BYTES, "k");
  if (keeper < 0 || ptrace(PTRACE_SEIZE, keeper, 0, OPTIONS) || write(go[1], "", 1) != 1) {
    say("no ptrace%s\n", "", 0, 0, 0);
    kill(keeper, SIGKILL);
    return 2;
  }
  ptrace(PTRACE_INTERRUPT, keeper, 0, 0); // from its first stop on, each call is seen
  int status = follow(keeper);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
