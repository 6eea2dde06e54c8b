// remote.h: a run as it travels to another host and comes back: one JSON shape,
// which HTTP carries as bodies and a socket as lines. Callers: the backends,
// engine thread.
#ifndef CODE_JAIL_REMOTE_H
#define CODE_JAIL_REMOTE_H

#include "buf.h"
#include "jail.h"
#include "run.h"

// What a request may come to, and what an answer to it may.
enum { REMOTE_REQUEST_MAX = 32 << 20 };
size_t remote_answer_max(const struct jail_request *request);

// Adds the request, with those fields only that differ from their defaults, so
// that older services understand newer clients. stream: asks for events (events.h).
// -1 where it is over out's ceiling.
int remote_write(struct buf *out, const struct jail_run *run, bool stream);

// Reads the answer into the run's outcome. JAIL_OK, or *error filled: whatever is
// not exactly a result is JAIL_PROTOCOL, too little isolation JAIL_ISOLATION.
// Knows the older shape { stdout, stderr, exitCode, timedOut, durationMs } too.
enum jail_code remote_read(struct jail_run *run, const char *text, size_t size, struct jail_error *error);

// "process", "gvisor", "microvm", or NULL where nothing is asked for.
const char *remote_isolation_name(enum jail_isolation isolation);

#endif
