// files.c: see files.h.
#include "files.h"

#include "buf.h"
#include "protocol.h"
#include "text.h"

// A member's value is one of these objects, and each has these members alone.
static bool has_just(const struct json_doc *doc, int object, const char *const *names, int count) {
  int at[2];
  if (!json_is_object(doc, object) || !json_members(doc, object, names, at, count))
    return false;
  for (int i = 0; i < count; i++)
    if (!json_is_string(doc, at[i]))
      return false;
  return json_size(doc, object) == count;
}

// Twins are found by whoever makes an object of it: the later one is as good as the other.
static bool are_files(const struct json_doc *doc, int files) {
  static const char *const names[] = {"base64"};
  int count = json_is_object(doc, files) ? json_size(doc, files) : FILES_MAX + 1;
  if (count > FILES_MAX)
    return false;
  for (int it = json_first_value(doc, files); it >= 0; it = json_next_value(doc, files, it))
    if (!has_just(doc, it, names, 1))
      return false;
  return true;
}

static bool are_missing(const struct json_doc *doc, int missing) {
  static const char *const names[] = {"path", "reason"};
  int count = 0;
  if (!json_is_array(doc, missing))
    return false;
  for (int it = json_first(doc, missing); it >= 0; it = json_next(doc, missing, it))
    if (++count > FILES_MISSING_MAX || !has_just(doc, it, names, 2))
      return false;
  return true;
}

int files_text(struct jail_text *text, const struct json_doc *doc, int files, int missing) {
  struct buf out = {.ceiling = PROTOCOL_FILES_MAX + 64};
  static const char first[] = "{\"files\":", second[] = ",\"filesMissing\":";
  const char *span;
  size_t size;
  if (!are_files(doc, files) || !are_missing(doc, missing))
    return -1;
  json_span(doc, files, &span, &size);
  int failed = buf_add(&out, first, sizeof first - 1) || buf_add(&out, span, size);
  json_span(doc, missing, &span, &size);
  failed = failed || buf_add(&out, second, sizeof second - 1) || buf_add(&out, span, size) || buf_add(&out, "}", 1);
  failed = failed || text_from_utf8(text, out.data, out.size);
  buf_free(&out);
  return failed ? -1 : 0;
}

int files_read(struct jail_text *text, const char *json, size_t size) {
  static const char *const names[] = {"files", "filesMissing"};
  struct json_doc doc;
  int at[2];
  if (json_parse(&doc, json, size, FILES_NODES_MAX) != JSON_FINE)
    return -1;
  bool fine = json_is_object(&doc, 0) && json_size(&doc, 0) == 2 && json_members(&doc, 0, names, at, 2) &&
              files_text(text, &doc, at[0], at[1]) == 0;
  json_free(&doc);
  return fine ? 0 : -1;
}
