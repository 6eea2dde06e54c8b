// sources: src/json.c src/json_scan.c src/text.c
// The check of JSON, whole and in parts, which must agree; then every accessor
// on every value. Whether JSON.parse agrees too: scripts/fuzz.js.
#include "../../src/json.h"
#include "../../src/text.h"
#include "fuzz.h"

enum { NODES_MAX = 5000 };

static enum json_fault check_in_parts(const char *text, size_t size, uint32_t step) {
  struct json_scan scan;
  enum json_fault fault = JSON_FINE;
  json_scan_begin(&scan, NODES_MAX);
  for (size_t to = step; to < size && fault == JSON_FINE; to += step) {
    char *part = malloc(to); // each time elsewhere: it must not remember where the text was
    MUST(part);
    memcpy(part, text, to);
    fault = json_scan_more(&scan, part, to, false);
    free(part);
  }
  return fault == JSON_FINE ? json_scan_more(&scan, text, size, true) : fault;
}

static void look_at(const struct json_doc *doc, int value, const char *text, size_t size) {
  static const char *const names[] = {"a", "error", ""};
  struct jail_text out = {0};
  int64_t integer;
  double number;
  bool truth;
  int values[3];
  const char *start;
  size_t length;
  json_span(doc, value, &start, &length);
  MUST(start >= text && start + length <= text + size);
  if (json_text(doc, value, &out)) {
    MUST(json_is_string(doc, value) && out.units <= length);
    text_free(&out);
  }
  if (json_integer(doc, value, &integer))
    MUST(integer >= -((int64_t)1 << 53) && integer <= (int64_t)1 << 53);
  json_number(doc, value, &number);
  json_bool(doc, value, &truth);
  json_equals(doc, value, "error");
  if (json_is_object(doc, value)) {
    int member = json_member(doc, value, "a");
    MUST(member < doc->count);
    if (doc->count < 200)
      json_has_twins(doc, value);
    if (json_members(doc, value, names, values, 3))
      MUST(values[0] == member || (member >= 0 && values[0] >= 0));
  }
  if (json_is_array(doc, value)) {
    int seen = 0;
    for (int item = json_first(doc, value); item >= 0; item = json_next(doc, value, item))
      MUST(item < doc->count && ++seen < doc->count);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct feed feed = {data, size};
  uint32_t step = 1 + feed_byte(&feed) % 64;
  size_t length;
  char *text = feed_rest(&feed, &length);
  enum json_fault fault = json_check(text, length, NODES_MAX);
  if (length < 20000)
    MUST(check_in_parts(text, length, step) == fault);
  struct json_doc doc;
  if (json_parse(&doc, text, length, NODES_MAX) == JSON_FINE) {
    for (int value = -1; value < doc.count; value++)
      if (value >= 0)
        look_at(&doc, value, text, length);
      else
        MUST(json_member(&doc, value, "a") == -1 && !json_is_object(&doc, value));
  } else {
    MUST(fault != JSON_FINE);
  }
  json_free(&doc);
  free(text);
  return 0;
}
