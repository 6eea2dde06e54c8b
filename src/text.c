// text.c: see text.h.
#include "text.h"

#include <stdlib.h>
#include <string.h>

static bool is_ascii(const char *bytes, size_t size) {
  uint64_t word, any = 0;
  size_t i = 0;
  for (; i + sizeof word <= size && !(any & 0x8080808080808080u); i += sizeof word) {
    memcpy(&word, bytes + i, sizeof word);
    any |= word;
  }
  for (; i < size; i++)
    any |= (unsigned char)bytes[i];
  return !(any & 0x8080808080808080u);
}

// Reads one character at *at and moves it on; U+FFFD for the longest prefix
// that could still have become one.
static uint32_t next_character(const unsigned char *bytes, size_t size, size_t *at) {
  unsigned char lead = bytes[(*at)++];
  unsigned char low = 0x80, high = 0xBF;
  uint32_t value;
  int more;
  if (lead < 0x80)
    return lead;
  if (lead >= 0xC2 && lead <= 0xDF) {
    more = 1;
    value = lead & 0x1Fu;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    more = 2;
    value = lead & 0x0Fu;
    low = lead == 0xE0 ? 0xA0 : low;
    high = lead == 0xED ? 0x9F : high;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    more = 3;
    value = lead & 0x07u;
    low = lead == 0xF0 ? 0x90 : low;
    high = lead == 0xF4 ? 0x8F : high;
  } else {
    return 0xFFFD;
  }
  for (; more; more--) {
    if (*at == size || bytes[*at] < low || bytes[*at] > high)
      return 0xFFFD;
    value = value << 6 | (bytes[(*at)++] & 0x3Fu);
    low = 0x80;
    high = 0xBF;
  }
  return value;
}

static size_t put_wide(uint16_t *to, size_t units, uint32_t value) {
  if (value < 0x10000) {
    to[units++] = (uint16_t)value;
  } else {
    to[units++] = (uint16_t)(0xD800 + ((value - 0x10000) >> 10));
    to[units++] = (uint16_t)(0xDC00 + ((value - 0x10000) & 0x3FF));
  }
  return units;
}

static void give(struct jail_text *text, void *block, size_t units, bool wide) {
  *text = (struct jail_text){.block = block, .data = block, .units = units, .wide = wide};
}

// The length of the longest start of bytes that is ASCII, in steps of a word.
static size_t ascii_run(const unsigned char *bytes, size_t size) {
  size_t run = 0;
  uint64_t word;
  for (; run + sizeof word <= size; run += sizeof word) {
    memcpy(&word, bytes + run, sizeof word);
    if (word & 0x8080808080808080u)
      break;
  }
  return run;
}

// -1 where a character is not in Latin-1.
static ptrdiff_t decode_narrow(unsigned char *to, const unsigned char *bytes, size_t size) {
  size_t at = 0, units = 0;
  while (at < size) {
    size_t run = ascii_run(bytes + at, size - at);
    memcpy(to + units, bytes + at, run);
    at += run;
    units += run;
    for (size_t stop = at + 16; at < size && at < stop;) {
      uint32_t value = next_character(bytes, size, &at);
      if (value > 0xFF)
        return -1;
      to[units++] = (unsigned char)value;
    }
  }
  return (ptrdiff_t)units;
}

static size_t decode_wide(uint16_t *to, const unsigned char *bytes, size_t size) {
  size_t at = 0, units = 0;
  while (at < size) {
    size_t run = ascii_run(bytes + at, size - at);
    for (size_t i = 0; i < run; i++)
      to[units + i] = bytes[at + i];
    at += run;
    units += run;
    for (size_t stop = at + 16; at < size && at < stop;) {
      const unsigned char *next = bytes + at;
      // The commonest by far, without the general case's care.
      if (size - at >= 3 && next[0] >= 0xE1 && next[0] <= 0xEC && (next[1] & 0xC0) == 0x80 &&
          (next[2] & 0xC0) == 0x80) {
        to[units++] = (uint16_t)((next[0] & 0x0F) << 12 | (next[1] & 0x3F) << 6 | (next[2] & 0x3F));
        at += 3;
      } else {
        units = put_wide(to, units, next_character(bytes, size, &at));
      }
    }
  }
  return units;
}

// Latin-1 where every character is in it: half the bytes for the JS thread.
static int decode(struct jail_text *text, const unsigned char *bytes, size_t size) {
  unsigned char *narrow = malloc(size);
  if (!narrow)
    return -1;
  ptrdiff_t units = decode_narrow(narrow, bytes, size);
  if (units >= 0)
    return give(text, narrow, (size_t)units, false), 0;
  free(narrow);
  uint16_t *wide = malloc(size * sizeof *wide); // never more units than bytes
  if (!wide)
    return -1;
  give(text, wide, decode_wide(wide, bytes, size), true);
  uint16_t *shrunk = realloc(wide, text->units * sizeof *wide);
  if (shrunk)
    text->block = shrunk, text->data = shrunk;
  return 0;
}

int text_from_utf8(struct jail_text *text, const char *bytes, size_t size) {
  *text = text_static("");
  if (!size)
    return 0;
  if (!is_ascii(bytes, size))
    return decode(text, (const unsigned char *)bytes, size);
  char *copy = malloc(size);
  if (!copy)
    return -1;
  memcpy(copy, bytes, size);
  give(text, copy, size, false);
  return 0;
}

int text_take(struct jail_text *text, char *block, const char *bytes, size_t size) {
  if (size && is_ascii(bytes, size)) {
    *text = (struct jail_text){.block = block, .data = bytes, .units = size};
    return 0;
  }
  int result = text_from_utf8(text, bytes, size);
  free(block);
  return result;
}

static uint32_t hex4(const char *digits) {
  uint32_t value = 0;
  for (int i = 0; i < 4; i++) {
    char digit = digits[i];
    uint32_t nibble = digit <= '9' ? (uint32_t)(digit - '0') : (uint32_t)((digit | 0x20) - 'a' + 10);
    value = value << 4 | nibble;
  }
  return value;
}

int text_from_json(struct jail_text *text, const char *raw, size_t size) {
  if (!memchr(raw, '\\', size))
    return text_from_utf8(text, raw, size);
  uint16_t *wide = malloc((size + 1) * sizeof *wide);
  size_t units = 0, at = 0;
  if (!wide)
    return -1;
  while (at < size) {
    if (raw[at] != '\\') {
      units = put_wide(wide, units, next_character((const unsigned char *)raw, size, &at));
      continue;
    }
    char what = raw[at + 1];
    static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
    const char *known = strchr(from, what);
    at += 2;
    if (what == 'u') { // one unit as it is: lone surrogates survive
      wide[units++] = (uint16_t)hex4(raw + at);
      at += 4;
    } else {
      wide[units++] = (uint16_t)(known ? to[known - from] : what);
    }
  }
  give(text, wide, units, true);
  return 0;
}

struct jail_text text_static(const char *ascii) {
  return (struct jail_text){.data = ascii, .units = strlen(ascii)};
}

void text_free(struct jail_text *text) {
  free(text->block);
  *text = (struct jail_text){0};
}
