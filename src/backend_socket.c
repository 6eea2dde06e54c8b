// backend_socket.c: runs carried out by a jailer on a Unix socket: one JSON line
// out, one JSON object back, each run over a connection of its own. Engine thread.
//
// The answer ends with the first line end behind a whole JSON value, or where
// the connection does. One deadline over everything, as over HTTP; closing the
// connection is how a run is cancelled, and nothing is ever sent twice. We do
// not close our half first: some peers take that for going away.
//
// For whoever listens the request has `stream`, and the answer events before it
// (events.h). A peer that does not know the field and says so has run nothing: it
// is asked again without.
#include "backend_socket.h"

#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "peer_error.h"
#include "remote.h"

enum {
  GRACE_MS = 5000,
  WARM_MS = 10000,
  LATE_CHANCE_US = 1000000,
  REFUSAL_MAX = 16 << 10,
  PLAIN_US = 60000000, // then it may be a newer peer
};

// ---- calls ----

static struct call *call_new(struct socket *socket) {
  struct call *call = calloc(1, sizeof *call);
  if (!call)
    return NULL;
  call->socket = socket;
  call->next = socket->calls;
  if (call->next)
    call->next->prev = call;
  socket->calls = call;
  return call;
}

static void call_end(struct call *call) { // takes it
  socket_hang_up(call);
  engine_timer_stop(&call->deadline);
  engine_timer_stop(&call->again);
  buf_free(&call->answer);
  if (call->prev)
    call->prev->next = call->next;
  else
    call->socket->calls = call->next;
  if (call->next)
    call->next->prev = call->prev;
  free(call);
}

void socket_call_fail(struct call *call, const struct jail_error *error) {
  struct pool *pool = call->socket->pool;
  struct jail_run *run = call->run;
  struct jail_user *user = call->user;
  struct jail_outcome *warm = call->warm;
  call_end(call);
  if (run) {
    run_fail(run, error);
  } else if (warm) {
    warm->error = *error;
    engine_deliver(user, warm);
  }
  pool_pump(pool);
}

static const char *path_of(const struct call *call) {
  return call->socket->config->socket;
}

static void on_deadline(struct engine_timer *timer) {
  struct call *call = CONTAINER_OF(timer, struct call, deadline);
  struct jail_error error;
  if (engine_timer_late(timer) && !call->spared) { // we were stopped: the answer may lie in the socket
    call->spared = true;
    engine_timer_start(timer, LATE_CHANCE_US, on_deadline);
    return;
  }
  error_set(&error, JAIL_DEADLINE, "the jailer at %s did not answer in time%s", path_of(call),
            call->link ? "" : ": it was busy, and there was no connection");
  error.retryable = !call->link;
  socket_call_fail(call, &error);
}

// ---- the answer ----

// Whether the peer has refused; then *error says why.
static bool is_refusal(struct call *call, struct jail_error *error) {
  struct peer_error peer;
  if (call->answer.size > REFUSAL_MAX)
    return false;
  peer_error_read(&peer, call->answer.data, call->answer.size);
  if (!peer.present || peer.beside_status || !(peer.code || peer.message[0]))
    return false;
  enum jail_code code = peer_error_code(&peer, JAIL_UNAVAILABLE);
  error_set(error, code, "%.350s", peer.message[0] ? peer.message : "the jailer refused, and does not say why");
  error->retryable =
    code == JAIL_OVERLOADED || code == JAIL_QUEUE_TIMEOUT || (code == JAIL_UNAVAILABLE && peer.retry_after_ms >= 0);
  if (peer.retry_after_ms > 0)
    error->retry_after_ms = peer.retry_after_ms < UINT32_MAX ? (uint32_t)peer.retry_after_ms : UINT32_MAX;
  return true;
}

static void no_result(struct call *call, const char *why) {
  struct jail_error error;
  error_set(&error, JAIL_PROTOCOL, "the jailer at %s answered %zu bytes that are no result: %s", path_of(call),
            call->answer.size, why);
  socket_call_fail(call, &error);
}

static void ask_plainly(struct call *call) {
  call->plain = true;
  call->answer.size = 0;
  socket_hang_up(call);
  socket_dial(call);
}

static void answered(struct call *call) {
  struct pool *pool = call->socket->pool;
  struct jail_run *run = call->run;
  struct jail_error error;
  run->finished_us = engine_now_us();
  bool refused = is_refusal(call, &error), invalid = refused && error.code == JAIL_INVALID_REQUEST;
  if (invalid && call->wanted_events && !call->events.told) {
    ask_plainly(call);
    return;
  }
  if (call->plain && !invalid) // so it was not the request that was wrong
    call->socket->plain_until_us = engine_now_us() + PLAIN_US;
  if (refused) {
    socket_call_fail(call, &error);
    return;
  }
  if (remote_read(run, call->answer.data, call->answer.size, &error) != JAIL_OK) {
    if (error.code == JAIL_PROTOCOL) {
      struct jail_error cause = error;
      error_set(&error, JAIL_PROTOCOL, "the jailer at %s: %.200s", path_of(call), cause.message);
    }
    socket_call_fail(call, &error);
    return;
  }
  call_end(call);
  run_settle(run);
  pool_pump(pool);
}

// Whether what is there is a whole JSON value. Looks only at what is new.
static bool is_whole(struct call *call, enum json_fault *fault) {
  *fault = json_scan_more(&call->scan, call->answer.data, call->answer.size, false);
  if (*fault)
    return false;
  struct json_scan end = call->scan; // what it would be, if it ended here
  return json_scan_more(&end, call->answer.data, call->answer.size, true) == JSON_FINE;
}

void socket_call_take(struct call *call, const char *data, size_t size) {
  enum json_fault fault;
  if (call->answer.size + size > call->answer.ceiling || buf_add(&call->answer, data, size)) {
    no_result(call, "more than it may have");
    return;
  }
  if (call->events.open && !events_take(&call->events, call->run, &call->answer)) {
    no_result(call, "its events are more than its output may be");
    return;
  }
  if (call->events.open)
    return;
  bool whole = is_whole(call, &fault);
  if (fault)
    no_result(call, fault == JSON_UTF8       ? "it is not UTF-8"
                    : fault == JSON_TOO_DEEP ? "it is nested too deeply"
                                             : "it is not JSON");
  else if (whole && memchr(data, '\n', size))
    answered(call);
}

void socket_call_cut(struct call *call, const char *how) {
  struct jail_error error;
  enum json_fault fault;
  if (call->answer.size && is_whole(call, &fault)) {
    answered(call);
    return;
  }
  if (!call->answer.size && !call->events.told)
    error_set(&error, JAIL_UNAVAILABLE,
              "the jailer at %s closed the connection without an answer%s; the run may have been carried out",
              path_of(call), how);
  else
    error_set(&error, JAIL_PROTOCOL,
              "the answer of the jailer at %s was cut off after %zu bytes%s; the run may have been carried out",
              path_of(call), call->answer.size, how);
  socket_call_fail(call, &error);
}

// ---- the backend ----

static void socket_start(struct backend *backend, struct jail_run *run) {
  struct socket *socket = (struct socket *)backend;
  struct call *call = call_new(socket);
  struct jail_error error;
  run->state = RUN_RUNNING;
  run->sent_us = engine_now_us();
  if (!call) {
    error_set(&error, JAIL_UNAVAILABLE, "no memory for a run");
    run_fail(run, &error);
    return;
  }
  uint64_t waited_ms = (run->admitted_us - run->entered_us) / 1000, queue_ms = socket->config->queue_timeout_ms;
  uint64_t most_ms = run->request.timeout_ms + GRACE_MS + (queue_ms > waited_ms ? queue_ms - waited_ms : 0);
  call->run = run;
  call->answer.ceiling = remote_answer_max(&run->request);
  run->backend_data = call;
  engine_timer_start(&call->deadline, most_ms * 1000u, on_deadline);
  socket_dial(call);
}

static void socket_cancel(struct backend *backend, struct jail_run *run) {
  (void)backend;
  call_end(run->backend_data);
}

// Asks whether somebody listens.
static void socket_warm(struct backend *backend, uint32_t languages, struct jail_user *user,
                        struct jail_outcome *warm) {
  struct call *call = call_new((struct socket *)backend);
  (void)languages;
  if (!call) {
    error_set(&warm->error, JAIL_UNAVAILABLE, "no memory for a connection");
    engine_deliver(user, warm);
    return;
  }
  call->user = user;
  call->warm = warm;
  engine_timer_start(&call->deadline, WARM_MS * 1000u, on_deadline);
  socket_dial(call);
}

static void socket_detach(struct backend *backend, struct jail_user *user) {
  struct socket *socket = (struct socket *)backend;
  for (struct call *call = socket->calls, *next; call; call = next) {
    next = call->next;
    if (!call->warm || call->user != user)
      continue;
    jail_outcome_free(call->warm);
    call_end(call);
  }
}

static void socket_close(struct backend *backend) {
  struct socket *socket = (struct socket *)backend;
  struct jail_error error;
  error_set(&error, JAIL_CLOSED, "the jail was closed");
  for (struct call *call = socket->calls, *next; call; call = next) {
    next = call->next;
    socket_call_fail(call, &error);
  }
  socket->closing = true;
  if (socket->links == 0)
    pool_gone(socket->pool);
}

static void socket_free(struct backend *backend) {
  free(backend);
}

struct backend *backend_socket_new(struct pool *pool) {
  static const struct backend_ops ops = {socket_start,  socket_cancel, socket_warm,
                                         socket_detach, socket_close,  socket_free};
  struct socket *socket = calloc(1, sizeof *socket);
  if (!socket)
    return NULL;
  socket->backend.ops = &ops;
  socket->pool = pool;
  socket->config = &pool->config;
  return &socket->backend;
}
