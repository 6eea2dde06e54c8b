// backend_darwin.c: see backend_darwin.h. A cell serves one run, and boots for a
// tenth of a second and more: some are booted ahead, as many as config.parked.
#include <stdlib.h>
#include <string.h>

#include "backend_darwin.h"
#include "error.h"

static struct solo *solo_of(struct backend *backend) {
  return (struct solo *)(void *)backend;
}

static uint32_t count(const struct solo_place *place, enum solo_state state) {
  uint32_t found = 0;
  for (const struct solo_cell *cell = place->solo->cells; cell; cell = cell->next)
    found += cell->place == place && cell->state == state;
  return found;
}

// ---- the line ----

static void line_append(struct solo_place *place, struct jail_run *run) {
  run->behind = NULL;
  run->ahead = place->last;
  if (place->last)
    place->last->behind = run;
  else
    place->first = run;
  place->last = run;
  place->waiting++;
}

static void line_remove(struct solo_place *place, struct jail_run *run) {
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

static void fail_line(struct solo_place *place, const struct jail_error *error) {
  while (place->first) {
    struct jail_run *run = place->first;
    line_remove(place, run);
    run_fail(run, error);
  }
}

// ---- who waits for cells ----

static void end_warmers(struct solo_place *place, const struct jail_error *error) {
  for (struct solo_warmer **link = &place->solo->warmers; *link;) {
    struct solo_warmer *warmer = *link;
    warmer->languages &= ~(1u << place->language);
    if (error)
      warmer->call->error = *error;
    if (warmer->languages && !error) {
      link = &warmer->next;
      continue;
    }
    *link = warmer->next;
    engine_deliver(warmer->user, warmer->call);
    free(warmer);
  }
}

static bool serve_one(struct solo_place *place) {
  struct solo_cell *cell = place->solo->cells;
  while (cell && (cell->place != place || cell->state != SOLO_PARKED))
    cell = cell->next;
  if (!cell || !place->first)
    return false;
  struct jail_run *run = place->first;
  line_remove(place, run);
  if (run->request.need_process && (cell->layers & SOLO_ISOLATED) != SOLO_ISOLATED) {
    struct jail_error error;
    error_set(&error, JAIL_ISOLATION,
              "minIsolation asks for process isolation, and a cell of this host has not all of it: %s", cell->why);
    run_fail(run, &error);
  } else {
    solo_cell_take(cell, run);
  }
  return true;
}

static void on_idle(struct engine_timer *timer) {
  struct solo_place *place = CONTAINER_OF(timer, struct solo_place, idle);
  for (struct solo_cell *cell = place->solo->cells, *next; cell; cell = next) {
    next = cell->next;
    if (cell->place == place && cell->state == SOLO_PARKED)
      solo_cell_end(cell);
  }
}

static void demand(struct solo_place *place, uint32_t ahead) {
  struct jail_error error;
  uint32_t all = 0, coming = count(place, SOLO_BOOTING) + count(place, SOLO_PARKED);
  for (const struct solo_cell *cell = place->solo->cells; cell; cell = cell->next)
    all++;
  for (; coming < place->waiting + ahead && all < SOLO_CELLS_MAX; coming++, all++)
    if (!solo_cell_start(place, &error)) {
      if (!count(place, SOLO_BOOTING)) { // nobody else will serve them
        fail_line(place, &error);
        end_warmers(place, &error);
      }
      return;
    }
}

static uint32_t spare(const struct solo_place *place) {
  return place->solo->pool->config.parked;
}

static void serve(struct solo_place *place) {
  while (serve_one(place)) {}
  if (place->solo->closing)
    return;
  demand(place, spare(place));
  if (place->solo->pool->config.idle_ms)
    engine_timer_start(&place->idle, (uint64_t)place->solo->pool->config.idle_ms * 1000, on_idle);
}

// ---- told by cells ----

void solo_on_parked(struct solo_cell *cell) {
  struct solo_place *place = cell->place;
  struct pool *pool = place->solo->pool;
  end_warmers(place, NULL);
  while (serve_one(place)) {}
  pool_pump(pool);
}

// What one cell cannot, the next cannot either: those who wait are told, and
// whoever comes next tries again.
void solo_on_failed(struct solo_cell *cell, const char *why) {
  struct solo_place *place = cell->place;
  struct pool *pool = place->solo->pool;
  struct jail_error error;
  error_from_stage(&error, jail_language_name(place->language), why);
  solo_cell_end(cell);
  fail_line(place, &error);
  end_warmers(place, &error);
  pool_pump(pool);
}

void solo_on_free(struct solo_cell *cell) {
  struct solo_place *place = cell->place;
  struct pool *pool = place->solo->pool;
  if (!place->solo->closing)
    serve(place);
  pool_pump(pool);
}

static void end_if_empty(struct solo *solo) {
  if (solo->closing && !solo->cells)
    pool_gone(solo->pool);
}

void solo_on_gone(struct solo_cell *cell) {
  struct solo *solo = cell->place->solo;
  struct solo_cell **link = &solo->cells;
  while (*link != cell)
    link = &(*link)->next;
  *link = cell->next;
  end_if_empty(solo);
}

// ---- what the pool asks for ----

static void start(struct backend *backend, struct jail_run *run) {
  struct solo_place *place = &solo_of(backend)->places[run->request.language];
  run->outcome.start = JAIL_START_COLD;
  line_append(place, run);
  serve(place);
}

static void cancel(struct backend *backend, struct jail_run *run) {
  struct solo_cell *cell = run->backend_data;
  if (!cell) {
    line_remove(&solo_of(backend)->places[run->request.language], run);
    return;
  }
  run->backend_data = NULL;
  solo_cell_end(cell);
}

static void warm(struct backend *backend, uint32_t languages, struct jail_user *user, struct jail_outcome *call) {
  struct solo *solo = solo_of(backend);
  struct solo_warmer *warmer = calloc(1, sizeof *warmer);
  for (int i = 0; i < JAIL_LANGUAGE_COUNT; i++)
    if (count(&solo->places[i], SOLO_PARKED))
      languages &= ~(1u << i);
  if (!warmer || !languages) {
    free(warmer);
    engine_deliver(user, call);
    return;
  }
  *warmer = (struct solo_warmer){solo->warmers, user, call, languages};
  solo->warmers = warmer;
  for (int i = 0; i < JAIL_LANGUAGE_COUNT; i++) // one at least, where none is kept ahead
    if (languages >> i & 1)
      demand(&solo->places[i], spare(&solo->places[i]) ? spare(&solo->places[i]) : 1);
}

static void detach(struct backend *backend, struct jail_user *user) {
  for (struct solo_warmer **link = &solo_of(backend)->warmers; *link;) {
    struct solo_warmer *warmer = *link;
    if (warmer->user != user) {
      link = &warmer->next;
      continue;
    }
    *link = warmer->next;
    jail_outcome_free(warmer->call);
    free(warmer);
  }
}

static void close_solo(struct backend *backend) {
  struct solo *solo = solo_of(backend);
  struct jail_error error;
  error_set(&error, JAIL_CLOSED, "the jail has been closed");
  solo->closing = true;
  for (int i = 0; i < JAIL_LANGUAGE_COUNT; i++) {
    engine_timer_stop(&solo->places[i].idle);
    end_warmers(&solo->places[i], &error);
  }
  for (struct solo_cell *cell = solo->cells; cell; cell = cell->next)
    if (cell->state != SOLO_ENDING)
      solo_cell_end(cell);
  end_if_empty(solo);
}

static void free_solo(struct backend *backend) {
  free(solo_of(backend));
}

static const struct backend_ops solo_ops = {start, cancel, warm, detach, close_solo, free_solo};

struct backend *backend_local_new(struct pool *pool) {
  struct solo *solo = calloc(1, sizeof *solo);
  if (!solo)
    return NULL;
  solo->backend.ops = &solo_ops;
  solo->pool = pool;
  for (int i = 0; i < JAIL_LANGUAGE_COUNT; i++) {
    solo->places[i].solo = solo;
    solo->places[i].language = (enum jail_language)i;
  }
  return &solo->backend;
}
