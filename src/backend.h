// backend.h: the seam between a jail's queue and what carries its runs out.
// Everything here is called on the engine thread, and never calls back into the
// pool but for pool_gone and the settling of runs.
#ifndef CODE_JAIL_BACKEND_H
#define CODE_JAIL_BACKEND_H

#include "run.h"

struct backend {
  const struct backend_ops *ops;
};

struct backend_ops {
  // Borrows the run until the backend has settled it (run_settle, run_fail), or
  // until cancel. Sets outcome.start, sent_us and finished_us.
  void (*start)(struct backend *backend, struct jail_run *run);
  // Forgets the run, and ends what it has running; the caller settles it.
  void (*cancel)(struct backend *backend, struct jail_run *run);
  // Takes the call, and delivers it to user.
  void (*warm)(struct backend *backend, uint32_t languages, struct jail_user *user, struct jail_outcome *call);
  // A user goes away: nothing of what it waits for may be delivered any more.
  void (*detach)(struct backend *backend, struct jail_user *user);
  // Ends everything, once; no run is left then. pool_gone follows, perhaps before
  // it returns, and after pool_gone the backend may be freed.
  void (*close)(struct backend *backend);
  void (*free)(struct backend *backend); // takes it
};

// One per kind. Borrows the pool, whose config it reads. NULL without memory.
struct backend *backend_local_new(struct pool *pool);
struct backend *backend_http_new(struct pool *pool);
struct backend *backend_socket_new(struct pool *pool);

#endif
