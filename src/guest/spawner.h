// spawner.h: between keeper.c and zygote.c, for cold starts. There the keeper's
// own child plays the zygote: it forks, walls and then execs a fresh runtime,
// which calls guest_serve and finds these descriptors.
#ifndef CODE_JAIL_SPAWNER_H
#define CODE_JAIL_SPAWNER_H

#include "../protocol.h"

#define SPAWNER_COLD "CODE_JAIL_COLD" // set in a cold cell's environment until its job replaces it
enum {
  SPAWNER_FAR_FD = PROTOCOL_JOB_FD + 1,
  SPAWNER_PLAN_FD,  // a pipe that holds struct order + struct cell_plan
  SPAWNER_TMPFS_FD, // and the one after it
};

// As guest_serve's loop: returns 0 in each new cell, walled but not sealed.
int spawner_serve(const char *runtime, char why[256]);
// What that cell must hand on, in the order of the numbers above from
// PROTOCOL_JOB_FD on; -1 where there is none.
void spawner_cell(int fds[5]);

#endif
