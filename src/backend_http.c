// backend_http.c: runs carried out by a sandbox service over HTTP(S).
//
// A run is a call: an easy handle (kept for the next one), the request, the
// answer, and one deadline over everything: what the run may take, what it may
// still queue, and a grace for the way. The peer is told how long that is.
//
// What was sent is not sent again, because it may have run; a run that kills its
// instance must not kill the next one too. Two exceptions: a connection that was
// dead before the request got there (backend_http_curl.c), and a peer that
// answers 429 or 503 and says when to come again. Together a tenth of all calls.
#include "backend_http.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "http_answer.h"
#include "remote.h"

enum {
  GRACE_MS = 5000,
  CONNECT_MS = 10000,
  AGAIN_MAX = 2,
  CREDIT_PER_RETRY = 10, // each call brings 1
  CREDIT_FIRST = 20,
  CREDIT_MOST = 100,
  LATE_CHANCE_US = 1000000,
};

bool http_take_credit(struct http *http) {
  if (http->credit < CREDIT_PER_RETRY)
    return false;
  http->credit -= CREDIT_PER_RETRY;
  return true;
}

// ---- handles ----

static void call_free(struct call *call) {
  curl_easy_cleanup(call->easy);
  free(call);
}

static struct call *make_call(struct http *http) {
  struct call *call = calloc(1, sizeof *call);
  if (!call)
    return NULL;
  call->http = http;
  call->easy = curl_easy_init();
  if (call->easy && http_curl_configure(call))
    return call;
  call_free(call);
  return NULL;
}

static struct call *call_new(struct http *http) {
  struct call *call = http->idle;
  if (call) {
    http->idle = call->next;
    http->idle_count--;
  } else if (!http->multi || !(call = make_call(http))) {
    return NULL;
  }
  call->body.ceiling = REMOTE_REQUEST_MAX;
  call->again = 0;
  call->spared = false;
  call->prev = NULL;
  call->next = http->active;
  if (call->next)
    call->next->prev = call;
  http->active = call;
  return call;
}

// Out of curl: a connection with an answer under way is closed by that.
static void stop_transfer(struct call *call) {
  curl_multi_remove_handle(call->http->multi, call->easy);
  engine_timer_stop(&call->pause);
  curl_slist_free_all(call->headers);
  call->headers = NULL;
  call->connection = NULL;
}

// The call is over; its handle is kept.
static void call_end(struct call *call) {
  struct http *http = call->http;
  stop_transfer(call);
  engine_timer_stop(&call->deadline);
  buf_free(&call->body);
  buf_free(&call->answer);
  call->run = NULL;
  call->warm = NULL;
  if (call->prev)
    call->prev->next = call->next;
  else
    http->active = call->next;
  if (call->next)
    call->next->prev = call->prev;
  if (http->idle_count >= http->config->max_concurrent || http->closing) {
    call_free(call);
    return;
  }
  call->next = http->idle;
  http->idle = call;
  http->idle_count++;
}

static void call_fail(struct call *call, const struct jail_error *error) {
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
}

// ---- sending ----

// Sends the call, or sends it again; http_curl_drive then begins it.
static bool call_send(struct call *call) {
  uint64_t left = http_left_ms(call);
  call->requests = 0;
  call->header_bytes = 0;
  call->unread = call->too_large = call->on_fresh = false;
  call->begun = false;
  call->events = (struct events){0};
  call->curl_error[0] = 0;
  call->answer.size = 0;
  return http_request_set(call) &&
         !curl_easy_setopt(call->easy, CURLOPT_CONNECTTIMEOUT_MS, (long)(left < CONNECT_MS ? left + 1 : CONNECT_MS)) &&
         !curl_multi_add_handle(call->http->multi, call->easy);
}

static void on_deadline(struct engine_timer *timer) {
  struct call *call = CONTAINER_OF(timer, struct call, deadline);
  struct http *http = call->http;
  struct jail_error error;
  if (engine_timer_late(timer) && !call->spared) { // we were stopped: the answer may lie in the socket
    call->spared = true;
    engine_timer_start(timer, LATE_CHANCE_US, on_deadline);
    return;
  }
  http_error(&error, JAIL_DEADLINE, call->run, http->config->token, "%s did not answer in time%s", http->origin,
             call->requests ? "" : ": there was no connection");
  error.retryable = call->requests == 0;
  call_fail(call, &error);
  pool_pump(http->pool);
}

static void on_pause_over(struct engine_timer *timer) {
  struct call *call = CONTAINER_OF(timer, struct call, pause);
  struct http *http = call->http;
  struct jail_error error;
  if (call_send(call)) {
    http_curl_drive(http);
    return;
  }
  error_set(&error, JAIL_UNAVAILABLE, "the request to %s cannot be sent again: no memory", http->origin);
  call_fail(call, &error);
  pool_pump(http->pool);
}

// ---- how it ended ----

static bool repeat_later(struct call *call, const struct http_answer *answer) {
  int64_t wait_ms = call->again < AGAIN_MAX ? http_answer_again_ms(answer) : -1;
  if (wait_ms < 0 || (uint64_t)wait_ms + call->run->request.timeout_ms > http_left_ms(call) ||
      !http_take_credit(call->http))
    return false;
  call->again++;
  stop_transfer(call);
  uint64_t spread_us = engine_now_us() % 50000u; // not all at once
  engine_timer_start(&call->pause, (uint64_t)wait_ms * 1000u + spread_us, on_pause_over);
  return true;
}

static void answered(struct call *call, long status) {
  struct http *http = call->http;
  struct jail_run *run = call->run;
  struct jail_error error = {0};
  char *type = NULL, *location = NULL;
  curl_off_t seconds = 0;
  curl_easy_getinfo(call->easy, CURLINFO_CONTENT_TYPE, &type);
  curl_easy_getinfo(call->easy, CURLINFO_REDIRECT_URL, &location);
  curl_easy_getinfo(call->easy, CURLINFO_RETRY_AFTER, &seconds);
  struct http_answer answer = {
    .status = status,
    .type = type ? type : "",
    .location = location,
    .retry_after_ms = seconds > 0 && seconds < INT32_MAX ? seconds * 1000 : -1,
    .body = call->answer.size ? call->answer.data : "",
    .size = call->answer.size,
    .origin = http->origin,
    .token = http->config->token,
  };
  if (!run) { // it is there, and that was all to know
    call_fail(call, &error);
    return;
  }
  if (repeat_later(call, &answer))
    return;
  run->finished_us = engine_now_us();
  if (http_answer_read(run, &answer, &error) != JAIL_OK) {
    call_fail(call, &error);
    return;
  }
  call_end(call);
  run_settle(run);
}

void http_call_finished(struct call *call, CURLcode result) {
  struct jail_error error;
  long status = 0;
  curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
  // Of a refusal the beginning is enough.
  if (result == CURLE_OK || (status >= 300 && (call->answer.size || result == CURLE_FILESIZE_EXCEEDED))) {
    answered(call, status);
    return;
  }
  http_failure(call, result, status, &error);
  call_fail(call, &error);
}

// ---- the backend ----

static bool begin(struct call *call, struct jail_run *run, struct jail_error *error) {
  struct http *http = call->http;
  uint64_t waited_ms = (run->admitted_us - run->entered_us) / 1000, queue_ms = http->config->queue_timeout_ms;
  uint64_t most_ms = run->request.timeout_ms + GRACE_MS + (queue_ms > waited_ms ? queue_ms - waited_ms : 0);
  call->run = run;
  run->backend_data = call;
  http->credit += http->credit < CREDIT_MOST;
  if (remote_write(&call->body, run, false)) {
    error_set(error, JAIL_INVALID_REQUEST, "the request is over %d MiB, which is the most that travels",
              REMOTE_REQUEST_MAX >> 20);
    return false;
  }
  engine_timer_start(&call->deadline, most_ms * 1000u, on_deadline);
  if (call_send(call))
    return true;
  error_set(error, JAIL_UNAVAILABLE, "the request to %s cannot be made: no memory", http->origin);
  return false;
}

static void cannot(const struct http *http, struct jail_error *error) {
  error_set(error, JAIL_CONFIG, "HTTP cannot be set up for %s: no memory, or no certificate to trust", http->origin);
}

static void http_start(struct backend *backend, struct jail_run *run) {
  struct http *http = (struct http *)backend;
  struct call *call = call_new(http);
  struct jail_error error;
  run->state = RUN_RUNNING;
  run->sent_us = engine_now_us();
  if (!call) {
    cannot(http, &error);
    run_fail(run, &error);
  } else if (begin(call, run, &error)) {
    http_curl_drive(http);
  } else {
    call_fail(call, &error);
  }
}

static void http_cancel(struct backend *backend, struct jail_run *run) {
  (void)backend;
  call_end(run->backend_data);
}

// Asks whether the service is alive, so that the first run finds a connection.
static void http_warm(struct backend *backend, uint32_t languages, struct jail_user *user, struct jail_outcome *warm) {
  struct http *http = (struct http *)backend;
  struct call *call = call_new(http);
  (void)languages;
  if (!call) {
    cannot(http, &warm->error);
    engine_deliver(user, warm);
    return;
  }
  call->user = user;
  call->warm = warm;
  engine_timer_start(&call->deadline, (CONNECT_MS + GRACE_MS) * 1000u, on_deadline);
  if (call_send(call)) {
    http_curl_drive(http);
    return;
  }
  struct jail_error error;
  cannot(http, &error);
  call_fail(call, &error);
}

static void http_detach(struct backend *backend, struct jail_user *user) {
  struct http *http = (struct http *)backend;
  for (struct call *call = http->active, *next; call; call = next) {
    next = call->next;
    if (!call->warm || call->user != user)
      continue;
    jail_outcome_free(call->warm);
    call_end(call);
  }
}

static void http_close(struct backend *backend) {
  struct http *http = (struct http *)backend;
  struct jail_error error;
  error_set(&error, JAIL_CLOSED, "the jail was closed");
  http->closing = true;
  for (struct call *call = http->active, *next; call; call = next) {
    next = call->next;
    call_fail(call, &error);
  }
  for (struct call *call = http->idle, *next; call; call = next) {
    next = call->next;
    call_free(call);
  }
  http->idle = NULL;
  http_curl_close(http);
}

static void http_free(struct backend *backend) {
  struct http *http = (struct http *)backend;
  curl_share_cleanup(http->share);
  http_trust_close(http->trust);
  free(http->live_url);
  free(http);
}

// Splits the URL into what messages name, and where to ask for life: beside the
// service's path, or else at the root.
static bool take_url(struct http *http) {
  static const char path[] = "/internal/sandbox/exec", live[] = "/livez";
  const char *url = http->config->url, *host = strstr(url, "://");
  if (!host)
    return false;
  size_t size = strlen(url), origin = (size_t)(host + 3 - url) + strcspn(host + 3, "/?");
  size_t base = size >= sizeof path - 1 ? size - (sizeof path - 1) : 0;
  if (strcmp(url + base, path) != 0)
    base = origin;
  snprintf(http->origin, sizeof http->origin, "%.*s", (int)origin, url);
  http->live_url = malloc(base + sizeof live);
  if (!http->live_url)
    return false;
  memcpy(http->live_url, url, base);
  memcpy(http->live_url + base, live, sizeof live);
  return true;
}

struct backend *backend_http_new(struct pool *pool) {
  static const struct backend_ops ops = {http_start, http_cancel, http_warm, http_detach, http_close, http_free};
  struct http *http = calloc(1, sizeof *http);
  if (!http)
    return NULL;
  http->backend.ops = &ops;
  http->pool = pool;
  http->config = &pool->config;
  http->credit = CREDIT_FIRST;
  if (!take_url(http)) {
    http_free(&http->backend);
    return NULL;
  }
  bool tls = !strncmp(http->config->url, "https:", 6);
  bool ready = http_trust_start();
  if (ready && tls)
    ready = (http->trust = http_trust_open(http->config->ca, http->config->ca_bytes)) != NULL;
  if (ready)
    http_curl_open(http); // without a multi every run is answered with an error
  return &http->backend;
}
