// addon_value.h: between Node-API's values and the core's. JS thread only.
#ifndef CODE_JAIL_ADDON_VALUE_H
#define CODE_JAIL_ADDON_VALUE_H

#include <node_api.h>

#include "jail.h"

// Reading. Each returns false where the value is of another type.
bool value_uint32(napi_env env, napi_value value, uint32_t *number);
bool value_double(napi_env env, napi_value value, double *number);
bool value_bool(napi_env env, napi_value value, bool *truth);
bool value_external(napi_env env, napi_value value, void **pointer);
bool value_utf8_size(napi_env env, napi_value value, size_t *bytes); // without a terminator
// Writes `bytes` and a terminator. bytes as value_utf8_size gave it.
bool value_utf8_into(napi_env env, napi_value value, char *to, size_t bytes);
// The caller frees it; NULL for null and undefined as well, *bytes is 0 then.
// false where it is neither, nor a string, or there is no memory.
bool value_utf8_copy(napi_env env, napi_value value, char **text, size_t *bytes);

// Making.
napi_value value_undefined(napi_env env);
napi_value value_number(napi_env env, double number);
napi_value value_text(napi_env env, const struct jail_text *text);    // undefined where there is none
napi_value value_error(napi_env env, const struct jail_error *error); // { code, message, retryable, retryAfterMs }
napi_value value_layer_names(napi_env env);                           // an array, in the order of their bits

enum { VALUE_OUTCOME_ARGS = 29 };
// The arguments of the JS callback, in the order that lib/native.js states.
void value_outcome(napi_env env, const struct jail_outcome *outcome, napi_value args[VALUE_OUTCOME_ARGS]);

// ---- addon_body.c, addon_replace.c: for the sandbox service alone ----
napi_value addon_scan_body(napi_env env, napi_callback_info info);
napi_value addon_split_body(napi_env env, napi_callback_info info);
napi_value addon_replace(napi_env env, napi_callback_info info);
napi_value addon_hide(napi_env env, napi_callback_info info);

// addon_peer.c
napi_value addon_peer_uid(napi_env env, napi_callback_info info);
napi_value addon_peer_gone(napi_env env, napi_callback_info info);

#endif
