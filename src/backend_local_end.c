// backend_local_end.c: what comes out of a cell. A frame over its result pipe,
// output over two more; all that it says is hostile. What became of the run is
// judged by the frame, by the keeper's verdict and by the wait status, in that order.
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backend_local.h"
#include "error.h"
#include "text.h"
#include "wire.h"

enum { ATTEMPTS_MAX = 3 };

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

// One read. false when there is nothing more for now, or for ever.
static bool pump(struct stream *stream) {
  char *scratch = stream->cell->keeper->local->scratch;
  if (stream->fd < 0)
    return false;
  ssize_t size = read(stream->fd, scratch, LOCAL_READ_BYTES);
  if (size > 0) {
    capture_add(&stream->capture, scratch, (size_t)size);
    live_add(stream->cell->run, stream == &stream->cell->streams[PIPE_OUT] ? JAIL_STDOUT : JAIL_STDERR, scratch,
             (size_t)size);
    return true;
  }
  if (size == 0)
    cell_close_stream(stream);
  return false;
}

static bool over_output(const struct cell *cell) {
  return cell->streams[PIPE_OUT].capture.total + cell->streams[PIPE_ERR].capture.total > LOCAL_OUTPUT_BYTES;
}

void cell_on_output(uv_poll_t *poll, int status, int events) {
  (void)status;
  (void)events;
  struct stream *stream = CONTAINER_OF(poll, struct stream, poll);
  local_flag(stream->cell->keeper->local, stream);
}

void cell_pump(struct stream *stream) {
  struct cell *cell = stream->cell;
  if (cell->state != CELL_BUSY) { // nothing can have written before the job
    cell_close_stream(stream);
    return;
  }
  if (!pump(stream) || !over_output(cell))
    return;
  measure_alive(cell);
  cell_kill(cell);
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
  cell_end_within(cell, patience_us);
  place_on_free(keeper);
  pool_pump(pool);
}

static void finish(struct cell *cell) {
  finish_within(cell, LOCAL_GONE_US);
}

void cell_on_guard(struct engine_timer *timer) {
  struct cell *cell = CONTAINER_OF(timer, struct cell, timer);
  if (engine_timer_late(timer)) { // we were stopped; the keeper's verdict is on its way
    engine_timer_start(timer, LOCAL_GUARD_US, cell_on_guard);
    return;
  }
  measure_alive(cell);
  cell_kill(cell);
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
    engine_timer_start(timer, LOCAL_GONE_US, cell_on_no_gone);
    return;
  }
  measure_alive(cell);
  cell_kill(cell);
  fault_killed(cell, "The code closed its result channel without ending, and was stopped");
  finish(cell);
}

// ---- the frame ----

static const char meddled[] = "The code wrote to its result channel itself, and was stopped";

enum frame_progress { FRAME_PART, FRAME_WHOLE, FRAME_BAD, FRAME_ENDED };

// Its place is kept, for the case that its time runs out; the frame is still to come.
static void take_where(struct cell *cell) {
  wire_where(cell->body, cell->header.meta_bytes, &cell->where);
  free(cell->body);
  cell->body = NULL;
  cell->frame_got = 0;
  cell->where_told = true;
}

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
    if (!wire_frame_sane(&cell->header, &cell->run->request) || (cell->header.kind == FRAME_WHERE && cell->where_told))
      return FRAME_BAD;
    // Memory that is not written to costs nothing: a length alone is no attack.
    cell->body = malloc((size_t)cell->header.meta_bytes + cell->header.result_bytes + 1);
    if (!cell->body)
      return FRAME_BAD;
    uint32_t nodes = cell->run->request.max_result_nodes;
    json_scan_begin(&cell->scan, nodes ? nodes : 1); // null is never too large
  }
  size_t whole = head + cell->header.meta_bytes + cell->header.result_bytes;
  size_t behind = size > whole - cell->frame_got ? size - (whole - cell->frame_got) : 0;
  if (behind && cell->header.kind != FRAME_WHERE)
    return FRAME_BAD;
  memcpy(cell->body + cell->frame_got - head, data, size - behind);
  cell->frame_got += size - behind;
  if (cell->header.kind == FRAME_WHERE && cell->frame_got == whole) {
    take_where(cell);
    return behind ? add_to_frame(cell, data + size - behind, behind) : FRAME_PART;
  }
  // A result is checked as it comes: all at once would keep everybody else waiting.
  bool final = cell->frame_got == whole;
  size_t ahead = head + cell->header.meta_bytes;
  if (cell->header.kind == FRAME_OK && cell->frame_got > ahead &&
      json_scan_more(&cell->scan, cell->body + cell->header.meta_bytes, cell->frame_got - ahead, final))
    return FRAME_BAD;
  return final ? FRAME_WHOLE : FRAME_PART;
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
    fine = wire_frame(&cell->header, body, &run->outcome);
  else
    free(body);
  if (!fine)
    fault_killed(cell, meddled);
  else if (cell->header.kind == FRAME_ABORTED) {
    fault_killed(cell, "The code's process aborted");
    run->outcome.signal = SIGABRT;
  } else if (cell->header.kind == FRAME_OUT_OF_MEMORY && !run->outcome.fault.present)
    fault_out_of_memory(cell);
  else if (cell->header.kind == FRAME_OUT_OF_MEMORY && !run->outcome.fault.message.units)
    fault_explain_memory(run);
}

void cell_on_result(uv_poll_t *poll, int status, int events) {
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
    cell_close_stream(&cell->streams[PIPE_RESULT]);
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
              jail_language_name(run->request.language));
    break;
  default:
    if (cell->frame_got && WIFEXITED(report->wait_status)) // an honest guest writes it whole, or not at all
      fault_killed(cell, meddled);
    else
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

// It ran nothing: another cell may have the run.
static void give_back(struct cell *cell, const char *why) {
  struct jail_run *run = cell->run;
  struct place *place = cell->keeper->place;
  cell->run = NULL;
  if (++run->attempts < ATTEMPTS_MAX) {
    place_requeue(place, run);
    return;
  }
  struct jail_error error;
  error_set(&error, JAIL_UNAVAILABLE, "the local jail for %s has no cell that takes its job, %u ended before: %s",
            jail_language_name(run->request.language), run->attempts, why[0] ? why : "job: they read none of it");
  error.retryable = true;
  run_fail(run, &error);
}

static void settle_gone(struct cell *cell, const struct report *report) {
  enum frame_progress progress = last_words(cell);
  char why[JOB_BACK_MAX];
  if (progress != FRAME_WHOLE && progress != FRAME_BAD && cell_left_job(cell, why)) {
    give_back(cell, why);
    return;
  }
  cell->run->finished_us = engine_now_us();
  measure_gone(cell, report);
  if (progress == FRAME_WHOLE || progress == FRAME_BAD)
    judge_frame(cell, progress);
  else
    judge_end(cell, report);
  settle(cell);
}

void cell_on_gone(struct cell *cell, const struct report *report) {
  if (cell->state == CELL_BUSY) {
    cell->keeper->busy--;
    settle_gone(cell, report);
  }
  cell_free(cell);
}

void cell_on_lost(struct cell *cell) {
  struct report report = {.type = REPORT_GONE, .verdict = VERDICT_LOST};
  cell_on_gone(cell, &report);
}
