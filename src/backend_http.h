// backend_http.h: what the parts of the HTTP backend share.
//   backend_http.c             the calls: how a run is sent, repeated, ended
//   backend_http_request.c     what is sent
//   backend_http_failure.c     what it was when no answer came
//   backend_http_curl.c        libcurl on the engine's loop: sockets, timers, connections
//   backend_http_connection.c  which connections are open, and what may be sent again
//   backend_http_trust.c       OpenSSL: whom we believe
// These alone know libcurl. Engine thread.
#ifndef CODE_JAIL_BACKEND_HTTP_H
#define CODE_JAIL_BACKEND_HTTP_H

#include <curl/curl.h>

#include "backend.h"
#include "buf.h"
#include "events.h"
#include "pool.h"

struct connection { // a socket that curl has open
  struct connection *next;
  curl_socket_t fd;
  int local_port; // 0: not asked for yet
  bool used;      // a request has gone over it
};

struct http {
  struct backend backend;           // first
  struct pool *pool;                // borrowed
  const struct jail_config *config; // the pool's
  CURLM *multi;                     // owned; NULL where HTTP cannot be set up
  CURLSH *share;                    // owned: TLS sessions
  void *trust;                      // owned: see http_trust_open
  char origin[160];                 // scheme://host:port, for messages
  char *live_url;                   // owned: where to ask whether the service is alive
  struct engine_timer timer;        // curl's
  struct connection *connections;   // owned
  struct call *active, *idle;       // owned
  uint32_t idle_count, watches;
  uint32_t credit; // for repeating: see take_credit
  bool driving, drive_again, closing;
};

struct call {
  struct call *next, *prev;   // in http->active; next alone in http->idle
  struct http *http;          // borrowed
  struct jail_run *run;       // borrowed; NULL: it only warms a connection
  struct jail_user *user;     // borrowed, of a warming call
  struct jail_outcome *warm;  // owned, of a warming call
  CURL *easy;                 // owned, kept for the next call
  struct curl_slist *headers; // owned
  struct buf body, answer;    // owned
  struct engine_timer deadline, pause;
  uint32_t again;                // repeated so often, after a refusal
  uint32_t requests;             // how often curl has begun to send, in this attempt
  struct connection *connection; // borrowed: the last request's; NULL once closed, or not known
  uint64_t acknowledged;         // what its peer had acknowledged before that request; 0: not known
  bool on_fresh;                 // that request was the connection's first
  bool unread;                   // the connection ended before a byte of the request got there
  bool spared;                   // had a second chance at its deadline
  bool too_large;                // more headers or body than may be
  bool begun;                    // some of its body has come
  struct events events;          // lines that come before the answer
  size_t header_bytes;
  char curl_error[CURL_ERROR_SIZE];
};

// ---- backend_http.c ----

// Whether one more call may be repeated: a tenth of all, with a few in hand.
bool http_take_credit(struct http *http);
// The transfer has ended; curl has forgotten it.
void http_call_finished(struct call *call, CURLcode result);

// ---- backend_http_request.c, backend_http_failure.c ----

#define HTTP_EVENTS "application/x-ndjson"
uint64_t http_left_ms(const struct call *call); // until its deadline
// Makes the handle's request, headers and body. false without memory.
bool http_request_set(struct call *call);
// Fills *error for a transfer that ended without a whole answer. status: 0 where there was none.
void http_failure(const struct call *call, CURLcode result, long status, struct jail_error *error);

// ---- backend_http_curl.c ----

// Makes multi and share. false where curl does not want to.
bool http_curl_open(struct http *http);
// Lets go of the sockets; pool_gone follows, perhaps before it returns.
void http_curl_close(struct http *http);
// What is the same for all calls. Fails closed: an option that curl does not take is an error.
bool http_curl_configure(struct call *call);
// Begins what was added, and settles what ends by that. No call may be under the caller's feet.
void http_curl_drive(struct http *http);

// ---- backend_http_connection.c ----

CURLcode http_connections_configure(struct call *call);

// ---- backend_http_trust.c ----

bool http_trust_start(void); // the process's libcurl and OpenSSL, once
// The certificates of a PEM text, read once for all who bring the same. NULL: none in it.
void *http_trust_open(const char *pem, size_t bytes);
void http_trust_close(void *trust);
// Makes the handle believe these and no others.
CURLcode http_trust_configure(CURL *easy, struct http *http);

#endif
