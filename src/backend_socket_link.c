// backend_socket_link.c: see backend_socket.h.
#include "backend_socket.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "error.h"
#include "remote.h"

enum {
  BUSY_FIRST_US = 2000, // the listener's backlog is full: it never heard of us
  BUSY_MOST_US = 100000,
};

static void on_closed(uv_handle_t *handle) {
  struct link *link = handle->data;
  struct socket *socket = link->socket;
  buf_free(&link->line);
  free(link);
  if (--socket->links == 0 && socket->closing)
    pool_gone(socket->pool);
}

void socket_hang_up(struct call *call) {
  struct link *link = call->link;
  if (!link)
    return;
  call->link = NULL;
  link->call = NULL;
  uv_close((uv_handle_t *)&link->pipe, on_closed);
}

static struct link *link_new(struct call *call) {
  struct link *link = calloc(1, sizeof *link);
  if (!link || uv_pipe_init(engine_loop(), &link->pipe, 0)) {
    free(link);
    return NULL;
  }
  link->pipe.data = link;
  link->line.ceiling = REMOTE_REQUEST_MAX + 1;
  link->socket = call->socket;
  link->socket->links++;
  link->call = call;
  call->link = link;
  return link;
}

// ---- reading ----

static void on_alloc(uv_handle_t *handle, size_t unused, uv_buf_t *to) {
  struct link *link = handle->data;
  (void)unused;
  *to = uv_buf_init(link->socket->chunk, SOCKET_READ_BYTES);
}

static void on_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *from) {
  struct link *link = stream->data;
  struct call *call = link->call;
  if (!call || size == 0)
    return;
  if (size > 0)
    socket_call_take(call, from->base, (size_t)size);
  else
    socket_call_cut(call, size == UV_EOF ? "" : " (connection reset)");
}

// ---- sending ----

// Within JSON text a line end is white space: strings have none.
static void make_one_line(struct buf *line) {
  for (char *at = line->data, *end = at + line->size; (at = memchr(at, '\n', (size_t)(end - at)));)
    *at = ' ';
}

static void send_line(struct call *call, struct link *link) {
  struct jail_error error;
  bool live = run_is_live(call->run) && !call->plain && engine_now_us() >= call->socket->plain_until_us;
  call->events = (struct events){0};
  call->wanted_events = live;
  if (live)
    events_begin(&call->events, call->run);
  if (remote_write(&link->line, call->run, live)) {
    error_set(&error, JAIL_INVALID_REQUEST, "the request is over %d MiB, which is the most that travels",
              REMOTE_REQUEST_MAX >> 20);
    socket_call_fail(call, &error);
    return;
  }
  make_one_line(&link->line);
  call->run->sent_us = engine_now_us();
  json_scan_begin(&call->scan, UINT32_MAX); // values are counted when it is read
  call->scan.max_depth += JSON_ENVELOPE_DEPTH;
  bool fine = buf_add(&link->line, "\n", 1) == 0;
  uv_buf_t whole = uv_buf_init(link->line.data, (unsigned)link->line.size);
  // Where writing fails, reading tells why: a refusal may come before our line has been read.
  if (fine && !uv_read_start((uv_stream_t *)&link->pipe, on_alloc, on_read) &&
      !uv_write(&link->writing, (uv_stream_t *)&link->pipe, &whole, 1, NULL))
    return;
  error_set(&error, JAIL_UNAVAILABLE, "the request to %s cannot be sent: no memory", call->socket->config->socket);
  socket_call_fail(call, &error);
}

// ---- connecting ----

// Whoever called listen() there: under systemd's socket activation that is root.
static bool is_owner(const struct link *link, int64_t owner, struct jail_error *error) {
  struct ucred peer = {.uid = UINT32_MAX};
  socklen_t size = sizeof peer;
  uv_os_fd_t fd;
  if (owner < 0)
    return true;
  if (!uv_fileno((const uv_handle_t *)&link->pipe, &fd) && !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) &&
      (int64_t)peer.uid == owner)
    return true;
  error_set(error, JAIL_UNAUTHORIZED, "uid %lld listens at %s, and not %lld (socketOwner): nothing was sent",
            (long long)peer.uid, link->socket->config->socket, (long long)owner);
  return false;
}

static void on_again(struct engine_timer *timer) {
  socket_dial(CONTAINER_OF(timer, struct call, again));
}

static void no_connection(struct call *call, int status) {
  struct jail_error error;
  if (status == UV_EAGAIN) {
    socket_hang_up(call);
    engine_timer_start(&call->again, call->busy_us, on_again);
    call->busy_us = call->busy_us * 2 < BUSY_MOST_US ? call->busy_us * 2 : BUSY_MOST_US;
    return;
  }
  bool denied = status == UV_EACCES || status == UV_EPERM;
  bool absent = status == UV_ENOENT || status == UV_ECONNREFUSED;
  bool wrong = status == UV_EPROTOTYPE || status == UV_ENOTDIR || status == UV_ELOOP;
  error_set(&error,
            denied  ? JAIL_UNAUTHORIZED
            : wrong ? JAIL_CONFIG
                    : JAIL_UNAVAILABLE,
            "no connection to the jailer at %s: %s%s", call->socket->config->socket, uv_strerror(status),
            denied   ? "; this process may not use the socket"
            : absent ? "; does it run?"
                     : "");
  error.retryable = !denied && !wrong;
  socket_call_fail(call, &error);
}

static void on_connected(uv_connect_t *request, int status) {
  struct link *link = CONTAINER_OF(request, struct link, connecting);
  struct call *call = link->call;
  struct jail_error error = {0};
  if (!call)
    return;
  if (status)
    no_connection(call, status);
  else if (is_owner(link, call->socket->config->socket_owner, &error) && call->run)
    send_line(call, link);
  else // or somebody listens, and that was all to know
    socket_call_fail(call, &error);
}

void socket_dial(struct call *call) {
  call->busy_us = call->busy_us ? call->busy_us : BUSY_FIRST_US;
  struct jail_error error;
  struct link *link = NULL;
  // libuv would cut a longer path off, and find another socket.
  bool fits = strlen(call->socket->config->socket) < sizeof((struct sockaddr_un *)0)->sun_path;
  if (fits && (link = link_new(call))) {
    uv_pipe_connect(&link->connecting, &link->pipe, call->socket->config->socket, on_connected);
    return;
  }
  error_set(&error, fits ? JAIL_UNAVAILABLE : JAIL_CONFIG, "no connection to the jailer at %.150s: %s",
            call->socket->config->socket, fits ? "no memory or no descriptors" : "the path is too long for a socket");
  socket_call_fail(call, &error);
}
