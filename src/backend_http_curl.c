// backend_http_curl.c: see backend_http.h. One curl multi per jail: curl says
// which sockets to watch and when to wake it, and we tell it what happened.
#include "backend_http.h"

#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "remote.h"

enum {
  CONNECT_MS = 10000,     // name, TCP, TLS
  IDLE_SECONDS = 110,     // an older connection is not used again
  HEADERS_MAX = 64 << 10, // all headers of an answer, 1xx included
  REFUSAL_MAX = 64 << 10, // the body of an answer that is no result
  READ_BYTES = 64 << 10,  // at a time
};

struct watch { // a socket that curl waits for
  uv_poll_t poll;
  struct http *http; // borrowed
  curl_socket_t fd;
  int events;
};

// ---- what arrives ----

static size_t on_header(char *line, size_t size, size_t count, void *arg) {
  struct call *call = arg;
  (void)line;
  call->header_bytes += size * count;
  if (call->header_bytes <= HEADERS_MAX)
    return size * count;
  call->too_large = true;
  return 0;
}

static size_t on_body(char *data, size_t size, size_t count, void *arg) {
  struct call *call = arg;
  if (!call->begun) {
    long status = 0;
    const char *type = NULL;
    call->begun = true;
    curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(call->easy, CURLINFO_CONTENT_TYPE, &type);
    if (status == 200 && call->run && run_is_live(call->run) && type &&
        !strncmp(type, HTTP_EVENTS, sizeof HTTP_EVENTS - 1))
      events_begin(&call->events, call->run);
    call->answer.ceiling = status == 200 && call->run ? remote_answer_max(&call->run->request) : REFUSAL_MAX;
  }
  if (!buf_add(&call->answer, data, size * count) &&
      (!call->events.open || events_take(&call->events, call->run, &call->answer)))
    return size * count;
  call->too_large = true;
  return 0;
}

bool http_curl_configure(struct call *call) {
  struct http *http = call->http;
  bool tls = http->trust != NULL;
  const char *proxy = http->config->proxy;
  CURL *easy = call->easy;
  int failed = 0;
#define SET(option, value) (failed |= curl_easy_setopt(easy, option, value) != CURLE_OK)
  SET(CURLOPT_PRIVATE, call);
  SET(CURLOPT_ERRORBUFFER, call->curl_error);
  SET(CURLOPT_NOSIGNAL, 1L);
  SET(CURLOPT_PROTOCOLS_STR, tls ? "https" : "http");
  SET(CURLOPT_FOLLOWLOCATION, 0L);
#ifndef CODE_JAIL_CURL_STATIC // there it is not compiled in at all
  SET(CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
#endif
  SET(CURLOPT_PROXY, proxy ? proxy : "");
  SET(CURLOPT_HTTPPROXYTUNNEL, proxy ? 1L : 0L);
  SET(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  SET(CURLOPT_HEADEROPT, (long)CURLHEADER_SEPARATE); // what is the sandbox's is not the proxy's
  SET(CURLOPT_HTTP_VERSION, (long)(tls ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_1_1));
  SET(CURLOPT_HTTP09_ALLOWED, 0L);
  SET(CURLOPT_PIPEWAIT, tls ? 1L : 0L); // rather share a connection than open sixty
  SET(CURLOPT_SSL_VERIFYPEER, 1L);
  SET(CURLOPT_SSL_VERIFYHOST, 2L);
  SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
  SET(CURLOPT_SHARE, http->share);
  SET(CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
  SET(CURLOPT_MAXAGE_CONN, (long)IDLE_SECONDS);
  SET(CURLOPT_TCP_KEEPALIVE, 1L);
  SET(CURLOPT_TCP_KEEPIDLE, 30L);
  SET(CURLOPT_BUFFERSIZE, (long)READ_BYTES);
  SET(CURLOPT_USERAGENT, "code-jail");
  SET(CURLOPT_HEADERFUNCTION, on_header);
  SET(CURLOPT_HEADERDATA, call);
  SET(CURLOPT_WRITEFUNCTION, on_body);
  SET(CURLOPT_WRITEDATA, call);
  SET(CURLOPT_QUICK_EXIT, 1L); // a resolver that hangs must not be waited for
#undef SET
  return !failed && http_connections_configure(call) == CURLE_OK &&
         (!tls || http_trust_configure(easy, http) == CURLE_OK);
}

// ---- the loop ----

// Settles what has ended.
static void collect(struct http *http) {
  CURLMsg *message;
  int left;
  while ((message = curl_multi_info_read(http->multi, &left))) {
    struct call *call = NULL;
    CURLcode result = message->data.result; // the message ends with the handle's removal
    if (message->msg != CURLMSG_DONE)
      continue;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &call);
    curl_multi_remove_handle(http->multi, call->easy);
    http_call_finished(call, result);
  }
}

// What settling leads to may come back here: then it is done by the first.
static void drive(struct http *http, curl_socket_t fd, int events) {
  int running;
  http->drive_again = true;
  if (http->driving)
    return;
  http->driving = true;
  while (http->drive_again) {
    http->drive_again = false;
    curl_multi_socket_action(http->multi, fd, events, &running);
    collect(http);
    fd = CURL_SOCKET_TIMEOUT;
    events = 0;
  }
  http->driving = false;
  pool_pump(http->pool);
}

void http_curl_drive(struct http *http) {
  drive(http, CURL_SOCKET_TIMEOUT, 0);
}

static void on_poll(uv_poll_t *poll, int status, int events) {
  struct watch *watch = poll->data;
  int happened = 0;
  if (status < 0) { // libuv stops at an error; curl is to read what came before it, and then the error
    uv_poll_start(poll, watch->events, on_poll);
    events = UV_READABLE | UV_WRITABLE;
  }
  if (events & UV_READABLE)
    happened |= CURL_CSELECT_IN;
  if (events & UV_WRITABLE)
    happened |= CURL_CSELECT_OUT;
  drive(watch->http, watch->fd, happened);
}

static void on_watch_closed(uv_handle_t *handle) {
  struct watch *watch = handle->data;
  struct http *http = watch->http;
  free(watch);
  if (--http->watches == 0 && http->closing)
    pool_gone(http->pool);
}

static struct watch *watch_new(struct http *http, curl_socket_t fd) {
  struct watch *watch = calloc(1, sizeof *watch);
  if (!watch || uv_poll_init_socket(engine_loop(), &watch->poll, fd)) {
    free(watch);
    return NULL;
  }
  watch->http = http;
  watch->fd = fd;
  watch->poll.data = watch;
  http->watches++;
  curl_multi_assign(http->multi, fd, watch);
  return watch;
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *assigned) {
  struct http *http = arg;
  struct watch *watch = assigned;
  (void)easy;
  if (what == CURL_POLL_REMOVE) {
    if (watch) {
      uv_poll_stop(&watch->poll);
      uv_close((uv_handle_t *)&watch->poll, on_watch_closed);
      curl_multi_assign(http->multi, fd, NULL);
    }
    return 0;
  }
  if (!watch && !(watch = watch_new(http, fd)))
    return -1;
  watch->events = (what & CURL_POLL_IN ? UV_READABLE : 0) | (what & CURL_POLL_OUT ? UV_WRITABLE : 0);
  return uv_poll_start(&watch->poll, watch->events, on_poll) ? -1 : 0;
}

static void on_timer(struct engine_timer *timer) {
  drive(CONTAINER_OF(timer, struct http, timer), CURL_SOCKET_TIMEOUT, 0);
}

static int on_timeout(CURLM *multi, long ms, void *arg) {
  struct http *http = arg;
  (void)multi;
  if (ms < 0)
    engine_timer_stop(&http->timer);
  else
    engine_timer_start(&http->timer, (uint64_t)ms * 1000u, on_timer);
  return 0;
}

bool http_curl_open(struct http *http) {
  long most = (long)http->config->max_concurrent;
  int failed = 0;
  CURLM *multi = curl_multi_init();
  http->share = curl_share_init();
  if (!multi || !http->share)
    failed = 1;
  else
    failed = curl_share_setopt(http->share, CURLSHOPT_SHARE, CURL_LOCK_DATA_SSL_SESSION) != CURLSHE_OK;
#define SET(option, value) (failed = failed || curl_multi_setopt(multi, option, value) != CURLM_OK)
  SET(CURLMOPT_SOCKETFUNCTION, on_socket);
  SET(CURLMOPT_SOCKETDATA, http);
  SET(CURLMOPT_TIMERFUNCTION, on_timeout);
  SET(CURLMOPT_TIMERDATA, http);
  SET(CURLMOPT_PIPELINING, (long)CURLPIPE_MULTIPLEX);
  SET(CURLMOPT_MAXCONNECTS, most);
  SET(CURLMOPT_MAX_TOTAL_CONNECTIONS, most);
#undef SET
  if (failed && multi)
    curl_multi_cleanup(multi);
  else
    http->multi = multi;
  return !failed;
}

void http_curl_close(struct http *http) {
  http->watches++; // held until curl has let go of its sockets
  if (http->multi)
    curl_multi_cleanup(http->multi);
  http->multi = NULL;
  engine_timer_stop(&http->timer);
  if (--http->watches == 0)
    pool_gone(http->pool);
}
