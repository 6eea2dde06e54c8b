// http_answer.c: see http_answer.h. Between the sandbox and us there may be
// gateways that answer for it, with pages of HTML: none of that is ever the
// fault of the user's code, and none of it is trusted.
#include "http_answer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "peer_error.h"
#include "remote.h"

enum { LOOK_MAX = PEER_ERROR_TEXT_MAX, EXCERPT_MAX = 160, SECRET_MIN = 6 };

// ---- secrets ----

static void mask(char *text, const char *secret, size_t size) {
  char *found;
  if (size < SECRET_MIN)
    return;
  while ((found = memmem(text, strlen(text), secret, size)))
    memset(found, '*', size);
}

// The value of each extra header, and what stands behind the first word of it
// (`Bearer ...`), may be a secret.
static void mask_headers(char *text, const char *headers) {
  for (const char *line = headers; line && *line;) {
    size_t size = strcspn(line, "\n");
    const char *colon = memchr(line, ':', size);
    if (colon) {
      const char *value = colon + 1 + strspn(colon + 1, " ");
      size_t left = size - (size_t)(value - line);
      const char *space = memchr(value, ' ', left);
      mask(text, value, left);
      if (space)
        mask(text, space + 1, left - (size_t)(space + 1 - value));
    }
    line += size + (line[size] == '\n');
  }
}

static void mask_all(char *text, const struct jail_run *run, const char *token) {
  if (token)
    mask(text, token, strlen(token));
  if (run)
    mask_headers(text, run->request.headers);
}

// ---- text of the peer's, for our messages ----

// Plain characters, one space for whatever stood between them; tags left out.
static void make_plain(char *text, bool html) {
  char *to = text;
  bool in_tag = false;
  for (const char *at = text; *at; at++) {
    bool opens = html && *at == '<', plain = *at > ' ' && *at < 0x7F && *at != '\\';
    if (opens || in_tag || !plain) {
      in_tag = opens || (in_tag && *at != '>');
      if (to > text && to[-1] != ' ' && *at != '\\')
        *to++ = ' ';
      continue;
    }
    *to++ = *at;
  }
  while (to > text && to[-1] == ' ')
    to--;
  *to = 0;
}

static void shorten(char *text) {
  if (strlen(text) > EXCERPT_MAX)
    memcpy(text + EXCERPT_MAX - 3, "...", 4);
}

// Secrets are masked before anything is cut off: half of one is one too. What
// looks like a result is not shown: it may hold what the user's code printed.
static void excerpt(char *out, const struct http_answer *answer, const struct jail_run *run) {
  size_t size = answer->size < LOOK_MAX - 1 ? answer->size : LOOK_MAX - 1;
  bool html = strstr(answer->type, "html") || (size && *answer->body == '<');
  size_t blank = 0;
  while (blank < size && strchr(" \r\n\t", answer->body[blank]))
    blank++;
  if (blank < size && answer->body[blank] == '{')
    size = 0;
  if (size)
    memcpy(out, answer->body, size);
  for (size_t i = 0; i < size; i++)
    out[i] = out[i] ? out[i] : ' ';
  out[size] = 0;
  mask_all(out, run, answer->token);
  make_plain(out, html);
  mask_all(out, run, answer->token); // what was hidden by an escape
  shorten(out);
}

// As our own service refuses; without secrets.
static void read_peer_error(struct peer_error *peer, const struct http_answer *answer, const struct jail_run *run) {
  peer_error_read(peer, answer->body, answer->size);
  if (peer->retry_after_ms < 0)
    peer->retry_after_ms = answer->retry_after_ms;
  mask_all(peer->message, run, answer->token);
  peer->message[sizeof((struct jail_error *)0)->message - 1] = 0;
}

// ---- errors ----

enum jail_code http_error(struct jail_error *error, enum jail_code code, const struct jail_run *run, const char *token,
                          const char *format, ...) {
  char message[2 * LOOK_MAX];
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  mask_all(message, run, token);
  error_set(error, code, "%s", message);
  error->retryable = false;
  return code;
}

static enum jail_code code_for(long status, const struct peer_error *peer) {
  if (status == 401 || status == 403)
    return JAIL_UNAUTHORIZED;
  if (status == 404 || status == 405 || status == 410 || (status >= 300 && status < 400))
    return JAIL_CONFIG;
  if (status < 400)
    return JAIL_PROTOCOL;
  if (status == 400 || status == 413 || status == 422)
    return peer_error_code(peer, JAIL_INVALID_REQUEST);
  if (status == 429)
    return peer->code == JAIL_QUEUE_TIMEOUT ? JAIL_QUEUE_TIMEOUT : JAIL_OVERLOADED;
  return peer_error_code(peer, status < 500 && status != 408 && status != 425 ? JAIL_PROTOCOL : JAIL_UNAVAILABLE);
}

static const char *hint(long status) {
  switch (status) {
  case 401:
  case 403:
    return "; is the token right?";
  case 404:
  case 405:
  case 410:
    return "; is the URL that of the sandbox service?";
  case 502:
  case 504:
    return "; the run may have been carried out, and is not repeated";
  default:
    return "";
  }
}

static void describe(struct jail_error *error, enum jail_code code, const struct jail_run *run,
                     const struct http_answer *answer, const struct peer_error *peer) {
  char text[LOOK_MAX];
  excerpt(text, answer, run);
  if (answer->status >= 300 && answer->status < 400)
    http_error(error, code, run, answer->token, "%s answered %ld and points to %.200s: redirects are not followed",
               answer->origin, answer->status, answer->location ? answer->location : "nowhere");
  else if (answer->status == 400 && peer->message[0])
    http_error(error, code, run, answer->token, "%s", peer->message);
  else if (peer->message[0])
    http_error(error, code, run, answer->token, "%s answered %ld: %.200s%s", answer->origin, answer->status,
               peer->message, hint(answer->status));
  else
    http_error(error, code, run, answer->token, "%s answered %ld (%.60s)%s%s%s%s", answer->origin, answer->status,
               answer->type[0] ? answer->type : "no content type", text[0] ? ": \"" : "", text, text[0] ? "\"" : "",
               hint(answer->status));
}

// A 503 of a gateway may mean that the instance died of this very run.
static bool never_ran(long status, const struct peer_error *peer) {
  return status == 429 || (status == 503 && peer->present && peer->retry_after_ms >= 0);
}

int64_t http_answer_again_ms(const struct http_answer *answer) {
  struct peer_error peer;
  if (answer->status != 429 && answer->status != 503)
    return -1;
  read_peer_error(&peer, answer, NULL);
  return never_ran(answer->status, &peer) ? peer.retry_after_ms : -1;
}

static enum jail_code read_refusal(struct jail_run *run, const struct http_answer *answer, struct jail_error *error) {
  struct peer_error peer;
  read_peer_error(&peer, answer, run);
  enum jail_code code = code_for(answer->status, &peer);
  describe(error, code, run, answer, &peer);
  error->http_status = (uint32_t)answer->status;
  error->retryable = never_ran(answer->status, &peer);
  if (peer.retry_after_ms > 0)
    error->retry_after_ms = peer.retry_after_ms < UINT32_MAX ? (uint32_t)peer.retry_after_ms : UINT32_MAX;
  return code;
}

enum jail_code http_answer_read(struct jail_run *run, const struct http_answer *answer, struct jail_error *error) {
  char text[LOOK_MAX];
  if (answer->status != 200)
    return read_refusal(run, answer, error);
  enum jail_code code = remote_read(run, answer->body, answer->size, error);
  if (code == JAIL_OK)
    return code;
  bool retryable = error->retryable;
  if (code == JAIL_PROTOCOL) { // say what was there instead
    struct jail_error cause = *error;
    excerpt(text, answer, run);
    http_error(error, code, run, answer->token, "%s answered 200 (%.60s), %zu bytes: %s%s%s%s", answer->origin,
               answer->type[0] ? answer->type : "no content type", answer->size, cause.message,
               text[0] ? "; it begins \"" : "", text, text[0] ? "\"" : "");
  }
  error->http_status = 200;
  error->retryable = retryable;
  return code;
}
