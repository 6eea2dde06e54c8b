// backend_local.c: the local jail as the pool knows it: a place per language, and
// the pump that moves the cells' output. Engine thread.
#include <stdlib.h>

#include "backend_local.h"
#include "error.h"

static struct local *local_of(struct backend *backend) {
  return (struct local *)(void *)backend;
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
  struct jail_error error;
  if (place_refuses(place, &error)) {
    run_fail(run, &error);
    return;
  }
  place_line_append(place, run);
  place_serve(place);
  place_demand(place);
}

static void cancel(struct backend *backend, struct jail_run *run) {
  struct place *place = &local_of(backend)->places[run->request.language];
  struct cell *cell = run->backend_data;
  if (cell)
    cell_abandon(cell);
  else
    place_line_remove(place, run);
  if (cell || place->keeper)
    place_on_free(cell ? cell->keeper : place->keeper);
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
      place_demand(&local->places[i]);
  warmer->next = local->places[first].warmers;
  local->places[first].warmers = warmer;
  place_demand(&local->places[first]);
  place_release_warmers(&local->places[first]);
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
    place_fail_warmers(place, &error);
  }
  for (struct keeper *keeper = local->keepers, *next; keeper; keeper = next) {
    next = keeper->next;
    keeper_end(keeper, false);
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
