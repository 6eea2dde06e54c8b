// run.h: one run's life: queued -> starting -> running -> settled, exactly once.
// Made on the user's thread, everything else on the engine's.
#ifndef CODE_JAIL_RUN_H
#define CODE_JAIL_RUN_H

#include "engine.h"
#include "intake.h"
#include "jail.h"
#include "live.h"
#include "protocol.h"

enum run_state { RUN_QUEUED, RUN_STARTING, RUN_RUNNING, RUN_SETTLED };

struct jail_run {
  struct jail_outcome outcome; // first: the user frees the run through it
  struct intake intake;
  struct jail_run *prev, *next;    // in pool->runs, until settled
  struct jail_run *ahead, *behind; // in its tenant's line, or in the backend's
  struct pool *pool;               // borrowed
  struct jail_user *user;          // borrowed
  struct tenant *tenant;           // borrowed; NULL once settled
  uint64_t handle;                 // whose it is
  enum run_state state;
  struct jail_request request; // tenant is owned, the rest plain
  char *payload;               // owned: job_header, code, input, env, files
  size_t payload_bytes;
  uint64_t entered_us, admitted_us, sent_us, finished_us; // 0: not yet
  struct engine_timer timer;                              // how long it may queue
  uint32_t attempts;                                      // cells that died without having read its job
  struct live live[2];                                    // stdout, stderr
  void *backend_data;                                     // the backend's own
};

// Whether somebody listens to what it writes.
static inline bool run_is_live(const struct jail_run *run) {
  return run->request.live[0] || run->request.live[1];
}

// Fills in the times, gives the outcome to the user, and leaves the pool. The
// run is no longer the engine's after it. The caller then calls pool_pump.
void run_settle(struct jail_run *run);
// The same, with the jail's own failure.
void run_fail(struct jail_run *run, const struct jail_error *error);

#endif
