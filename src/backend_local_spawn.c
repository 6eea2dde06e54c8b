// backend_local_spawn.c: a keeper's birth and its death. It is the only child of
// this process; it is spawned without copying the host's memory, and reaped by
// its own pid alone, in a host that may ignore SIGCHLD or wait for any child.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend_local.h"
#include "error.h"

enum {
  BOOT_US = 40000000,       // the keeper gives up after 30 s itself
  END_US = 1000000,         // a keeper that is to end is killed after this
  LAUNCHED_END_US = 300000, // the same for one that the launcher has started
  LOOK_US = 5000,           // how often to look for its end, where there are no pidfds
};

// ---- birth ----

static int set_attributes(posix_spawnattr_t *attributes) {
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  // A session of its own: the terminal's Ctrl-C is for the host, whose end then ends the keeper.
  return posix_spawnattr_setsigmask(attributes, &none) || posix_spawnattr_setsigdefault(attributes, &all) ||
         posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
}

// posix_spawn shares memory until the exec: its price does not grow with the host's heap.
static int spawn(const char *path, int socket, pid_t *pid) {
  char *argv[] = {"code-jail-keeper", NULL};
  char *envp[] = {"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", NULL};
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  int result = posix_spawn_file_actions_init(&actions);
  if (result)
    return result;
  result = posix_spawnattr_init(&attributes);
  if (!result) {
    result = set_attributes(&attributes);
    for (int fd = 0; fd < 3 && !result; fd++)
      result = posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
    if (!result)
      result = posix_spawn_file_actions_adddup2(&actions, socket, PROTOCOL_FD);
    if (!result)
      result = posix_spawn(pid, path, &actions, &attributes, argv, envp);
    posix_spawnattr_destroy(&attributes);
  }
  posix_spawn_file_actions_destroy(&actions);
  return result;
}

// ---- where somebody else is root: see src/guest/launcher.c ----

// "@4": a keeper is started by the launcher whose socket is that descriptor.
static int launcher_of(const struct local *local) {
  const char *keeper = local->pool->config.keeper;
  return keeper[0] == '@' ? atoi(keeper + 1) : -1;
}

static int ask_launcher(int launcher, uint32_t type, uint32_t id, int fd) {
  struct launch order = {.type = type, .id = id};
  char control[CMSG_SPACE(sizeof fd)] = {0};
  struct iovec part = {&order, sizeof order};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
  }
  return sendmsg(launcher, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? errno : 0;
}

static int start_process(struct keeper *keeper, const struct local *local, int socket) {
  static uint32_t launched; // engine thread
  int launcher = launcher_of(local);
  if (launcher < 0)
    return spawn(local->pool->config.keeper, socket, &keeper->pid);
  keeper->launched = ++launched;
  keeper->pid = -1; // nobody's to wait for
  return ask_launcher(launcher, LAUNCH_KEEPER, keeper->launched, socket);
}

static int send_boot(int socket, const char *text, size_t bytes) {
  struct order order = {.type = ORDER_BOOT};
  struct iovec parts[2] = {{&order, sizeof order}, {(void *)text, bytes}};
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
  if (bytes > PROTOCOL_MESSAGE_MAX - sizeof order)
    return EMSGSIZE;
  return sendmsg(socket, &message, MSG_NOSIGNAL) < 0 ? errno : 0;
}

static void on_exit_news(uv_poll_t *poll, int status, int events);
static void on_boot_late(struct engine_timer *timer);

static void watch_socket(struct keeper *keeper, int socket) {
  keeper->socket = socket;
  if (uv_poll_init(engine_loop(), &keeper->socket_poll, socket))
    return; // the boot's time-out then ends it
  keeper->socket_poll.data = keeper;
  keeper->socket_polled = true;
  keeper->handles++;
  uv_poll_start(&keeper->socket_poll, UV_READABLE, keeper_on_socket);
}

static void watch_pid(struct keeper *keeper) {
  if (keeper->launched)
    return; // the socket's end tells
  keeper->pidfd = (int)syscall(SYS_pidfd_open, keeper->pid, 0);
  if (keeper->pidfd < 0 || uv_poll_init(engine_loop(), &keeper->pid_poll, keeper->pidfd))
    return; // the socket's end tells as well
  keeper->pid_poll.data = keeper;
  keeper->pid_polled = true;
  keeper->handles++;
  uv_poll_start(&keeper->pid_poll, UV_READABLE, on_exit_news);
}

struct keeper *keeper_start(struct place *place, struct jail_error *error) {
  const struct jail_config *config = &place->local->pool->config;
  struct keeper *keeper = calloc(1, sizeof *keeper);
  int pair[2] = {-1, -1};
  int result = keeper ? 0 : ENOMEM;
  if (!result && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
    result = errno;
  if (!result)
    result = fcntl(pair[0], F_SETFL, O_NONBLOCK) ? errno : 0;
  if (!result)
    result = send_boot(pair[0], config->boot[place->language], config->boot_bytes[place->language]);
  if (!result)
    result = start_process(keeper, place->local, pair[1]);
  if (pair[1] >= 0)
    close(pair[1]);
  if (result) {
    bool missing = result == ENOENT || result == EACCES || result == ENOEXEC;
    error_set(error, missing ? JAIL_CONFIG : JAIL_UNAVAILABLE, "%s cannot be started: %s%s", config->keeper,
              strerror(result),
              result == EACCES ? " (a copy may have lost its mode: chmod +x it)"
              : missing        ? " (npm run build)"
                               : "");
    if (pair[0] >= 0)
      close(pair[0]);
    free(keeper);
    return NULL;
  }
  keeper->local = place->local;
  keeper->place = place;
  keeper->language = place->language;
  keeper->cold = config->cold;
  keeper->born_us = engine_now_us();
  keeper->pidfd = -1;
  keeper->next = place->local->keepers;
  place->local->keepers = keeper;
  COUNT(place->local->pool->counters.zygotes, 1);
  COUNT(place->local->pool->counters.zygote_starts, 1);
  watch_pid(keeper);
  watch_socket(keeper, pair[0]);
  engine_timer_start(&keeper->timer, BOOT_US, on_boot_late);
  return keeper;
}

// ---- death ----

static void on_boot_late(struct engine_timer *timer) {
  struct keeper *keeper = CONTAINER_OF(timer, struct keeper, timer);
  struct pool *pool = keeper->local->pool;
  error_set(&keeper->why, JAIL_UNAVAILABLE, "the local jail for %s was not ready within %d s",
            jail_language_name(keeper->language), BOOT_US / 1000000);
  keeper->why.retryable = true;
  keeper_end(keeper, true);
  pool_pump(pool);
}

static void on_keeper_handle_closed(uv_handle_t *handle) {
  struct keeper *keeper = handle->data;
  if (--keeper->handles == 0 && keeper->pid == 0)
    local_on_reaped(keeper->local, keeper);
}

// Whether it has ended; reaps it. A host that ignores SIGCHLD, or waits for all
// children, may have been quicker: then there is nothing left to reap.
static bool reap(const struct keeper *keeper) {
  pid_t got;
  if (keeper->launched) // the launcher's to reap; it has had its time
    return keeper->end_left_us == 0 && ask_launcher(launcher_of(keeper->local), LAUNCH_KILL, keeper->launched, -1) >= 0;
  do
    got = waitpid(keeper->pid, NULL, WNOHANG);
  while (got < 0 && errno == EINTR);
  return got != 0;
}

static void kill_keeper(const struct keeper *keeper) {
  if (keeper->launched) {
    ask_launcher(launcher_of(keeper->local), LAUNCH_KILL, keeper->launched, -1);
    return;
  }
  if (keeper->pidfd >= 0)
    syscall(SYS_pidfd_send_signal, keeper->pidfd, SIGKILL, NULL, 0);
  else if (!reap(keeper)) // still our child, so the pid is still its own
    kill(keeper->pid, SIGKILL);
}

// Reaped or stolen: what is left are our own handles.
static void forget_process(struct keeper *keeper) {
  keeper->pid = 0;
  engine_timer_stop(&keeper->timer);
  if (keeper->pid_polled)
    uv_close((uv_handle_t *)&keeper->pid_poll, on_keeper_handle_closed);
  keeper->pid_polled = false;
  if (keeper->pidfd >= 0)
    close(keeper->pidfd);
  keeper->pidfd = -1;
  if (keeper->handles == 0)
    local_on_reaped(keeper->local, keeper);
}

static void on_end_timer(struct engine_timer *timer);

static void await_end(struct keeper *keeper, uint64_t left_us) {
  uint64_t step = keeper->pidfd >= 0 ? left_us : LOOK_US;
  keeper->end_left_us = left_us > step ? left_us - step : 0;
  engine_timer_start(&keeper->timer, step, on_end_timer);
}

static void on_end_timer(struct engine_timer *timer) {
  struct keeper *keeper = CONTAINER_OF(timer, struct keeper, timer);
  if (reap(keeper)) {
    forget_process(keeper);
    return;
  }
  if (keeper->end_left_us == 0)
    kill_keeper(keeper);
  await_end(keeper, keeper->end_left_us ? keeper->end_left_us : END_US);
}

static void on_exit_news(uv_poll_t *poll, int status, int events) {
  struct keeper *keeper = poll->data;
  struct pool *pool = keeper->local->pool;
  (void)status;
  (void)events;
  // What it said last is still in the socket: a boot's failure, cells' ends.
  if (keeper->state != KEEPER_ENDING)
    keeper_take_reports(keeper);
  if (keeper->state != KEEPER_ENDING)
    keeper_end(keeper, false);
  if (reap(keeper)) {
    forget_process(keeper);
  } else {
    uv_poll_stop(poll);
    await_end(keeper, LOOK_US);
  }
  pool_pump(pool);
}

void keeper_end(struct keeper *keeper, bool by_force) {
  struct place *place = keeper->place;
  if (keeper->state == KEEPER_ENDING)
    return;
  keeper->state = KEEPER_ENDING;
  engine_timer_stop(&keeper->fork_timer);
  while (keeper_unpark(keeper)) {}
  if (keeper->socket_polled)
    uv_close((uv_handle_t *)&keeper->socket_poll, on_keeper_handle_closed);
  keeper->socket_polled = false;
  close(keeper->socket);
  keeper->socket = -1;
  while (keeper->cells)
    cell_on_lost(keeper->cells);
  free(keeper->orders.list);
  keeper->orders = (struct orders){0};
  keeper->place = NULL;
  COUNT(keeper->local->pool->counters.zygotes, -1);
  if (by_force)
    kill_keeper(keeper);
  await_end(keeper, keeper->launched ? LAUNCHED_END_US : END_US);
  if (keeper->why.code == JAIL_OK) {
    error_set(&keeper->why, JAIL_UNAVAILABLE, "the local jail's keeper for %s has ended",
              jail_language_name(keeper->language));
    keeper->why.retryable = true;
  }
  place_on_end(place, keeper);
}
