// backend_local_place.c: one language's zygotes. A keeper is started on demand,
// again after it died (with pauses), replaced when it is old, and ended when
// idle; runs that have no cell wait here in a line. Engine thread.
#include <stdlib.h>
#include <string.h>

#include "backend_local.h"
#include "error.h"

enum {
  BACK_OFF_US = 100000, // doubled with each failure in a row
  BACK_OFF_MAX_US = 5000000,
  RENEW_PAUSE_US = 60000000, // between attempts at a successor
  FAILURES_MAX = 3,          // from here on runs do not wait for the next attempt
};

// ---- the line ----

void place_line_append(struct place *place, struct jail_run *run) {
  run->backend_data = NULL; // no cell
  run->ahead = place->last;
  run->behind = NULL;
  if (place->last)
    place->last->behind = run;
  else
    place->first = run;
  place->last = run;
  place->waiting++;
}

void place_line_remove(struct place *place, struct jail_run *run) {
  if (run->ahead)
    run->ahead->behind = run->behind;
  else
    place->first = run->behind;
  if (run->behind)
    run->behind->ahead = run->ahead;
  else
    place->last = run->ahead;
  run->ahead = run->behind = NULL;
  place->waiting--;
}

// ---- those who wait for warmth ----

static bool is_warm(const struct place *place) {
  const struct keeper *keeper = place->keeper;
  return keeper && keeper->state == KEEPER_READY && keeper->parked_count >= place->local->pool->config.parked;
}

static void count_failure(struct place *place, const struct jail_error *error);

// Passes on those whom this place no longer keeps waiting.
void place_release_warmers(struct place *place) {
  while (place->warmers && is_warm(place)) {
    struct warmer *warmer = place->warmers;
    struct local *local = place->local;
    place->warmers = warmer->next;
    warmer->languages &= ~(1u << place->language);
    if (!warmer->languages) {
      engine_deliver(warmer->user, warmer->call);
      free(warmer);
      continue;
    }
    int next = 0;
    while (!(warmer->languages >> next & 1))
      next++;
    warmer->next = local->places[next].warmers;
    local->places[next].warmers = warmer;
    place_demand(&local->places[next]);
    place_release_warmers(&local->places[next]);
  }
}

void place_fail_warmers(struct place *place, const struct jail_error *error) {
  while (place->warmers) {
    struct warmer *warmer = place->warmers;
    place->warmers = warmer->next;
    warmer->call->error = *error;
    engine_deliver(warmer->user, warmer->call);
    free(warmer);
  }
}

// ---- demand: keepers and cells ----

static void on_retry(struct engine_timer *timer) {
  struct place *place = CONTAINER_OF(timer, struct place, retry);
  struct pool *pool = place->local->pool;
  place_demand(place);
  pool_pump(pool);
}

static void refuse_all(struct place *place, const struct jail_error *error) {
  while (place->first) {
    struct jail_run *run = place->first;
    place_line_remove(place, run);
    run_fail(run, error);
  }
  place_fail_warmers(place, error);
}

static bool is_wanted(const struct place *place) {
  return place->waiting || place->warmers;
}

static void fork_up_to(struct keeper *keeper, uint32_t want) {
  if (keeper->state != KEEPER_READY || engine_timer_armed(&keeper->fork_timer))
    return;
  while (keeper->parked_count + keeper->forking < want) {
    uint32_t before = keeper->forking;
    keeper_fork(keeper);
    if (keeper->forking == before)
      break; // no room; a cell's end comes back here
  }
}

// Orders what is missing: a cell for each that waits, and the parked ones.
static void refill(struct place *place) {
  fork_up_to(place->keeper, place->waiting + place->local->pool->config.parked);
}

void place_demand(struct place *place) {
  struct jail_error error;
  if (place->local->closing)
    return;
  engine_timer_stop(&place->idle);
  if (place->keeper) {
    refill(place);
    return;
  }
  uint64_t now = engine_now_us();
  if (now < place->not_before_us) {
    if (!engine_timer_armed(&place->retry))
      engine_timer_start(&place->retry, place->not_before_us - now, on_retry);
    return;
  }
  place->keeper = keeper_start(place, &error);
  if (place->keeper)
    return;
  count_failure(place, &error);
  if (is_wanted(place))
    place_demand(place); // after the pause
}

// A cell for each that waits, as long as there are any.
void place_serve(struct place *place) {
  while (place->first && place->keeper && place->keeper->parked) {
    struct jail_run *run = place->first;
    struct cell *cell = keeper_unpark(place->keeper);
    struct jail_error error;
    place_line_remove(place, run);
    if (run->request.need_process && !place->keeper->verified) {
      error_set(&error, JAIL_ISOLATION,
                "minIsolation 'process' was asked for, and this jail (allowWeak) is unverified");
      cell_end(cell);
      run_fail(run, &error);
    } else if (cell_take(cell, run)) {
      cell_end(cell); // it has died meanwhile
      place_requeue(place, run);
    }
  }
}

static void rest(struct keeper *keeper) {
  keeper->resting = true;
  keeper_end(keeper, false);
}

static void on_idle(struct engine_timer *timer) {
  struct place *place = CONTAINER_OF(timer, struct place, idle);
  struct pool *pool = place->local->pool;
  if (place->keeper && !place->keeper->busy && !is_wanted(place))
    rest(place->keeper);
  pool_pump(pool);
}

// ---- renewal ----

// All cells of a zygote share its address layout and its hash seeds; and what
// ages, ages. So another one takes over in time, and nobody waits for it.
static void renew_if_old(struct place *place) {
  const struct jail_config *config = &place->local->pool->config;
  const struct keeper *keeper = place->keeper;
  struct jail_error ignored;
  uint64_t now = engine_now_us();
  bool old = keeper->next_cell >= config->renew_cells || now - keeper->born_us >= (uint64_t)config->renew_ms * 1000;
  if (!old || keeper->state != KEEPER_READY || place->successor || now < place->renew_after_us)
    return;
  place->renew_after_us = now + RENEW_PAUSE_US;
  place->successor = keeper_start(place, &ignored);
}

static uint32_t successor_cells(const struct place *place) {
  uint32_t parked = place->local->pool->config.parked;
  return parked ? parked : 1;
}

static void take_over(struct place *place) {
  struct keeper *old = place->keeper;
  place->keeper = place->successor;
  place->successor = NULL;
  old->retired = true;
  for (struct cell *cell; (cell = keeper_unpark(old));)
    cell_end(cell);
  if (!old->busy)
    rest(old);
}

// ---- what keepers and cells tell ----

void place_on_ready(struct keeper *keeper) {
  struct place *place = keeper->place;
  if (keeper == place->successor) {
    fork_up_to(keeper, successor_cells(place));
    return;
  }
  refill(place);
  place_release_warmers(place);
  place_on_free(keeper);
}

void place_on_parked(struct keeper *keeper) {
  struct place *place = keeper->place;
  if (keeper->retired) {
    cell_end(keeper_unpark(keeper));
    return;
  }
  if (keeper == place->successor) {
    if (keeper->parked_count < successor_cells(place))
      return;
    take_over(place);
  }
  place->failures = 0;
  place->not_before_us = 0;
  place->error.code = JAIL_OK;
  place_serve(place);
  place_release_warmers(place);
  place_on_free(place->keeper);
}

void place_on_free(struct keeper *keeper) {
  struct place *place = keeper->place;
  if (!place || place->local->closing)
    return;
  if (keeper->retired) {
    if (!keeper->busy)
      rest(keeper);
  } else if (keeper == place->keeper) {
    refill(place);
    renew_if_old(place);
    if (!is_wanted(place) && !keeper->busy)
      engine_timer_start(&place->idle, (uint64_t)place->local->pool->config.idle_ms * 1000, on_idle);
  } else if (keeper->state == KEEPER_READY) {
    fork_up_to(keeper, successor_cells(place));
  }
}

void place_requeue(struct place *place, struct jail_run *run) {
  run->state = RUN_STARTING;
  run->sent_us = 0;
  if (run->outcome.start == JAIL_START_PARKED)
    run->outcome.start = JAIL_START_FORK;
  place_line_append(place, run);
  place_demand(place);
}

static uint64_t back_off_us(uint32_t failures) {
  uint64_t pause = (uint64_t)BACK_OFF_US << (failures < 7 ? failures : 7) >> 1;
  return pause < BACK_OFF_MAX_US ? pause : BACK_OFF_MAX_US;
}

static void count_failure(struct place *place, const struct jail_error *error) {
  place->failures++;
  place->error = *error;
  place->hopeless = error->code == JAIL_CONFIG || error->code == JAIL_ISOLATION;
  place->not_before_us = engine_now_us() + back_off_us(place->failures);
  if (place->hopeless || place->failures >= FAILURES_MAX)
    refuse_all(place, error);
}

bool place_refuses(const struct place *place, struct jail_error *error) {
  uint64_t now = engine_now_us();
  if (place->keeper || now >= place->not_before_us || (!place->hopeless && place->failures < FAILURES_MAX))
    return false;
  *error = place->error;
  error->retry_after_ms = error->retryable ? (uint32_t)((place->not_before_us - now + 999) / 1000) : 0;
  return true;
}

void place_on_end(struct place *place, const struct keeper *keeper) {
  if (place->local->closing || keeper->retired)
    return;
  if (keeper == place->successor) { // the old one goes on; another attempt follows in time
    place->successor = NULL;
    return;
  }
  place->keeper = place->successor;
  place->successor = NULL;
  engine_timer_stop(&place->idle);
  if (!keeper->resting && !place->keeper)
    count_failure(place, &keeper->why);
  if (is_wanted(place))
    place_demand(place);
}
