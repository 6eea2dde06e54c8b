// engine.c: the one thread that carries every run of this process, with a loop
// of its own. Never libuv's thread pool: it has four threads, which the host's
// fs, dns and crypto share.
//
// Users' threads put things into `intake` and send `wake`; the loop takes them
// all. What comes back is put into the user's `done` list. Both lists, the list
// of pools and the place texts are under `lock`, which is never held across a
// call out. `gate` makes starting and stopping one at a time, and is held by
// users' threads only.
#include "engine.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uv.h>

#include "error.h"
#include "intake.h"
#include "pool.h"

enum { PLACES_MAX = 512, LATE_US = 1000000 };

struct jail_user {
  void (*on_done)(void *arg);
  void *arg;
  struct jail_outcome *done, **done_end; // under lock
  bool detached;                         // under lock
  struct jail *jails;                    // user's thread
};

struct jail {
  struct jail *next;      // in user->jails
  struct jail_user *user; // NULL once the user has gone
  struct pool *pool;      // a counted reference; NULL once closed
  uint64_t serial;
};

struct place {
  char *text; // never freed: users read it without a lock
  size_t bytes;
};

static struct engine {
  pthread_t thread;
  uv_loop_t loop;
  uv_async_t wake;
  uv_timer_t alarm;
  struct engine_timer timers; // the ring's head, by due time
  uint64_t alarm_us;          // what `alarm` is set to; 0: not set
  bool stopping;
  // under lock
  struct intake *intake, **intake_end;
  struct pool *pools;
  uint64_t serials;
  struct place places[PLACES_MAX];
  uint32_t place_count;
  // under gate
  uint32_t users;
} engine;

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t detached_one = PTHREAD_COND_INITIALIZER;

struct uv_loop_s *engine_loop(void) {
  return &engine.loop;
}

// ---- time ----

uint64_t engine_now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

static void on_alarm(uv_timer_t *alarm);

static void set_alarm(void) {
  struct engine_timer *first = engine.timers.next;
  if (first == &engine.timers) {
    uv_timer_stop(&engine.alarm);
    engine.alarm_us = 0;
    return;
  }
  if (engine.alarm_us == first->due_us)
    return;
  uint64_t now = engine_now_us();
  uint64_t left = first->due_us > now ? first->due_us - now : 0;
  engine.alarm_us = first->due_us;
  uv_update_time(&engine.loop); // or a long turn would make it early, and the alarm would spin
  uv_timer_start(&engine.alarm, on_alarm, (left + 999) / 1000, 0);
}

bool engine_timer_armed(const struct engine_timer *timer) {
  return timer->next != NULL;
}

bool engine_timer_late(const struct engine_timer *timer) {
  return engine_now_us() > timer->due_us + LATE_US;
}

static void unlink_timer(struct engine_timer *timer) {
  timer->prev->next = timer->next;
  timer->next->prev = timer->prev;
  timer->prev = timer->next = NULL;
}

void engine_timer_stop(struct engine_timer *timer) {
  if (timer->next) // the alarm may then come for nothing: cheaper than setting it anew
    unlink_timer(timer);
}

// A sorted ring, searched from both ends at once: most timers belong close to
// one of them (deadlines behind other deadlines, queue and idle times at the end).
void engine_timer_start(struct engine_timer *timer, uint64_t in_us, void (*on_due)(struct engine_timer *timer)) {
  struct engine_timer *low = engine.timers.next, *high = engine.timers.prev;
  engine_timer_stop(timer);
  timer->due_us = engine_now_us() + in_us;
  timer->on_due = on_due;
  low = engine.timers.next;
  high = engine.timers.prev;
  while (low != &engine.timers && low->due_us <= timer->due_us && high != &engine.timers &&
         high->due_us > timer->due_us) {
    low = low->next;
    high = high->prev;
  }
  // Either low is the first that is later, or high the last that is not.
  struct engine_timer *before = low == &engine.timers || low->due_us > timer->due_us ? low->prev : high;
  timer->prev = before;
  timer->next = before->next;
  before->next->prev = timer;
  before->next = timer;
  if (timer == engine.timers.next)
    set_alarm();
}

static void on_alarm(uv_timer_t *alarm) {
  (void)alarm;
  uint64_t now = engine_now_us();
  engine.alarm_us = 0;
  for (;;) {
    struct engine_timer *first = engine.timers.next;
    if (first == &engine.timers || first->due_us > now)
      break;
    unlink_timer(first);
    first->on_due(first);
  }
  set_alarm();
}

// ---- from the engine to users ----

void engine_deliver(struct jail_user *user, struct jail_outcome *outcome) {
  outcome->next = NULL;
  pthread_mutex_lock(&lock);
  bool gone = user->detached, first = !user->done;
  if (!gone) {
    *user->done_end = outcome;
    user->done_end = &outcome->next;
  }
  pthread_mutex_unlock(&lock);
  if (gone)
    jail_outcome_free(outcome);
  else if (first)
    user->on_done(user->arg); // the user cannot go meanwhile: this thread would have to detach it
}

uint32_t engine_intern_place(const char *text, size_t bytes) {
  uint32_t found = 0;
  char *kept = NULL;
  pthread_mutex_lock(&lock);
  for (uint32_t i = 0; i < engine.place_count && !found; i++)
    if (engine.places[i].bytes == bytes && !memcmp(engine.places[i].text, text, bytes))
      found = i + 1;
  if (!found && engine.place_count < PLACES_MAX && (kept = malloc(bytes + 1))) {
    memcpy(kept, text, bytes);
    kept[bytes] = 0;
    engine.places[engine.place_count++] = (struct place){kept, bytes};
    found = engine.place_count;
  }
  pthread_mutex_unlock(&lock);
  return found;
}

const char *jail_place_text(uint32_t place, size_t *bytes) {
  pthread_mutex_lock(&lock);
  struct place found = place && place <= engine.place_count ? engine.places[place - 1] : (struct place){0};
  pthread_mutex_unlock(&lock);
  *bytes = found.bytes;
  return found.text;
}

// ---- from users to the engine ----

// Lock held. Takes the item.
static void post(struct intake *item) {
  bool first = !engine.intake;
  item->next = NULL;
  *engine.intake_end = item;
  engine.intake_end = &item->next;
  if (first)
    uv_async_send(&engine.wake);
}

static void free_gone_pools(void) {
  struct pool *gone = NULL;
  pthread_mutex_lock(&lock);
  for (struct pool **link = &engine.pools; *link;) {
    struct pool *pool = *link;
    if (!pool->gone) {
      link = &pool->next;
      continue;
    }
    *link = pool->next;
    pool->next = gone;
    gone = pool;
  }
  pthread_mutex_unlock(&lock);
  while (gone) {
    struct pool *next = gone->next;
    pool_free(gone);
    gone = next;
  }
}

// Only marked here: the caller still stands in the pool's code.
void engine_drop_pool(struct pool *pool) {
  pthread_mutex_lock(&lock);
  pool->gone = true;
  uv_async_send(&engine.wake);
  pthread_mutex_unlock(&lock);
}

static void close_handle(const struct intake *item) {
  pthread_mutex_lock(&lock);
  bool last = --item->pool->refs == 0;
  pthread_mutex_unlock(&lock);
  pool_close_handle(item->pool, item->handle, last, item->user, item->ticket);
}

// Its handles have been closed before; what they still wait for is dropped.
static void detach(struct jail_user *user) {
  // The list only grows at its head meanwhile, and by pools of other users.
  pthread_mutex_lock(&lock);
  struct pool *pool = engine.pools;
  pthread_mutex_unlock(&lock);
  for (; pool; pool = pool->next)
    pool_detach(pool, user);
  pthread_mutex_lock(&lock);
  user->detached = true;
  pthread_cond_broadcast(&detached_one);
  pthread_mutex_unlock(&lock);
}

static void stop_if_done(void) {
  if (!engine.stopping || engine.pools || uv_is_closing((uv_handle_t *)&engine.wake))
    return;
  uv_close((uv_handle_t *)&engine.wake, NULL);
  uv_close((uv_handle_t *)&engine.alarm, NULL);
}

static void take(struct intake *item) {
  switch (item->kind) {
  case INTAKE_SUBMIT:
    pool_submit(item->pool, CONTAINER_OF(item, struct jail_run, intake));
    return; // the run is not the intake's to free
  case INTAKE_CANCEL:
    pool_cancel(item->pool, item->user, item->ticket);
    break;
  case INTAKE_WARM:
    pool_warm(item->pool, item->languages, item->user, item->ticket);
    break;
  case INTAKE_CLOSE:
    close_handle(item);
    break;
  case INTAKE_DETACH:
    detach(item->user);
    break;
  case INTAKE_STOP:
    engine.stopping = true;
    break;
  }
  free(item);
}

static void on_wake(uv_async_t *wake) {
  (void)wake;
  pthread_mutex_lock(&lock);
  struct intake *item = engine.intake;
  engine.intake = NULL;
  engine.intake_end = &engine.intake;
  pthread_mutex_unlock(&lock);
  while (item) {
    struct intake *next = item->next;
    take(item);
    item = next;
  }
  free_gone_pools();
  stop_if_done();
}

// ---- the thread ----

static void *thread_main(void *unused) {
  (void)unused;
  pthread_setname_np(pthread_self(), "code-jail");
  uv_run(&engine.loop, UV_RUN_DEFAULT);
  uv_loop_close(&engine.loop);
  return NULL;
}

// Gate held.
static int start_thread(void) {
  sigset_t all, before;
  engine.intake = NULL;
  engine.intake_end = &engine.intake;
  engine.timers.prev = engine.timers.next = &engine.timers;
  engine.alarm_us = 0;
  engine.stopping = false;
  if (uv_loop_init(&engine.loop))
    return -1;
  uv_async_init(&engine.loop, &engine.wake, on_wake);
  uv_timer_init(&engine.loop, &engine.alarm);
  // The host's signals are the host's: this thread is born deaf to them.
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int failed = pthread_create(&engine.thread, NULL, thread_main, NULL);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (!failed)
    return 0;
  uv_close((uv_handle_t *)&engine.wake, NULL);
  uv_close((uv_handle_t *)&engine.alarm, NULL);
  uv_run(&engine.loop, UV_RUN_DEFAULT);
  uv_loop_close(&engine.loop);
  return -1;
}

// ---- users ----

struct jail_user *jail_user_open(void (*on_done)(void *arg), void *arg, struct jail_error *error) {
  struct jail_user *user = calloc(1, sizeof *user);
  bool failed = !user;
  pthread_mutex_lock(&gate);
  if (!failed && engine.users == 0)
    failed = start_thread() != 0;
  if (!failed)
    engine.users++;
  pthread_mutex_unlock(&gate);
  if (failed) {
    free(user);
    error_set(error, JAIL_UNAVAILABLE, "the engine thread cannot be started: no memory or no threads");
    return NULL;
  }
  user->on_done = on_done;
  user->arg = arg;
  user->done_end = &user->done;
  return user;
}

struct jail_outcome *jail_user_take(struct jail_user *user) {
  pthread_mutex_lock(&lock);
  struct jail_outcome *done = user->done;
  user->done = NULL;
  user->done_end = &user->done;
  pthread_mutex_unlock(&lock);
  return done;
}

static void send_item(enum intake_kind kind, const struct jail *jail, struct jail_user *user, uint32_t ticket,
                      uint32_t languages) {
  struct intake *item;
  while (!(item = calloc(1, sizeof *item))) // a close that is lost would hang its caller for ever
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  item->kind = kind;
  item->user = user;
  item->ticket = ticket;
  item->languages = languages;
  if (jail) {
    item->pool = jail->pool;
    item->handle = jail->serial;
  }
  pthread_mutex_lock(&lock);
  post(item);
  pthread_mutex_unlock(&lock);
}

void jail_user_close(struct jail_user *user) {
  for (struct jail *jail = user->jails; jail; jail = jail->next) {
    jail_close(jail, 0);
    jail->user = NULL;
  }
  send_item(INTAKE_DETACH, NULL, user, 0, 0);
  pthread_mutex_lock(&lock);
  while (!user->detached)
    pthread_cond_wait(&detached_one, &lock);
  pthread_mutex_unlock(&lock);
  for (struct jail_outcome *done = user->done, *next; done; done = next) {
    next = done->next;
    jail_outcome_free(done);
  }
  free(user);
  pthread_mutex_lock(&gate);
  if (--engine.users == 0) {
    send_item(INTAKE_STOP, NULL, NULL, 0, 0);
    pthread_join(engine.thread, NULL);
  }
  pthread_mutex_unlock(&gate);
}

// ---- jails ----

// Lock held.
static struct pool *shared_pool(const char *key) {
  for (struct pool *pool = engine.pools; key && pool; pool = pool->next)
    if (pool->config.key && pool->refs && !strcmp(pool->config.key, key))
      return pool;
  return NULL;
}

struct jail *jail_open(struct jail_user *user, const struct jail_config *config, struct jail_error *error) {
  struct jail *jail = calloc(1, sizeof *jail);
  struct pool *made = jail ? pool_new(config) : NULL;
  if (!made) {
    free(jail);
    error_set(error, JAIL_UNAVAILABLE, "no memory for a jail");
    return NULL;
  }
  pthread_mutex_lock(&lock);
  struct pool *pool = shared_pool(config->key);
  if (!pool) {
    pool = made;
    made = NULL;
    pool->next = engine.pools;
    engine.pools = pool;
  }
  pool->refs++;
  jail->serial = ++engine.serials;
  pthread_mutex_unlock(&lock);
  if (made)
    pool_free(made);
  jail->pool = pool;
  jail->user = user;
  jail->next = user->jails;
  user->jails = jail;
  return jail;
}

bool jail_close(struct jail *jail, uint32_t ticket) {
  if (!jail->pool)
    return false;
  send_item(INTAKE_CLOSE, jail, jail->user, ticket, 0);
  jail->pool = NULL;
  return true;
}

void jail_release(struct jail *jail) {
  if (jail->user) {
    struct jail **link = &jail->user->jails;
    while (*link != jail)
      link = &(*link)->next;
    *link = jail->next;
  }
  jail_close(jail, 0);
  free(jail);
}

enum jail_code jail_submit(struct jail *jail, struct jail_run *run, uint32_t ticket, struct jail_error *error) {
  struct pool *pool = jail->pool;
  uint64_t bytes = run->payload_bytes + POOL_RUN_OVERHEAD;
  enum jail_code code = JAIL_OK;
  if (!pool)
    code = error_set(error, JAIL_CLOSED, "the jail has been closed");
  else if (COUNTED(pool->counters.queued_bytes) + bytes > POOL_QUEUED_BYTES_MAX)
    code = error_set(error, JAIL_OVERLOADED, "runs of %llu MiB are waiting already (256 MiB are the most)",
                     (unsigned long long)(COUNTED(pool->counters.queued_bytes) >> 20));
  if (code != JAIL_OK) {
    if (pool)
      COUNT(pool->counters.refused, 1);
    jail_run_free(run);
    return code;
  }
  COUNT(pool->counters.queued_bytes, bytes);
  run->outcome.ticket = ticket;
  run->pool = pool;
  run->user = jail->user;
  run->handle = jail->serial;
  run->intake.kind = INTAKE_SUBMIT;
  run->intake.pool = pool;
  run->entered_us = engine_now_us();
  pthread_mutex_lock(&lock);
  post(&run->intake);
  pthread_mutex_unlock(&lock);
  return JAIL_OK;
}

void jail_cancel(struct jail *jail, uint32_t ticket) {
  if (jail->pool)
    send_item(INTAKE_CANCEL, jail, jail->user, ticket, 0);
}

bool jail_warm(struct jail *jail, uint32_t languages, uint32_t ticket) {
  if (!jail->pool)
    return false;
  send_item(INTAKE_WARM, jail, jail->user, ticket, languages);
  return true;
}

void jail_stats(const struct jail *jail, struct jail_stats *out) {
  *out = (struct jail_stats){0};
  if (!jail->pool)
    return;
  struct counters *now = &jail->pool->counters;
  out->queued = COUNTED(now->queued);
  out->running = COUNTED(now->running);
  out->settled = COUNTED(now->settled);
  out->refused = COUNTED(now->refused);
  out->queued_bytes = COUNTED(now->queued_bytes);
  out->running_memory_mb = COUNTED(now->running_mb);
  out->zygotes = COUNTED(now->zygotes);
  out->zygote_starts = COUNTED(now->zygote_starts);
  for (int i = 0; i < JAIL_LANGUAGE_COUNT; i++) {
    out->parked[i] = COUNTED(now->parked[i]);
    out->cells[i] = COUNTED(now->cells[i]);
  }
}
