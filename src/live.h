// live.h: what a run writes, on its way to its caller while it still runs: whole
// characters, the first bytes of each stream up to its cap. Engine thread.
//
// A caller that is slow slows nobody: what it has not taken yet waits for it as
// one piece per stream, which the cap bounds.
#ifndef CODE_JAIL_LIVE_H
#define CODE_JAIL_LIVE_H

#include <stddef.h>
#include <stdint.h>

struct jail_outcome;
struct jail_run;

struct live {        // one stream's; zeroed: nobody listens
  size_t left;       // bytes that may still go
  char part[4];      // the beginning of a character
  size_t part_bytes; // under 4
  // What waits for the user, as long as it has taken nothing since: under the engine's lock.
  struct jail_outcome *chunk;
  size_t chunk_room;
  uint64_t takes;
};

// stream: of enum jail_stream. Each does nothing where nobody listens to it.
void live_add(struct jail_run *run, int stream, const char *data, size_t size);
void live_end(struct jail_run *run); // before it settles

#endif
