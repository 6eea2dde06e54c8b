// json.h: JSON text from outside: checked strictly, then read through small
// accessors. Alone knows jsmn. Callers: the core, on any one thread.
#ifndef CODE_JAIL_JSON_H
#define CODE_JAIL_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jail.h"

enum { JSON_DEPTH_MAX = 512 };

enum json_fault { JSON_FINE, JSON_GRAMMAR, JSON_UTF8, JSON_TOO_DEEP, JSON_TOO_MANY };

// Whether text is one JSON value (RFC 8259, UTF-8, as JSON.parse accepts) with
// at most max_nodes values in it, nested at most JSON_DEPTH_MAX deep. One pass,
// no recursion, no memory.
enum json_fault json_check(const char *text, size_t size, uint32_t max_nodes);

struct json_doc {   // zeroed: empty
  const char *text; // borrowed
  void *tokens;     // owned
  int count;
};
// Checks, then indexes the text. JSON_TOO_MANY also where there is no memory.
// The text must outlive the document.
enum json_fault json_parse(struct json_doc *doc, const char *text, size_t size, uint32_t max_nodes);
void json_free(struct json_doc *doc);

// Values are named by number; the whole document is 0, "not there" is -1. Every
// accessor takes -1 and then finds nothing.
bool json_is_object(const struct json_doc *doc, int value);
int json_member(const struct json_doc *doc, int object, const char *name); // the first of that name
bool json_has_twins(const struct json_doc *doc, int object); // some name twice (quadratic: small ones only)
bool json_is_null(const struct json_doc *doc, int value);
bool json_text(const struct json_doc *doc, int value, struct jail_text *text); // strings; *text is the caller's
bool json_integer(const struct json_doc *doc, int value, int64_t *number);     // within ±2^53, no fraction
void json_span(const struct json_doc *doc, int value, const char **start, size_t *size); // its own text

#endif
