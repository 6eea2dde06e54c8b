// json_scan.c: whether a text is JSON, in one pass over it, however it comes in
// parts. No recursion, no memory. See json.h.
#include "json.h"

#include <string.h>

// What may come next.
enum state { VALUE, VALUE_OR_END, NAME, NAME_OR_END, COLON, BEHIND, IN_NAME, IN_STRING };

// A step's answer: as a json_fault, or one of these.
enum { DONE = JSON_FINE, MORE = -1 }; // MORE: it goes on behind what is there

static bool at_end(const struct json_scan *scan) {
  return scan->at == scan->end;
}

// Of what is there nothing is wrong: it is cut, and more may come.
static int cut(const struct json_scan *scan, int fault) {
  return scan->final ? fault : MORE;
}

static int take_word(struct json_scan *scan, const char *word) {
  size_t size = strlen(word), there = (size_t)(scan->end - scan->at);
  size_t part = there < size ? there : size;
  if (memcmp(scan->at, word, part) != 0)
    return JSON_GRAMMAR;
  if (part < size)
    return cut(scan, JSON_GRAMMAR);
  scan->at += size;
  return DONE;
}

static const unsigned char *skip_digits(const unsigned char *at, const unsigned char *end) {
  while (at < end && *at >= '0' && *at <= '9')
    at++;
  return at;
}

// Only moves if it sees the number's end: the next byte, or the text's.
static int take_number(struct json_scan *scan) {
  const unsigned char *at = scan->at, *end = scan->end, *digits;
  if (at < end && *at == '-')
    at++;
  digits = at;
  at = at < end && *at == '0' ? at + 1 : skip_digits(at, end);
  if (at == digits)
    return at == end ? cut(scan, JSON_GRAMMAR) : JSON_GRAMMAR;
  if (at < end && *at == '.') {
    digits = ++at;
    at = skip_digits(at, end);
    if (at == digits)
      return at == end ? cut(scan, JSON_GRAMMAR) : JSON_GRAMMAR;
  }
  if (at < end && (*at | 0x20) == 'e') {
    at++;
    if (at < end && (*at == '+' || *at == '-'))
      at++;
    digits = at;
    at = skip_digits(at, end);
    if (at == digits)
      return at == end ? cut(scan, JSON_GRAMMAR) : JSON_GRAMMAR;
  }
  if (at == end && !scan->final)
    return MORE;
  scan->at = at;
  return DONE;
}

static bool is_hex(unsigned char byte) {
  return (byte >= '0' && byte <= '9') || ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'f');
}

static int take_escape(struct json_scan *scan) {
  const unsigned char *at = scan->at;
  if (scan->end - at < 2)
    return cut(scan, JSON_GRAMMAR);
  if (at[1] != 'u') {
    if (!at[1] || !strchr("\"\\/bfnrt", at[1]))
      return JSON_GRAMMAR;
    scan->at += 2;
    return DONE;
  }
  for (int i = 2; i < 6; i++) {
    if (at + i == scan->end)
      return cut(scan, JSON_GRAMMAR);
    if (!is_hex(at[i]))
      return JSON_GRAMMAR;
  }
  scan->at += 6;
  return DONE;
}

// One character of more than a byte.
static int take_utf8(struct json_scan *scan) {
  const unsigned char *at = scan->at;
  unsigned char lead = *at, low = 0x80, high = 0xBF;
  int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
  if (lead < 0xC2 || lead > 0xF4)
    return JSON_UTF8;
  if (lead == 0xE0 || lead == 0xF0)
    low = lead == 0xE0 ? 0xA0 : 0x90;
  if (lead == 0xED || lead == 0xF4)
    high = lead == 0xED ? 0x9F : 0x8F;
  for (at++; more; more--, at++) {
    if (at == scan->end)
      return cut(scan, JSON_UTF8);
    if (*at < low || *at > high)
      return JSON_UTF8;
    low = 0x80;
    high = 0xBF;
  }
  scan->at = at;
  return DONE;
}

// Moves over bytes that need no look: not a quote, backslash, control or non-ASCII.
static void skip_plain(struct json_scan *scan) {
  const uint64_t ones = 0x0101010101010101u, tops = 0x8080808080808080u;
  uint64_t word;
  while ((size_t)(scan->end - scan->at) >= sizeof word) {
    memcpy(&word, scan->at, sizeof word);
    uint64_t quote = word ^ (ones * '"'), slash = word ^ (ones * '\\');
    uint64_t stop = word | ((word - ones * 0x20) & ~word) | ((quote - ones) & ~quote) | ((slash - ones) & ~slash);
    if (stop & tops)
      return;
    scan->at += sizeof word;
  }
}

// The rest of a string, behind its opening quote or from wherever it was cut.
static int take_string(struct json_scan *scan) {
  for (;;) {
    int result = DONE;
    skip_plain(scan);
    if (at_end(scan))
      return cut(scan, JSON_GRAMMAR);
    unsigned char byte = *scan->at;
    if (byte == '"') {
      scan->at++;
      return DONE;
    }
    if (byte < 0x20)
      return JSON_GRAMMAR;
    if (byte == '\\')
      result = take_escape(scan);
    else if (byte >= 0x80)
      result = take_utf8(scan);
    else
      scan->at++;
    if (result != DONE)
      return result;
  }
}

static bool in_object(const struct json_scan *scan) {
  uint32_t level = scan->depth - 1;
  return scan->is_object[level / 64] >> (level % 64) & 1;
}

static int enter(struct json_scan *scan, bool object) {
  if (scan->depth == scan->max_depth)
    return JSON_TOO_DEEP;
  uint64_t bit = 1ull << (scan->depth % 64);
  if (object)
    scan->is_object[scan->depth / 64] |= bit;
  else
    scan->is_object[scan->depth / 64] &= ~bit;
  scan->depth++;
  scan->at++;
  scan->state = object ? NAME_OR_END : VALUE_OR_END;
  return DONE;
}

static int leave(struct json_scan *scan) {
  scan->at++;
  scan->depth--;
  scan->state = BEHIND;
  return DONE;
}

static int take_value(struct json_scan *scan) {
  int result;
  switch (*scan->at) {
  case '{':
    result = enter(scan, true);
    break;
  case '[':
    result = enter(scan, false);
    break;
  case '"':
    scan->at++;
    scan->state = IN_STRING;
    result = DONE;
    break;
  case 't':
    result = take_word(scan, "true");
    break;
  case 'f':
    result = take_word(scan, "false");
    break;
  case 'n':
    result = take_word(scan, "null");
    break;
  default:
    result = take_number(scan);
  }
  if (result != DONE)
    return result;
  if (scan->state == VALUE)
    scan->state = BEHIND;
  return scan->nodes++ == scan->max_nodes ? JSON_TOO_MANY : DONE;
}

static int take_behind(struct json_scan *scan) {
  if (!scan->depth)
    return JSON_GRAMMAR; // something behind the value
  bool object = in_object(scan);
  if (*scan->at == (object ? '}' : ']'))
    return leave(scan);
  if (*scan->at != ',')
    return JSON_GRAMMAR;
  scan->at++;
  scan->state = object ? NAME : VALUE;
  return DONE;
}

// At a byte that is no space. Moves on by one token, or a part of a string.
static int step(struct json_scan *scan) {
  switch (scan->state) {
  case VALUE_OR_END:
    if (*scan->at == ']')
      return leave(scan);
    scan->state = VALUE;
    return take_value(scan);
  case VALUE:
    return take_value(scan);
  case NAME_OR_END:
    if (*scan->at == '}')
      return leave(scan);
    // fall through
  case NAME:
    if (*scan->at != '"')
      return JSON_GRAMMAR;
    scan->at++;
    scan->state = IN_NAME;
    return DONE;
  case COLON:
    if (*scan->at != ':')
      return JSON_GRAMMAR;
    scan->at++;
    scan->state = VALUE;
    return DONE;
  default:
    return take_behind(scan);
  }
}

static void skip_space(struct json_scan *scan) {
  while (!at_end(scan) && (*scan->at == ' ' || *scan->at == '\n' || *scan->at == '\r' || *scan->at == '\t'))
    scan->at++;
}

static int step_over(struct json_scan *scan) {
  if (scan->state != IN_NAME && scan->state != IN_STRING) {
    skip_space(scan);
    if (at_end(scan))
      return MORE;
    return step(scan);
  }
  int result = take_string(scan);
  if (result == DONE)
    scan->state = scan->state == IN_NAME ? COLON : BEHIND;
  return result;
}

void json_scan_begin(struct json_scan *scan, uint32_t max_nodes) {
  *scan = (struct json_scan){.max_nodes = max_nodes, .max_depth = JSON_DEPTH_MAX, .state = VALUE};
}

enum json_fault json_scan_more(struct json_scan *scan, const char *text, size_t size, bool final) {
  int result = DONE;
  scan->at = (const unsigned char *)text + scan->done;
  scan->end = (const unsigned char *)text + size;
  scan->final = final;
  while (result == DONE)
    result = step_over(scan);
  scan->done = (size_t)(scan->at - (const unsigned char *)text);
  if (result != MORE)
    return (enum json_fault)result;
  return final && (scan->state != BEHIND || scan->depth) ? JSON_GRAMMAR : JSON_FINE;
}

enum json_fault json_check(const char *text, size_t size, uint32_t max_nodes) {
  struct json_scan scan;
  json_scan_begin(&scan, max_nodes);
  return json_scan_more(&scan, text, size, true);
}
