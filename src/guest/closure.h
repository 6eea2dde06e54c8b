// closure.h: what a runtime needs to exist in a root of its own, and how it is
// started there. Called once by the keeper's main thread, before it forks init.
#ifndef CODE_JAIL_CLOSURE_H
#define CODE_JAIL_CLOSURE_H

#include "../cell/cell.h"
#include "boot.h"

struct closure { // everything owned; lives as long as the keeper
  struct cell_root root;
  char **argv, **envp; // how the zygote is started
  char runtime[64];    // "node 22.23.5"
};

// Resolves boot->runtime to the real thing and fills *closure; appends to
// plan->paths what Landlock must let a cell read. With an own root the paths
// are fixed (/rt/...), without one they are the host's.
int closure_resolve(const struct boot *boot, struct cell_plan *plan, struct closure *closure, struct cell_error *error);

#endif
