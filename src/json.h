// json.h: JSON text from outside: checked strictly, then read through small
// accessors. Alone knows jsmn. Callers: the core, on any one thread.
#ifndef CODE_JAIL_JSON_H
#define CODE_JAIL_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jail.h"

enum { JSON_DEPTH_MAX = 512, JSON_ENVELOPE_DEPTH = 8 };

enum json_fault { JSON_FINE, JSON_GRAMMAR, JSON_UTF8, JSON_TOO_DEEP, JSON_TOO_MANY };

struct json_scan { // a check under way: made by json_scan_begin, otherwise private
  const unsigned char *at, *end;
  size_t done;
  bool final;
  int state;
  uint32_t nodes, max_nodes, depth, max_depth;
  uint64_t is_object[(JSON_DEPTH_MAX + JSON_ENVELOPE_DEPTH + 63) / 64]; // a bit per level
};
// The check below, for text that comes in parts: more takes the text so far,
// from its beginning, and looks only at what is new. JSON_FINE: nothing is wrong
// yet; with final, nothing is wrong at all.
void json_scan_begin(struct json_scan *scan, uint32_t max_nodes);
enum json_fault json_scan_more(struct json_scan *scan, const char *text, size_t size, bool final);

// Whether text is one JSON value (RFC 8259, UTF-8, as JSON.parse accepts) with
// at most max_nodes values in it, nested at most JSON_DEPTH_MAX deep. One pass,
// no recursion, no memory.
enum json_fault json_check(const char *text, size_t size, uint32_t max_nodes);

struct json_doc {   // zeroed: empty
  const char *text; // borrowed
  void *tokens;     // owned
  int count;
};
// Checks, then indexes the text, which may be JSON_ENVELOPE_DEPTH deeper: what
// carries a value is around it. JSON_TOO_MANY also where there is no memory.
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
bool json_is_array(const struct json_doc *doc, int value);
bool json_is_string(const struct json_doc *doc, int value);
bool json_bool(const struct json_doc *doc, int value, bool *truth);
bool json_number(const struct json_doc *doc, int value, double *number);    // of any size
bool json_equals(const struct json_doc *doc, int value, const char *plain); // is a string, and says this
// The members of these names, each -1 where it is not there, in one pass. False
// where one is there twice, or some name is written with escapes (which may hide one).
bool json_members(const struct json_doc *doc, int object, const char *const *names, int *values, int count);
int json_first(const struct json_doc *doc, int array); // of an array's elements; -1 behind the last
int json_next(const struct json_doc *doc, int array, int element);
int json_size(const struct json_doc *doc, int value); // members or elements; 0 for anything else
// An object's values, whatever their names; -1 behind the last.
int json_first_value(const struct json_doc *doc, int object);
int json_next_value(const struct json_doc *doc, int object, int value);
void json_span(const struct json_doc *doc, int value, const char **start, size_t *size); // its own text

#endif
