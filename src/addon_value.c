// addon_value.c: see addon_value.h.
#include "addon_value.h"

#include <stdlib.h>
#include <string.h>

bool value_uint32(napi_env env, napi_value value, uint32_t *number) {
  return napi_get_value_uint32(env, value, number) == napi_ok;
}

bool value_double(napi_env env, napi_value value, double *number) {
  return napi_get_value_double(env, value, number) == napi_ok;
}

bool value_bool(napi_env env, napi_value value, bool *truth) {
  return napi_get_value_bool(env, value, truth) == napi_ok;
}

bool value_external(napi_env env, napi_value value, void **pointer) {
  return napi_get_value_external(env, value, pointer) == napi_ok;
}

bool value_utf8_size(napi_env env, napi_value value, size_t *bytes) {
  return napi_get_value_string_utf8(env, value, NULL, 0, bytes) == napi_ok;
}

bool value_utf8_into(napi_env env, napi_value value, char *to, size_t bytes) {
  size_t written;
  return napi_get_value_string_utf8(env, value, to, bytes + 1, &written) == napi_ok && written == bytes;
}

bool value_utf8_copy(napi_env env, napi_value value, char **text, size_t *bytes) {
  napi_valuetype type;
  *text = NULL;
  *bytes = 0;
  if (napi_typeof(env, value, &type) != napi_ok)
    return false;
  if (type == napi_null || type == napi_undefined)
    return true;
  if (!value_utf8_size(env, value, bytes) || !(*text = malloc(*bytes + 1)))
    return false;
  return value_utf8_into(env, value, *text, *bytes);
}

napi_value value_undefined(napi_env env) {
  napi_value value = NULL;
  napi_get_undefined(env, &value);
  return value;
}

napi_value value_number(napi_env env, double number) {
  napi_value value = NULL;
  napi_create_double(env, number, &value);
  return value;
}

static napi_value small(napi_env env, int32_t number) {
  napi_value value = NULL;
  napi_create_int32(env, number, &value);
  return value;
}

napi_value value_text(napi_env env, const struct jail_text *text) {
  napi_value value = NULL;
  napi_status status;
  if (!text->data)
    return value_undefined(env);
  if (text->wide)
    status = napi_create_string_utf16(env, text->data, text->units, &value);
  else
    status = napi_create_string_latin1(env, text->data, text->units, &value);
  return status == napi_ok ? value : value_undefined(env);
}

static napi_value utf8(napi_env env, const char *text) {
  napi_value value = NULL;
  napi_create_string_utf8(env, text, NAPI_AUTO_LENGTH, &value);
  return value;
}

napi_value value_error(napi_env env, const struct jail_error *error) {
  napi_value value = NULL, retryable = NULL;
  napi_create_object(env, &value);
  napi_get_boolean(env, error->retryable, &retryable);
  napi_set_named_property(env, value, "code", utf8(env, jail_code_name(error->code)));
  napi_set_named_property(env, value, "message", utf8(env, error->message));
  napi_set_named_property(env, value, "retryable", retryable);
  napi_set_named_property(env, value, "httpStatus", small(env, (int32_t)error->http_status));
  napi_set_named_property(env, value, "retryAfterMs", value_number(env, error->retry_after_ms));
  return value;
}

napi_value value_layer_names(napi_env env) {
  napi_value list = NULL, name;
  const char *text;
  napi_create_array(env, &list);
  for (uint32_t i = 0; (text = jail_layer_name(i)); i++) {
    napi_create_string_utf8(env, text, NAPI_AUTO_LENGTH, &name);
    napi_set_element(env, list, i, name);
  }
  return list;
}

void value_outcome(napi_env env, const struct jail_outcome *outcome, napi_value args[VALUE_OUTCOME_ARGS]) {
  napi_value undefined = value_undefined(env);
  int at = 0;
  args[at++] = value_number(env, outcome->ticket);
  args[at++] = outcome->error.code == JAIL_OK ? undefined : value_error(env, &outcome->error);
  if (outcome->stream) {
    args[at++] = small(env, -(int32_t)outcome->stream);
    args[at] = undefined;
    napi_create_string_utf8(env, outcome->chunk ? outcome->chunk : "", outcome->chunk_bytes, &args[at]);
    at++;
  }
  if (outcome->error.code != JAIL_OK || !outcome->is_run) {
    while (at < VALUE_OUTCOME_ARGS)
      args[at++] = undefined;
    return;
  }
  args[at++] = small(env, (int32_t)outcome->status);
  args[at++] = value_text(env, &outcome->result);
  args[at++] = value_text(env, &outcome->out);
  args[at++] = value_text(env, &outcome->err);
  args[at++] = value_number(env, (double)outcome->stdout_dropped);
  args[at++] = value_number(env, (double)outcome->stderr_dropped);
  args[at++] = small(env, outcome->exit_code);
  args[at++] = small(env, outcome->signal);
  args[at++] = value_number(env, (double)outcome->queue_us);
  args[at++] = value_number(env, (double)outcome->start_us);
  args[at++] = value_number(env, (double)outcome->run_us);
  args[at++] = value_number(env, (double)outcome->cpu_ns);
  args[at++] = value_number(env, (double)outcome->peak_bytes);
  args[at++] = small(env, (int32_t)outcome->place);
  args[at++] = small(env, (int32_t)outcome->layers);
  args[at++] = small(env, (int32_t)outcome->start);
  args[at++] = value_text(env, &outcome->jail);
  args[at++] = value_text(env, &outcome->files);
  const struct jail_fault *fault = &outcome->fault;
  if (!fault->present) {
    while (at < VALUE_OUTCOME_ARGS)
      args[at++] = undefined;
    return;
  }
  args[at++] = value_text(env, &fault->name);
  args[at++] = value_text(env, &fault->message);
  args[at++] = small(env, (int32_t)fault->line);
  args[at++] = small(env, (int32_t)fault->column);
  args[at++] = value_text(env, &fault->source_line);
  args[at++] = value_text(env, &fault->stack);
  args[at++] = value_text(env, &fault->path);
  while (at < VALUE_OUTCOME_ARGS)
    args[at++] = undefined;
}
