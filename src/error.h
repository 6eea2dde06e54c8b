// error.h: filling a jail_error. Callers: the whole core, any thread.
#ifndef CODE_JAIL_ERROR_H
#define CODE_JAIL_ERROR_H

#include "jail.h"

// Fills *error (which may be NULL) and returns code, for `return error_set(...)`.
// Whether it is retryable follows from the code; a caller who knows better sets it after.
enum jail_code error_set(struct jail_error *error, enum jail_code code, const char *format, ...)
  __attribute__((format(printf, 3, 4)));

// From "stage: cause" as keeper and zygote write it: the stage decides the code.
enum jail_code error_from_stage(struct jail_error *error, const char *language, const char *text);

#endif
