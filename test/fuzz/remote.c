// sources: src/remote.c src/remote_request.c src/files.c src/http_answer.c src/peer_error.c src/json.c src/json_scan.c src/text.c src/buf.c src/error.c
// What a sandbox service, or whoever stands in its place, may answer.
#include "../../src/http_answer.h"
#include "../../src/remote.h"
#include "../../src/text.h"
#include "fuzz.h"

static void free_outcome(struct jail_outcome *out) {
  struct jail_text *texts[] = {&out->result,     &out->jail,        &out->out,
                               &out->err,        &out->fault.name,  &out->fault.message,
                               &out->fault.path, &out->fault.stack, &out->fault.source_line};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    text_free(texts[i]);
}

static void is_sound(enum jail_code code, const struct jail_run *run, const struct jail_error *error) {
  const struct jail_outcome *out = &run->outcome;
  if (code == JAIL_OK) {
    MUST(out->remote && out->status <= JAIL_STATUS_KILLED && out->exit_code >= -1);
    MUST(out->queue_us >= -1 && out->start_us >= -1 && out->run_us >= -1 && out->cpu_ns >= -1 && out->peak_bytes >= -1);
  } else {
    MUST(error->code == code && error->message[0] && strlen(error->message) < sizeof error->message);
    MUST(!strstr(error->message, "s3cret-t0ken"));
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const long statuses[] = {200, 200, 200, 204, 302, 400, 401, 403, 404, 413, 429, 500, 502, 503, 504, 599};
  static const char *const types[] = {"application/json", "application/json; charset=utf-8", "text/html", ""};
  struct feed feed = {data, size};
  struct jail_error error = {0};
  struct jail_run run = {.request = {.id = "i", .max_result_bytes = 1000, .max_result_nodes = 100}};
  run.request.min_isolation = feed_byte(&feed) % (JAIL_ISOLATION_MICROVM + 1);
  uint8_t choice = feed_byte(&feed);
  struct http_answer answer = {.status = statuses[choice & 15],
                               .type = types[choice >> 4 & 3],
                               .location = choice & 64 ? "https://elsewhere/s3cret-t0ken" : NULL,
                               .retry_after_ms = choice & 128 ? 1000 : -1,
                               .origin = "https://sandbox",
                               .token = "s3cret-t0ken"};
  char *text = feed_rest(&feed, &answer.size);
  answer.body = text;
  http_answer_again_ms(&answer);
  is_sound(http_answer_read(&run, &answer, &error), &run, &error);
  free_outcome(&run.outcome);
  free(text);
  return 0;
}
