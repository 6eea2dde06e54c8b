// addon_open.h: a jail's configuration, read from JS. JS thread only.
#ifndef CODE_JAIL_ADDON_OPEN_H
#define CODE_JAIL_ADDON_OPEN_H

#include <node_api.h>

#include "jail.h"

enum { OPEN_ARGS_MAX = 14 };

struct open_args { // zeroed first; owns what config borrows, also after a failure
  char *key, *keeper, *boot[JAIL_LANGUAGE_COUNT], *url, *token, *ca, *proxy, *socket;
  struct jail_config config;
};
void open_args_free(struct open_args *args);

// open(client, key, keeper, bootJavascript, bootPython, parked, maxConcurrent,
//      maxQueue, queueTimeoutMs, idleMs, maxTotalMemoryMb, cold, renewCells, renewMs) -> jail
bool open_args_read(napi_env env, napi_value *from, struct open_args *args);

// openHttp(client, key, maxConcurrent, maxQueue, queueTimeoutMs, url, token, ca, proxy) -> jail
bool open_args_read_http(napi_env env, napi_value *from, struct open_args *args);

// openSocket(client, key, maxConcurrent, maxQueue, queueTimeoutMs, path, owner's uid or -1) -> jail
bool open_args_read_socket(napi_env env, napi_value *from, struct open_args *args);

#endif
