// wire.h: reading and making what protocol.h describes, without touching a
// descriptor. Callers: the core, engine thread.
#ifndef CODE_JAIL_WIRE_H
#define CODE_JAIL_WIRE_H

#include "jail.h"
#include "protocol.h"
#include "run.h"

// The value of the next `key` in text ("key=value" NUL ...) from *at on, which
// moves behind it; NULL when there is none. Only values that end within bytes.
const char *wire_value(const char *text, size_t bytes, const char *key, size_t *at);

// Splits a datagram from the keeper. false where it is none of ours.
bool wire_report(const char *message, size_t size, struct report *report, const char **text, size_t *text_bytes);

// Whether a frame may begin like this.
bool wire_frame_sane(const struct frame_header *header, const struct jail_request *request);

// A whole frame's body, into the outcome: status, result, files, fault, exit code. The
// result has been checked as it came. false where the rest is not what an honest
// guest writes; then nothing was set. Takes body (from malloc).
bool wire_frame(const struct frame_header *header, char *body, struct jail_outcome *outcome);

// A FRAME_WHERE's body, into an empty fault: place and stack, or nothing of it.
void wire_where(const char *body, size_t size, struct jail_fault *fault);
void wire_fault_free(struct jail_fault *fault); // what it holds

#endif
