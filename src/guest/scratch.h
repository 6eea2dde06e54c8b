// scratch.h: where no tmpfs can be mounted for a cell (no mount namespace), a
// folder on disk for each, made before its fork and removed after its end.
// Caller: keeper.c and watch.c; every function on the main thread, but scratch_bytes on any.
#ifndef CODE_JAIL_SCRATCH_H
#define CODE_JAIL_SCRATCH_H

#include <stdint.h>

#include "../cell/cell.h"

// Where the plan has no mount namespace: makes the folder for all folders and
// writes its path to plan->scratch, which stays "" where nothing on this host is writable. Removes what a keeper that
// was killed has left. Once, before the zygote.
void scratch_open(struct cell_plan *plan);
// Cells may have ids of init's user namespace: asks what they are in ours.
void scratch_owner(pid_t init, const struct cell_plan *plan);
int scratch_start(void);                                       // the thread that removes; 0 or a negative errno
int scratch_make(uint32_t cell, const struct cell_plan *plan); // 0, also where there is no scratch; or a negative errno
void scratch_drop(uint32_t cell);                              // out of sight at once, removed soon
uint64_t scratch_bytes(uint32_t cell); // what it holds; UINT64_MAX: over 4096 files, or 32 levels
void scratch_close(void);              // every cell has ended: removes all of it, if that is quick

#endif
