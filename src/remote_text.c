// remote_text.c: see remote_text.h.
#include "remote_text.h"

#include <stdio.h>
#include <string.h>

#include "protocol.h"

int remote_add_text(struct buf *out, const char *text) {
  return buf_add(out, text, strlen(text));
}

// Copies up to the next byte that JSON wants escaped, then that one.
int remote_add_string(struct buf *out, const char *bytes, size_t size) {
  size_t from = 0, at = 0;
  int failed = remote_add_text(out, "\"");
  for (; at < size && !failed; at++) {
    unsigned char byte = (unsigned char)bytes[at];
    char escape[8];
    if (byte >= 0x20 && byte != '"' && byte != '\\')
      continue;
    if (byte == '"' || byte == '\\')
      snprintf(escape, sizeof escape, "\\%c", byte);
    else if (byte == '\n')
      snprintf(escape, sizeof escape, "\\n");
    else
      snprintf(escape, sizeof escape, "\\u%04x", byte);
    failed = buf_add(out, bytes + from, at - from) || remote_add_text(out, escape);
    from = at + 1;
  }
  return failed || buf_add(out, bytes + from, size - from) || remote_add_text(out, "\"");
}

int remote_add_base64(struct buf *out, const char *bytes, size_t size) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const unsigned char *from = (const unsigned char *)bytes;
  char text[4096];
  size_t used = 0;
  int failed = remote_add_text(out, "\"");
  for (; size && !failed; from += 3) {
    size_t some = size < 3 ? size : 3;
    uint32_t bits = (uint32_t)from[0] << 16 | (some > 1 ? (uint32_t)from[1] << 8 : 0) | (some > 2 ? from[2] : 0);
    text[used++] = digits[bits >> 18];
    text[used++] = digits[bits >> 12 & 63];
    text[used++] = some > 1 ? digits[bits >> 6 & 63] : '=';
    text[used++] = some > 2 ? digits[bits & 63] : '=';
    size -= some;
    if (used == sizeof text || !size) {
      failed = buf_add(out, text, used);
      used = 0;
    }
  }
  return failed || remote_add_text(out, "\"");
}

int remote_add_files(struct buf *out, const char *files, size_t size) {
  const char *end = files + size, *separator = ",\"files\":{";
  struct job_file file;
  if (!size)
    return 0;
  for (int failed = 0; files < end; files += file.path_bytes + file.data_bytes) {
    if ((size_t)(end - files) < sizeof file)
      return -1;
    memcpy(&file, files, sizeof file);
    files += sizeof file;
    size_t left = (size_t)(end - files);
    if (file.path_bytes > left || file.data_bytes > left - file.path_bytes)
      return -1;
    failed = remote_add_text(out, separator) || remote_add_string(out, files, file.path_bytes) ||
             remote_add_text(out, ":{\"base64\":") ||
             remote_add_base64(out, files + file.path_bytes, file.data_bytes) || remote_add_text(out, "}");
    if (failed)
      return -1;
    separator = ",";
  }
  return remote_add_text(out, "}");
}
