// json.c: see json.h. jsmn's strict mode accepts `{"a"}` and `{}{}`, and knows
// neither UTF-8 nor a depth; so the text is judged here first, and jsmn only
// indexes what has passed.
#include "json.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

#define JSMN_STATIC
#define JSMN_STRICT
#define JSMN_PARENT_LINKS
#include <jsmn.h>

// Of a text that holds a value.
static const char *trim(const char *text) {
  return text + strspn(text, " \n\r\t");
}

// jsmn's strict mode knows none that stands alone.
static enum json_fault index_scalar(struct json_doc *doc, const char *text, size_t size) {
  jsmntok_t *token = calloc(1, sizeof *token);
  if (!token)
    return JSON_TOO_MANY;
  const char *start = trim(text), *end = text + size;
  while (strchr(" \n\r\t", end[-1]))
    end--;
  bool string = *start == '"';
  *token =
    (jsmntok_t){string ? JSMN_STRING : JSMN_PRIMITIVE, (int)(start - text) + string, (int)(end - text) - string, 0, -1};
  doc->tokens = token;
  doc->count = 1;
  return JSON_FINE;
}

enum json_fault json_parse(struct json_doc *doc, const char *text, size_t size, uint32_t max_nodes) {
  jsmn_parser parser;
  *doc = (struct json_doc){.text = text};
  if (size > INT32_MAX)
    return JSON_TOO_MANY;
  struct json_scan scan;
  json_scan_begin(&scan, max_nodes);
  scan.max_depth += JSON_ENVELOPE_DEPTH;
  enum json_fault fault = json_scan_more(&scan, text, size, true);
  if (fault)
    return fault;
  if (*trim(text) != '{' && *trim(text) != '[')
    return index_scalar(doc, text, size);
  jsmn_init(&parser);
  int count = jsmn_parse(&parser, text, size, NULL, 0);
  jsmntok_t *tokens = count > 0 ? calloc((size_t)count, sizeof *tokens) : NULL;
  if (!tokens)
    return count > 0 ? JSON_TOO_MANY : JSON_GRAMMAR;
  jsmn_init(&parser);
  doc->count = jsmn_parse(&parser, text, size, tokens, (unsigned)count);
  doc->tokens = tokens;
  if (doc->count == count)
    return JSON_FINE;
  json_free(doc);
  return JSON_GRAMMAR;
}

void json_free(struct json_doc *doc) {
  free(doc->tokens);
  *doc = (struct json_doc){0};
}

static const jsmntok_t *token(const struct json_doc *doc, int value) {
  return value >= 0 && value < doc->count ? (const jsmntok_t *)doc->tokens + value : NULL;
}

bool json_is_object(const struct json_doc *doc, int value) {
  const jsmntok_t *it = token(doc, value);
  return it && it->type == JSMN_OBJECT;
}

// The next token that does not lie within this one.
static int after(const struct json_doc *doc, int value) {
  int end = token(doc, value)->end;
  do
    value++;
  while (value < doc->count && token(doc, value)->start < end);
  return value;
}

static bool same(const struct json_doc *doc, int key, const char *name, size_t size) {
  const jsmntok_t *it = token(doc, key);
  return (size_t)(it->end - it->start) == size && memcmp(doc->text + it->start, name, size) == 0;
}

int json_member(const struct json_doc *doc, int object, const char *name) {
  if (!json_is_object(doc, object))
    return -1;
  int count = token(doc, object)->size, key = object + 1;
  for (int i = 0; i < count; i++) {
    if (same(doc, key, name, strlen(name)))
      return key + 1;
    key = after(doc, key + 1);
  }
  return -1;
}

bool json_has_twins(const struct json_doc *doc, int object) {
  if (!json_is_object(doc, object))
    return false;
  int count = token(doc, object)->size, key = object + 1;
  for (int i = 0; i < count; i++) {
    int other = after(doc, key + 1);
    const jsmntok_t *it = token(doc, key);
    for (int j = i + 1; j < count; j++) {
      if (same(doc, other, doc->text + it->start, (size_t)(it->end - it->start)))
        return true;
      other = after(doc, other + 1);
    }
    key = after(doc, key + 1);
  }
  return false;
}

bool json_is_null(const struct json_doc *doc, int value) {
  const jsmntok_t *it = token(doc, value);
  return it && it->type == JSMN_PRIMITIVE && doc->text[it->start] == 'n';
}

bool json_text(const struct json_doc *doc, int value, struct jail_text *text) {
  const jsmntok_t *it = token(doc, value);
  return it && it->type == JSMN_STRING &&
         text_from_json(text, doc->text + it->start, (size_t)(it->end - it->start)) == 0;
}

bool json_integer(const struct json_doc *doc, int value, int64_t *number) {
  const jsmntok_t *it = token(doc, value);
  if (!it || it->type != JSMN_PRIMITIVE)
    return false;
  const char *at = doc->text + it->start, *end = doc->text + it->end;
  bool negative = *at == '-';
  int64_t sum = 0;
  at += negative;
  if (at == end || end - at > 16)
    return false;
  for (; at < end; at++) {
    if (*at < '0' || *at > '9')
      return false;
    sum = sum * 10 + (*at - '0');
  }
  if (sum > 1ll << 53)
    return false;
  *number = negative ? -sum : sum;
  return true;
}

void json_span(const struct json_doc *doc, int value, const char **start, size_t *size) {
  const jsmntok_t *it = token(doc, value);
  int quote = it && it->type == JSMN_STRING; // jsmn's strings are without theirs
  *start = it ? doc->text + it->start - quote : NULL;
  *size = it ? (size_t)(it->end - it->start + 2 * quote) : 0;
}

static bool is_of_type(const struct json_doc *doc, int value, jsmntype_t type) {
  const jsmntok_t *it = token(doc, value);
  return it && it->type == type;
}

bool json_is_array(const struct json_doc *doc, int value) {
  return is_of_type(doc, value, JSMN_ARRAY);
}

bool json_is_string(const struct json_doc *doc, int value) {
  return is_of_type(doc, value, JSMN_STRING);
}

bool json_bool(const struct json_doc *doc, int value, bool *truth) {
  const jsmntok_t *it = token(doc, value);
  if (!it || it->type != JSMN_PRIMITIVE || (doc->text[it->start] != 't' && doc->text[it->start] != 'f'))
    return false;
  *truth = doc->text[it->start] == 't';
  return true;
}

// Where it has escapes, what they stand for is compared.
static bool means(const struct json_doc *doc, int value, const char *plain) {
  struct jail_text left = {0}, right = {0};
  bool is_same =
    json_text(doc, value, &left) && !text_from_utf8(&right, plain, strlen(plain)) && left.units == right.units;
  for (size_t i = 0; is_same && i < left.units; i++) {
    unsigned a = left.wide ? ((const uint16_t *)left.data)[i] : ((const unsigned char *)left.data)[i];
    unsigned b = right.wide ? ((const uint16_t *)right.data)[i] : ((const unsigned char *)right.data)[i];
    is_same = a == b;
  }
  text_free(&left);
  text_free(&right);
  return is_same;
}

bool json_equals(const struct json_doc *doc, int value, const char *plain) {
  if (!plain || !json_is_string(doc, value))
    return false;
  const jsmntok_t *it = token(doc, value);
  if (memchr(doc->text + it->start, '\\', (size_t)(it->end - it->start)))
    return means(doc, value, plain);
  return same(doc, value, plain, strlen(plain));
}

// 10^22 is the largest power of ten that a double holds exactly.
static double shifted(double sum, int scale) {
  while (scale && sum > 0 && sum <= DBL_MAX) {
    double power = 1;
    int some = 0;
    for (; some < 22 && some < abs(scale); some++)
      power *= 10;
    sum = scale > 0 ? sum * power : sum / power;
    scale -= scale > 0 ? some : -some;
  }
  return sum;
}

// strtod would depend on the host's locale. Good to some fifteen digits.
bool json_number(const struct json_doc *doc, int value, double *number) {
  const jsmntok_t *it = token(doc, value);
  if (!it || it->type != JSMN_PRIMITIVE || strchr("tfn", doc->text[it->start]))
    return false;
  const char *at = doc->text + it->start, *end = doc->text + it->end;
  bool negative = *at == '-', fraction = false, shrinks = false;
  double sum = 0;
  int scale = 0, exponent = 0;
  for (at += negative; at < end && *at != 'e' && *at != 'E'; at++)
    if (*at == '.') {
      fraction = true;
    } else if (sum < 1e17) {
      sum = sum * 10 + (*at - '0');
      scale -= fraction;
    } else { // a digit that no double would show: only its place counts
      scale += !fraction;
    }
  if (at < end) {
    at++;
    shrinks = *at == '-';
    for (at += *at == '-' || *at == '+'; at < end; at++)
      exponent = exponent < 100000000 ? exponent * 10 + (*at - '0') : exponent;
  }
  scale += shrinks ? -exponent : exponent;
  sum = shifted(sum, scale);
  *number = negative ? -sum : sum;
  return true;
}

bool json_members(const struct json_doc *doc, int object, const char *const *names, int *values, int count) {
  for (int i = 0; i < count; i++)
    values[i] = -1;
  if (!json_is_object(doc, object))
    return true;
  int left = token(doc, object)->size;
  for (int key = object + 1; left > 0; left--, key = after(doc, key + 1)) {
    const jsmntok_t *it = token(doc, key);
    if (memchr(doc->text + it->start, '\\', (size_t)(it->end - it->start)))
      return false;
    for (int i = 0; i < count; i++) {
      if (!same(doc, key, names[i], strlen(names[i])))
        continue;
      if (values[i] >= 0)
        return false;
      values[i] = key + 1;
    }
  }
  return true;
}

int json_first(const struct json_doc *doc, int array) {
  return json_is_array(doc, array) && token(doc, array)->size > 0 ? array + 1 : -1;
}

int json_next(const struct json_doc *doc, int array, int element) {
  int next = after(doc, element);
  return next < doc->count && token(doc, next)->start < token(doc, array)->end ? next : -1;
}

int json_size(const struct json_doc *doc, int value) {
  return json_is_object(doc, value) || json_is_array(doc, value) ? token(doc, value)->size : 0;
}

int json_first_value(const struct json_doc *doc, int object) {
  return json_is_object(doc, object) && token(doc, object)->size > 0 ? object + 2 : -1;
}

int json_next_value(const struct json_doc *doc, int object, int value) {
  int key = after(doc, value);
  return key < doc->count && token(doc, key)->start < token(doc, object)->end ? key + 1 : -1;
}
