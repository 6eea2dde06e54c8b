// inmate.h: what zygote.c hands to a new cell, for inmate.c to live by.
#ifndef CODE_JAIL_INMATE_H
#define CODE_JAIL_INMATE_H

#include <stdint.h>

#include "../cell/cell.h"

enum {
  INMATE_SETUP = 111,  // exit code of a cell that could not be built; its report says why
  INMATE_NO_JOB = 112, // the engine went away before it sent a job
};

struct inmate {
  const struct cell_plan *plan; // borrowed from zygote.c, for the life of the process
  uint32_t id;
  int job;      // our end of the job socket
  int far;      // the engine's end, until parked
  int tmpfs[2]; // O_PATH, for the keeper's memory watch, until parked
};

extern struct inmate inmate; // written by zygote.c before the cell is parked, then inmate.c's

#endif
