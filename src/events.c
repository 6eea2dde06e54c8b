// events.c: see events.h.
#include "events.h"

#include <string.h>

#include "json.h"
#include "live.h"
#include "text.h"

// A byte that is no UTF-8 comes as U+FFFD, which has three.
enum { NODES_MAX = 4, PIECE_BYTES = 4096, BYTES_PER_BYTE = 3 };

void events_begin(struct events *events, const struct jail_run *run) {
  size_t most = (size_t)run->request.max_output_bytes * BYTES_PER_BYTE;
  *events = (struct events){.open = true, .left = {most, most}};
}

static size_t put_utf8(char *to, uint32_t code) {
  if (code < 0x80)
    return to[0] = (char)code, 1;
  size_t more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  static const unsigned char lead[] = {0, 0xC0, 0xE0, 0xF0};
  to[0] = (char)(lead[more] | code >> (6 * more));
  for (size_t i = 1; i <= more; i++)
    to[i] = (char)(0x80 | (code >> (6 * (more - i)) & 0x3F));
  return more + 1;
}

// Half a surrogate pair is no character: U+FFFD.
static uint32_t code_at(const struct jail_text *text, size_t *at) {
  if (!text->wide)
    return ((const unsigned char *)text->data)[(*at)++];
  const uint16_t *units = text->data;
  uint32_t unit = units[(*at)++];
  if (unit < 0xD800 || unit > 0xDFFF)
    return unit;
  if (unit < 0xDC00 && *at < text->units && units[*at] >= 0xDC00 && units[*at] <= 0xDFFF)
    return 0x10000 + ((unit - 0xD800) << 10) + (units[(*at)++] - 0xDC00u);
  return 0xFFFD;
}

static void give(struct events *events, struct jail_run *run, int stream, const struct jail_text *text) {
  char piece[PIECE_BYTES + 4];
  size_t size = 0, *left = &events->left[stream - 1];
  events->told = true;
  events->excess = text->units == 0 || text->units > *left; // an empty one has no end
  if (events->excess)
    return;
  for (size_t at = 0; at < text->units;) {
    size += put_utf8(piece + size, code_at(text, &at));
    if (size >= PIECE_BYTES || at == text->units) {
      live_add(run, stream, piece, size);
      *left -= size < *left ? size : *left;
      size = 0;
    }
  }
}

// Whether the line is an event; then it has been told.
static bool take_line(struct events *events, struct jail_run *run, const char *line, size_t size) {
  static const char *const names[] = {"stdout", "stderr"};
  struct json_doc doc;
  bool taken = false;
  if (json_parse(&doc, line, size, NODES_MAX))
    return false;
  for (int i = 0; i < 2 && !taken && json_is_object(&doc, 0); i++) {
    struct jail_text text = {0};
    taken = json_text(&doc, json_member(&doc, 0, names[i]), &text);
    if (taken)
      give(events, run, JAIL_STDOUT + i, &text);
    text_free(&text);
  }
  json_free(&doc);
  return taken;
}

bool events_take(struct events *events, struct jail_run *run, struct buf *answer) {
  size_t from = 0;
  while (events->open && !events->excess) {
    size_t scanned = events->scanned;
    const char *end = answer->size > scanned ? memchr(answer->data + scanned, '\n', answer->size - scanned) : NULL;
    if (!end)
      break;
    size_t behind = (size_t)(end - answer->data) + 1;
    events->open = take_line(events, run, answer->data + from, behind - 1 - from);
    if (events->open)
      events->scanned = from = behind;
  }
  if (from)
    memmove(answer->data, answer->data + from, answer->size - from);
  answer->size -= from;
  events->scanned = answer->size;
  return !events->excess;
}
