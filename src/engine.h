// engine.h: what the one loop thread offers to the rest of the core. Everything
// here is for the engine thread unless it says otherwise.
#ifndef CODE_JAIL_ENGINE_H
#define CODE_JAIL_ENGINE_H

#include "jail.h"

struct uv_loop_s;
struct pool;
struct live;

// ---- time ----

uint64_t engine_now_us(void); // monotonic; any thread

struct engine_timer { // zeroed: not armed. Embedded in what it times; allocates nothing
  struct engine_timer *prev, *next;
  uint64_t due_us;
  void (*on_due)(struct engine_timer *timer);
};
// Starts or restarts it.
void engine_timer_start(struct engine_timer *timer, uint64_t in_us, void (*on_due)(struct engine_timer *timer));
void engine_timer_stop(struct engine_timer *timer); // also of one that is not armed
bool engine_timer_armed(const struct engine_timer *timer);
// In on_due: it comes a second or more late. Then we were stopped (SIGSTOP, a
// throttled instance), and whoever was to answer in time may have been as well.
bool engine_timer_late(const struct engine_timer *timer);

void engine_timer_open(void); // on a loop that has just begun
void engine_timer_close(void);

// ---- users: any thread ----

struct intake;
bool engine_enter(void);               // one more user; starts the thread. false if there can be none
void engine_leave(void);               // one less; the last one ends the thread and joins it
void engine_post(struct intake *item); // takes the item
// Until the engine thread has detached the user.
void engine_await_detached(const struct jail_user *user);
// A counted reference to the pool of that key, or to `made` (taken), which is new.
struct pool *engine_share_pool(struct pool *made, const char *key);

struct jail_user {
  void (*on_done)(void *arg);
  void *arg;
  struct jail_outcome *done, **done_end; // under the engine's lock
  uint64_t takes;                        // likewise: how often `done` was emptied
  bool detached;                         // likewise
  struct jail *jails;                    // user's thread
};

// ---- the rest ----

struct uv_loop_s *engine_loop(void);
// Takes the outcome, and hands it to its user; frees it if that one has gone.
void engine_deliver(struct jail_user *user, struct jail_outcome *outcome);
// What `live` holds of a character, then data, as a part of that stream's output. Where the user has not taken
// the part before, they become one.
void engine_deliver_part(struct jail_user *user, uint32_t ticket, int stream, struct live *live, const char *data,
                         size_t size);
// A number for this text, the same for the same text. 0 where there is no room.
uint32_t engine_intern_place(const char *text, size_t bytes);
// The pool has ended: the engine forgets it, and frees it.
void engine_drop_pool(struct pool *pool);

#define CONTAINER_OF(pointer, type, member) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

#endif
