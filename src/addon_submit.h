// addon_submit.h: the arguments of addon.c's `submit`. JS thread.
#ifndef CODE_JAIL_ADDON_SUBMIT_H
#define CODE_JAIL_ADDON_SUBMIT_H

#include <node_api.h>

#include "jail.h"

enum { SUBMIT_ARGS = 17 };

// (jail, ticket, language, code, input, env, files, tenant, timeoutMs, memoryMb,
//  maxOutputBytes, maxResultBytes, maxResultNodes, flags, minIsolation, id, headers)
// NULL, and *run is the caller's; or NULL, *run NULL and *error filled; or what is wrong with the call.
const char *submit_args_read(napi_env env, napi_value args[SUBMIT_ARGS], uint32_t *ticket, struct jail_run **run,
                             struct jail_error *error);

#endif
