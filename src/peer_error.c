// peer_error.c: see peer_error.h.
#include "peer_error.h"

#include "json.h"
#include "text.h"

enum { NODES_MAX = 64 };

static void copy_text(char *out, const struct jail_text *text) {
  size_t size = 0;
  for (size_t i = 0; i < text->units && size < PEER_ERROR_TEXT_MAX - 1; i++) {
    unsigned unit = text->wide ? ((const uint16_t *)text->data)[i] : ((const unsigned char *)text->data)[i];
    out[size++] = unit >= ' ' && unit < 0x7F ? (char)unit : unit < ' ' ? ' ' : '?';
  }
  out[size] = 0;
}

static enum jail_code code_named(const struct json_doc *doc, int value) {
  for (int code = JAIL_INVALID_REQUEST; code < JAIL_CANCELLED; code++)
    if (json_equals(doc, value, jail_code_name((enum jail_code)code)))
      return (enum jail_code)code;
  return JAIL_OK;
}

void peer_error_read(struct peer_error *peer, const char *text, size_t size) {
  struct json_doc doc;
  struct jail_text message = {0};
  int64_t ms;
  peer->present = peer->beside_status = false;
  peer->code = JAIL_OK;
  peer->retry_after_ms = -1;
  peer->message[0] = 0;
  if (json_parse(&doc, text, size, NODES_MAX))
    return;
  int error = json_member(&doc, 0, "error");
  peer->present = json_is_object(&doc, error);
  peer->beside_status = json_member(&doc, 0, "status") >= 0;
  if (peer->present) {
    peer->code = code_named(&doc, json_member(&doc, error, "code"));
    if (json_integer(&doc, json_member(&doc, error, "retryAfterMs"), &ms) && ms >= 0)
      peer->retry_after_ms = ms;
    if (json_text(&doc, json_member(&doc, error, "message"), &message))
      copy_text(peer->message, &message);
    text_free(&message);
  }
  json_free(&doc);
}

enum jail_code peer_error_code(const struct peer_error *peer, enum jail_code fallback) {
  switch (peer->code) {
  case JAIL_INVALID_REQUEST:
  case JAIL_OVERLOADED:
  case JAIL_QUEUE_TIMEOUT:
  case JAIL_DEADLINE:
  case JAIL_ISOLATION:
  case JAIL_UNAVAILABLE:
  case JAIL_PROTOCOL:
    return peer->code;
  default: // its configuration or its end is not ours
    return fallback;
  }
}
