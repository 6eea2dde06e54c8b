// backend_socket.h: what the two halves of the socket backend share.
//   backend_socket.c       the calls: a run's deadline, its answer, its end
//   backend_socket_link.c  the connections: dialling, sending, reading
// Engine thread.
#ifndef CODE_JAIL_BACKEND_SOCKET_H
#define CODE_JAIL_BACKEND_SOCKET_H

#include <uv.h>

#include "backend.h"
#include "buf.h"
#include "events.h"
#include "json.h"
#include "pool.h"

// More than a Unix socket holds, so that libuv reads each one once per turn.
enum { SOCKET_READ_BYTES = 256 << 10 };

struct socket {
  struct backend backend;           // first
  struct pool *pool;                // borrowed
  const struct jail_config *config; // the pool's
  struct call *calls;               // owned
  uint32_t links;                   // not yet closed
  uint64_t plain_until_us;          // the peer knows no events, and is not asked for them
  bool closing;
  char chunk[SOCKET_READ_BYTES]; // what was just read; used and forgotten in one turn
};

struct call { // one run, or one warm()
  struct call *next, *prev;
  struct socket *socket;     // borrowed
  struct jail_run *run;      // borrowed; NULL: only asks whether somebody listens
  struct jail_user *user;    // borrowed, of a warming call
  struct jail_outcome *warm; // owned, of a warming call
  struct link *link;         // borrowed; NULL: none
  struct engine_timer deadline, again;
  uint64_t busy_us; // how long to wait before the next try
  struct buf answer;
  struct events events; // lines that come before the answer
  struct json_scan scan;
  bool wanted_events; // was asked for them
  bool plain;         // asks for no events: the peer refused a request for them
  bool spared;        // had a second chance at its deadline
};

struct link { // one connection; owns itself, until libuv has closed it
  uv_pipe_t pipe;
  uv_connect_t connecting;
  uv_write_t writing;
  struct socket *socket; // borrowed
  struct call *call;     // borrowed; NULL: given up
  struct buf line;
};

// ---- backend_socket.c ----

// Takes the call.
void socket_call_fail(struct call *call, const struct jail_error *error);
// What has come, and that the connection has ended (`how`: as what, or ""). Both may end the call.
void socket_call_take(struct call *call, const char *data, size_t size);
void socket_call_cut(struct call *call, const char *how);

// ---- backend_socket_link.c ----

// Connects, and sends the call's run.
void socket_dial(struct call *call);
void socket_hang_up(struct call *call);

#endif
