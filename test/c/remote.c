// sources: src/remote.c src/remote_request.c src/files.c src/json.c src/json_scan.c src/text.c src/buf.c src/error.c
// Another host's answer, broken in every way that chance finds: it is a result
// with every member in order, or an error, and no byte is read beyond its end.
#include "remote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

static int count, failures;

static void ok(int fine, const char *what) {
  printf("%sok %d - %s\n", fine ? "" : "not ", ++count, what);
  failures += !fine;
}

static const char good[] =
  "{\"id\":\"i\",\"ok\":false,\"status\":\"error\",\"result\":[1,{\"a\":null}],\"stdout\":\"a\\u00e9\",\"stderr\":\"\","
  "\"stdoutDropped\":1,\"stderrDropped\":0,\"error\":{\"name\":\"E\",\"message\":\"m\",\"line\":3,\"column\":4,"
  "\"sourceLine\":\"x\",\"stack\":\"s\",\"path\":null},\"exitCode\":1,\"signal\":null,\"timedOut\":false,"
  "\"usage\":{\"queueMs\":0.5,\"startMs\":1e-3,\"runMs\":2,\"cpuMs\":null,\"peakMemoryBytes\":7},"
  "\"jail\":{\"isolation\":\"gvisor\",\"layers\":[\"a\"],\"missing\":[{\"layer\":\"b\",\"reason\":\"c\"}],"
  "\"runtime\":\"node 22\",\"start\":\"parked\"}}";

static void free_outcome(struct jail_outcome *out) {
  struct jail_text *texts[] = {&out->result,     &out->jail,        &out->out,
                               &out->err,        &out->fault.name,  &out->fault.message,
                               &out->fault.path, &out->fault.stack, &out->fault.source_line};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    text_free(texts[i]);
}

static bool is_sound(const struct jail_outcome *out) {
  return out->remote && out->status <= JAIL_STATUS_KILLED && out->exit_code >= -1 && out->queue_us >= -1 &&
         out->start_us >= -1 && out->run_us >= -1 && out->cpu_ns >= -1 && out->peak_bytes >= -1;
}

// 1: a result, 0: an error, -1: neither.
static int read_copy(const char *text, size_t size, enum jail_isolation least) {
  char *copy = malloc(size ? size : 1); // of the exact size, for the sanitizers
  struct jail_run run = {
    .request = {.id = "i", .max_result_bytes = 1000, .max_result_nodes = 100, .min_isolation = least}};
  struct jail_error error = {0};
  memcpy(copy, text, size);
  enum jail_code code = remote_read(&run, copy, size, &error);
  int result = code == JAIL_OK ? (is_sound(&run.outcome) ? 1 : -1) : error.code == code && error.message[0] ? 0 : -1;
  free_outcome(&run.outcome);
  free(copy);
  return result;
}

static uint64_t seed = 88172645463325252u;
static size_t below(size_t limit) {
  seed ^= seed << 13;
  seed ^= seed >> 7;
  seed ^= seed << 17;
  return (size_t)(seed % limit);
}

static int mutate(int rounds, int *passed) {
  static const char spice[] = "{}[]\",:\\0123456789.eE+-tfnul \x01\x7f\x80\xc3\xed\xf4\xff";
  char text[sizeof good + 64];
  int wrong = 0;
  for (int i = 0; i < rounds; i++) {
    size_t size = sizeof good - 1;
    memcpy(text, good, size);
    for (size_t n = 1 + below(3); n && size > 1; n--) {
      size_t at = below(size), length = below(12);
      switch (below(4)) {
      case 0:
        text[at] = spice[below(sizeof spice - 1)];
        break;
      case 1: // take some out
        length = length < size - at ? length : size - at;
        memmove(text + at, text + at + length, size - at - length);
        size -= length;
        break;
      case 2: // put a piece of it elsewhere
        length = size + length < sizeof text && at + length < size ? length : 0;
        memmove(text + at + length, text + at, size - at);
        size += length;
        break;
      default:
        size = at + 1;
      }
    }
    int result = read_copy(text, size, JAIL_ISOLATION_NONE);
    wrong += result < 0;
    *passed += result == 1;
  }
  return wrong;
}

static int cuts(void) {
  int wrong = 0;
  for (size_t size = 0; size < sizeof good - 1; size++)
    wrong += read_copy(good, size, JAIL_ISOLATION_NONE) != 0;
  return wrong;
}

static int written(void) {
  struct buf out = {.ceiling = 4096};
  struct jail_run run = {.request = {.language = JAIL_PYTHON,
                                     .timeout_ms = 5,
                                     .memory_mb = 256,
                                     .max_output_bytes = 1 << 20,
                                     .id = "i\"",
                                     .max_result_bytes = 4 << 20,
                                     .max_result_nodes = 200000,
                                     .code_bytes = 6,
                                     .input_bytes = 4,
                                     .env_bytes = 9,
                                     .tenant = "",
                                     .min_isolation = JAIL_ISOLATION_GVISOR}};
  run.payload = calloc(1, sizeof(struct job_header) + 19);
  memcpy(run.payload + sizeof(struct job_header),
         "a\"\\\n\x01z"
         "null"
         "K=v=\x02\0L=",
         19);
  int fine = remote_write(&out, &run, false) == 0;
  static const char want[] =
    "{\"language\":\"python\",\"id\":\"i\\\"\",\"code\":\"a\\\"\\\\\\n\\u0001z\",\"env\":{\"K\":"
    "\"v=\\u0002\"";
  fine = fine && out.size > sizeof want && !memcmp(out.data, want, sizeof want - 1);
  buf_free(&out);
  out.ceiling = 30;
  fine = fine && remote_write(&out, &run, false) == -1;
  buf_free(&out);
  free(run.payload);
  return fine;
}

int main(void) {
  int passed = 0;
  ok(read_copy(good, sizeof good - 1, JAIL_ISOLATION_NONE) == 1, "a good answer is a result");
  ok(read_copy(good, sizeof good - 1, JAIL_ISOLATION_GVISOR) == 1, "with the isolation that it proves");
  ok(read_copy(good, sizeof good - 1, JAIL_ISOLATION_MICROVM) == 0, "and not with more");
  ok(cuts() == 0, "no beginning of it is one");
  ok(mutate(40000, &passed) == 0, "40,000 broken ones: each a sound result or an error");
  ok(passed > 100, "some of which still are results");
  ok(written(), "a request is written as the contract has it, within its ceiling");
  printf("1..%d\n", count);
  return failures != 0;
}
