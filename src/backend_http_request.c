// backend_http_request.c: see backend_http.h. What is sent: a run as a POST, or
// the question whether the service is alive.
#include "backend_http.h"

#include <stdio.h>
#include <string.h>

#include "remote.h"

enum { HEADER_MAX = 8192 };

uint64_t http_left_ms(const struct call *call) {
  uint64_t now = engine_now_us();
  return call->deadline.due_us > now ? (call->deadline.due_us - now) / 1000 : 0;
}

static bool add_header(struct call *call, const char *line) {
  struct curl_slist *more = curl_slist_append(call->headers, line);
  call->headers = more ? more : call->headers;
  return more != NULL;
}

// "Name: value\n" ..., checked by lib/. No line may hold more than its own header.
static bool add_extra_headers(struct call *call, const char *lines) {
  while (lines && *lines) {
    char line[HEADER_MAX + 1];
    size_t size = strcspn(lines, "\n");
    if (size > HEADER_MAX || memchr(lines, '\r', size))
      return false;
    memcpy(line, lines, size);
    line[size] = 0;
    if (!add_header(call, line))
      return false;
    lines += size + (lines[size] == '\n');
  }
  return true;
}

static bool add_headers(struct call *call) {
  char wait[64], bearer[HEADER_MAX];
  const char *accept =
    run_is_live(call->run) ? "Accept: " HTTP_EVENTS ", application/json" : "Accept: application/json";
  snprintf(wait, sizeof wait, "x-code-jail-wait-ms: %llu", (unsigned long long)http_left_ms(call));
  int size = snprintf(bearer, sizeof bearer, "Authorization: Bearer %s", call->http->config->token);
  bool fine = size > 0 && (size_t)size < sizeof bearer && add_header(call, bearer) &&
              add_header(call, "Content-Type: application/json") && add_header(call, accept) &&
              add_header(call, "code-jail-protocol: 1") && add_header(call, wait) && add_header(call, "Expect:") &&
              add_extra_headers(call, call->run->request.headers);
  explicit_bzero(bearer, sizeof bearer);
  return fine;
}

bool http_request_set(struct call *call) {
  CURL *easy = call->easy;
  if (!call->run)
    return !curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L) && !curl_easy_setopt(easy, CURLOPT_URL, call->http->live_url) &&
           !curl_easy_setopt(easy, CURLOPT_HTTPHEADER, NULL);
  curl_off_t size = (curl_off_t)call->body.size, most = (curl_off_t)remote_answer_max(&call->run->request);
  if (run_is_live(call->run))
    most = 0; // lines that have been told do not count: http_curl's own ceiling holds for the rest
  return add_headers(call) && !curl_easy_setopt(easy, CURLOPT_POST, 1L) &&
         !curl_easy_setopt(easy, CURLOPT_URL, call->http->config->url) &&
         !curl_easy_setopt(easy, CURLOPT_HTTPHEADER, call->headers) &&
         !curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, size) &&
         !curl_easy_setopt(easy, CURLOPT_POSTFIELDS, call->body.data) &&
         !curl_easy_setopt(easy, CURLOPT_MAXFILESIZE_LARGE, most);
}
