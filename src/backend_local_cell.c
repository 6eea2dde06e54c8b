// backend_local_cell.c: one cell as the engine sees it. A job goes in over its
// socket; a frame comes back over its result pipe, output over two more. All
// that it says is hostile; what became of it is judged by the frame, by the
// keeper's verdict and by the wait status, in that order.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backend_local.h"
#include "error.h"
#include "text.h"
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

static void close_stream(struct stream *stream) {
  if (stream->fd < 0)
    return;
  uv_close((uv_handle_t *)&stream->poll, on_handle_closed); // before the descriptor
  close_fd(&stream->fd);
}

static void close_job(struct cell *cell) {
  if (cell->job_polled)
    uv_close((uv_handle_t *)&cell->job_poll, on_handle_closed);
  cell->job_polled = false;
  close_fd(&cell->job_fd);
}

// Everything but the memory of its place in the keeper's list.
static void close_all(struct cell *cell) {
  close_job(cell);
  for (int i = 0; i < PIPE_COUNT; i++) {
    close_stream(&cell->streams[i]);
    close_fd(&cell->write_ends[i]);
    capture_free(&cell->streams[i].capture);
  }
  close_fd(&cell->pidfd);
  close_fd(&cell->status_fd);
  free(cell->body);
  cell->body = NULL;
}

// Takes the cell.
static void cell_free(struct cell *cell) {
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

static void kill_now(struct cell *cell) {
  if (cell->pidfd >= 0)
    syscall(SYS_pidfd_send_signal, cell->pidfd, SIGKILL, NULL, 0);
}

static void on_no_gone(struct engine_timer *timer) {
  struct cell *cell = CONTAINER_OF(timer, struct cell, timer);
  struct pool *pool = cell->keeper->local->pool;
  if (engine_timer_late(timer))
    engine_timer_start(timer, LOCAL_REACT_US, on_no_gone);
  else
    keeper_end(cell->keeper, true); // stuck; takes the cell
  pool_pump(pool);
}

static void end_within(struct cell *cell, uint64_t patience_us) {
  if (cell->state == CELL_BUSY)
    cell->keeper->busy--;
  if (cell->state == CELL_FORKING)
    cell->keeper->forking--;
  cell->state = CELL_ENDING;
  cell->run = NULL;
  keeper_order(cell->keeper, ORDER_KILL, cell->id, 0, 0);
  close_all(cell);
  engine_timer_start(&cell->timer, patience_us, on_no_gone);
}

void cell_end(struct cell *cell) {
  end_within(cell, LOCAL_GONE_US);
}

void cell_abandon(struct cell *cell) {
  kill_now(cell); // not by way of the keeper: 50 ms are promised
  cell->run->backend_data = NULL;
  cell_end(cell);
}

// ---- parking ----

static void on_output(uv_poll_t *poll, int status, int events);
static void on_result(uv_poll_t *poll, int status, int events);

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
  return uv_poll_start(&stream->poll, UV_READABLE, which == PIPE_RESULT ? on_result : on_output);
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
    close_job(cell); // it has died: its pipes and GONE tell the rest
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
  close_job(cell);
  return 0;
}

// What reading and compiling may take on top of the user's time: a Python text
// of 1 MiB took 0.6 s to compile, 16 MiB of JSON 0.2 s to read.
static uint64_t allowance_us(const struct jail_request *request) {
  return 100000 + request->code_bytes * 1000 / 1024 + request->input_bytes * 1000 / 32768;
}

static void on_guard(struct engine_timer *timer);

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
  engine_timer_start(&cell->timer, time_us + LOCAL_GUARD_US, on_guard);
  return 0;
}

// ---- usage ----

// From outside, while it still lives: whatever it says of itself counts for nothing.
static void measure_alive(struct cell *cell) {
  struct jail_outcome *outcome = &cell->run->outcome;
  char text[2048];
  clockid_t clock;
  struct timespec used;
  ssize_t size = cell->status_fd < 0 ? -1 : pread(cell->status_fd, text, sizeof text - 1, 0);
  if (size <= 0)
    return; // it has ended, so its pid says nothing either
  text[size] = 0;
  const char *peak = strstr(text, "\nVmHWM:");
  if (peak) {
    uint64_t bytes = strtoull(peak + 7, NULL, 10) * 1024;
    outcome->peak_bytes = bytes > cell->rss_base_bytes ? (int64_t)(bytes - cell->rss_base_bytes) : 0;
  }
  if (clock_getcpuclockid(cell->pid, &clock) == 0 && clock_gettime(clock, &used) == 0) {
    uint64_t ns = (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
    outcome->cpu_ns = ns > cell->cpu_base_ns ? (int64_t)(ns - cell->cpu_base_ns) : 0;
  }
}

static void measure_gone(struct cell *cell, const struct report *report) {
  struct jail_outcome *outcome = &cell->run->outcome;
  if (report->cpu_ns > cell->cpu_base_ns)
    outcome->cpu_ns = (int64_t)(report->cpu_ns - cell->cpu_base_ns);
  if (report->rss_bytes > cell->rss_base_bytes)
    outcome->peak_bytes = (int64_t)(report->rss_bytes - cell->rss_base_bytes);
}

// ---- output ----

static void finish(struct cell *cell);
static void fault_set(struct jail_run *run, enum jail_status status, const char *name, const char *format, ...)
  __attribute__((format(printf, 4, 5)));

// One read. false when there is nothing more for now, or for ever.
static bool pump(struct stream *stream) {
  char *scratch = stream->cell->keeper->local->scratch;
  if (stream->fd < 0)
    return false;
  ssize_t size = read(stream->fd, scratch, LOCAL_READ_BYTES);
  if (size > 0) {
    capture_add(&stream->capture, scratch, (size_t)size);
    return true;
  }
  if (size == 0)
    close_stream(stream);
  return false;
}

static bool over_output(const struct cell *cell) {
  return cell->streams[PIPE_OUT].capture.total + cell->streams[PIPE_ERR].capture.total > LOCAL_OUTPUT_BYTES;
}

static void on_output(uv_poll_t *poll, int status, int events) {
  (void)status;
  (void)events;
  struct stream *stream = CONTAINER_OF(poll, struct stream, poll);
  local_flag(stream->cell->keeper->local, stream);
}

void cell_pump(struct stream *stream) {
  struct cell *cell = stream->cell;
  if (cell->state != CELL_BUSY) { // nothing can have written before the job
    close_stream(stream);
    return;
  }
  if (!pump(stream) || !over_output(cell))
    return;
  measure_alive(cell);
  kill_now(cell);
  fault_set(cell->run, JAIL_STATUS_OUTPUT_LIMIT, "OutputLimitError",
            "The code wrote more than %d MiB to stdout and stderr and was stopped", LOCAL_OUTPUT_BYTES >> 20);
  cell->run->outcome.signal = SIGKILL;
  finish(cell);
}

// What was written before the end is in the pipes, and no more than a pipe holds
// can be: a flooding thread must not keep us here.
static void drain(struct stream *stream) {
  uint64_t before = stream->capture.total;
  while (stream->capture.total - before < LOCAL_READ_BYTES && pump(stream)) {}
}

static void take_output(struct stream *stream, struct jail_text *text, uint64_t *dropped) {
  char *bytes;
  size_t size;
  uint64_t total = stream->capture.total;
  drain(stream);
  if (capture_finish(&stream->capture, &bytes, &size, dropped) || text_take(text, bytes, bytes, size)) {
    *dropped = total; // no memory for it: at least the count is right
    *text = text_static("");
  }
}

// ---- settling ----

static void fault_set(struct jail_run *run, enum jail_status status, const char *name, const char *format, ...) {
  char message[256];
  struct jail_outcome *outcome = &run->outcome;
  va_list args;
  va_start(args, format);
  int size = vsnprintf(message, sizeof message, format, args);
  va_end(args);
  outcome->status = status;
  outcome->fault.present = true;
  outcome->fault.name = text_static(name);
  text_from_utf8(&outcome->fault.message, message, (size_t)size < sizeof message ? (size_t)size : sizeof message - 1);
}

static void fault_out_of_memory(struct cell *cell) {
  struct jail_run *run = cell->run;
  char peak[48] = "";
  if (run->outcome.peak_bytes > 0)
    snprintf(peak, sizeof peak, ", %lld MiB at its peak,", (long long)(run->outcome.peak_bytes >> 20));
  fault_set(run, JAIL_STATUS_OUT_OF_MEMORY, "OutOfMemoryError",
            "The code used more memory than memoryMb allows%s and was stopped; the limit is %u MiB", peak,
            run->request.memory_mb);
}

static void fault_killed(struct cell *cell, const char *why) {
  fault_set(cell->run, JAIL_STATUS_KILLED, "KilledError", "%s", why);
  cell->run->outcome.signal = SIGKILL;
}

static void fault_timeout(struct cell *cell) {
  fault_set(cell->run, JAIL_STATUS_TIMEOUT, "TimeoutError", "The code ran longer than %u ms and was stopped",
            cell->run->request.timeout_ms);
  cell->run->outcome.signal = SIGKILL;
}

// The outcome is filled but for the output. Settles, and forgets the run; what
// becomes of the cell is the caller's.
static void settle(struct cell *cell) {
  struct jail_run *run = cell->run;
  if (!run->finished_us)
    run->finished_us = engine_now_us();
  take_output(&cell->streams[PIPE_OUT], &run->outcome.out, &run->outcome.stdout_dropped);
  take_output(&cell->streams[PIPE_ERR], &run->outcome.err, &run->outcome.stderr_dropped);
  cell->run = NULL;
  run->backend_data = NULL;
  run_settle(run);
}

static void finish_within(struct cell *cell, uint64_t patience_us) {
  struct keeper *keeper = cell->keeper;
  struct pool *pool = keeper->local->pool;
  settle(cell);
  end_within(cell, patience_us);
  place_on_free(keeper->place);
  pool_pump(pool);
}

static void finish(struct cell *cell) {
  finish_within(cell, LOCAL_GONE_US);
}

static void on_guard(struct engine_timer *timer) {
  struct cell *cell = CONTAINER_OF(timer, struct cell, timer);
  if (engine_timer_late(timer)) { // we were stopped; the keeper's verdict is on its way
    engine_timer_start(timer, LOCAL_GUARD_US, on_guard);
    return;
  }
  measure_alive(cell);
  kill_now(cell);
  fault_timeout(cell);
  finish_within(cell, LOCAL_REACT_US);
}

static bool has_exited(const struct cell *cell) {
  struct pollfd source = {.fd = cell->pidfd, .events = POLLIN};
  return cell->pidfd >= 0 && poll(&source, 1, 0) == 1;
}

// Its result pipe has ended, and GONE has not come.
static void on_mute(struct engine_timer *timer) {
  struct cell *cell = CONTAINER_OF(timer, struct cell, timer);
  if (has_exited(cell)) { // then it is only the news of it that takes its time
    engine_timer_start(timer, LOCAL_GONE_US, on_no_gone);
    return;
  }
  measure_alive(cell);
  kill_now(cell);
  fault_killed(cell, "The code closed its result channel without ending, and was stopped");
  finish(cell);
}

// ---- the frame ----

enum frame_progress { FRAME_PART, FRAME_WHOLE, FRAME_BAD, FRAME_ENDED };

static enum frame_progress add_to_frame(struct cell *cell, const char *data, size_t size) {
  const size_t head = sizeof cell->header;
  if (cell->frame_got < head) {
    size_t part = size < head - cell->frame_got ? size : head - cell->frame_got;
    memcpy((char *)&cell->header + cell->frame_got, data, part);
    cell->frame_got += part;
    data += part;
    size -= part;
    if (cell->frame_got < head)
      return FRAME_PART;
    if (!wire_frame_sane(&cell->header, cell->run->request.max_result_bytes))
      return FRAME_BAD;
    // Memory that is not written to costs nothing: a length alone is no attack.
    cell->body = malloc((size_t)cell->header.meta_bytes + cell->header.result_bytes + 1);
    if (!cell->body)
      return FRAME_BAD;
  }
  size_t whole = head + cell->header.meta_bytes + cell->header.result_bytes;
  if (size > whole - cell->frame_got)
    return FRAME_BAD; // something behind the frame
  memcpy(cell->body + cell->frame_got - head, data, size);
  cell->frame_got += size;
  return cell->frame_got == whole ? FRAME_WHOLE : FRAME_PART;
}

// One read from the result pipe.
static enum frame_progress read_frame(struct cell *cell, bool *empty) {
  char *scratch = cell->keeper->local->scratch;
  ssize_t size = read(cell->streams[PIPE_RESULT].fd, scratch, LOCAL_READ_BYTES);
  *empty = size < 0;
  if (size < 0)
    return FRAME_PART;
  return size == 0 ? FRAME_ENDED : add_to_frame(cell, scratch, (size_t)size);
}

// A whole frame, or a bad one: fills the outcome.
static void judge_frame(struct cell *cell, enum frame_progress progress) {
  struct jail_run *run = cell->run;
  char *body = cell->body;
  cell->body = NULL;
  bool fine = progress == FRAME_WHOLE;
  if (fine)
    fine = wire_frame(&cell->header, body, run->request.max_result_nodes, &run->outcome);
  else
    free(body);
  if (!fine)
    fault_killed(cell, "The code wrote to its result channel itself, and was stopped");
  else if (cell->header.kind == FRAME_ABORTED) {
    fault_killed(cell, "The code's process aborted");
    run->outcome.signal = SIGABRT;
  } else if (cell->header.kind == FRAME_OUT_OF_MEMORY && !run->outcome.fault.present)
    fault_out_of_memory(cell);
}

static void on_result(uv_poll_t *poll, int status, int events) {
  struct cell *cell = poll->data;
  bool empty;
  (void)status;
  (void)events;
  if (cell->state != CELL_BUSY) // nobody but us holds the other end yet
    return;
  enum frame_progress progress = read_frame(cell, &empty);
  if (progress == FRAME_PART)
    return;
  if (progress == FRAME_ENDED) {
    // It ends, or closed the pipe; GONE will say.
    close_stream(&cell->streams[PIPE_RESULT]);
    engine_timer_start(&cell->timer, LOCAL_GUARD_US, on_mute);
    return;
  }
  cell->run->finished_us = engine_now_us();
  measure_alive(cell);
  judge_frame(cell, progress);
  finish(cell);
}

// ---- its end ----

static void judge_status(struct cell *cell, int status) {
  struct jail_run *run = cell->run;
  if (WIFEXITED(status)) {
    int code = WEXITSTATUS(status);
    run->outcome.exit_code = code;
    run->outcome.status = JAIL_STATUS_OK;
    if (code)
      fault_set(run, JAIL_STATUS_ERROR, "ExitError", "The code ended itself with exit code %d", code);
    return;
  }
  int number = WIFSIGNALED(status) ? WTERMSIG(status) : SIGKILL;
  fault_set(run, JAIL_STATUS_KILLED, "KilledError", "The code's process was ended by a signal: %s", strsignal(number));
  run->outcome.signal = number;
}

static void judge_end(struct cell *cell, const struct report *report) {
  struct jail_run *run = cell->run;
  switch (report->verdict) {
  case VERDICT_DEADLINE:
    fault_timeout(cell);
    break;
  case VERDICT_MEMORY:
    fault_out_of_memory(cell);
    run->outcome.signal = SIGKILL;
    break;
  case VERDICT_LOST:
    // Whoever's fault it was: it ran, and may have done things, so nobody repeats it by himself.
    error_set(&run->outcome.error, JAIL_UNAVAILABLE, "the local jail for %s ended while the run was under way",
              local_language(run->request.language));
    break;
  default:
    judge_status(cell, report->wait_status);
  }
}

// Its last words: they are all in the pipe, and nothing is added to it.
static enum frame_progress last_words(struct cell *cell) {
  enum frame_progress progress = FRAME_PART;
  bool empty = cell->streams[PIPE_RESULT].fd < 0;
  while (!empty && progress == FRAME_PART)
    progress = read_frame(cell, &empty);
  return progress;
}

void cell_on_gone(struct cell *cell, const struct report *report) {
  struct keeper *keeper = cell->keeper;
  if (cell->state == CELL_BUSY) {
    enum frame_progress progress = last_words(cell);
    cell->run->finished_us = engine_now_us();
    measure_gone(cell, report);
    if (progress == FRAME_WHOLE || progress == FRAME_BAD)
      judge_frame(cell, progress);
    else
      judge_end(cell, report);
    settle(cell);
    keeper->busy--;
  }
  cell_free(cell);
}

void cell_on_lost(struct cell *cell) {
  struct report report = {.type = REPORT_GONE, .verdict = VERDICT_LOST};
  cell_on_gone(cell, &report);
}
