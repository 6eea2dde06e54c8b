// pool.h: a jail as the engine sees it: its limits, its queue and its backend.
// Engine thread, but for what says otherwise.
#ifndef CODE_JAIL_POOL_H
#define CODE_JAIL_POOL_H

#include <stdatomic.h>

#include "backend.h"
#include "run.h"

enum { POOL_QUEUED_BYTES_MAX = 256 << 20, POOL_RUN_OVERHEAD = 1024 };

struct tenant { // a line of its own in the queue
  struct tenant *next;
  uint64_t hash;
  char *name; // owned; "": runs without a tenant
  struct jail_run *first, *last;
  uint32_t waiting, holding;
};

struct counters { // any thread reads
  _Atomic uint64_t queued, running, settled, refused, queued_bytes, running_mb, zygotes, zygote_starts;
  _Atomic uint64_t parked[JAIL_LANGUAGE_COUNT], cells[JAIL_LANGUAGE_COUNT];
};
#define COUNT(counter, by) atomic_fetch_add_explicit(&(counter), (uint64_t)(by), memory_order_relaxed)
#define COUNTED(counter) atomic_load_explicit(&(counter), memory_order_relaxed)

struct closer { // somebody who waits for the end
  struct closer *next;
  struct jail_user *user;
  struct jail_outcome *call; // owned
};

struct pool {
  struct pool *next;         // the engine's list; under its mutex
  uint32_t refs;             // handles; under its mutex
  struct jail_config config; // strings owned
  struct backend *backend;   // owned; NULL until the first use
  struct jail_run *runs;     // all that have not settled
  struct tenant *tenants;    // a ring by hand: `turn` is whose turn is next
  struct tenant *turn;
  uint32_t queued, running;
  uint64_t running_mb;
  uint64_t typical_us; // how long runs take, smoothed
  bool pumping, closing, gone;
  struct closer *closers;
  struct counters counters;
};

// User's thread. Copies the config. NULL without memory.
struct pool *pool_new(const struct jail_config *config);
// Of one that is gone, or was never used.
void pool_free(struct pool *pool);

void pool_submit(struct pool *pool, struct jail_run *run);
void pool_cancel(struct pool *pool, struct jail_user *user, uint32_t ticket);
void pool_warm(struct pool *pool, uint32_t languages, struct jail_user *user, uint32_t ticket);
// A handle ends: its runs are settled with JAIL_CLOSED. Where it was the last
// one, everything ends; the caller's outcome comes then. ticket 0: nobody waits.
void pool_close_handle(struct pool *pool, uint64_t handle, bool last, struct jail_user *user, uint32_t ticket);
void pool_detach(struct pool *pool, struct jail_user *user);

// Starts what may start now. Called by whoever has settled or queued something.
void pool_pump(struct pool *pool);
// From run_settle: the run is no longer the pool's.
void pool_leave(struct pool *pool, struct jail_run *run);
// From the backend, once, after its close.
void pool_gone(struct pool *pool);

#endif
