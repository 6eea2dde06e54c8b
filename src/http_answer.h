// http_answer.h: what an HTTP answer comes to: a result, or one of our errors.
// No libcurl here. Callers: backend_http.c, engine thread.
#ifndef CODE_JAIL_HTTP_ANSWER_H
#define CODE_JAIL_HTTP_ANSWER_H

#include "jail.h"
#include "run.h"

struct http_answer { // everything borrowed
  long status;
  const char *type;       // Content-Type, "" where there was none
  const char *location;   // where a redirect points, or NULL
  int64_t retry_after_ms; // -1: not said
  const char *body;
  size_t size;
  const char *origin; // of the sandbox, for messages
  const char *token;  // never to be seen in one
};

// When to come again, where the peer says that it did not begin with the run; else -1.
int64_t http_answer_again_ms(const struct http_answer *answer);

// A 200 is read into the run's outcome; everything else fills *error.
enum jail_code http_answer_read(struct jail_run *run, const struct http_answer *answer, struct jail_error *error);

// Fills *error with a message in which no secret of the call is left.
enum jail_code http_error(struct jail_error *error, enum jail_code code, const struct jail_run *run, const char *token,
                          const char *format, ...) __attribute__((format(printf, 5, 6)));

#endif
