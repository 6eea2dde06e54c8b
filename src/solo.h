// solo.h: a cell without a keeper, as on macOS: what crosses between the engine,
// the guard that starts the cell, and the cell. The job and the frame are
// protocol.h's.
//
//   engine ---- guard's socket ---- guard: its end of file ends the cell
//   engine <--- words, then job --> cell, by a socket that the guard hands on
#ifndef CODE_JAIL_SOLO_H
#define CODE_JAIL_SOLO_H

#include <stdint.h>

enum { SOLO_RESULT_FD = 3, SOLO_JOB_FD = 4, SOLO_GUARD_FD = 5, SOLO_FD_COUNT = 6 };

// The layers of such a cell: bits of jail_outcome.layers, each verified by its effect.
enum solo_layer { SOLO_FILES, SOLO_NETWORK, SOLO_SIGNALS, SOLO_NO_FORK, SOLO_RLIMITS, SOLO_GROUP, SOLO_LAYER_COUNT };
#define SOLO_BIT(layer) (1u << (layer))
enum { SOLO_ISOLATED = SOLO_BIT(SOLO_FILES) | SOLO_BIT(SOLO_NETWORK) | SOLO_BIT(SOLO_SIGNALS) };

enum solo_type {
  SOLO_WALLED = 1, // before the interpreter is executed: layers, pid, and in text why others are missing
  SOLO_READY,      // it has booted and waits for its job; text: "node 22.23.5"
  SOLO_FAILED,     // text: "stage: cause"
};
struct solo_word { // cell -> engine
  uint32_t type, layers;
  int32_t pid;
  char text[244]; // ends with a NUL
};

struct solo_end { // guard -> engine: its cell has ended
  int32_t wait_status;
  uint64_t cpu_ns, peak_bytes;
};

#endif
