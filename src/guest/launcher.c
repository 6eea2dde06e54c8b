// launcher.c: the sandbox container's first process, and the only one of the
// service that stays root. Static, in its own words:
//
//   code-jail-launcher [--input] [--user UID] -- PROGRAM ARGUMENT...
//   code-jail-launcher --kernel
//
// 1. Secrets leave the environment. The tokens go into a pipe and the launcher
//    executes itself anew: the memory that /proc/PID/environ shows is made at
//    exec, and nothing else takes them out of it. PROGRAM finds them at the
//    descriptor that CODE_SANDBOX_TOKENS_FD names.
// 2. With --user, PROGRAM runs under that uid, without capabilities and never to
//    gain any. The launcher stays: it starts a keeper for whoever holds the
//    other end of its socket (CODE_JAIL_LAUNCHER_FD), passes signals on, reaps,
//    and ends with PROGRAM. Cells get uids of their own from the keeper, so that
//    neither they nor the service can touch the other or us.
// 3. Without --user there is nothing to keep: PROGRAM takes our place.
//
// A keeper that we start is told to be strict: it takes its runtime and guest
// library from files that are root's alone, or the service could become root by
// naming its own. One thread; nothing is allocated after the start.
//
// --kernel prints what we run on as JSON; see kernel_report.
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../protocol.h"

#define TOKENS_FD "CODE_SANDBOX_TOKENS_FD"
#define LAUNCHER_FD "CODE_JAIL_LAUNCHER_FD"
enum { SECRET_MAX = 16384, KEEPERS_MAX = 64, FIRST_FD = 10 };

static const char *const secrets[] = {"CODE_SANDBOX_TOKEN", "CODE_SANDBOX_TOKEN_PREVIOUS"};
enum { SECRET_COUNT = sizeof secrets / sizeof *secrets };

static struct {
  uint32_t id; // the service's number for it
  pid_t pid;
} keepers[KEEPERS_MAX];
static size_t keeper_count;

_Noreturn static void fail(const char *what) {
  fprintf(stderr, "code-jail-launcher: %s: %s\n", what, strerror(errno));
  _exit(125);
}

// ---- 1. secrets ----

// NAME=VALUE NUL ..., as PROGRAM will read them; both in one pipe, which holds 64 KiB.
static int secrets_to_pipe(void) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC))
    fail("pipe");
  for (int i = 0; i < SECRET_COUNT; i++) {
    const char *value = getenv(secrets[i]);
    if (value && strlen(value) <= SECRET_MAX)
      dprintf(ends[1], "%s=%s%c", secrets[i], value, 0);
    else if (value)
      dprintf(ends[1], "%s=%c", secrets[i], 0); // too long: as good as empty, and refused as that
  }
  close(ends[1]);
  int high = fcntl(ends[0], F_DUPFD, FIRST_FD); // survives the exec
  close(ends[0]);
  return high;
}

static bool has_secrets(void) {
  for (int i = 0; i < SECRET_COUNT; i++)
    if (getenv(secrets[i]))
      return true;
  return false;
}

static void set_number(const char *name, int value) {
  char text[16];
  snprintf(text, sizeof text, "%d", value);
  if (setenv(name, text, 1))
    fail("environment");
}

static void forget_secrets(char **argv) {
  char self[PATH_MAX];
  ssize_t size = readlink("/proc/self/exe", self, sizeof self - 1);
  if (size <= 0)
    fail("/proc/self/exe");
  self[size] = '\0';
  set_number(TOKENS_FD, secrets_to_pipe());
  for (int i = 0; i < SECRET_COUNT; i++)
    unsetenv(secrets[i]);
  execv(self, argv);
  fail(self);
}

// The service has its own by now, and old gVisor shows ours to everybody.
static void hide_environment(void) {
  for (char **one = environ; one && *one; one++)
    explicit_bzero(*one, strlen(*one));
}

// ---- 2. the service ----

// While we still have the right to: the change of uid takes it.
static void drop_bounding_set(void) {
  for (unsigned long capability = 0; capability < 64; capability++)
    if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0)
      break; // the last that this kernel knows; or CAP_SETPCAP is not ours, and no_new_privs has to do
}

static void drop_capabilities(void) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct none[2] = {{0}};
  if (syscall(SYS_capset, &header, none) < 0)
    fail("drop capabilities");
}

_Noreturn static void become_service(char **argv, uid_t uid, int socket, pid_t launcher) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  int high = fcntl(socket, F_DUPFD, FIRST_FD);
  if (high < 0)
    fail("descriptors");
  set_number(LAUNCHER_FD, high);
  drop_bounding_set();
  if (setgroups(0, NULL) || setresgid(uid, uid, uid) || setresuid(uid, uid, uid))
    fail("become the service's uid");
  drop_capabilities();
  if (setuid(0) == 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    fail("stay the service's uid");
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0); // a change of uid takes it away, so only now
  if (getppid() != launcher)
    _exit(125); // it had gone before
  execvp(argv[0], argv);
  fail(argv[0]);
}

// ---- 3. keepers ----

// In the child, between fork and exec.
_Noreturn static void become_keeper(const char *path, int socket) {
  char *const argv[] = {"code-jail-keeper", "--strict", NULL};
  char *const envp[] = {"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", NULL};
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  setsid();
  if (dup2(socket, PROTOCOL_FD) < 0)
    _exit(127);
  for (int fd = PROTOCOL_FD + 1; fd < 256; fd++)
    close(fd);
  execve(path, argv, envp);
  _exit(127);
}

static void start_keeper(const char *path, uint32_t id, int socket) {
  if (keeper_count < KEEPERS_MAX) {
    pid_t pid = fork();
    if (pid == 0)
      become_keeper(path, socket);
    if (pid > 0) {
      keepers[keeper_count].id = id;
      keepers[keeper_count++].pid = pid;
    }
  }
  close(socket); // where there is no keeper, the engine sees the end of it
}

static void kill_keeper(uint32_t id) {
  for (size_t i = 0; i < keeper_count; i++)
    if (keepers[i].id == id)
      kill(keepers[i].pid, SIGKILL); // not reaped yet, so the pid is its own
}

// One order, with at most one descriptor. false: the service has closed its end.
static bool on_order(int socket, const char *path) {
  char control[CMSG_SPACE(sizeof(int))];
  struct launch order;
  struct iovec part = {&order, sizeof order};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  int fd = -1;
  ssize_t size = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (size < 0)
    return errno == EAGAIN || errno == EINTR;
  struct cmsghdr *head = CMSG_FIRSTHDR(&message);
  if (head && head->cmsg_type == SCM_RIGHTS && head->cmsg_len == CMSG_LEN(sizeof(int)))
    memcpy(&fd, CMSG_DATA(head), sizeof fd);
  if (size != sizeof order) {
    if (fd >= 0)
      close(fd);
    return size != 0;
  }
  if (order.type == LAUNCH_KEEPER && fd >= 0)
    start_keeper(path, order.id, fd);
  else if (fd >= 0)
    close(fd);
  if (order.type == LAUNCH_KILL)
    kill_keeper(order.id);
  return true;
}

static void on_signal(int number) {
  (void)number; // ppoll returns; sigtimedwait would not see the socket
}

static volatile sig_atomic_t asked; // the signal to pass on
static void on_ask(int number) {
  asked = number;
}

// Reaps whatever has ended. true, with its status, once the service has.
static bool reap(pid_t service, int *status) {
  bool ended = false;
  int one;
  for (pid_t gone; (gone = waitpid(-1, &one, WNOHANG)) > 0;) {
    if (gone == service) {
      *status = one;
      ended = true;
    }
    for (size_t i = 0; i < keeper_count; i++)
      if (keepers[i].pid == gone)
        keepers[i] = keepers[--keeper_count];
  }
  return ended;
}

// What everybody may write to, one cell could use to leave something for
// another. As a container's first process alone: elsewhere these folders are not ours.
static void tidy(void) {
  static const char *const places[] = {"/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run/lock"};
  struct stat status;
  if (getpid() != 1)
    return;
  for (size_t i = 0; i < sizeof places / sizeof *places; i++)
    if (lstat(places[i], &status) == 0 && S_ISDIR(status.st_mode) && (status.st_mode & 002))
      chmod(places[i], 0755); // a read-only one cannot be written to anyway
}

static int serve(pid_t service, int socket, const char *keeper, const sigset_t *open_mask) {
  int status = 0;
  for (;;) {
    struct pollfd source = {.fd = socket, .events = POLLIN};
    if (reap(service, &status))
      break;
    if (asked) {
      kill(service, asked);
      asked = 0;
    }
    if (ppoll(&source, 1, NULL, open_mask) <= 0)
      continue;
    if (source.revents && !on_order(socket, keeper)) {
      close(socket); // it is about to end
      socket = -1;
    }
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void handle(int number, void (*handler)(int)) {
  struct sigaction action = {.sa_handler = handler};
  sigaction(number, &action, NULL);
}

// A service reads nothing from there (an agent does: --input); and whatever the container was given could
// be opened through /proc by others, where that is as open as in old gVisor.
static void forget_input(void) {
  int null = open("/dev/null", O_RDONLY);
  if (null > 0) {
    dup2(null, 0);
    close(null);
  }
}

static int launch(char **argv, uid_t uid, bool input) {
  char keeper[PATH_MAX];
  int pair[2];
  if (!input)
    forget_input();
  ssize_t size = readlink("/proc/self/exe", keeper, sizeof keeper - 1);
  char *name = size > 0 ? memrchr(keeper, '/', (size_t)size) : NULL;
  if (!name || snprintf(name, sizeof keeper - (size_t)(name - keeper), "/code-jail-keeper") < 0)
    fail("/proc/self/exe");
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
    fail("socketpair");
  const int passed[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
  sigset_t blocked, open_mask;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGCHLD);
  handle(SIGCHLD, on_signal);
  for (size_t i = 0; i < sizeof passed / sizeof *passed; i++) {
    handle(passed[i], on_ask);
    sigaddset(&blocked, passed[i]);
  }
  sigprocmask(SIG_BLOCK, &blocked, &open_mask);
  const pid_t launcher = getpid();
  pid_t service = fork();
  if (service == 0)
    become_service(argv, uid, pair[1], launcher);
  if (service < 0)
    fail("fork");
  forget_input();
  close(pair[1]);
  const char *tokens = getenv(TOKENS_FD);
  if (tokens)
    close(atoi(tokens)); // they are the service's
  hide_environment();
  return serve(service, pair[0], keeper, &open_mask);
}

// ---- what we run on ----

// gVisor by what it does, not by what it is called: its kernel log can be read
// by anybody and tells so, and its seccomp takes no flag but TSYNC, although it
// has statx (Linux 4.11), later than which Linux takes more (LOG: 4.14).
static void kernel_report(void) {
  static char log[1 << 16];
  struct utsname name = {0};
  long size = syscall(SYS_syslog, 3 /* read all */, log, sizeof log - 1);
  log[size > 0 ? size : 0] = '\0';
  bool says = strstr(log, "Starting gVisor") != NULL;
  bool refuses = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 2 /* LOG */, NULL) < 0 && errno == EINVAL;
  char buffer[256];
  bool newer = syscall(SYS_statx, AT_FDCWD, "/", 0, 0x7ff, buffer) == 0;
  uname(&name);
  printf("{\"gvisor\":%s,\"log\":%s,\"flags\":%s,\"release\":\"%.60s\"}\n", says && refuses && newer ? "true" : "false",
         says ? "true" : "false", refuses && newer ? "true" : "false", name.release);
}

int main(int count, char **argv) {
  int at = 1;
  long uid = -1;
  if (count == 2 && !strcmp(argv[1], "--kernel")) {
    kernel_report();
    return 0;
  }
  if (has_secrets())
    forget_secrets(argv);
  bool input = at < count && !strcmp(argv[at], "--input");
  at += input;
  if (at + 1 < count && !strcmp(argv[at], "--user")) {
    char *end;
    uid = strtol(argv[at + 1], &end, 10);
    if (*end || uid < 1 || uid > 65535) {
      fprintf(stderr, "code-jail-launcher: --user %s: a number from 1 to 65535, which no cell ever has\n",
              argv[at + 1]);
      return 2;
    }
    at += 2;
  }
  if (at + 1 >= count || strcmp(argv[at], "--") != 0) {
    fprintf(stderr, "usage: code-jail-launcher [--input] [--user UID] -- PROGRAM ARGUMENT...\n");
    return 2;
  }
  char **program = argv + at + 1;
  if (uid >= 0 && geteuid() == 0) {
    tidy();
    return launch(program, (uid_t)uid, input);
  }
  execvp(program[0], program);
  fail(program[0]);
}
