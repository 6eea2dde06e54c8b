// addon_peer.c: what Node does not tell of a Unix socket's other end. For the
// jailer daemon. JS thread.
#include <node_api.h>
#include <poll.h>
#include <sys/socket.h>

#include "addon_value.h"

static bool fd_of(napi_env env, napi_callback_info info, uint32_t *fd) {
  napi_value args[1];
  size_t count = 1;
  napi_get_cb_info(env, info, &count, args, NULL, NULL);
  return value_uint32(env, args[0], fd) && *fd <= INT32_MAX;
}

// peerUid(fd) -> the uid that connected, or undefined
napi_value addon_peer_uid(napi_env env, napi_callback_info info) {
  struct ucred peer;
  socklen_t size = sizeof peer;
  uint32_t fd;
  if (!fd_of(env, info, &fd) || getsockopt((int)fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) || (int)peer.uid == -1)
    return value_undefined(env);
  return value_number(env, (double)peer.uid);
}

// peerGone(fd) -> whether it has closed both halves. One that has closed its own
// half alone (`echo ... | socat`) still waits for its answer; to reading they look the same.
napi_value addon_peer_gone(napi_env env, napi_callback_info info) {
  napi_value gone = NULL;
  uint32_t fd = 0;
  bool known = fd_of(env, info, &fd);
  struct pollfd look = {.fd = (int)fd};
  napi_get_boolean(env, !known || poll(&look, 1, 0) < 0 || (look.revents & (POLLHUP | POLLERR | POLLNVAL)), &gone);
  return gone;
}
