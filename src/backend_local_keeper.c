// backend_local_keeper.c: the talk with one keeper: orders to it, reports from it.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backend_local.h"
#include "error.h"
#include "wire.h"

enum {
  FORK_US = 30000000,    // the keeper gives up on a cell after 2 * 10 s itself
  FORK_PAUSE_US = 50000, // after a cell that could not be made, doubled each time
  FORK_FAILURES_MAX = 4,
  REPORTS_PER_TURN = 64,
};

// ---- orders ----

static void want_writable(struct keeper *keeper) {
  if (!keeper->socket_polled)
    return;
  uv_poll_start(&keeper->socket_poll, UV_READABLE | (keeper->orders.count ? UV_WRITABLE : 0), keeper_on_socket);
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
  // ECONNRESET comes once, before the last words of a keeper that had orders unread.
  ssize_t size;
  do
    size = recvmsg(keeper->socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  while (size < 0 && (errno == EINTR || errno == ECONNRESET));
  if (size < 0)
    return errno == EAGAIN ? 0 : -1;
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
  place_on_ready(keeper);
}

static void on_fork_pause_over(struct engine_timer *timer) {
  struct keeper *keeper = CONTAINER_OF(timer, struct keeper, fork_timer);
  struct pool *pool = keeper->local->pool;
  place_on_free(keeper);
  pool_pump(pool);
}

// A cell that was not to be: tried again, after a pause, but not for ever.
static void count_fork_failure(struct keeper *keeper, const char *text, size_t bytes) {
  char why[300];
  size_t size = bytes < sizeof why - 1 ? bytes : sizeof why - 1;
  memcpy(why, text, size);
  why[size] = 0;
  error_from_stage(&keeper->why, jail_language_name(keeper->language), why);
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
  place_on_parked(keeper);
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
  place_on_free(keeper);
}

static void on_failed(struct keeper *keeper, const struct delivery *in) {
  struct cell *cell = in->report.cell ? find(keeper, in->report.cell) : NULL;
  if (in->report.cell == 0) { // the keeper says farewell; its socket's end follows
    char text[300];
    size_t size = in->text_bytes < sizeof text - 1 ? in->text_bytes : sizeof text - 1;
    memcpy(text, in->text, size);
    text[size] = 0;
    error_from_stage(&keeper->why, jail_language_name(keeper->language), text);
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

void keeper_take_reports(struct keeper *keeper) {
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

void keeper_on_socket(uv_poll_t *poll, int status, int events) {
  struct keeper *keeper = poll->data;
  struct pool *pool = keeper->local->pool;
  if (status == 0 && events & UV_WRITABLE)
    send_held(keeper);
  keeper_take_reports(keeper);
  pool_pump(pool);
}
