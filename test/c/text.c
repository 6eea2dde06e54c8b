// sources: src/text.c
// Bytes from outside as JavaScript text: what is no UTF-8 becomes U+FFFD as TextDecoder has it.
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int count, failed;

static void ok(int fine, const char *what) {
  printf("%sok %d - %s\n", fine ? "" : "not ", ++count, what);
  failed += !fine;
}

static int gives(const char *bytes, size_t size, int wide, const uint16_t *units, size_t want) {
  struct jail_text text;
  // A copy of the exact size, so that a sanitizer sees each byte too many.
  char *copy = malloc(size ? size : 1);
  memcpy(copy, bytes, size);
  int same = text_from_utf8(&text, copy, size) == 0 && text.units == want && text.wide == (bool)wide;
  for (size_t i = 0; same && i < want; i++)
    same = units[i] == (wide ? ((const uint16_t *)text.data)[i] : ((const unsigned char *)text.data)[i]);
  text_free(&text);
  free(copy);
  return same;
}
#define GIVES(bytes, wide, ...) \
  gives(bytes, sizeof bytes - 1, wide, (const uint16_t[]){__VA_ARGS__}, sizeof((const uint16_t[]){__VA_ARGS__}) / 2)

int main(void) {
  struct jail_text text;
  ok(gives("", 0, 0, NULL, 0), "nothing");
  ok(GIVES("abc\0d", 0, 'a', 'b', 'c', 0, 'd'), "ASCII, NUL included");
  ok(GIVES("0123456789abcdef\xc3\xa9", 0, '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e',
           'f', 0xE9),
     "Latin-1 stays narrow");
  ok(GIVES("\xe2\x82\xac", 1, 0x20AC), "three bytes");
  ok(GIVES("\xf0\x9f\x98\x80", 1, 0xD83D, 0xDE00), "four bytes are two units");
  ok(GIVES("\xff"
           "a",
           1, 0xFFFD, 'a'),
     "a byte that begins nothing");
  ok(GIVES("\xe2\x82", 1, 0xFFFD), "a prefix at the end is one");
  ok(GIVES("\xe2\x82"
           "a",
           1, 0xFFFD, 'a'),
     "a prefix before another is one");
  ok(GIVES("\xf0\x9f\x98", 1, 0xFFFD), "a longer prefix is one too");
  ok(GIVES("\xe0\x80\x80", 1, 0xFFFD, 0xFFFD, 0xFFFD), "an overlong form is one for each byte");
  ok(GIVES("\xed\xa0\x80", 1, 0xFFFD, 0xFFFD, 0xFFFD), "a surrogate likewise");
  ok(GIVES("\xf4\x90\x80\x80", 1, 0xFFFD, 0xFFFD, 0xFFFD, 0xFFFD), "and what is past the last character");
  ok(text_from_json(&text, "a\\u00e9\\n\\\\\\\"\\/\\ud800", 21) == 0 && text.units == 7 && text.wide &&
       ((const uint16_t *)text.data)[6] == 0xD800 && ((const uint16_t *)text.data)[2] == '\n',
     "JSON's escapes, half a surrogate pair too");
  text_free(&text);
  char *block = malloc(4);
  memcpy(block, "abcd", 4);
  ok(text_take(&text, block, block + 1, 3) == 0 && text.data == block + 1 && text.block == block,
     "ASCII is not copied");
  text_free(&text);
  printf("1..%d\n", count);
  return failed != 0;
}
