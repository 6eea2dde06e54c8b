// birth.h: from a parsed boot to a process that is about to be the zygote.
// Called once, by the keeper's main thread, before it has another.
#ifndef CODE_JAIL_BIRTH_H
#define CODE_JAIL_BIRTH_H

#include <sys/types.h>

#include "closure.h"

// The child's descriptors, and what it is to become. All borrowed.
struct birth {
  int lifeline;   // init's end of a pipe: closes with the keeper
  int zygote_end; // becomes the zygote's PROTOCOL_FD
  bool cold;
  const struct closure *closure;
};

// For cell_outer_spawn: pid 1. Starts the zygote, reaps, and ends when the
// zygote or the keeper does.
int birth_init(void *birth);

#endif
