// sources: src/remote_text.c src/buf.c
// Files of a request as JSON: base64 of every length, names that JSON escapes, and blocks that are cut.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../src/protocol.h"
#include "../../src/remote_text.h"

static int count, failures;

static void ok(int passed, const char *what) {
  printf("%sok %d - %s\n", passed ? "" : "not ", ++count, what);
  failures += !passed;
}

static int is_base64(const char *bytes, size_t size, const char *want) {
  struct buf out = {.ceiling = 4096};
  int fine = remote_add_base64(&out, bytes, size) == 0 && out.size == strlen(want) && !memcmp(out.data, want, out.size);
  buf_free(&out);
  return fine;
}

// Digits from their values again, and where they end.
static int comes_back(size_t size) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  unsigned char *bytes = malloc(size);
  struct buf out = {.ceiling = 2 * size + 16};
  for (size_t i = 0; i < size; i++)
    bytes[i] = (unsigned char)(i * 167 + i / 251);
  int fine = remote_add_base64(&out, (char *)bytes, size) == 0 && out.size == 2 + (size + 2) / 3 * 4;
  for (size_t i = 0; fine && i < size; i++) {
    unsigned bits = 0;
    for (size_t j = 0; j < 4; j++) {
      const char *digit = strchr(digits, out.data[1 + i / 3 * 4 + j]);
      bits = bits << 6 | (digit ? (unsigned)(digit - digits) : 0);
    }
    fine = bytes[i] == (unsigned char)(bits >> (16 - 8 * (i % 3)));
  }
  buf_free(&out);
  free(bytes);
  return fine;
}

// `"` with 4 bytes, `b` with none.
static size_t block(char *to) {
  struct job_file one = {1, 4}, two = {1, 0};
  memcpy(to, &one, sizeof one);
  memcpy(to + sizeof one, "\"\0\377ab", 5);
  memcpy(to + sizeof one + 5, &two, sizeof two);
  memcpy(to + 2 * sizeof one + 5, "b", 1);
  return 2 * sizeof one + 6;
}

static int adds(const char *files, size_t size, size_t ceiling, const char *want) {
  struct buf out = {.ceiling = ceiling};
  char *own = malloc(size + 1); // to its end and no further: the sanitizer sees
  memcpy(own, files, size);
  own = realloc(own, size ? size : 1);
  int failed = remote_add_files(&out, own, size);
  int fine =
    want ? !failed && out.size == strlen(want) && !memcmp(out.data ? out.data : "", want, out.size) : failed != 0;
  free(own);
  buf_free(&out);
  return fine;
}

int main(void) {
  static const char want[] = ",\"files\":{\"\\\"\":{\"base64\":\"AP9hYg==\"},\"b\":{\"base64\":\"\"}}";
  char files[64];
  size_t size = block(files);
  int cut = 0;
  ok(is_base64("", 0, "\"\"") && is_base64("f", 1, "\"Zg==\"") && is_base64("fo", 2, "\"Zm8=\"") &&
       is_base64("foo", 3, "\"Zm9v\"") && is_base64("\373\377", 2, "\"+/8=\""),
     "base64, padded");
  ok(comes_back(3071) && comes_back(3072) && comes_back(3073) && comes_back(100000), "over the end of its own buffer");
  ok(adds(files, size, 4096, want), "files as the contract has them");
  ok(adds(files, 0, 4096, ""), "none, nothing");
  ok(adds(files, size, sizeof want - 2, NULL), "not over the ceiling");
  for (size_t part = 1; part < size; part++)
    cut += adds(files, part, 4096, NULL);
  ok(cut == (int)size - 2, "no beginning of it is read past its end: one alone is whole");
  printf("1..%d\n", count);
  return failures != 0;
}
