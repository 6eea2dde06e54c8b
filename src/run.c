// run.c: see run.h.
#include "run.h"

#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "pool.h"
#include "text.h"

// Past these, lengths would not fit their fields on the wire. The limits that
// users hear of are lower, and are lib/options.js' to name.
enum { PART_MAX = 1 << 26, TIMEOUT_MAX_MS = 3600 * 1000, MEMORY_MAX_MB = 1 << 20, OUTPUT_MAX = 1 << 26 };

static const char *out_of_range(const struct jail_request *request) {
  if ((unsigned)request->language >= JAIL_LANGUAGE_COUNT)
    return "language";
  if (request->code_bytes > PART_MAX)
    return "code";
  if (request->input_bytes > PART_MAX)
    return "input";
  if (request->env_bytes > PART_MAX)
    return "env";
  if (request->files_bytes > PART_MAX)
    return "files";
  if (request->timeout_ms < 1 || request->timeout_ms > TIMEOUT_MAX_MS)
    return "timeoutMs";
  if (request->memory_mb < 1 || request->memory_mb > MEMORY_MAX_MB)
    return "memoryMb";
  if (request->max_output_bytes > OUTPUT_MAX)
    return "maxOutputBytes";
  if (request->max_result_bytes > PART_MAX)
    return "maxResultBytes";
  return NULL;
}

static void free_texts(struct jail_request *request) {
  free((char *)request->tenant);
  free((char *)request->id);
  free((char *)request->headers);
  request->tenant = request->id = request->headers = NULL;
}

// Makes the borrowed ones owned. 0, or -1 with none of them left.
static int copy_texts(struct jail_request *request) {
  const char *id = request->id, *headers = request->headers;
  request->tenant = strdup(request->tenant ? request->tenant : "");
  request->id = id ? strdup(id) : NULL;
  request->headers = headers ? strdup(headers) : NULL;
  if (request->tenant && !request->id == !id && !request->headers == !headers)
    return 0;
  free_texts(request);
  return -1;
}

struct jail_run *jail_run_new(const struct jail_request *request, struct jail_error *error) {
  const char *field = out_of_range(request);
  if (field) {
    error_set(error, JAIL_INVALID_REQUEST, "%s is out of range", field);
    return NULL;
  }
  struct jail_run *run = calloc(1, sizeof *run);
  size_t bytes =
    sizeof(struct job_header) + request->code_bytes + request->input_bytes + request->env_bytes + request->files_bytes;
  char *payload = run ? malloc(bytes + 1) : NULL;
  if (payload)
    run->request = *request;
  if (!payload || copy_texts(&run->request)) {
    free(payload);
    free(run);
    error_set(error, JAIL_UNAVAILABLE, "no memory for a run of %zu bytes", bytes);
    return NULL;
  }
  struct job_header header = {
    .magic = JOB_MAGIC,
    .code_bytes = (uint32_t)request->code_bytes,
    .input_bytes = (uint32_t)request->input_bytes,
    .env_bytes = (uint32_t)request->env_bytes,
    .files_bytes = (uint32_t)request->files_bytes,
    .max_result_bytes = request->max_result_bytes,
    .max_result_nodes = request->max_result_nodes,
    .memory_bytes = (uint64_t)request->memory_mb << 20,
    .timeout_ms = request->timeout_ms,
    .flags = request->check ? JOB_CHECK : 0,
  };
  memcpy(payload, &header, sizeof header);
  run->payload = payload;
  run->payload_bytes = bytes;
  for (int i = 0; i < 2; i++)
    run->live[i].left = request->live[i] ? request->max_output_bytes : 0;
  run->outcome.is_run = true;
  run->outcome.exit_code = -1;
  run->outcome.cpu_ns = run->outcome.peak_bytes = -1;
  return run;
}

char *jail_run_payload(struct jail_run *run) {
  return run->payload + sizeof(struct job_header);
}

void jail_run_free(struct jail_run *run) {
  if (!run)
    return;
  free(run->payload);
  free_texts(&run->request);
  jail_outcome_free(&run->outcome);
}

// outcome is the first member of a run, or stands alone: either way its address
// is what malloc gave.
void jail_outcome_free(struct jail_outcome *outcome) {
  if (!outcome)
    return;
  struct jail_text *texts[] = {
    &outcome->result,      &outcome->jail,       &outcome->files,         &outcome->out,
    &outcome->err,         &outcome->fault.name, &outcome->fault.message, &outcome->fault.source_line,
    &outcome->fault.stack, &outcome->fault.path,
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    text_free(texts[i]);
  free(outcome->chunk);
  free(outcome);
}

static int64_t span(uint64_t from, uint64_t to) {
  return from && to > from ? (int64_t)(to - from) : 0;
}

void run_settle(struct jail_run *run) {
  if (run->state == RUN_SETTLED)
    return;
  uint64_t now = engine_now_us();
  struct jail_outcome *outcome = &run->outcome;
  int64_t queued_us = span(run->entered_us, run->admitted_us ? run->admitted_us : now);
  if (outcome->remote) { // its own figures; the way there is nobody's
    outcome->queue_us += outcome->queue_us >= 0 ? queued_us : 0;
  } else {
    outcome->queue_us = queued_us;
    outcome->start_us = span(run->admitted_us, run->sent_us ? run->sent_us : now);
    outcome->run_us = span(run->sent_us, run->finished_us ? run->finished_us : now);
  }
  live_end(run);
  engine_timer_stop(&run->timer);
  pool_leave(run->pool, run);
  run->state = RUN_SETTLED;
  // Large ones should not wait for the JS thread to be freed.
  free(run->payload);
  free_texts(&run->request);
  run->payload = NULL;
  engine_deliver(run->user, outcome);
}

void run_fail(struct jail_run *run, const struct jail_error *error) {
  run->outcome.error = *error;
  run_settle(run);
}
