// sources: src/wire.c src/files.c src/json.c src/json_scan.c src/text.c src/buf.c
// The place that a cell tells of itself, whatever its text and its names are:
// one frame that fits a pipe's atomic write, and that the engine can read.
#include "fuzz.h"
#include <limits.h>
#include <unistd.h>

static char told[PIPE_BUF];
static size_t told_bytes;

static ssize_t take(int fd, const void *bytes, size_t size) {
  (void)fd;
  MUST(told_bytes == 0 && size <= sizeof told);
  memcpy(told, bytes, size);
  told_bytes = size;
  return (ssize_t)size;
}

#define write take
#include "../../src/guest/where.c"
#undef write
#include "../../src/text.h"
#include "../../src/wire.h"

static bool is_utf8(const char *text, size_t size) {
  struct jail_text out;
  bool good = text_from_utf8(&out, text, size) == 0;
  const uint16_t *units = out.data;
  for (size_t i = 0; good && out.wide && i < out.units; i++)
    good = units[i] != 0xfffd;
  text_free(&out);
  return good;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static struct where_frame frames[WHERE_FRAMES_MAX];
  struct feed feed = {data, size};
  struct jail_fault fault = {0};
  struct frame_header header;
  size_t code_bytes, count = feed_byte(&feed) % (WHERE_FRAMES_MAX + 1);
  bool python = feed_byte(&feed) & 1, plain = true;
  for (size_t i = 0; i < count; i++) {
    frames[i].line = 1 + feed_byte(&feed) % 64;
    frames[i].column = feed_byte(&feed);
    feed_take(&feed, frames[i].name, feed_byte(&feed) % WHERE_NAME_MAX);
    frames[i].name[WHERE_NAME_MAX - 1] = 0;
    plain = plain && is_utf8(frames[i].name, strlen(frames[i].name));
  }
  char *code = feed_rest(&feed, &code_bytes);
  where_about(code, code_bytes, 1500, python);
  told_bytes = 0;
  where_tell(frames, count);
  MUST(count == 0 || told_bytes > sizeof header);
  if (told_bytes) {
    size_t line_bytes;
    bool there = find_line(frames[0].line, &line_bytes) != NULL;
    memcpy(&header, told, sizeof header);
    MUST(wire_frame_sane(&header, &(struct jail_request){0}) && header.meta_bytes == told_bytes - sizeof header);
    wire_where(told + sizeof header, header.meta_bytes, &fault);
    if (plain && is_utf8(code, code_bytes))
      MUST(fault.line == (there ? frames[0].line : 0));
  }
  wire_fault_free(&fault);
  free(code);
  return 0;
}
