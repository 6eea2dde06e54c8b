// sources: src/wire.c src/files.c src/json.c src/json_scan.c src/text.c src/buf.c
// What a cell and a keeper may write to the engine: frames, reports, places.
#include "../../src/wire.h"
#include "../../src/text.h"
#include "fuzz.h"

static void free_outcome(struct jail_outcome *outcome) {
  text_free(&outcome->result);
  text_free(&outcome->files);
  wire_fault_free(&outcome->fault);
}

static void read_frame(struct feed *feed) {
  struct frame_header header;
  struct jail_outcome outcome = {0};
  struct jail_request request = {.max_result_bytes = 1 << 20, .collect = true};
  size_t size;
  feed_take(feed, &header, sizeof header);
  header.magic = FRAME_MAGIC;
  char *body = feed_rest(feed, &size);
  // As the engine does it: the lengths are the header's, and the body is as long.
  if (header.kind == FRAME_OK)
    header.meta_bytes = header.meta_bytes < size ? header.meta_bytes : 0,
    header.result_bytes = (uint32_t)size - header.meta_bytes;
  else
    header.meta_bytes = (uint32_t)size, header.result_bytes = 0;
  if (!wire_frame_sane(&header, &request)) {
    free(body);
    return;
  }
  if (header.kind == FRAME_WHERE) {
    struct jail_fault where = {0};
    wire_where(body, size, &where);
    MUST(!where.present && !where.name.data && !where.message.data && !where.path.data);
    MUST(where.line || (!where.stack.data && !where.source_line.data));
    wire_fault_free(&where);
    free(body);
    return;
  }
  if (wire_frame(&header, body, &outcome)) {
    MUST(outcome.exit_code >= -1 && outcome.exit_code <= 255);
    MUST((outcome.status == JAIL_STATUS_OK) == (header.kind == FRAME_OK));
    MUST(outcome.status != JAIL_STATUS_TIMEOUT && outcome.status != JAIL_STATUS_OUTPUT_LIMIT);
  } else {
    MUST(!outcome.fault.present && outcome.exit_code == -1 && !outcome.result.data && !outcome.files.data);
  }
  free_outcome(&outcome);
}

static void read_report(struct feed *feed) {
  struct report report;
  const char *text;
  size_t size, text_bytes, at = 0;
  char *message = feed_rest(feed, &size);
  if (wire_report(message, size, &report, &text, &text_bytes)) {
    MUST(text >= message && text + text_bytes <= message + size);
    for (const char *value; (value = wire_value(text, text_bytes, "missing", &at));)
      MUST(value + strlen(value) < text + text_bytes);
    MUST(at <= text_bytes);
  }
  free(message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct feed feed = {data, size};
  if (feed_byte(&feed) & 1)
    read_report(&feed);
  else
    read_frame(&feed);
  return 0;
}
