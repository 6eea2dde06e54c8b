// intake.h: what users hand to the engine thread. Made on the user's thread,
// consumed on the engine's; in between it lies in one list under one mutex.
#ifndef CODE_JAIL_INTAKE_H
#define CODE_JAIL_INTAKE_H

#include "jail.h"

enum intake_kind {
  INTAKE_SUBMIT, // embedded in a jail_run
  INTAKE_CANCEL,
  INTAKE_WARM,
  INTAKE_CLOSE,  // a handle ends
  INTAKE_DETACH, // a user ends
  INTAKE_STOP,   // the engine ends
};

struct intake {
  struct intake *next;
  enum intake_kind kind;
  struct pool *pool;
  struct jail_user *user;
  uint64_t handle; // serial number of the jail handle
  uint32_t ticket; // CLOSE: 0 where nobody waits
  uint32_t languages;
};

#endif
