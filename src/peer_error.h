// peer_error.h: a refusal as our own services answer it,
// { "error": { "code", "message", "retryAfterMs" } }. Callers: the backends that
// reach one, engine thread.
#ifndef CODE_JAIL_PEER_ERROR_H
#define CODE_JAIL_PEER_ERROR_H

#include "jail.h"

enum { PEER_ERROR_TEXT_MAX = 8192 };

struct peer_error {
  bool present;
  bool beside_status;                // in something with a status of its own: a result has an error, too
  enum jail_code code;               // JAIL_OK: none that we know
  int64_t retry_after_ms;            // -1: not said
  char message[PEER_ERROR_TEXT_MAX]; // plain ASCII; "" where there is none
};

// Never fails: what is none is not present.
void peer_error_read(struct peer_error *peer, const char *text, size_t size);

// The peer's own word counts, where it may say such a thing about itself; else fallback.
enum jail_code peer_error_code(const struct peer_error *peer, enum jail_code fallback);

#endif
