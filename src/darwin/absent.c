// absent.c: what a build for macOS is without: jails elsewhere, for which no
// libcurl is built here, and jailers, which need KVM. lib/ refuses both before
// it comes to these.
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
