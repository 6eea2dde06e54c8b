// error.c: the names of the errors, and the one way to fill them. Any thread.
#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *jail_code_name(enum jail_code code) {
  static const char *const names[JAIL_CODE_COUNT] = {
    [JAIL_OK] = "OK",
    [JAIL_INVALID_REQUEST] = "ERR_JAIL_INVALID_REQUEST",
    [JAIL_CONFIG] = "ERR_JAIL_CONFIG",
    [JAIL_UNAVAILABLE] = "ERR_JAIL_UNAVAILABLE",
    [JAIL_UNAUTHORIZED] = "ERR_JAIL_UNAUTHORIZED",
    [JAIL_PROTOCOL] = "ERR_JAIL_PROTOCOL",
    [JAIL_OVERLOADED] = "ERR_JAIL_OVERLOADED",
    [JAIL_QUEUE_TIMEOUT] = "ERR_JAIL_QUEUE_TIMEOUT",
    [JAIL_DEADLINE] = "ERR_JAIL_DEADLINE",
    [JAIL_ISOLATION] = "ERR_JAIL_ISOLATION",
    [JAIL_CLOSED] = "ERR_JAIL_CLOSED",
    [JAIL_CANCELLED] = "ERR_JAIL_CANCELLED",
  };
  return (unsigned)code < JAIL_CODE_COUNT ? names[code] : "ERR_JAIL_UNAVAILABLE";
}

const char *jail_language_name(enum jail_language language) {
  static const char *const names[JAIL_LANGUAGE_COUNT] = {"javascript", "python", "typescript"};
  return (unsigned)language < JAIL_LANGUAGE_COUNT ? names[language] : "no language";
}

enum jail_code error_set(struct jail_error *error, enum jail_code code, const char *format, ...) {
  if (!error)
    return code;
  va_list args;
  va_start(args, format);
  vsnprintf(error->message, sizeof error->message, format, args);
  va_end(args);
  error->code = code;
  error->retryable = code == JAIL_OVERLOADED || code == JAIL_QUEUE_TIMEOUT;
  error->retry_after_ms = 0;
  error->http_status = 0;
  return code;
}

enum jail_code error_from_stage(struct jail_error *error, const char *language, const char *text) {
  enum jail_code code = JAIL_UNAVAILABLE;
  if (!strncmp(text, "isolation:", 10))
    code = JAIL_ISOLATION;
  else if (!strncmp(text, "config:", 7))
    code = JAIL_CONFIG;
  error_set(error, code, "the local jail for %s cannot start: %s", language, text);
  if (error)
    error->retryable = code == JAIL_UNAVAILABLE;
  return code;
}
