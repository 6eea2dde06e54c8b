// absent.c: what a build for macOS is without: jails elsewhere, for which no
// libcurl is built here, and jailers, which need KVM. lib/ refuses both before
// it comes to these.
#include "../addon_value.h"
#include "../backend.h"

struct backend *backend_http_new(struct pool *pool) {
  (void)pool;
  return NULL;
}

struct backend *backend_socket_new(struct pool *pool) {
  (void)pool;
  return NULL;
}

const char *jail_http_version(void) {
  return "none";
}

// The jailer daemon's, which does not run here: nobody is known, so nobody is let in.
napi_value addon_peer_uid(napi_env env, napi_callback_info info) {
  (void)info;
  return value_undefined(env);
}

napi_value addon_peer_gone(napi_env env, napi_callback_info info) {
  napi_value gone = NULL;
  (void)info;
  napi_get_boolean(env, true, &gone);
  return gone;
}
