// fuzz.h: what the fuzz targets share. Each is a libFuzzer program: it takes
// bytes, and must neither crash, read beyond them, nor break what it promises.
// `npm run fuzz -- [TARGET] [SECONDS]`.
#ifndef CODE_JAIL_FUZZ_H
#define CODE_JAIL_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// What the target promises; libFuzzer keeps the input that broke it.
#define MUST(fact)                                                        \
  do {                                                                    \
    if (!(fact)) {                                                        \
      fprintf(stderr, "broken: %s (%s:%d)\n", #fact, __FILE__, __LINE__); \
      abort();                                                            \
    }                                                                     \
  } while (0)

struct feed { // the input, taken piece by piece
  const uint8_t *at;
  size_t left;
};

// As many bytes as there are, zeroes behind them.
static inline void feed_take(struct feed *feed, void *to, size_t size) {
  size_t part = size < feed->left ? size : feed->left;
  memset(to, 0, size);
  if (part)
    memcpy(to, feed->at, part);
  feed->at += part;
  feed->left -= part;
}

static inline uint8_t feed_byte(struct feed *feed) {
  uint8_t byte;
  feed_take(feed, &byte, 1);
  return byte;
}

// The rest, in memory of the exact size, so that the sanitizer sees its end. The caller frees it.
static inline char *feed_rest(struct feed *feed, size_t *size) {
  char *copy = malloc(feed->left ? feed->left : 1);
  MUST(copy);
  *size = feed->left;
  feed_take(feed, copy, feed->left);
  return copy;
}

#endif
