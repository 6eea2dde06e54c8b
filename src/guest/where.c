// where.c: see where.h. One write of at most PIPE_BUF bytes, so that no kill can
// cut it; no memory is taken, since the code may be in the midst of that.
#include "where.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "../protocol.h"

enum {
  SOURCE_MAX = 300, // bytes of a line that are shown
  SHOWN_MAX = 120,  // the same within a Python stack
  PYTHON_MAX = 12,  // frames there, where the innermost comes last
  CLOSE_ROOM = 8,   // for what ends the JSON
};

void (*where_look)(void);

static struct {
  const char *code;
  size_t bytes;
  uint32_t timeout_ms;
  bool python;
  pthread_t main;
  volatile sig_atomic_t open; // the code runs, and has said nothing yet
} about;

struct text { // of JSON; what does not fit is left out, and all behind it
  char data[PIPE_BUF - sizeof(struct frame_header)];
  size_t size, room;
};

static void put_bytes(struct text *text, const char *bytes, size_t size) {
  if (size > text->room)
    size = text->room = 0;
  memcpy(text->data + text->size, bytes, size);
  text->size += size;
  text->room -= size;
}

static void put(struct text *text, const char *plain) {
  put_bytes(text, plain, strlen(plain));
}

static void put_number(struct text *text, uint32_t number) {
  char digits[12], *at = digits + sizeof digits - 1;
  *at = 0;
  do
    *--at = (char)('0' + number % 10);
  while (number /= 10);
  put(text, at);
}

static bool is_inner(char byte) { // of a character in UTF-8
  return ((unsigned char)byte & 0xc0) == 0x80;
}

// As within a JSON string; at most `most` bytes, and no part of a character.
static void put_string(struct text *text, const char *bytes, size_t size, size_t most) {
  static const char hex[] = "0123456789abcdef";
  for (size_t i = 0, next; i < size; i = next) {
    unsigned char byte = (unsigned char)bytes[i];
    for (next = i + 1; next < size && is_inner(bytes[next]);)
      next++;
    if (next > most)
      return;
    if (byte < 0x20 || byte == '"' || byte == '\\')
      put_bytes(text, (char[]){'\\', 'u', '0', '0', hex[byte >> 4], hex[byte & 15]}, 6);
    else
      put_bytes(text, bytes + i, next - i);
  }
}

// The bytes that end a line at `at`, for this language; 0 where none does.
static size_t line_end(const char *at, size_t left) {
  if (*at == '\n')
    return 1;
  if (*at == '\r')
    return left > 1 && at[1] == '\n' ? 2 : 1;
  bool separator = !about.python && left > 2 && at[0] == '\xe2' && at[1] == '\x80' && (at[2] & ~1) == '\xa8';
  return separator ? 3 : 0;
}

// The text of a line; NULL where there is no such line.
static const char *find_line(uint32_t number, size_t *size) {
  const char *from = about.code, *end = about.code + about.bytes;
  if (about.bytes >= 3 && !memcmp(from, "\xef\xbb\xbf", 3))
    from += 3;
  for (const char *at = from; number; at++) {
    size_t skip = at < end ? line_end(at, (size_t)(end - at)) : 1;
    if (!skip)
      continue;
    if (--number == 0)
      return *size = (size_t)(at - from), from;
    if (at >= end)
      break;
    at += skip - 1;
    from = at + 1;
  }
  return NULL;
}

static void put_place(struct text *text, const struct where_frame *frame) {
  size_t size;
  const char *line = find_line(frame->line, &size);
  if (!line)
    return;
  put(text, "\"line\":");
  put_number(text, frame->line);
  if (frame->column) {
    put(text, ",\"column\":");
    put_number(text, frame->column);
  }
  put(text, ",\"sourceLine\":\"");
  put_string(text, line, size, SOURCE_MAX);
  put(text, "\",");
}

// Each language's own way to show a frame.
static void put_javascript(struct text *text, const struct where_frame *frame) {
  put(text, "\\n    at ");
  if (frame->name[0]) {
    put_string(text, frame->name, strlen(frame->name), WHERE_NAME_MAX);
    put(text, " (");
  }
  put(text, frame->module ? "code.mjs:" : "code.js:");
  put_number(text, frame->line);
  put(text, ":");
  put_number(text, frame->column);
  put(text, frame->name[0] ? ")" : "");
}

static void put_python(struct text *text, const struct where_frame *frame) {
  size_t size;
  const char *line = find_line(frame->line, &size);
  put(text, "  File \\\"code.py\\\", line ");
  put_number(text, frame->line);
  put(text, ", in ");
  put_string(text, frame->name, strlen(frame->name), WHERE_NAME_MAX);
  put(text, "\\n");
  for (; line && size && (*line == ' ' || *line == '\t'); size--)
    line++;
  if (line && size) {
    put(text, "    ");
    put_string(text, line, size, SHOWN_MAX);
    put(text, "\\n");
  }
}

static void put_headline(struct text *text) {
  static const char words[] = PROTOCOL_TIMEOUT_NAME ": " PROTOCOL_TIMEOUT_WORDS;
  const char *number = strstr(words, "%u");
  put_bytes(text, words, (size_t)(number - words));
  put_number(text, about.timeout_ms);
  put(text, number + 2);
}

static void put_stack(struct text *text, const struct where_frame *frames, size_t count) {
  if (!about.python) {
    put_headline(text);
    for (size_t i = 0; i < count; i++)
      put_javascript(text, &frames[i]);
    return;
  }
  put(text, "Traceback (most recent call last):\\n");
  if (count > PYTHON_MAX) {
    put(text, "  \u2026\\n");
    count = PYTHON_MAX;
  }
  while (count--)
    put_python(text, &frames[count]);
  put_headline(text);
}

void where_tell(const struct where_frame *frames, size_t count) {
  static struct {
    struct frame_header header;
    struct text text;
  } frame;
  struct text *text = &frame.text;
  if (!about.open || count == 0)
    return;
  about.open = 0;
  text->size = 0;
  text->room = sizeof text->data - CLOSE_ROOM;
  put(text, "{\"error\":{");
  put_place(text, &frames[0]);
  put(text, "\"stack\":\"");
  put_stack(text, frames, count);
  text->room = CLOSE_ROOM;
  put(text, "\"}}");
  frame.header = (struct frame_header){FRAME_MAGIC, FRAME_WHERE, (uint32_t)text->size, 0};
  ssize_t written = write(PROTOCOL_RESULT_FD, &frame, sizeof frame.header + text->size);
  (void)written; // the code may have closed it
}

static void on_signal(int number) {
  (void)number;
  int saved = errno;
  if (about.open && where_look && pthread_equal(pthread_self(), about.main))
    where_look();
  errno = saved;
}

void where_arm(void) {
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  if (where_look)
    sigaction(WHERE_SIGNAL, &action, NULL);
}

void where_about(const char *code, size_t bytes, uint32_t timeout_ms, bool python) {
  about.code = code;
  about.bytes = bytes;
  about.timeout_ms = timeout_ms;
  about.python = python;
  about.main = pthread_self();
  about.open = 1;
}

void where_end(void) {
  about.open = 0;
}
