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

#include <unistd.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "buf.h"
#include "intake.h"
#include "live.h"
#include "pool.h"

enum { PLACES_MAX = 512, PART_MAX = 1 << 27 };

struct place {
  char *text; // never freed: users read it without a lock
  size_t bytes;
};

static struct engine {
  pthread_t thread;
  uv_loop_t loop;
  uv_async_t wake;
  bool stopping;
  // under lock
  struct intake *intake, **intake_end;
  struct pool *pools;
  struct place places[PLACES_MAX];
  uint32_t place_count;
  // under gate
  uint32_t users;
  struct intake stop;
} engine;

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t detached_one = PTHREAD_COND_INITIALIZER;

struct uv_loop_s *engine_loop(void) {
  return &engine.loop;
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

// Lock held: to what waits already. Without memory the stream ends here, rather than with a gap in it.
static void add_part(struct live *live, const char *data, size_t size) {
  struct jail_outcome *chunk = live->chunk;
  struct buf grown = {chunk->chunk, chunk->chunk_bytes, live->chunk_room, PART_MAX};
  if (buf_add(&grown, data, size))
    live->left = 0;
  chunk->chunk = grown.data;
  chunk->chunk_bytes = grown.size;
  live->chunk_room = grown.room;
}

void engine_deliver_part(struct jail_user *user, uint32_t ticket, int stream, struct live *live, const char *data,
                         size_t size) {
  struct jail_outcome *fresh = NULL;
  bool first = false;
  pthread_mutex_lock(&lock);
  bool waits = !user->detached && live->chunk && live->takes == user->takes;
  if (!waits && !user->detached && (fresh = calloc(1, sizeof *fresh))) {
    fresh->ticket = ticket;
    fresh->stream = (uint32_t)stream;
    first = !user->done;
    *user->done_end = fresh;
    user->done_end = &fresh->next;
    live->chunk = fresh;
    live->chunk_room = 0;
    live->takes = user->takes;
  }
  if (waits || fresh) {
    add_part(live, live->part, live->part_bytes);
    add_part(live, data, size);
  } else {
    live->left = 0;
  }
  pthread_mutex_unlock(&lock);
  if (first)
    user->on_done(user->arg);
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
  engine_timer_close();
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
    return; // it is the engine's own
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
// A host that has closed its standard streams: whatever opened next would get
// their numbers, and libuv aborts when it is to close one of these.
static int hold_standard_descriptors(void) {
  int fd;
  do
    fd = open("/dev/null", O_RDWR | O_CLOEXEC);
  while (fd >= 0 && fd <= 2);
  if (fd < 0)
    return -1;
  close(fd);
  return 0;
}

static int start_thread(void) {
  sigset_t all, before;
  engine.intake = NULL;
  engine.intake_end = &engine.intake;
  engine.stopping = false;
  if (hold_standard_descriptors() || uv_loop_init(&engine.loop))
    return -1;
  uv_async_init(&engine.loop, &engine.wake, on_wake);
  engine_timer_open();
  // The host's signals are the host's: this thread is born deaf to them.
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int failed = pthread_create(&engine.thread, NULL, thread_main, NULL);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (!failed)
    return 0;
  uv_close((uv_handle_t *)&engine.wake, NULL);
  engine_timer_close();
  uv_run(&engine.loop, UV_RUN_DEFAULT);
  uv_loop_close(&engine.loop);
  return -1;
}

// ---- for users' threads ----

bool engine_enter(void) {
  pthread_mutex_lock(&gate);
  bool fine = engine.users > 0 || start_thread() == 0;
  if (fine)
    engine.users++;
  pthread_mutex_unlock(&gate);
  return fine;
}

void engine_leave(void) {
  pthread_mutex_lock(&gate);
  if (--engine.users == 0) {
    struct intake *stop = &engine.stop;
    *stop = (struct intake){.kind = INTAKE_STOP};
    engine_post(stop);
    pthread_join(engine.thread, NULL);
  }
  pthread_mutex_unlock(&gate);
}

void engine_post(struct intake *item) {
  pthread_mutex_lock(&lock);
  bool first = !engine.intake;
  item->next = NULL;
  *engine.intake_end = item;
  engine.intake_end = &item->next;
  if (first)
    uv_async_send(&engine.wake);
  pthread_mutex_unlock(&lock);
}

void engine_await_detached(const struct jail_user *user) {
  pthread_mutex_lock(&lock);
  while (!user->detached)
    pthread_cond_wait(&detached_one, &lock);
  pthread_mutex_unlock(&lock);
}

struct jail_outcome *jail_user_take(struct jail_user *user) {
  pthread_mutex_lock(&lock);
  struct jail_outcome *done = user->done;
  user->done = NULL;
  user->done_end = &user->done;
  user->takes++;
  pthread_mutex_unlock(&lock);
  return done;
}

struct pool *engine_share_pool(struct pool *made, const char *key) {
  pthread_mutex_lock(&lock);
  struct pool *pool = key ? engine.pools : NULL;
  while (pool && !(pool->config.key && pool->refs && !strcmp(pool->config.key, key)))
    pool = pool->next;
  if (!pool) {
    pool = made;
    made = NULL;
    pool->next = engine.pools;
    engine.pools = pool;
  }
  pool->refs++;
  pthread_mutex_unlock(&lock);
  if (made)
    pool_free(made);
  return pool;
}
