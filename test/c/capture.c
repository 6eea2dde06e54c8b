// sources: src/buf.c
// What is kept of a stream, and what is said about the rest.
#include "buf.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int count, failed;

static void ok(int fine, const char *what) {
  printf("%sok %d - %s\n", fine ? "" : "not ", ++count, what);
  failed += !fine;
}

// Feeds `text` in pieces of `piece` bytes, and compares.
static bool keeps(size_t cap, const char *text, size_t size, size_t piece, const char *want, uint64_t want_dropped) {
  struct capture capture;
  char *got;
  size_t got_size;
  uint64_t dropped;
  capture_init(&capture, cap);
  for (size_t at = 0; at < size; at += piece)
    capture_add(&capture, text + at, size - at < piece ? size - at : piece);
  if (capture_finish(&capture, &got, &got_size, &dropped))
    return false;
  bool same = got_size == strlen(want) && !memcmp(got ? got : "", want, got_size) && dropped == want_dropped;
  if (!same)
    printf("# cap %zu piece %zu: %.*s (%llu)\n", cap, piece, (int)got_size, got ? got : "",
           (unsigned long long)dropped);
  free(got);
  return same;
}

static void keeps_in_all_pieces(size_t cap, const char *text, const char *want, uint64_t dropped, const char *what) {
  bool fine = true;
  for (size_t piece = 1; piece <= strlen(text) + 1; piece++)
    fine = keeps(cap, text, strlen(text), piece, want, dropped) && fine;
  ok(fine, what);
}

// Against a plain model, with random sizes.
static bool agrees_with_model(unsigned seed) {
  static char text[5000];
  srand(seed);
  size_t size = (size_t)rand() % sizeof text, cap = (size_t)rand() % 3000;
  for (size_t i = 0; i < size; i++)
    text[i] = (char)('a' + rand() % 26);
  struct capture capture;
  char *got, want[8000];
  size_t got_size, at = 0;
  uint64_t dropped;
  capture_init(&capture, cap);
  while (at < size) {
    size_t piece = 1 + (size_t)rand() % 900;
    piece = piece < size - at ? piece : size - at;
    capture_add(&capture, text + at, piece);
    at += piece;
  }
  capture_finish(&capture, &got, &got_size, &dropped);
  size_t head = cap - cap / 2, tail = cap / 2, want_size;
  if (size <= cap)
    want_size = (size_t)snprintf(want, sizeof want, "%.*s", (int)size, text);
  else if (cap == 0)
    want_size = 0;
  else
    want_size = (size_t)snprintf(want, sizeof want, "%.*s\n[code-jail: %zu bytes left out]\n%.*s", (int)head, text,
                                 size - cap, (int)tail, text + size - tail);
  bool same =
    got_size == want_size && !memcmp(got ? got : "", want, want_size) && dropped == (size > cap ? size - cap : 0);
  free(got);
  return same;
}

int main(void) {
  keeps_in_all_pieces(10, "", "", 0, "nothing is nothing");
  keeps_in_all_pieces(10, "0123456789", "0123456789", 0, "what just fits is whole");
  keeps_in_all_pieces(10, "0123456789a", "01234\n[code-jail: 1 bytes left out]\n6789a", 1,
                      "one byte more, and it is said");
  keeps_in_all_pieces(7, "abcdefghijklmnop", "abcd\n[code-jail: 9 bytes left out]\nnop", 9,
                      "an odd cap: the head has more");
  keeps_in_all_pieces(0, "abc", "", 3, "a cap of 0 keeps nothing and counts");
  keeps_in_all_pieces(1, "abc", "a\n[code-jail: 2 bytes left out]\n", 2, "a cap of 1 keeps the first");
  keeps_in_all_pieces(8, "ab\ncdefghij\nkl", "ab\nc\n[code-jail: 6 bytes left out]\nj\nkl", 6,
                      "lines stay as they are");
  keeps_in_all_pieces(6, "ab\nxxxxxxcde", "ab\n[code-jail: 6 bytes left out]\ncde", 6, "no empty line is added");
  keeps_in_all_pieces(6,
                      "a\xe2\x82\xac"
                      "b\xe2\x82\xac"
                      "cd\xe2\x82\xac",
                      "a\n[code-jail: 9 bytes left out]\n\xe2\x82\xac", 9, "a character cut at the head goes whole");
  keeps_in_all_pieces(8,
                      "abcd\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac"
                      "x",
                      "abcd\n[code-jail: 6 bytes left out]\n\xe2\x82\xacx", 6, "one that fits stays");
  keeps_in_all_pieces(10,
                      "abcde....\xf0\x9f\x98\x80"
                      "xyz",
                      "abcde\n[code-jail: 8 bytes left out]\nxyz", 8, "a character cut at the tail goes whole");
  bool fine = true;
  for (unsigned seed = 1; seed < 3000 && fine; seed++)
    fine = agrees_with_model(seed);
  ok(fine, "3,000 random streams agree with a plain model");
  struct buf buf = {.ceiling = 10};
  ok(buf_add(&buf, "12345", 5) == 0 && buf_add(&buf, "67890", 5) == 0 && buf_add(&buf, "x", 1) == -1 && buf.size == 10,
     "a buffer keeps its ceiling");
  buf_free(&buf);
  printf("1..%d\n", count);
  return failed != 0;
}
