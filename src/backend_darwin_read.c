// backend_darwin_read.c: what comes out of a cell, all of it hostile, and what
// became of its run: judged by the frame, by us (time, memory, output) and by the
// wait status that its guard tells. See backend_darwin.h.
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend_darwin.h"
#include "text.h"
#include "wire.h"

// ---- what a run is told ----

__attribute__((format(printf, 4, 5))) static void fault(struct jail_run *run, enum jail_status status, const char *name,
                                                        const char *format, ...) {
  char message[256];
  va_list args;
  va_start(args, format);
  int size = vsnprintf(message, sizeof message, format, args);
  va_end(args);
  struct jail_fault *it = &run->outcome.fault;
  text_free(&it->message);
  run->outcome.status = status;
  run->outcome.signal = SIGKILL;
  it->present = true;
  it->name = text_static(name);
  text_from_utf8(&it->message, message, (size_t)size < sizeof message ? (size_t)size : sizeof message - 1);
}

static void fault_memory(struct jail_run *run) {
  fault(run, JAIL_STATUS_OUT_OF_MEMORY, "OutOfMemoryError",
        "The code used more memory than memoryMb allows and was stopped; the limit is %u MiB, its peak was %lld MiB",
        run->request.memory_mb, (long long)(run->outcome.peak_bytes >> 20));
}

// ---- usage ----

// From outside, while it lives. Returns what it holds now, over what it held when it parked.
static uint64_t measure(struct solo_cell *cell) {
  struct jail_outcome *outcome = &cell->run->outcome;
  uint64_t cpu_ns, bytes, peak;
  if (!solo_usage(cell->pid, &cpu_ns, &bytes, &peak))
    return 0;
  outcome->cpu_ns = cpu_ns > cell->cpu_base_ns ? (int64_t)(cpu_ns - cell->cpu_base_ns) : 0;
  outcome->peak_bytes = peak > cell->base_bytes ? (int64_t)(peak - cell->base_bytes) : 0;
  return bytes > cell->base_bytes ? bytes - cell->base_bytes : 0;
}

// ---- output ----

static bool read_output(struct solo_cell *cell, int which) {
  struct solo_line *line = &cell->lines[which];
  char *scratch = cell->place->solo->scratch;
  ssize_t size = line->fd < 0 ? -1 : read(line->fd, scratch, SOLO_READ_BYTES);
  if (size == 0)
    solo_cell_close_line(line);
  if (size <= 0)
    return false;
  capture_add(&cell->out[which], scratch, (size_t)size);
  live_add(cell->run, which == SOLO_OUT ? JAIL_STDOUT : JAIL_STDERR, scratch, (size_t)size);
  return true;
}

static void take_output(struct solo_cell *cell, int which, struct jail_text *text, uint64_t *dropped) {
  char *bytes;
  size_t size;
  // What was written before the end is in the pipe, and no more than a pipe holds.
  uint64_t before = cell->out[which].total;
  while (cell->out[which].total - before < SOLO_READ_BYTES && read_output(cell, which)) {}
  uint64_t total = cell->out[which].total;
  if (capture_finish(&cell->out[which], &bytes, &size, dropped) || text_take(text, bytes, bytes, size)) {
    *dropped = total;
    *text = text_static("");
  }
}

// The outcome is filled but for the output: settles the run, ends the cell.
static void finish(struct solo_cell *cell) {
  struct jail_run *run = cell->run;
  run->finished_us = engine_now_us();
  take_output(cell, SOLO_OUT, &run->outcome.out, &run->outcome.stdout_dropped);
  take_output(cell, SOLO_ERR, &run->outcome.err, &run->outcome.stderr_dropped);
  run->backend_data = NULL;
  solo_cell_end(cell);
  run_settle(run);
  solo_on_free(cell);
}

void solo_on_output(uv_poll_t *poll, int status, int events) {
  struct solo_cell *cell = poll->data;
  (void)status, (void)events;
  int which = CONTAINER_OF(poll, struct solo_line, poll) == &cell->lines[SOLO_OUT] ? SOLO_OUT : SOLO_ERR;
  if (cell->state != SOLO_BUSY) { // what an interpreter says as it boots is nobody's, and it must not wait for us
    ssize_t size = read(cell->lines[which].fd, cell->place->solo->scratch, SOLO_READ_BYTES);
    if (size == 0)
      solo_cell_close_line(&cell->lines[which]);
    return;
  }
  if (!read_output(cell, which) || cell->out[0].total + cell->out[1].total <= SOLO_OUTPUT_BYTES)
    return;
  measure(cell);
  fault(cell->run, JAIL_STATUS_OUTPUT_LIMIT, "OutputLimitError",
        "The code wrote more than %d MiB to stdout and stderr and was stopped", SOLO_OUTPUT_BYTES >> 20);
  finish(cell);
}

// ---- time and memory ----

void solo_on_watch(struct engine_timer *timer) {
  struct solo_cell *cell = CONTAINER_OF(timer, struct solo_cell, timer);
  struct jail_run *run = cell->run;
  uint64_t now = engine_now_us();
  uint64_t bytes = measure(cell);
  if (bytes > (uint64_t)run->request.memory_mb << 20)
    fault_memory(run);
  else if (now >= cell->deadline_us)
    fault(run, JAIL_STATUS_TIMEOUT, PROTOCOL_TIMEOUT_NAME, PROTOCOL_TIMEOUT_WORDS, run->request.timeout_ms);
  else {
    uint64_t left = cell->deadline_us - now;
    engine_timer_start(timer, left < SOLO_WATCH_US ? left : SOLO_WATCH_US, solo_on_watch);
    return;
  }
  finish(cell);
}

// ---- the frame ----

enum progress { PART, WHOLE, BAD, ENDED, EMPTY };
static const char meddled[] = "The code wrote to its result channel itself, and was stopped";

static enum progress add(struct solo_cell *cell, const char *data, size_t size) {
  const size_t head = sizeof cell->header;
  if (cell->frame_got < head) {
    size_t part = size < head - cell->frame_got ? size : head - cell->frame_got;
    memcpy((char *)&cell->header + cell->frame_got, data, part);
    cell->frame_got += part;
    data += part;
    size -= part;
    if (cell->frame_got < head)
      return PART;
    uint32_t nodes = cell->run->request.max_result_nodes;
    if (!wire_frame_sane(&cell->header, &cell->run->request) || cell->header.kind == FRAME_WHERE ||
        !(cell->body = malloc((size_t)cell->header.meta_bytes + cell->header.result_bytes + 1)))
      return BAD;
    json_scan_begin(&cell->scan, nodes ? nodes : 1);
  }
  size_t whole = head + cell->header.meta_bytes + cell->header.result_bytes;
  if (size > whole - cell->frame_got)
    return BAD;
  memcpy(cell->body + cell->frame_got - head, data, size);
  cell->frame_got += size;
  bool final = cell->frame_got == whole;
  size_t ahead = head + cell->header.meta_bytes;
  if (cell->header.kind == FRAME_OK && cell->frame_got > ahead &&
      json_scan_more(&cell->scan, cell->body + cell->header.meta_bytes, cell->frame_got - ahead, final))
    return BAD;
  return final ? WHOLE : PART;
}

static enum progress read_frame(struct solo_cell *cell) {
  char *scratch = cell->place->solo->scratch;
  ssize_t size = cell->lines[SOLO_RESULT].fd < 0 ? -1 : read(cell->lines[SOLO_RESULT].fd, scratch, SOLO_READ_BYTES);
  return size < 0 ? EMPTY : size == 0 ? ENDED : add(cell, scratch, (size_t)size);
}

static void judge_frame(struct solo_cell *cell, enum progress progress) {
  struct jail_run *run = cell->run;
  char *body = cell->body;
  cell->body = NULL;
  if (progress != WHOLE)
    free(body);
  if (progress != WHOLE || !wire_frame(&cell->header, body, &run->outcome))
    fault(run, JAIL_STATUS_KILLED, "KilledError", "%s", meddled);
  else if (cell->header.kind == FRAME_ABORTED) {
    fault(run, JAIL_STATUS_KILLED, "KilledError", "The code's process aborted");
    run->outcome.signal = SIGABRT;
  } else if (cell->header.kind == FRAME_OUT_OF_MEMORY && !run->outcome.fault.message.units) {
    fault_memory(run);
    run->outcome.signal = 0;
  }
}

void solo_on_result(uv_poll_t *poll, int status, int events) {
  struct solo_cell *cell = poll->data;
  (void)status, (void)events;
  if (cell->state != SOLO_BUSY) { // it ends, or a preload meddles: its guard tells
    solo_cell_close_line(&cell->lines[SOLO_RESULT]);
    return;
  }
  enum progress progress = read_frame(cell);
  if (progress == PART || progress == EMPTY)
    return;
  if (progress == ENDED) { // it ends, or has closed the pipe and runs on until its deadline
    solo_cell_close_line(&cell->lines[SOLO_RESULT]);
    return;
  }
  measure(cell);
  judge_frame(cell, progress);
  finish(cell);
}

// ---- its end, as its guard tells it ----

static void judge_status(struct jail_run *run, int status) {
  if (!WIFEXITED(status)) {
    int number = WIFSIGNALED(status) ? WTERMSIG(status) : SIGKILL;
    fault(run, JAIL_STATUS_KILLED, "KilledError", "The code's process was ended by a signal: %s", strsignal(number));
    run->outcome.signal = number;
    return;
  }
  int code = WEXITSTATUS(status);
  if (code)
    fault(run, JAIL_STATUS_ERROR, "ExitError", "The code ended itself with exit code %d", code);
  run->outcome.exit_code = code;
  run->outcome.signal = 0;
}

void solo_on_guard(uv_poll_t *poll, int status, int events) {
  struct solo_cell *cell = poll->data;
  struct solo_end end;
  (void)status, (void)events;
  ssize_t size = recv(cell->lines[SOLO_GUARD].fd, &end, sizeof end, MSG_DONTWAIT);
  if (size < 0 && (errno == EAGAIN || errno == EINTR))
    return;
  if (size > 0)
    cell->pid = 0;                   // reaped: it may be another's now
  if (cell->state == SOLO_BOOTING) { // its last word, or the end of its socket, says more
    solo_cell_close_line(&cell->lines[SOLO_GUARD]);
    return;
  }
  if (cell->state != SOLO_BUSY) {
    solo_cell_end(cell);
    return;
  }
  enum progress progress = PART;
  while (progress == PART)
    progress = read_frame(cell);
  struct jail_outcome *outcome = &cell->run->outcome;
  if (size == (ssize_t)sizeof end) {
    if (end.cpu_ns > cell->cpu_base_ns)
      outcome->cpu_ns = (int64_t)(end.cpu_ns - cell->cpu_base_ns);
    if (end.peak_bytes > cell->base_bytes)
      outcome->peak_bytes = (int64_t)(end.peak_bytes - cell->base_bytes);
  }
  if (progress == WHOLE || progress == BAD)
    judge_frame(cell, progress);
  else if (size != (ssize_t)sizeof end || (cell->frame_got && WIFEXITED(end.wait_status)))
    fault(cell->run, JAIL_STATUS_KILLED, "KilledError", "%s",
          cell->frame_got ? meddled : "The code's process was ended together with its guard");
  else
    judge_status(cell->run, end.wait_status);
  finish(cell);
}
