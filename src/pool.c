// pool.c: see pool.h. The queue is a line per tenant, served in turn. A run is
// admitted when a slot is free and its memory fits; whose turn it is and does
// not fit is waited for, or large runs would starve behind small ones.
#include "pool.h"

#include <stdlib.h>
#include <string.h>

#include "error.h"

// ---- making ----

static void free_config(struct jail_config *config) {
  free((char *)config->key);
  free((char *)config->keeper);
  if (config->token)
    explicit_bzero((char *)config->token, strlen(config->token));
  free((char *)config->token);
  free((char *)config->url);
  free((char *)config->ca);
  free((char *)config->proxy);
  free((char *)config->socket);
  for (int i = 0; i < JAIL_LANGUAGE_COUNT; i++)
    free((char *)config->boot[i]);
}

static char *copy(const char *bytes, size_t size) {
  char *made = malloc(size + 1);
  if (made) {
    memcpy(made, bytes, size);
    made[size] = 0;
  }
  return made;
}

// NULL stays NULL; *complete becomes false where there is no memory.
static const char *copy_text(const char *text, bool *complete) {
  const char *made = text ? copy(text, strlen(text)) : NULL;
  *complete = *complete && (made || !text);
  return made;
}

struct pool *pool_new(const struct jail_config *config) {
  struct pool *pool = calloc(1, sizeof *pool);
  bool complete = pool != NULL;
  if (!pool)
    return NULL;
  pool->config = *config;
  pool->config.key = copy_text(config->key, &complete);
  pool->config.keeper = copy_text(config->keeper, &complete);
  pool->config.url = copy_text(config->url, &complete);
  pool->config.token = copy_text(config->token, &complete);
  pool->config.ca = copy_text(config->ca, &complete);
  pool->config.proxy = copy_text(config->proxy, &complete);
  pool->config.socket = copy_text(config->socket, &complete);
  for (int i = 0; i < JAIL_LANGUAGE_COUNT; i++) {
    pool->config.boot[i] = config->boot[i] ? copy(config->boot[i], config->boot_bytes[i]) : NULL;
    complete = complete && (pool->config.boot[i] || !config->boot[i]);
  }
  if (complete)
    return pool;
  pool_free(pool);
  return NULL;
}

void pool_free(struct pool *pool) {
  if (pool->backend)
    pool->backend->ops->free(pool->backend);
  free_config(&pool->config);
  free(pool);
}

static struct backend *backend_of(struct pool *pool) {
  if (!pool->backend && pool->config.socket)
    pool->backend = backend_socket_new(pool);
  else if (!pool->backend)
    pool->backend = pool->config.url ? backend_http_new(pool) : backend_local_new(pool);
  return pool->backend;
}

// ---- tenants ----

static struct tenant *tenant_of(struct pool *pool, const char *name) {
  uint64_t hash = 1469598103934665603u; // FNV-1a
  struct tenant **link = &pool->tenants;
  for (const char *at = name; *at; at++)
    hash = (hash ^ (unsigned char)*at) * 1099511628211u;
  for (; *link; link = &(*link)->next)
    if ((*link)->hash == hash && !strcmp((*link)->name, name))
      return *link;
  struct tenant *tenant = calloc(1, sizeof *tenant);
  if (tenant && !(tenant->name = strdup(name))) {
    free(tenant);
    tenant = NULL;
  }
  if (tenant)
    tenant->hash = hash;
  return *link = tenant;
}

static void forget_if_idle(struct pool *pool, struct tenant *tenant) {
  if (tenant->waiting || tenant->holding)
    return;
  struct tenant **link = &pool->tenants;
  while (*link != tenant)
    link = &(*link)->next;
  *link = tenant->next;
  if (pool->turn == tenant)
    pool->turn = tenant->next;
  free(tenant->name);
  free(tenant);
}

// A named tenant never holds the last slot: another may come any moment.
static bool may_hold_more(const struct pool *pool, const struct tenant *tenant) {
  uint32_t most = pool->config.max_concurrent;
  if (tenant->name[0] && most > 1)
    most--;
  return tenant->holding < most;
}

static void line_remove(struct pool *pool, struct jail_run *run) {
  struct tenant *tenant = run->tenant;
  if (run->ahead)
    run->ahead->behind = run->behind;
  else
    tenant->first = run->behind;
  if (run->behind)
    run->behind->ahead = run->ahead;
  else
    tenant->last = run->ahead;
  run->ahead = run->behind = NULL;
  tenant->waiting--;
  pool->queued--;
  COUNT(pool->counters.queued, -1);
  COUNT(pool->counters.queued_bytes, -(int64_t)(run->payload_bytes + POOL_RUN_OVERHEAD));
}

static void line_append(struct pool *pool, struct tenant *tenant, struct jail_run *run) {
  run->tenant = tenant;
  run->ahead = tenant->last;
  if (tenant->last)
    tenant->last->behind = run;
  else
    tenant->first = run;
  tenant->last = run;
  tenant->waiting++;
  pool->queued++;
  COUNT(pool->counters.queued, 1); // its bytes were counted when it was submitted
}

// ---- admission ----

static struct jail_run *next_run(struct pool *pool) {
  struct tenant *tenant = pool->turn ? pool->turn : pool->tenants, *first = tenant;
  if (pool->running >= pool->config.max_concurrent)
    return NULL;
  while (tenant) {
    struct tenant *next = tenant->next ? tenant->next : pool->tenants;
    if (tenant->waiting && may_hold_more(pool, tenant)) {
      struct jail_run *run = tenant->first;
      if (pool->running_mb + run->request.memory_mb > pool->config.max_total_memory_mb) {
        pool->turn = tenant; // it stays its turn
        return NULL;
      }
      pool->turn = next;
      return run;
    }
    tenant = next == first ? NULL : next;
  }
  return NULL;
}

void pool_pump(struct pool *pool) {
  if (pool->pumping || pool->closing)
    return;
  pool->pumping = true; // a run that fails to start at once leads back here
  for (struct jail_run *run; (run = next_run(pool));) {
    line_remove(pool, run);
    engine_timer_stop(&run->timer);
    run->state = RUN_STARTING;
    run->admitted_us = engine_now_us();
    run->tenant->holding++;
    pool->running++;
    pool->running_mb += run->request.memory_mb;
    COUNT(pool->counters.running, 1);
    COUNT(pool->counters.running_mb, run->request.memory_mb);
    pool->backend->ops->start(pool->backend, run);
  }
  pool->pumping = false;
}

void pool_leave(struct pool *pool, struct jail_run *run) {
  if (run->prev)
    run->prev->next = run->next;
  else
    pool->runs = run->next;
  if (run->next)
    run->next->prev = run->prev;
  if (run->state == RUN_QUEUED) {
    line_remove(pool, run);
  } else {
    run->tenant->holding--;
    pool->running--;
    pool->running_mb -= run->request.memory_mb;
    COUNT(pool->counters.running, -1);
    COUNT(pool->counters.running_mb, -(int64_t)run->request.memory_mb);
    uint64_t took = engine_now_us() - run->admitted_us;
    pool->typical_us = pool->typical_us ? (pool->typical_us * 7 + took) / 8 : took;
  }
  forget_if_idle(pool, run->tenant);
  run->tenant = NULL;
  if (run->outcome.error.code == JAIL_OVERLOADED || run->outcome.error.code == JAIL_QUEUE_TIMEOUT)
    COUNT(pool->counters.refused, 1);
  else
    COUNT(pool->counters.settled, 1);
}

// When a place in the queue may be free: a guess that is kept within reason.
static uint32_t retry_after_ms(const struct pool *pool) {
  uint64_t turns = pool->queued / pool->config.max_concurrent + 1;
  uint64_t ms = turns * pool->typical_us / 1000 / 2;
  return ms < 10 ? 10 : ms > 30000 ? 30000 : (uint32_t)ms;
}

static void on_queued_too_long(struct engine_timer *timer) {
  struct jail_run *run = CONTAINER_OF(timer, struct jail_run, timer);
  struct pool *pool = run->pool;
  struct jail_error error;
  error_set(&error, JAIL_QUEUE_TIMEOUT,
            "the run waited %u ms for its turn (queueTimeoutMs); %u runs were ahead or beside it",
            pool->config.queue_timeout_ms, pool->running + pool->queued - 1);
  error.retry_after_ms = retry_after_ms(pool);
  run_fail(run, &error);
  pool_pump(pool);
}

// ---- what users ask for ----

static bool has_language(const struct pool *pool, unsigned language) {
  return pool->config.url || pool->config.socket || pool->config.boot[language];
}

static enum jail_code refuse_submit(struct pool *pool, struct jail_run *run, struct jail_error *error) {
  if (pool->closing)
    return error_set(error, JAIL_CLOSED, "the jail has been closed");
  if (!has_language(pool, run->request.language))
    return error_set(error, JAIL_CONFIG, "this jail has no runtime for the language");
  if (run->request.memory_mb > pool->config.max_total_memory_mb)
    return error_set(error, JAIL_INVALID_REQUEST, "memoryMb %u is over maxTotalMemoryMb, %llu", run->request.memory_mb,
                     (unsigned long long)pool->config.max_total_memory_mb);
  if (!backend_of(pool))
    return error_set(error, JAIL_UNAVAILABLE, "no memory for the jail");
  return JAIL_OK;
}

void pool_submit(struct pool *pool, struct jail_run *run) {
  struct jail_error error;
  struct tenant *tenant = tenant_of(pool, run->request.tenant);
  if (!tenant) {
    COUNT(pool->counters.queued_bytes, -(int64_t)(run->payload_bytes + POOL_RUN_OVERHEAD));
    run->outcome.error = (struct jail_error){0};
    error_set(&run->outcome.error, JAIL_UNAVAILABLE, "no memory for a further tenant");
    engine_deliver(run->user, &run->outcome);
    return;
  }
  run->next = pool->runs;
  if (pool->runs)
    pool->runs->prev = run;
  pool->runs = run;
  line_append(pool, tenant, run);
  if (refuse_submit(pool, run, &error) != JAIL_OK) {
    run_fail(run, &error);
    return;
  }
  engine_timer_start(&run->timer, (uint64_t)pool->config.queue_timeout_ms * 1000u, on_queued_too_long);
  pool_pump(pool);
  // Before this run the queue was within its limit: if it is over it now, this
  // run was not started, and is still ours.
  if (pool->queued > pool->config.max_queue) {
    error_set(&error, JAIL_OVERLOADED, "%u runs are waiting already (maxQueue %u)", pool->queued - 1,
              pool->config.max_queue);
    error.retry_after_ms = retry_after_ms(pool);
    run_fail(run, &error);
  }
}

static void end_run(struct pool *pool, struct jail_run *run, const struct jail_error *error) {
  if (run->state != RUN_QUEUED)
    pool->backend->ops->cancel(pool->backend, run);
  run_fail(run, error);
}

void pool_cancel(struct pool *pool, struct jail_user *user, uint32_t ticket) {
  struct jail_error error;
  error_set(&error, JAIL_CANCELLED, "cancelled");
  for (struct jail_run *run = pool->runs, *next; run; run = next) {
    next = run->next;
    if (run->user == user && run->outcome.ticket == ticket)
      end_run(pool, run, &error);
  }
  pool_pump(pool);
}

static struct jail_outcome *call_new(uint32_t ticket) {
  struct jail_outcome *call = calloc(1, sizeof *call);
  if (call)
    call->ticket = ticket;
  return call;
}

static enum jail_code refuse_warm(struct pool *pool, uint32_t languages, struct jail_error *error) {
  if (pool->closing)
    return error_set(error, JAIL_CLOSED, "the jail has been closed");
  for (int i = 0; i < JAIL_LANGUAGE_COUNT; i++)
    if (languages >> i & 1 && !has_language(pool, (unsigned)i))
      return error_set(error, JAIL_CONFIG, "this jail has no runtime for %s", jail_language_name(i));
  return JAIL_OK;
}

void pool_warm(struct pool *pool, uint32_t languages, struct jail_user *user, uint32_t ticket) {
  struct jail_outcome *call = call_new(ticket);
  if (!call)
    return;
  struct backend *backend = backend_of(pool);
  if (!backend)
    error_set(&call->error, JAIL_UNAVAILABLE, "no memory for the jail");
  else
    refuse_warm(pool, languages, &call->error);
  if (backend && call->error.code == JAIL_OK)
    backend->ops->warm(backend, languages, user, call);
  else
    engine_deliver(user, call);
}

// ---- the end ----

static void await_gone(struct pool *pool, struct jail_user *user, uint32_t ticket) {
  struct jail_outcome *call = ticket ? call_new(ticket) : NULL;
  struct closer *closer = call ? calloc(1, sizeof *closer) : NULL;
  if (!closer) {
    free(call);
    return;
  }
  *closer = (struct closer){pool->closers, user, call};
  pool->closers = closer;
}

void pool_close_handle(struct pool *pool, uint64_t handle, bool last, struct jail_user *user, uint32_t ticket) {
  struct jail_error error;
  error_set(&error, JAIL_CLOSED, "the jail was closed while the run was under way");
  pool->closing = pool->closing || last;
  for (struct jail_run *run = pool->runs, *next; run; run = next) {
    next = run->next;
    if (run->handle == handle)
      end_run(pool, run, &error);
  }
  if (!last) { // others still use it; this handle has nothing here any more
    struct jail_outcome *call = ticket ? call_new(ticket) : NULL;
    if (call)
      engine_deliver(user, call);
    pool_pump(pool);
    return;
  }
  await_gone(pool, user, ticket);
  if (pool->backend)
    pool->backend->ops->close(pool->backend);
  else
    pool_gone(pool);
}

void pool_detach(struct pool *pool, struct jail_user *user) {
  for (struct closer **link = &pool->closers; *link;) {
    struct closer *closer = *link;
    if (closer->user != user) {
      link = &closer->next;
      continue;
    }
    *link = closer->next;
    jail_outcome_free(closer->call);
    free(closer);
  }
  if (pool->backend)
    pool->backend->ops->detach(pool->backend, user);
}

void pool_gone(struct pool *pool) {
  while (pool->closers) {
    struct closer *closer = pool->closers;
    pool->closers = closer->next;
    engine_deliver(closer->user, closer->call);
    free(closer);
  }
  engine_drop_pool(pool);
}
