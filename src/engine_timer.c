// engine_timer.c: the engine's timers: one sorted ring, one uv timer. They allocate
// nothing, so that starting one cannot fail. Engine thread.
#include "engine.h"

#include <time.h>
#include <uv.h>

enum { LATE_US = 1000000 };

static uv_timer_t bell;            // the engine's loop has one
static struct engine_timer timers; // the ring's head, by due time
static uint64_t bell_us;           // what `bell` is set to; 0: not set

void engine_timer_open(void) {
  timers.prev = timers.next = &timers;
  bell_us = 0;
  uv_timer_init(engine_loop(), &bell);
}

void engine_timer_close(void) {
  uv_close((uv_handle_t *)&bell, NULL);
}

uint64_t engine_now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

static void on_bell(uv_timer_t *unused);

static void set_bell(void) {
  struct engine_timer *first = timers.next;
  if (first == &timers) {
    uv_timer_stop(&bell);
    bell_us = 0;
    return;
  }
  if (bell_us == first->due_us)
    return;
  uint64_t now = engine_now_us();
  uint64_t left = first->due_us > now ? first->due_us - now : 0;
  bell_us = first->due_us;
  uv_update_time(engine_loop()); // or a long turn would make it early, and the bell would spin
  uv_timer_start(&bell, on_bell, (left + 999) / 1000, 0);
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
  if (timer->next) // the bell may then come for nothing: cheaper than setting it anew
    unlink_timer(timer);
}

// A sorted ring, searched from both ends at once: most timers belong close to
// one of them (deadlines behind other deadlines, queue and idle times at the end).
void engine_timer_start(struct engine_timer *timer, uint64_t in_us, void (*on_due)(struct engine_timer *timer)) {
  engine_timer_stop(timer);
  timer->due_us = engine_now_us() + in_us;
  timer->on_due = on_due;
  struct engine_timer *low = timers.next, *high = timers.prev;
  while (low != &timers && low->due_us <= timer->due_us && high != &timers && high->due_us > timer->due_us) {
    low = low->next;
    high = high->prev;
  }
  // Either low is the first that is later, or high the last that is not.
  struct engine_timer *before = low == &timers || low->due_us > timer->due_us ? low->prev : high;
  timer->prev = before;
  timer->next = before->next;
  before->next->prev = timer;
  before->next = timer;
  if (timer == timers.next)
    set_bell();
}

static void on_bell(uv_timer_t *unused) {
  (void)unused;
  uint64_t now = engine_now_us();
  bell_us = 0;
  for (;;) {
    struct engine_timer *first = timers.next;
    if (first == &timers || first->due_us > now)
      break;
    unlink_timer(first);
    first->on_due(first);
  }
  set_bell();
}
