// backend_http_failure.c: see backend_http.h. What it was when no answer came, in
// words, and whether the run may have been carried out all the same.
#include "backend_http.h"

#include "http_answer.h"

static const char *reason_of(const struct call *call, CURLcode result) {
  return call->curl_error[0] ? call->curl_error : curl_easy_strerror(result);
}

// It never left us.
static void no_connection(const struct call *call, CURLcode result, struct jail_error *error) {
  const struct http *http = call->http;
  http_error(error, JAIL_UNAVAILABLE, call->run, http->config->token, "no connection to %s: %s", http->origin,
             reason_of(call, result));
  error->retryable =
    result == CURLE_COULDNT_RESOLVE_HOST || result == CURLE_COULDNT_CONNECT || result == CURLE_OPERATION_TIMEDOUT;
}

static void no_answer(const struct call *call, struct jail_error *error) {
  const struct http *http = call->http;
  bool unread = call->requests == 1 && call->unread;
  http_error(error, JAIL_UNAVAILABLE, call->run, http->config->token,
             "%s closed the connection without an answer; the run %s", http->origin,
             unread ? "was not carried out" : "may have been carried out");
  error->retryable = unread;
}

void http_failure(const struct call *call, CURLcode result, long status, struct jail_error *error) {
  const struct http *http = call->http;
  const char *token = http->config->token;
  if (call->too_large || result == CURLE_FILESIZE_EXCEEDED)
    http_error(error, JAIL_PROTOCOL, call->run, token, "%s answered %ld with more %s than there may be", http->origin,
               status, call->answer.size || result == CURLE_FILESIZE_EXCEEDED ? "text" : "headers");
  else if (call->requests == 0)
    no_connection(call, result, error);
  else if (result == CURLE_UNSUPPORTED_PROTOCOL || result == CURLE_WEIRD_SERVER_REPLY ||
           result == CURLE_BAD_CONTENT_ENCODING)
    http_error(error, JAIL_PROTOCOL, call->run, token, "%s does not speak proper HTTP: %s", http->origin,
               reason_of(call, result));
  else if (call->header_bytes + call->answer.size)
    http_error(error, JAIL_UNAVAILABLE, call->run, token,
               "the answer of %s was cut off after %zu bytes: %s; the run may have been carried out", http->origin,
               call->answer.size, reason_of(call, result));
  else
    no_answer(call, error);
  error->http_status = (uint32_t)status;
}
