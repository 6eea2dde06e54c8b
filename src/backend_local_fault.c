// backend_local_fault.c: what a run is told of an end that was not its own. See
// backend_local.h; engine thread.
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>

#include "backend_local.h"
#include "text.h"

void fault_set(struct jail_run *run, enum jail_status status, const char *name, const char *format, ...) {
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

void fault_out_of_memory(struct cell *cell) {
  struct jail_run *run = cell->run;
  char peak[48] = "";
  if (run->outcome.peak_bytes > 0)
    snprintf(peak, sizeof peak, ", %lld MiB at its peak,", (long long)(run->outcome.peak_bytes >> 20));
  fault_set(run, JAIL_STATUS_OUT_OF_MEMORY, "OutOfMemoryError",
            "The code used more memory than memoryMb allows%s and was stopped; the limit is %u MiB", peak,
            run->request.memory_mb);
}

void fault_explain_memory(struct jail_run *run) {
  char message[160];
  int size =
    snprintf(message, sizeof message, "The code asked for more memory than memoryMb allows; the limit is %u MiB",
             run->request.memory_mb);
  if (run->outcome.peak_bytes >= 0)
    size += snprintf(message + size, sizeof message - (size_t)size, ", and it held %lld MiB at its peak",
                     (long long)(run->outcome.peak_bytes >> 20));
  text_free(&run->outcome.fault.message);
  text_from_utf8(&run->outcome.fault.message, message, (size_t)size);
}

void fault_killed(struct cell *cell, const char *why) {
  fault_set(cell->run, JAIL_STATUS_KILLED, "KilledError", "%s", why);
  cell->run->outcome.signal = SIGKILL;
}

void fault_timeout(struct cell *cell) {
  struct jail_fault *fault = &cell->run->outcome.fault, where = cell->where;
  fault_set(cell->run, JAIL_STATUS_TIMEOUT, PROTOCOL_TIMEOUT_NAME, PROTOCOL_TIMEOUT_WORDS,
            cell->run->request.timeout_ms);
  fault->line = where.line;
  fault->column = where.column;
  fault->source_line = where.source_line;
  fault->stack = where.stack;
  cell->where = (struct jail_fault){0};
  cell->run->outcome.signal = SIGKILL;
}
