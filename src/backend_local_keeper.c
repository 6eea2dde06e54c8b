// backend_local_keeper.c: one keeper process. It is the only child of this
// process; it is spawned without copying the host's memory, told what to do in
// datagrams, and reaped by its own pid alone, in a host that may ignore SIGCHLD
// or wait for any child it finds.
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
#include "wire.h"

enum {
  BOOT_US = 40000000,    // the keeper gives up after 30 s itself
  FORK_US = 30000000,    // likewise for cells, 2 * 10 s
  END_US = 1000000,      // after this it is killed
  LOOK_US = 5000,        // how often to look for its end, where there are no pidfds
  FORK_PAUSE_US = 50000, // after a cell that could not be made, doubled each time
  FORK_FAILURES_MAX = 4,
  REPORTS_PER_TURN = 64,
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

static int send_boot(int socket, const char *text, size_t bytes) {
  struct order order = {.type = ORDER_BOOT};
  struct iovec parts[2] = {{&order, sizeof order}, {(void *)text, bytes}};
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
  if (bytes > PROTOCOL_MESSAGE_MAX - sizeof order)
    return EMSGSIZE;
  return sendmsg(socket, &message, MSG_NOSIGNAL) < 0 ? errno : 0;
}

static void on_socket(uv_poll_t *poll, int status, int events);
static void on_exit_news(uv_poll_t *poll, int status, int events);
static void on_boot_late(struct engine_timer *timer);

static void watch_socket(struct keeper *keeper, int socket) {
  keeper->socket = socket;
  if (uv_poll_init(engine_loop(), &keeper->socket_poll, socket))
    return; // the boot's time-out then ends it
  keeper->socket_poll.data = keeper;
  keeper->socket_polled = true;
  keeper->handles++;
  uv_poll_start(&keeper->socket_poll, UV_READABLE, on_socket);
}

static void watch_pid(struct keeper *keeper) {
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
    result = spawn(config->keeper, pair[1], &keeper->pid);
  if (pair[1] >= 0)
    close(pair[1]);
  if (result) {
    bool missing = result == ENOENT || result == EACCES || result == ENOEXEC;
    error_set(error, missing ? JAIL_CONFIG : JAIL_UNAVAILABLE, "%s cannot be started: %s%s", config->keeper,
              strerror(result), missing ? " (npm run build)" : "");
    if (pair[0] >= 0)
      close(pair[0]);
    free(keeper);
    return NULL;
  }
  keeper->local = place->local;
  keeper->place = place;
  keeper->language = place->language;
  keeper->cold = config->cold;
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

// ---- orders ----

static void want_writable(struct keeper *keeper) {
  if (!keeper->socket_polled)
    return;
  uv_poll_start(&keeper->socket_poll, UV_READABLE | (keeper->orders.count ? UV_WRITABLE : 0), on_socket);
}

static void hold_order(struct keeper *keeper, const struct order *order) {
  struct orders *held = &keeper->orders;
  if (held->count == held->room) {
    size_t room = held->room ? held->room * 2 : 32;
    struct order *list = realloc(held->list, room * sizeof *list);
    if (!list)
      return; // our own timers find out what is missing
    held->list = list;
    held->room = room;
  }
  held->list[held->count++] = *order;
  want_writable(keeper);
}

static bool try_order(const struct keeper *keeper, const struct order *order) {
  ssize_t sent;
  do
    sent = send(keeper->socket, order, sizeof *order, MSG_NOSIGNAL | MSG_DONTWAIT);
  while (sent < 0 && errno == EINTR);
  return sent >= 0 || errno != EAGAIN; // any other error: its end is near, and noticed elsewhere
}

void keeper_order(struct keeper *keeper, uint32_t type, uint32_t cell, uint64_t deadline_us, uint64_t memory_bytes) {
  struct order order = {type, cell, deadline_us, memory_bytes};
  if (keeper->socket < 0)
    return;
  if (keeper->orders.count || !try_order(keeper, &order))
    hold_order(keeper, &order);
}

static void send_held(struct keeper *keeper) {
  struct orders *held = &keeper->orders;
  size_t done = 0;
  while (done < held->count && try_order(keeper, &held->list[done]))
    done++;
  held->count -= done;
  if (done)
    memmove(held->list, held->list + done, held->count * sizeof *held->list);
  want_writable(keeper);
}

// ---- parked cells ----

struct cell *keeper_unpark(struct keeper *keeper) {
  struct cell *cell = keeper->parked;
  if (!cell)
    return NULL;
  keeper->parked = cell->next_parked;
  keeper->parked_count--;
  COUNT(keeper->local->pool->counters.parked[keeper->language], -1);
  return cell;
}

static void park(struct keeper *keeper, struct cell *cell) {
  cell->state = CELL_PARKED;
  cell->next_parked = keeper->parked;
  keeper->parked = cell;
  keeper->parked_count++;
  COUNT(keeper->local->pool->counters.parked[keeper->language], 1);
}

static void unpark_this(struct keeper *keeper, struct cell *cell) {
  struct cell **link = &keeper->parked;
  while (*link && *link != cell)
    link = &(*link)->next_parked;
  if (!*link)
    return;
  *link = cell->next_parked;
  keeper->parked_count--;
  COUNT(keeper->local->pool->counters.parked[keeper->language], -1);
}

// ---- reports ----

struct delivery {
  struct report report;
  const char *text; // within bytes
  size_t text_bytes;
  int fds[2];
  int fd_count;
  char bytes[PROTOCOL_MESSAGE_MAX];
};

static void take_fds(struct msghdr *message, struct delivery *in) {
  in->fd_count = 0;
  in->fds[0] = in->fds[1] = -1;
  for (struct cmsghdr *head = CMSG_FIRSTHDR(message); head; head = CMSG_NXTHDR(message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
      continue;
    int count = (int)((head->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    for (int i = 0; i < count; i++) {
      int fd;
      memcpy(&fd, CMSG_DATA(head) + (size_t)i * sizeof fd, sizeof fd);
      if (in->fd_count < 2)
        in->fds[in->fd_count++] = fd;
      else
        close(fd);
    }
  }
}

// 1 a report, 0 nothing for now, -1 the end.
static int receive(struct keeper *keeper, struct delivery *in) {
  char control[CMSG_SPACE(4 * sizeof(int))];
  struct iovec part = {in->bytes, sizeof in->bytes};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  ssize_t size = recvmsg(keeper->socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (size < 0)
    return errno == EAGAIN || errno == EINTR ? 0 : -1;
  take_fds(&message, in);
  if (size > 0 && wire_report(in->bytes, (size_t)size, &in->report, &in->text, &in->text_bytes))
    return 1;
  for (int i = 0; i < in->fd_count; i++)
    close(in->fds[i]);
  return -1;
}

static struct cell *find(const struct keeper *keeper, uint32_t id) {
  struct cell *cell = keeper->cells;
  while (cell && cell->id != id)
    cell = cell->next;
  return cell;
}

static void on_fork_late(struct engine_timer *timer) {
  struct keeper *keeper = CONTAINER_OF(timer, struct keeper, timer);
  struct pool *pool = keeper->local->pool;
  if (engine_timer_late(timer))
    engine_timer_start(timer, FORK_US, on_fork_late);
  else
    keeper_end(keeper, true);
  pool_pump(pool);
}

// The time of the next sign of life: cells are being made, or nothing is due.
static void expect_life(struct keeper *keeper) {
  if (keeper->forking)
    engine_timer_start(&keeper->timer, FORK_US, on_fork_late);
  else
    engine_timer_stop(&keeper->timer);
}

void keeper_fork(struct keeper *keeper) {
  if (keeper->cell_count >= LOCAL_CELLS_MAX)
    return;
  if (++keeper->next_cell == 0)
    keeper->next_cell = 1;
  if (!cell_new(keeper, keeper->next_cell))
    return;
  keeper->forking++;
  keeper_order(keeper, ORDER_FORK, keeper->next_cell, 0, 0);
  expect_life(keeper);
}

static void on_ready(struct keeper *keeper, const struct delivery *in) {
  size_t at = 0;
  if (keeper->state != KEEPER_BOOTING)
    return;
  const char *isolation = wire_value(in->text, in->text_bytes, "isolation", &at);
  keeper->state = KEEPER_READY;
  keeper->verified = !isolation || strcmp(isolation, "unverified") != 0;
  keeper->info = engine_intern_place(in->text, in->text_bytes);
  engine_timer_stop(&keeper->timer);
  place_on_ready(keeper->place);
}

static void on_fork_pause_over(struct engine_timer *timer) {
  struct keeper *keeper = CONTAINER_OF(timer, struct keeper, fork_timer);
  struct pool *pool = keeper->local->pool;
  if (keeper->place)
    place_on_free(keeper->place);
  pool_pump(pool);
}

// A cell that was not to be: tried again, after a pause, but not for ever.
static void count_fork_failure(struct keeper *keeper, const char *text, size_t bytes) {
  char why[300];
  size_t size = bytes < sizeof why - 1 ? bytes : sizeof why - 1;
  memcpy(why, text, size);
  why[size] = 0;
  error_from_stage(&keeper->why, local_language(keeper->language), why);
  if (++keeper->fork_failures >= FORK_FAILURES_MAX)
    keeper_end(keeper, false);
  else
    engine_timer_start(&keeper->fork_timer, (uint64_t)FORK_PAUSE_US << keeper->fork_failures, on_fork_pause_over);
}

static void on_parked(struct keeper *keeper, struct delivery *in) {
  struct cell *cell = find(keeper, in->report.cell);
  if (!cell || in->fd_count < 1 || (cell->state != CELL_FORKING && cell->state != CELL_ENDING)) {
    for (int i = 0; i < in->fd_count; i++)
      close(in->fds[i]);
    return;
  }
  if (cell->state == CELL_ENDING) { // ended before it parked
    close(in->fds[0]);
    if (in->fds[1] >= 0)
      close(in->fds[1]);
    return;
  }
  if (cell_park(cell, &in->report, in->fds[0], in->fds[1])) {
    static const char why[] = "fork: no descriptors for a further cell's pipes (ulimit -n)";
    cell_end(cell);
    expect_life(keeper);
    count_fork_failure(keeper, why, sizeof why - 1);
    return;
  }
  keeper->forking--;
  keeper->fork_failures = 0;
  expect_life(keeper);
  park(keeper, cell);
  place_on_parked(keeper->place, keeper);
}

static void on_gone(struct keeper *keeper, const struct delivery *in) {
  static const char why[] = "fork: a cell ended before it had a job";
  struct cell *cell = find(keeper, in->report.cell);
  if (!cell)
    return; // FAILED came before
  bool early = cell->state == CELL_FORKING || cell->state == CELL_PARKED;
  if (cell->state == CELL_FORKING)
    keeper->forking--;
  if (cell->state == CELL_PARKED)
    unpark_this(keeper, cell);
  cell_on_gone(cell, &in->report);
  if (early && in->report.verdict != VERDICT_LOST)
    count_fork_failure(keeper, why, sizeof why - 1);
  if (keeper->place)
    place_on_free(keeper->place);
}

static void on_failed(struct keeper *keeper, const struct delivery *in) {
  struct cell *cell = in->report.cell ? find(keeper, in->report.cell) : NULL;
  if (in->report.cell == 0) { // the keeper says farewell; its socket's end follows
    char text[300];
    size_t size = in->text_bytes < sizeof text - 1 ? in->text_bytes : sizeof text - 1;
    memcpy(text, in->text, size);
    text[size] = 0;
    error_from_stage(&keeper->why, local_language(keeper->language), text);
    keeper_end(keeper, false);
    return;
  }
  if (!cell || cell->state == CELL_BUSY)
    return; // a cell that has a job can no longer say so: GONE decides
  if (cell->state == CELL_FORKING)
    keeper->forking--;
  if (cell->state == CELL_PARKED)
    unpark_this(keeper, cell);
  cell_on_gone(cell, &in->report);
  expect_life(keeper);
  count_fork_failure(keeper, in->text, in->text_bytes);
}

// false once the keeper is no longer to be listened to.
static bool take_report(struct keeper *keeper, struct delivery *in) {
  switch (in->report.type) {
  case REPORT_READY:
    on_ready(keeper, in);
    break;
  case REPORT_PARKED:
    on_parked(keeper, in);
    break;
  case REPORT_GONE:
    on_gone(keeper, in);
    break;
  default:
    on_failed(keeper, in);
  }
  return keeper->state != KEEPER_ENDING;
}

static void take_reports(struct keeper *keeper) {
  static struct delivery in; // 64 KiB; this thread only
  int got = 1;
  for (int i = 0; i < REPORTS_PER_TURN && got == 1; i++) {
    got = receive(keeper, &in);
    if (got == 1 && !take_report(keeper, &in))
      return;
  }
  if (got < 0)
    keeper_end(keeper, false);
}

static void on_socket(uv_poll_t *poll, int status, int events) {
  struct keeper *keeper = poll->data;
  struct pool *pool = keeper->local->pool;
  if (status == 0 && events & UV_WRITABLE)
    send_held(keeper);
  take_reports(keeper);
  pool_pump(pool);
}

// ---- death ----

static void on_boot_late(struct engine_timer *timer) {
  struct keeper *keeper = CONTAINER_OF(timer, struct keeper, timer);
  struct pool *pool = keeper->local->pool;
  error_set(&keeper->why, JAIL_UNAVAILABLE, "the local jail for %s was not ready within %d s",
            local_language(keeper->language), BOOT_US / 1000000);
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
  do
    got = waitpid(keeper->pid, NULL, WNOHANG);
  while (got < 0 && errno == EINTR);
  return got != 0;
}

static void kill_keeper(const struct keeper *keeper) {
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
    take_reports(keeper);
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
  bool was_ready = keeper->state == KEEPER_READY;
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
  await_end(keeper, END_US);
  if (keeper->why.code == JAIL_OK) {
    error_set(&keeper->why, JAIL_UNAVAILABLE, "the local jail's keeper for %s has ended",
              local_language(keeper->language));
    keeper->why.retryable = true;
  }
  place_on_end(place, &keeper->why, was_ready);
}
