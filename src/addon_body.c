// addon_body.c: the body of a request to the sandbox service, checked and taken
// apart without making values of it: a hostile one, parsed as a whole, would hold
// the JS thread for seconds. For lib/server/body.js, on the JS thread.
#include <node_api.h>
#include <stdlib.h>
#include <string.h>

#include "addon_value.h"
#include "json.h"

enum { ENVELOPE = 1 }; // the object around the input is one level more

static bool bytes_of(napi_env env, napi_value value, char **data, size_t *size) {
  void *raw = NULL;
  bool is_buffer = false;
  if (napi_is_buffer(env, value, &is_buffer) != napi_ok || !is_buffer ||
      napi_get_buffer_info(env, value, &raw, size) != napi_ok)
    return false;
  *data = raw;
  return true;
}

// scanBody(state, body, size): looks at what is new in the first `size` bytes of
// body, which are the text so far from its beginning. state: a Buffer of zeros at
// first, ours from then on. -> 0, or a json_fault; checks its end too where size is all.
napi_value addon_scan_body(napi_env env, napi_callback_info info) {
  napi_value args[3];
  size_t count = 3, room, bytes;
  uint32_t size = 0;
  char *state, *body;
  struct json_scan scan;
  napi_get_cb_info(env, info, &count, args, NULL, NULL);
  if (!bytes_of(env, args[0], &state, &room) || room < sizeof scan || !bytes_of(env, args[1], &body, &bytes) ||
      !value_uint32(env, args[2], &size) || size > bytes)
    return value_undefined(env);
  memcpy(&scan, state, sizeof scan);
  if (scan.max_depth == 0) {
    json_scan_begin(&scan, UINT32_MAX);
    scan.max_depth = JSON_DEPTH_MAX + ENVELOPE;
  }
  enum json_fault fault = json_scan_more(&scan, body, size, size == bytes);
  memcpy(state, &scan, sizeof scan);
  return value_number(env, fault);
}

static const char *skip_space(const char *at) {
  while (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r')
    at++;
  return at;
}

// Behind the closing quote. The text is JSON: there is one.
static const char *skip_string(const char *at) {
  for (at++; *at != '"'; at++)
    if (*at == '\\')
      at++;
  return at + 1;
}

static const char *skip_value(const char *at) {
  size_t depth = 0;
  do {
    if (*at == '"') {
      at = skip_string(at);
      continue;
    }
    if (*at == '[' || *at == '{')
      depth++;
    else if (*at == ']' || *at == '}')
      depth--;
    at++;
  } while (depth > 0);
  while (at[-1] != '"' && at[-1] != ']' && at[-1] != '}' && *at && !strchr(",]} \t\r\n", *at))
    at++; // a number or a word
  return at;
}

// splitBody(body, most) -> where the members of the object are, four numbers each: name
// with its quotes, value; from, to. Undefined where it is no object, null where it has
// more than `most`. The body must have passed scanBody, and its last byte (a NUL) is not looked at.
napi_value addon_split_body(napi_env env, napi_callback_info info) {
  napi_value args[2], list = NULL;
  size_t count = 2, bytes;
  char *body;
  uint32_t index = 0, most = 0;
  napi_get_cb_info(env, info, &count, args, NULL, NULL);
  if (!bytes_of(env, args[0], &body, &bytes) || bytes == 0 || body[bytes - 1] != '\0' ||
      !value_uint32(env, args[1], &most))
    return value_undefined(env);
  const char *at = skip_space(body);
  if (*at != '{')
    return value_undefined(env);
  napi_create_array(env, &list);
  for (at = skip_space(at + 1); *at != '}'; at = skip_space(at)) {
    const char *name = at, *behind = skip_string(at);
    at = skip_space(skip_space(behind) + 1); // over the colon
    const char *value = at;
    at = skip_value(at);
    const char *marks[] = {name, behind, value, at};
    if (index >= 4 * (uint64_t)most) {
      napi_get_null(env, &list);
      return list;
    }
    for (int i = 0; i < 4; i++)
      napi_set_element(env, list, index++, value_number(env, (double)(marks[i] - body)));
    at = skip_space(at);
    if (*at == ',')
      at++;
  }
  return list;
}
