// addon_open.c: see addon_open.h.
#include "addon_open.h"

#include <stdlib.h>
#include <string.h>

#include "addon_value.h"

void open_args_free(struct open_args *args) {
  free(args->key);
  free(args->keeper);
  free(args->url);
  if (args->token)
    explicit_bzero(args->token, strlen(args->token));
  free(args->token);
  free(args->ca);
  free(args->proxy);
  free(args->socket);
  for (int i = 0; i < JAIL_LANGUAGE_COUNT; i++)
    free(args->boot[i]);
}

// Of each language its text, or null, in the order of enum jail_language.
static bool read_boots(napi_env env, napi_value list, struct open_args *args) {
  for (uint32_t i = 0; i < JAIL_LANGUAGE_COUNT; i++) {
    napi_value text;
    if (napi_get_element(env, list, i, &text) != napi_ok ||
        !value_utf8_copy(env, text, &args->boot[i], &args->config.boot_bytes[i]))
      return false;
  }
  return true;
}

bool open_args_read(napi_env env, napi_value *from, struct open_args *args) {
  struct jail_config *config = &args->config;
  size_t bytes;
  double memory_mb;
  bool fine = value_utf8_copy(env, from[1], &args->key, &bytes) &&
              value_utf8_copy(env, from[2], &args->keeper, &bytes) && read_boots(env, from[3], args) &&
              value_uint32(env, from[4], &config->parked) && value_uint32(env, from[5], &config->max_concurrent) &&
              value_uint32(env, from[6], &config->max_queue) && value_uint32(env, from[7], &config->queue_timeout_ms) &&
              value_uint32(env, from[8], &config->idle_ms) && value_double(env, from[9], &memory_mb) &&
              value_bool(env, from[10], &config->cold) && value_uint32(env, from[11], &config->renew_cells) &&
              value_uint32(env, from[12], &config->renew_ms);
  if (!fine || !args->keeper || config->max_concurrent == 0 || memory_mb < 1)
    return false;
  config->max_total_memory_mb = (uint64_t)memory_mb;
  config->key = args->key;
  config->keeper = args->keeper;
  for (int i = 0; i < JAIL_LANGUAGE_COUNT; i++)
    config->boot[i] = args->boot[i];
  return true;
}

bool open_args_read_http(napi_env env, napi_value *from, struct open_args *args) {
  struct jail_config *config = &args->config;
  size_t bytes;
  bool fine =
    value_utf8_copy(env, from[1], &args->key, &bytes) && value_uint32(env, from[2], &config->max_concurrent) &&
    value_uint32(env, from[3], &config->max_queue) && value_uint32(env, from[4], &config->queue_timeout_ms) &&
    value_utf8_copy(env, from[5], &args->url, &bytes) && value_utf8_copy(env, from[6], &args->token, &bytes) &&
    value_utf8_copy(env, from[7], &args->ca, &config->ca_bytes) && value_utf8_copy(env, from[8], &args->proxy, &bytes);
  if (!fine || !args->url || !args->token || config->max_concurrent == 0)
    return false;
  config->max_total_memory_mb = UINT64_MAX; // memory is the peer's
  config->key = args->key;
  config->url = args->url;
  config->token = args->token;
  config->ca = args->ca;
  config->proxy = args->proxy;
  return true;
}

bool open_args_read_socket(napi_env env, napi_value *from, struct open_args *args) {
  struct jail_config *config = &args->config;
  size_t bytes;
  double owner;
  bool fine = value_utf8_copy(env, from[1], &args->key, &bytes) &&
              value_uint32(env, from[2], &config->max_concurrent) && value_uint32(env, from[3], &config->max_queue) &&
              value_uint32(env, from[4], &config->queue_timeout_ms) &&
              value_utf8_copy(env, from[5], &args->socket, &bytes) && value_double(env, from[6], &owner);
  if (!fine || !args->socket || config->max_concurrent == 0 || !(owner >= -1 && owner <= UINT32_MAX))
    return false;
  config->max_total_memory_mb = UINT64_MAX; // memory is the peer's
  config->key = args->key;
  config->socket = args->socket;
  config->socket_owner = (int64_t)owner;
  return true;
}
