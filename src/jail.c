// jail.c: the core's public calls. Everything here runs on the user's thread, and
// only hands over to the engine's.
#include "jail.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "engine.h"
#include "error.h"
#include "intake.h"
#include "pool.h"

struct jail {
  struct jail *next;      // in user->jails
  struct jail_user *user; // NULL once the user has gone
  struct pool *pool;      // a counted reference; NULL once closed
  uint64_t serial;
};

static _Atomic uint64_t serials; // given to handles; never reused

// ---- users ----

struct jail_user *jail_user_open(void (*on_done)(void *arg), void *arg, struct jail_error *error) {
  struct jail_user *user = calloc(1, sizeof *user);
  if (!user || !engine_enter()) {
    free(user);
    error_set(error, JAIL_UNAVAILABLE, "the engine thread cannot be started: no memory or no threads");
    return NULL;
  }
  user->on_done = on_done;
  user->arg = arg;
  user->done_end = &user->done;
  return user;
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
  engine_post(item);
}

void jail_user_close(struct jail_user *user) {
  for (struct jail *jail = user->jails; jail; jail = jail->next) {
    jail_close(jail, 0);
    jail->user = NULL;
  }
  send_item(INTAKE_DETACH, NULL, user, 0, 0);
  engine_await_detached(user);
  for (struct jail_outcome *done = user->done, *next; done; done = next) {
    next = done->next;
    jail_outcome_free(done);
  }
  free(user);
  engine_leave();
}

// ---- jails ----

struct jail *jail_open(struct jail_user *user, const struct jail_config *config, struct jail_error *error) {
  struct jail *jail = calloc(1, sizeof *jail);
  struct pool *made = jail ? pool_new(config) : NULL;
  if (!made) {
    free(jail);
    error_set(error, JAIL_UNAVAILABLE, "no memory for a jail");
    return NULL;
  }
  jail->serial = atomic_fetch_add(&serials, 1) + 1;
  jail->pool = engine_share_pool(made, config->key);
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
  engine_post(&run->intake);
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
