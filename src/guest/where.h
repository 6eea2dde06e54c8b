// where.h: where the code was when its time ran out. Shortly before the deadline
// the keeper sends WHERE_SIGNAL, a few times; the cell answers once, in a frame
// of its own, with the frames of its stack. What it says is the guest's word, and shown as
// that; the kill comes at its time, whatever happens here.
//
// Costs nothing before: no thread, no timer, a handler set before the cell parks.
// In the cell, the runtime's main thread; all but where_arm and where_about
// async-signal-safe.
#ifndef CODE_JAIL_WHERE_H
#define CODE_JAIL_WHERE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WHERE_FRAMES_MAX = 64, WHERE_NAME_MAX = 64 };

struct where_frame {
  uint32_t line, column; // 1-based in the user's text; column 0: not known
  bool module;           // JavaScript: of code.mjs
  char name[WHERE_NAME_MAX];
};

// look is called by the signal's handler, on the main thread; it ends in
// where_tell, there or soon after. Set by the language's library as it serves.
extern void (*where_look)(void);

void where_arm(void); // before the cell parks
// What the frames' lines are lines of; borrowed. Then the handler acts.
void where_about(const char *code, size_t bytes, uint32_t timeout_ms, bool python);
// Frames of the user's own text, the innermost first.
void where_tell(const struct where_frame *frames, size_t count);
void where_end(void); // nothing more is told: the run's own frame follows

#endif
