// backend_darwin_cell.c: one cell: its pipes, its guard, the job that goes into
// it, and its end. See backend_darwin.h; what comes out of it is backend_darwin_read.c's.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend_darwin.h"
#include "error.h"
#include "wire.h"

enum { ARGUMENTS_MAX = 256, NUMBERS_FROM = 64 };

// ---- death ----

static void end_of_handle(struct solo_cell *cell) {
  if (cell->handles || !cell->gone)
    return;
  COUNT(cell->place->solo->pool->counters.cells[cell->place->language], -1);
  solo_on_gone(cell);
  free(cell->body);
  free(cell);
}

static void on_closed(uv_handle_t *handle) {
  struct solo_cell *cell = handle->data;
  cell->handles--;
  end_of_handle(cell);
}

void solo_cell_close_line(struct solo_line *line) {
  if (line->fd < 0)
    return;
  if (line->poll.data)
    uv_close((uv_handle_t *)&line->poll, on_closed); // before the descriptor
  close(line->fd);
  line->fd = -1;
}

// A guard ends soon after its cell. One that does not is killed, and its cell with it, as far as they are one group.
void solo_cell_reap(struct engine_timer *timer) {
  struct solo_cell *cell = CONTAINER_OF(timer, struct solo_cell, timer);
  int status;
  pid_t ended = cell->guard > 0 ? waitpid(cell->guard, &status, WNOHANG) : -1;
  if (ended == 0) {
    if (cell->deadline_us <= engine_now_us())
      kill(-cell->guard, SIGKILL);
    engine_timer_start(timer, SOLO_REAP_US, solo_cell_reap);
    return;
  }
  cell->gone = true;
  end_of_handle(cell);
}

// Its guard's socket ends, so the guard kills. Everything that the cell says from now on is nobody's.
void solo_cell_end(struct solo_cell *cell) {
  if (cell->state == SOLO_PARKED)
    COUNT(cell->place->solo->pool->counters.parked[cell->place->language], -1);
  cell->state = SOLO_ENDING;
  cell->run = NULL;
  if (cell->pid > 0) // while its guard has not told its end, this pid is the cell's
    kill(-cell->pid, SIGKILL);
  for (int i = 0; i < SOLO_LINE_COUNT; i++)
    solo_cell_close_line(&cell->lines[i]);
  for (int i = 0; i < 2; i++)
    capture_free(&cell->out[i]);
  cell->deadline_us = engine_now_us() + SOLO_GONE_US;
  engine_timer_start(&cell->timer, 0, solo_cell_reap);
}

// ---- birth ----

static void on_boot_late(struct engine_timer *timer) {
  solo_on_failed(CONTAINER_OF(timer, struct solo_cell, timer), "boot: the runtime did not get ready in time");
}

static void on_ready(struct solo_cell *cell) {
  char text[640];
  const bool isolated = (cell->layers & SOLO_ISOLATED) == SOLO_ISOLATED;
  int size = snprintf(text, sizeof text, "runtime=%.100s%cisolation=%s%c", cell->word.text, 0,
                      isolated ? "process" : "unverified", 0);
  for (uint32_t i = 0; i < SOLO_LAYER_COUNT; i++)
    if (!(cell->layers & SOLO_BIT(i)))
      size += snprintf(text + size, sizeof text - (size_t)size, "missing=%s:%.60s%c", jail_layer_name(i),
                       cell->why[0] ? cell->why : "it was tried, and did not hold", 0);
  cell->info = engine_intern_place(text, (size_t)size);
  uint64_t peak;
  if (!solo_usage(cell->pid, &cell->cpu_base_ns, &cell->base_bytes, &peak))
    cell->cpu_base_ns = cell->base_bytes = 0;
  engine_timer_stop(&cell->timer);
  cell->state = SOLO_PARKED;
  COUNT(cell->place->solo->pool->counters.parked[cell->place->language], 1);
  solo_on_parked(cell);
}

// What the cell says before it has its job; nothing of the user's has run in it.
static void on_word(uv_poll_t *poll, int status, int events) {
  struct solo_cell *cell = poll->data;
  (void)status, (void)events;
  if (cell->state == SOLO_BUSY) { // only writable now
    if (solo_cell_write(cell))
      solo_cell_close_line(&cell->lines[SOLO_JOB]);
    return;
  }
  ssize_t size = recv(cell->lines[SOLO_JOB].fd, (char *)&cell->word + cell->word_got,
                      sizeof cell->word - cell->word_got, MSG_DONTWAIT);
  if (size < 0 && (errno == EAGAIN || errno == EINTR))
    return;
  if (size <= 0) {
    solo_on_failed(cell, "boot: the runtime ended before it was ready");
    return;
  }
  cell->word_got += (size_t)size;
  if (cell->word_got < sizeof cell->word)
    return;
  cell->word_got = 0;
  cell->word.text[sizeof cell->word.text - 1] = 0;
  if (cell->word.type == SOLO_WALLED && cell->pid == 0 && cell->word.pid > 0) {
    cell->pid = cell->word.pid;
    cell->layers = cell->word.layers & ((1u << SOLO_LAYER_COUNT) - 1);
    memcpy(cell->why, cell->word.text, sizeof cell->why);
  } else if (cell->word.type == SOLO_READY && cell->pid && cell->state == SOLO_BOOTING)
    on_ready(cell);
  else
    solo_on_failed(cell, cell->word.type == SOLO_FAILED ? cell->word.text : "boot: the runtime spoke out of turn");
}

// The child's end lies above all numbers that the child gives out, so that none is overwritten too early.
static int connect_line(struct solo_cell *cell, enum solo_line_kind kind, int *theirs) {
  int ends[2];
  bool two_way = kind == SOLO_JOB || kind == SOLO_GUARD;
  if (two_way ? socketpair(AF_UNIX, SOCK_STREAM, 0, ends) : pipe(ends))
    return -1;
  *theirs = fcntl(ends[1], F_DUPFD_CLOEXEC, NUMBERS_FROM);
  close(ends[1]);
  struct solo_line *line = &cell->lines[kind];
  line->fd = ends[0];
#ifdef SO_NOSIGPIPE
  int on = 1;
  if (two_way)
    setsockopt(ends[0], SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
#endif
  if (*theirs < 0 || fcntl(ends[0], F_SETFD, FD_CLOEXEC) || fcntl(ends[0], F_SETFL, O_NONBLOCK) ||
      uv_poll_init(engine_loop(), &line->poll, ends[0]))
    return -1;
  line->poll.data = cell;
  cell->handles++;
  static const uv_poll_cb calls[SOLO_LINE_COUNT] = {solo_on_output, solo_on_output, solo_on_result, on_word,
                                                    solo_on_guard};
  return uv_poll_start(&line->poll, UV_READABLE, calls[kind]);
}

static int spawn(struct solo_cell *cell, int fds[SOLO_FD_COUNT]) {
  const struct pool *pool = cell->place->solo->pool;
  const char *text = pool->config.boot[cell->place->language];
  const size_t bytes = pool->config.boot_bytes[cell->place->language];
  const char *arguments[ARGUMENTS_MAX] = {pool->config.keeper}, *value;
  int count = 1;
  static const char *const keys[] = {"scratch", "allow_weak", "readable", "argument"};
  for (int i = 0; i < 4; i++) {
    if (i == 3)
      arguments[count++] = "--";
    for (size_t at = 0; (value = wire_value(text, bytes, keys[i], &at)) && count < ARGUMENTS_MAX - 2;)
      arguments[count++] = value;
  }
  return solo_spawn((char **)arguments, fds, &cell->guard);
}

struct solo_cell *solo_cell_start(struct solo_place *place, struct jail_error *error) {
  static const int at[SOLO_LINE_COUNT] = {1, 2, SOLO_RESULT_FD, SOLO_JOB_FD, SOLO_GUARD_FD};
  struct solo_cell *cell = calloc(1, sizeof *cell);
  int fds[SOLO_FD_COUNT] = {-1, -1, -1, -1, -1, -1}, failed = 0;
  if (!cell) {
    error_set(error, JAIL_UNAVAILABLE, "no memory for a cell");
    return NULL;
  }
  cell->place = place;
  for (int i = 0; i < SOLO_LINE_COUNT; i++) {
    cell->lines[i].cell = cell;
    cell->lines[i].fd = -1;
  }
  cell->next = place->solo->cells;
  place->solo->cells = cell;
  COUNT(place->solo->pool->counters.cells[place->language], 1);
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  fds[0] = null < 0 ? -1 : fcntl(null, F_DUPFD_CLOEXEC, NUMBERS_FROM);
  if (null >= 0)
    close(null);
  for (int i = 0; i < SOLO_LINE_COUNT && !failed; i++)
    if (fds[0] < 0 || connect_line(cell, (enum solo_line_kind)i, &fds[at[i]]))
      failed = errno ? errno : EMFILE;
  if (!failed)
    failed = spawn(cell, fds);
  for (int i = 0; i < SOLO_FD_COUNT; i++)
    if (fds[i] >= 0)
      close(fds[i]);
  if (!failed) {
    engine_timer_start(&cell->timer, SOLO_BOOT_US, on_boot_late);
    return cell;
  }
  cell->guard = 0;
  solo_cell_end(cell);
  error_set(error, JAIL_UNAVAILABLE, "a cell cannot be started: %s", strerror(failed));
  error->retryable = true;
  return NULL;
}

// ---- the job ----

int solo_cell_write(struct solo_cell *cell) {
  struct solo_line *line = &cell->lines[SOLO_JOB];
  struct jail_run *run = cell->run;
  while (line->fd >= 0 && cell->job_sent < run->payload_bytes) {
    ssize_t sent = send(line->fd, run->payload + cell->job_sent, run->payload_bytes - cell->job_sent, MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR)
      continue;
    if (sent < 0 && errno == EAGAIN)
      return uv_poll_start(&line->poll, UV_WRITABLE, on_word);
    if (sent < 0)
      return -1;
    cell->job_sent += (size_t)sent;
  }
  if (cell->job_sent == run->payload_bytes)
    solo_cell_close_line(line);
  return 0;
}

// What reading and compiling may take on top of the user's time.
static uint64_t allowance_us(const struct jail_request *request) {
  return 20000 + request->code_bytes * 1000 / 1024 + (request->input_bytes + request->files_bytes) * 1000 / 32768;
}

void solo_cell_take(struct solo_cell *cell, struct jail_run *run) {
  COUNT(cell->place->solo->pool->counters.parked[cell->place->language], -1);
  cell->state = SOLO_BUSY;
  cell->run = run;
  run->backend_data = cell;
  run->state = RUN_RUNNING;
  run->sent_us = engine_now_us();
  run->outcome.place = cell->info;
  run->outcome.layers = cell->layers;
  cell->deadline_us = run->sent_us + (uint64_t)run->request.timeout_ms * 1000 + allowance_us(&run->request);
  for (int i = 0; i < 2; i++)
    capture_init(&cell->out[i], run->request.max_output_bytes);
  if (solo_cell_write(cell))
    solo_cell_close_line(&cell->lines[SOLO_JOB]); // it has died: its guard tells the rest
  engine_timer_start(&cell->timer, 0, solo_on_watch);
}
