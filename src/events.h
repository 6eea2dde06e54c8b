// events.h: an answer that comes while the run is under way: a line
// {"stdout":"..."} or {"stderr":"..."} for each part of its output, then the
// answer itself. Whatever is no such line begins the answer. Callers: the
// backends over HTTP and over a socket, engine thread.
#ifndef CODE_JAIL_EVENTS_H
#define CODE_JAIL_EVENTS_H

#include "buf.h"
#include "run.h"

struct events {   // zeroed: none are awaited
  bool open;      // the answer itself is still to come
  bool told;      // there was one
  bool excess;    // one was empty, or had more than its stream may
  size_t left[2]; // bytes that may still come, of each stream
  size_t scanned; // of what is there, for the end of a line
};

void events_begin(struct events *events, const struct jail_run *run);
// Tells the whole lines of the answer so far, as long as they are events, and
// takes them out of it. false: more than may be.
bool events_take(struct events *events, struct jail_run *run, struct buf *answer);

#endif
