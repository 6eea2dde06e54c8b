// backend_local_cell.c: one cell's resources, and the job that goes into it over
// its socket. What comes out of it is backend_local_end.c's.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backend_local.h"
#include "wire.h"

// ---- birth and death ----

struct cell *cell_new(struct keeper *keeper, uint32_t id) {
  struct cell *cell = calloc(1, sizeof *cell);
  if (!cell)
    return NULL;
  cell->keeper = keeper;
  cell->id = id;
  cell->pidfd = cell->status_fd = cell->job_fd = -1;
  for (int i = 0; i < PIPE_COUNT; i++) {
    cell->write_ends[i] = -1;
    cell->streams[i].cell = cell;
    cell->streams[i].fd = -1;
  }
  cell->next = keeper->cells;
  if (keeper->cells)
    keeper->cells->prev = cell;
  keeper->cells = cell;
  keeper->cell_count++;
  COUNT(keeper->local->pool->counters.cells[keeper->language], 1);
  return cell;
}

static void close_fd(int *fd) {
  if (*fd >= 0)
    close(*fd);
  *fd = -1;
}

static void on_handle_closed(uv_handle_t *handle) {
  struct cell *cell = handle->data;
  if (--cell->handles == 0 && cell->state == CELL_GONE)
    free(cell);
}

void cell_close_stream(struct stream *stream) {
  if (stream->fd < 0)
    return;
  uv_close((uv_handle_t *)&stream->poll, on_handle_closed); // before the descriptor
  close_fd(&stream->fd);
}

static void stop_writing(struct cell *cell) {
  if (cell->job_polled)
    uv_close((uv_handle_t *)&cell->job_poll, on_handle_closed);
  cell->job_polled = false;
}

// Everything but the memory of its place in the keeper's list.
static void close_all(struct cell *cell) {
  stop_writing(cell);
  close_fd(&cell->job_fd);
  for (int i = 0; i < PIPE_COUNT; i++) {
    cell_close_stream(&cell->streams[i]);
    close_fd(&cell->write_ends[i]);
    capture_free(&cell->streams[i].capture);
  }
  close_fd(&cell->pidfd);
  close_fd(&cell->status_fd);
  free(cell->body);
  cell->body = NULL;
  wire_fault_free(&cell->where);
}

void cell_free(struct cell *cell) {
  struct keeper *keeper = cell->keeper;
  engine_timer_stop(&cell->timer);
  close_all(cell);
  if (cell->prev)
    cell->prev->next = cell->next;
  else
    keeper->cells = cell->next;
  if (cell->next)
    cell->next->prev = cell->prev;
  keeper->cell_count--;
  COUNT(keeper->local->pool->counters.cells[keeper->language], -1);
  cell->state = CELL_GONE;
  if (cell->handles == 0)
    free(cell);
}

void cell_kill(const struct cell *cell) {
  if (cell->pidfd >= 0)
    syscall(SYS_pidfd_send_signal, cell->pidfd, SIGKILL, NULL, 0);
}

void cell_on_no_gone(struct engine_timer *timer) {
  struct cell *cell = CONTAINER_OF(timer, struct cell, timer);
  struct pool *pool = cell->keeper->local->pool;
  if (engine_timer_late(timer))
    engine_timer_start(timer, LOCAL_REACT_US, cell_on_no_gone);
  else
    keeper_end(cell->keeper, true); // stuck; takes the cell
  pool_pump(pool);
}

void cell_end_within(struct cell *cell, uint64_t patience_us) {
  if (cell->state == CELL_BUSY)
    cell->keeper->busy--;
  if (cell->state == CELL_FORKING)
    cell->keeper->forking--;
  cell->state = CELL_ENDING;
  cell->run = NULL;
  keeper_order(cell->keeper, ORDER_KILL, cell->id, 0, 0);
  close_all(cell);
  engine_timer_start(&cell->timer, patience_us, cell_on_no_gone);
}

void cell_end(struct cell *cell) {
  cell_end_within(cell, LOCAL_GONE_US);
}

void cell_abandon(struct cell *cell) {
  cell_kill(cell); // not by way of the keeper: 50 ms are promised
  cell->run->backend_data = NULL;
  cell_end(cell);
}

// ---- parking ----

// Made ahead, so that a run pays for none of it.
static int make_pipe(struct cell *cell, int which) {
  struct stream *stream = &cell->streams[which];
  int ends[2];
  if (pipe2(ends, O_CLOEXEC))
    return -1;
  cell->write_ends[which] = ends[1];
  stream->fd = ends[0];
  stream->poll.data = cell;
  if (fcntl(ends[0], F_SETFL, O_NONBLOCK) || uv_poll_init(engine_loop(), &stream->poll, ends[0])) {
    close_fd(&stream->fd);
    return -1;
  }
  cell->handles++;
  return uv_poll_start(&stream->poll, UV_READABLE, which == PIPE_RESULT ? cell_on_result : cell_on_output);
}

int cell_park(struct cell *cell, const struct report *report, int job_fd, int pidfd) {
  char path[40];
  snprintf(path, sizeof path, "/proc/%d/status", (int)report->pid);
  cell->job_fd = job_fd;
  cell->pidfd = pidfd;
  cell->pid = report->pid;
  cell->layers = report->layers;
  cell->cpu_base_ns = report->cpu_ns;
  cell->rss_base_bytes = report->rss_bytes;
  // Opened now: later its pid could be another's. Not there in some sandboxes.
  cell->status_fd = open(path, O_RDONLY | O_CLOEXEC);
  for (int i = 0; i < PIPE_COUNT; i++)
    if (make_pipe(cell, i))
      return -1;
  return 0;
}

// ---- the job ----

// 0 done or under way, -1 if nothing could be written.
static int write_job(struct cell *cell);

static void on_job_writable(uv_poll_t *poll, int status, int events) {
  struct cell *cell = poll->data;
  (void)events;
  if (status < 0 || write_job(cell))
    stop_writing(cell); // it has died: its pipes and GONE tell the rest
}

static ssize_t send_part(struct cell *cell) {
  struct jail_run *run = cell->run;
  char control[CMSG_SPACE(PIPE_COUNT * sizeof(int))] = {0};
  struct iovec part = {run->payload + cell->job_sent, run->payload_bytes - cell->job_sent};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  if (cell->job_sent == 0) { // the descriptors belong to the first byte
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(PIPE_COUNT * sizeof(int));
    memcpy(CMSG_DATA(head), cell->write_ends, PIPE_COUNT * sizeof(int));
  }
  ssize_t sent;
  do
    sent = sendmsg(cell->job_fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  while (sent < 0 && errno == EINTR);
  return sent;
}

static int poll_job(struct cell *cell) {
  if (cell->job_polled)
    return 0;
  if (uv_poll_init(engine_loop(), &cell->job_poll, cell->job_fd))
    return -1;
  cell->job_poll.data = cell;
  cell->job_polled = true;
  cell->handles++;
  return uv_poll_start(&cell->job_poll, UV_WRITABLE, on_job_writable);
}

static int write_job(struct cell *cell) {
  struct jail_run *run = cell->run;
  while (cell->job_sent < run->payload_bytes) {
    ssize_t sent = send_part(cell);
    if (sent < 0)
      return errno == EAGAIN && cell->job_sent ? poll_job(cell) : -1;
    cell->job_sent += (size_t)sent;
  }
  run->sent_us = engine_now_us();
  stop_writing(cell); // our end stays open: see cell_left_job
  return 0;
}

// A socket whose other end went away with unread data in it says so.
bool cell_left_job(const struct cell *cell, char why[JOB_BACK_MAX]) {
  ssize_t got = cell->job_fd < 0 ? 0 : recv(cell->job_fd, why, JOB_BACK_MAX - 1, MSG_DONTWAIT);
  why[got > 0 ? got : 0] = 0;
  return got > 0 || (got < 0 && errno == ECONNRESET);
}

// What reading and compiling may take on top of the user's time: a Python text
// of 1 MiB took 0.6 s to compile, 16 MiB of JSON 0.2 s to read.
static uint64_t allowance_us(const struct jail_request *request) {
  return 20000 + request->code_bytes * 1000 / 1024 + (request->input_bytes + request->files_bytes) * 1000 / 32768;
}

int cell_take(struct cell *cell, struct jail_run *run) {
  uint64_t time_us = (uint64_t)run->request.timeout_ms * 1000 + allowance_us(&run->request);
  cell->run = run;
  if (write_job(cell)) {
    cell->run = NULL;
    return -1;
  }
  if (!run->sent_us)
    run->sent_us = engine_now_us(); // a large one: until it is written this stands in
  keeper_order(cell->keeper, ORDER_ARM, cell->id, time_us, (uint64_t)run->request.memory_mb << 20);
  for (int i = 0; i < PIPE_COUNT; i++)
    close_fd(&cell->write_ends[i]);
  capture_init(&cell->streams[PIPE_OUT].capture, run->request.max_output_bytes);
  capture_init(&cell->streams[PIPE_ERR].capture, run->request.max_output_bytes);
  cell->state = CELL_BUSY;
  cell->keeper->busy++;
  run->state = RUN_RUNNING;
  run->backend_data = cell;
  run->outcome.place = cell->keeper->info;
  run->outcome.layers = cell->layers;
  engine_timer_start(&cell->timer, time_us + LOCAL_GUARD_US, cell_on_guard);
  return 0;
}
