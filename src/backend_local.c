// backend_local.c: the local jail. One place per language; at each a keeper,
// started on demand and ended when idle, and a line of runs that wait for a
// cell. Engine thread.
#include <stdlib.h>
#include <string.h>

#include "backend_local.h"
#include "error.h"

enum {
  BACK_OFF_US = 100000, // doubled with each failure in a row
  BACK_OFF_MAX_US = 5000000,
  FAILURES_MAX = 3, // from here on runs do not wait for the next attempt
};

const char *local_language(enum jail_language language) {
  return language == JAIL_PYTHON ? "python" : "javascript";
}

static struct local *local_of(struct backend *backend) {
  return (struct local *)(void *)backend;
}

// ---- the line ----

static void line_append(struct place *place, struct jail_run *run) {
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

static void line_remove(struct place *place, struct jail_run *run) {
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

static void demand(struct place *place);

// Passes on those whom this place no longer keeps waiting.
static void release_warmers(struct place *place) {
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
    demand(&local->places[next]);
    release_warmers(&local->places[next]);
  }
}

static void fail_warmers(struct place *place, const struct jail_error *error) {
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
  demand(place);
  pool_pump(pool);
}

static void refuse_all(struct place *place, const struct jail_error *error) {
  while (place->first) {
    struct jail_run *run = place->first;
    line_remove(place, run);
    run_fail(run, error);
  }
  fail_warmers(place, error);
}

static bool is_wanted(const struct place *place) {
  return place->waiting || place->warmers;
}

// Orders what is missing: a cell for each that waits, and the parked ones.
static void refill(struct place *place) {
  struct keeper *keeper = place->keeper;
  uint32_t want = place->waiting + place->local->pool->config.parked;
  if (keeper->state != KEEPER_READY || engine_timer_armed(&keeper->fork_timer))
    return;
  while (keeper->parked_count + keeper->forking < want) {
    uint32_t before = keeper->forking;
    keeper_fork(keeper);
    if (keeper->forking == before)
      break; // no room; a cell's end comes back here
  }
}

static void demand(struct place *place) {
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
  if (!place->keeper)
    place_on_end(place, &error, false);
}

// A cell for each that waits, as long as there are any.
static void serve(struct place *place) {
  while (place->first && place->keeper && place->keeper->parked) {
    struct jail_run *run = place->first;
    struct cell *cell = keeper_unpark(place->keeper);
    struct jail_error error;
    line_remove(place, run);
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

static void on_idle(struct engine_timer *timer) {
  struct place *place = CONTAINER_OF(timer, struct place, idle);
  struct pool *pool = place->local->pool;
  if (place->keeper && !place->keeper->busy && !is_wanted(place)) {
    place->not_before_us = 0;
    keeper_end(place->keeper, false);
  }
  pool_pump(pool);
}

// ---- what keepers and cells tell ----

void place_on_ready(struct place *place) {
  refill(place);
  release_warmers(place);
  place_on_free(place);
}

void place_on_parked(struct place *place, struct keeper *keeper) {
  (void)keeper;
  place->failures = 0;
  place->not_before_us = 0;
  place->error.code = JAIL_OK;
  serve(place);
  release_warmers(place);
  place_on_free(place);
}

void place_on_free(struct place *place) {
  uint32_t idle_ms = place->local->pool->config.idle_ms;
  if (!place->keeper || place->local->closing)
    return;
  refill(place);
  if (!is_wanted(place) && !place->keeper->busy)
    engine_timer_start(&place->idle, (uint64_t)idle_ms * 1000, on_idle);
}

void place_requeue(struct place *place, struct jail_run *run) {
  run->state = RUN_STARTING;
  run->sent_us = 0;
  if (run->outcome.start == JAIL_START_PARKED)
    run->outcome.start = JAIL_START_FORK;
  line_append(place, run);
  demand(place);
}

static uint64_t back_off_us(uint32_t failures) {
  uint64_t pause = (uint64_t)BACK_OFF_US << (failures < 7 ? failures : 7) >> 1;
  return pause < BACK_OFF_MAX_US ? pause : BACK_OFF_MAX_US;
}

void place_on_end(struct place *place, const struct jail_error *error, bool was_ready) {
  bool idle = was_ready && engine_timer_armed(&place->idle);
  place->keeper = NULL;
  engine_timer_stop(&place->idle);
  if (place->local->closing || idle)
    return;
  place->failures++;
  place->error = *error;
  place->hopeless = error->code == JAIL_CONFIG || error->code == JAIL_ISOLATION;
  place->not_before_us = engine_now_us() + back_off_us(place->failures);
  if (place->hopeless || place->failures >= FAILURES_MAX)
    refuse_all(place, error);
  if (is_wanted(place))
    demand(place);
}

// ---- the pump: output, after everything else of a turn ----

static void on_check(uv_check_t *check) {
  struct local *local = check->data;
  struct stream *stream = local->flagged;
  local->flagged = NULL;
  uv_check_stop(check);
  while (stream) {
    struct stream *next = stream->next_flagged;
    stream->flagged = false;
    cell_pump(stream);
    stream = next;
  }
}

void local_flag(struct local *local, struct stream *stream) {
  if (stream->flagged)
    return;
  if (!local->flagged)
    uv_check_start(&local->check, on_check);
  stream->flagged = true;
  stream->next_flagged = local->flagged;
  local->flagged = stream;
}

// ---- what the pool asks for ----

static void start(struct backend *backend, struct jail_run *run) {
  struct local *local = local_of(backend);
  struct place *place = &local->places[run->request.language];
  const struct keeper *keeper = place->keeper;
  bool parked = keeper && keeper->parked && !place->first;
  run->outcome.start = local->pool->config.cold ? JAIL_START_COLD : parked ? JAIL_START_PARKED : JAIL_START_FORK;
  uint64_t now = engine_now_us();
  if (!keeper && now < place->not_before_us && (place->hopeless || place->failures >= FAILURES_MAX)) {
    struct jail_error error = place->error;
    error.retry_after_ms = error.retryable ? (uint32_t)((place->not_before_us - now + 999) / 1000) : 0;
    run_fail(run, &error);
    return;
  }
  line_append(place, run);
  serve(place);
  demand(place);
}

static void cancel(struct backend *backend, struct jail_run *run) {
  struct place *place = &local_of(backend)->places[run->request.language];
  if (run->backend_data)
    cell_abandon(run->backend_data);
  else
    line_remove(place, run);
  place_on_free(place);
}

static void warm(struct backend *backend, uint32_t languages, struct jail_user *user, struct jail_outcome *call) {
  struct local *local = local_of(backend);
  struct warmer *warmer = calloc(1, sizeof *warmer);
  if (!warmer || !languages) {
    free(warmer);
    engine_deliver(user, call);
    return;
  }
  *warmer = (struct warmer){.user = user, .call = call, .languages = languages};
  int first = 0;
  while (!(languages >> first & 1))
    first++;
  // All boot at once, though they are waited for one after the other.
  for (int i = 0; i < JAIL_LANGUAGE_COUNT; i++)
    if (languages >> i & 1 && i != first)
      demand(&local->places[i]);
  warmer->next = local->places[first].warmers;
  local->places[first].warmers = warmer;
  demand(&local->places[first]);
  release_warmers(&local->places[first]);
}

static void detach(struct backend *backend, struct jail_user *user) {
  struct local *local = local_of(backend);
  for (int i = 0; i < JAIL_LANGUAGE_COUNT; i++)
    for (struct warmer **link = &local->places[i].warmers; *link;) {
      struct warmer *warmer = *link;
      if (warmer->user != user) {
        link = &warmer->next;
        continue;
      }
      *link = warmer->next;
      jail_outcome_free(warmer->call);
      free(warmer);
    }
}

// ---- beginning and end ----

static void on_check_closed(uv_handle_t *handle) {
  struct local *local = handle->data;
  pool_gone(local->pool);
}

static void end_if_empty(struct local *local) {
  if (local->closing && !local->keepers && !uv_is_closing((uv_handle_t *)&local->check))
    uv_close((uv_handle_t *)&local->check, on_check_closed);
}

void local_on_reaped(struct local *local, struct keeper *keeper) {
  struct keeper **link = &local->keepers;
  while (*link != keeper)
    link = &(*link)->next;
  *link = keeper->next;
  free(keeper);
  end_if_empty(local);
}

static void close_local(struct backend *backend) {
  struct local *local = local_of(backend);
  struct jail_error error;
  error_set(&error, JAIL_CLOSED, "the jail has been closed");
  local->closing = true;
  for (int i = 0; i < JAIL_LANGUAGE_COUNT; i++) {
    struct place *place = &local->places[i];
    engine_timer_stop(&place->retry);
    engine_timer_stop(&place->idle);
    fail_warmers(place, &error);
    if (place->keeper)
      keeper_end(place->keeper, false);
  }
  end_if_empty(local);
}

static void free_local(struct backend *backend) {
  free(local_of(backend));
}

static const struct backend_ops local_ops = {start, cancel, warm, detach, close_local, free_local};

struct backend *backend_local_new(struct pool *pool) {
  struct local *local = calloc(1, sizeof *local);
  if (!local)
    return NULL;
  local->backend.ops = &local_ops;
  local->pool = pool;
  for (int i = 0; i < JAIL_LANGUAGE_COUNT; i++) {
    local->places[i].local = local;
    local->places[i].language = (enum jail_language)i;
  }
  uv_check_init(engine_loop(), &local->check);
  local->check.data = local;
  return &local->backend;
}
