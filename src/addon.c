// addon.c: the core as lib/native.js sees it. JS thread only, but for on_done.
//
// A client is one load of lib/: a worker or a module registry (Jest re-loads
// lib/ into the same environment) has its own. Its callback is held strongly
// only while something is under way, so that neither it nor the thread-safe
// function keeps a registry or a process alive.
#include <node_api.h>
#include <stdlib.h>
#include <string.h>

#include "addon_open.h"
#include "addon_submit.h"
#include "addon_value.h"
#include "jail.h"

struct client {
  napi_env env;
  struct jail_user *user; // owned; NULL once closed
  napi_threadsafe_function done;
  napi_ref callback;
  uint32_t pending;
  int owners; // the external, the thread-safe function, and its hasRef
};

static napi_value fail(napi_env env, const char *message) {
  napi_throw_type_error(env, "ERR_JAIL_CONFIG", message);
  return NULL;
}

// ---- outcomes ----

static void on_done(void *arg) { // engine thread
  struct client *client = arg;
  napi_call_threadsafe_function(client->done, NULL, napi_tsfn_nonblocking);
}

static void begin(struct client *client) {
  if (client->pending++ == 0) {
    napi_ref_threadsafe_function(client->env, client->done);
    napi_reference_ref(client->env, client->callback, NULL);
  }
}

static void end(struct client *client) {
  if (--client->pending == 0) {
    napi_unref_threadsafe_function(client->env, client->done);
    napi_reference_unref(client->env, client->callback, NULL);
  }
}

static void call_back(napi_env env, napi_value callback, const struct jail_outcome *outcome) {
  napi_value args[VALUE_OUTCOME_ARGS], error;
  bool thrown = false;
  value_outcome(env, outcome, args);
  if (napi_call_function(env, value_undefined(env), callback, VALUE_OUTCOME_ARGS, args, NULL) == napi_ok)
    return;
  // lib/ lets nothing escape; what does is a bug to be seen, or a worker being terminated.
  if (napi_is_exception_pending(env, &thrown) == napi_ok && thrown &&
      napi_get_and_clear_last_exception(env, &error) == napi_ok)
    napi_fatal_exception(env, error);
}

static void on_outcomes(napi_env env, napi_value unused, void *context, void *data) {
  struct client *client = context;
  (void)unused;
  (void)data;
  if (!env || !client->user)
    return;
  struct jail_outcome *outcome = jail_user_take(client->user);
  while (outcome) {
    struct jail_outcome *next = outcome->next;
    napi_handle_scope scope;
    napi_value callback = NULL;
    napi_open_handle_scope(env, &scope);
    napi_get_reference_value(env, client->callback, &callback);
    if (!outcome->stream)
      end(client);
    if (callback && client->user) // it may have ended the environment
      call_back(env, callback, outcome);
    napi_close_handle_scope(env, scope);
    jail_outcome_free(outcome);
    outcome = next;
  }
}

// ---- clients ----

static void disown(struct client *client) {
  if (--client->owners == 0)
    free(client);
}

static void on_done_gone(napi_env env, void *data, void *hint) {
  (void)env;
  (void)hint;
  disown(data);
}

// The environment ends: before Node takes the thread-safe function down, which
// was made earlier (hooks run in reverse).
static void on_env_end(void *arg) {
  struct client *client = arg;
  if (client->user)
    jail_user_close(client->user);
  client->user = NULL;
}

static void on_client_gone(napi_env env, void *data, void *hint) {
  struct client *client = data;
  (void)hint;
  if (client->user) { // collected, while the environment lives on
    napi_remove_env_cleanup_hook(env, on_env_end, client);
    on_env_end(client);
    napi_release_threadsafe_function(client->done, napi_tsfn_release);
    napi_delete_reference(env, client->callback);
  }
  disown(client);
}

// Whoever looks for open handles (Jest's --detectOpenHandles) asks one's resource.
static napi_value js_has_ref(napi_env env, napi_callback_info info) {
  void *data = NULL;
  napi_value answer = NULL;
  napi_get_cb_info(env, info, NULL, NULL, NULL, &data);
  napi_get_boolean(env, ((struct client *)data)->pending > 0, &answer);
  return answer;
}

// The resource { hasRef } of the client's thread-safe function. It knows the client
// alone, no callback: the function holds it strongly.
static napi_value resource_of(napi_env env, struct client *client) {
  napi_value resource = NULL, has_ref;
  if (napi_create_function(env, "hasRef", NAPI_AUTO_LENGTH, js_has_ref, client, &has_ref) != napi_ok ||
      napi_add_finalizer(env, has_ref, client, on_done_gone, NULL, NULL) != napi_ok)
    return NULL;
  client->owners++;
  napi_create_object(env, &resource);
  napi_set_named_property(env, resource, "hasRef", has_ref);
  return resource;
}

// connect(callback) -> client
static napi_value js_connect(napi_env env, napi_callback_info info) {
  napi_value args[1], name, resource, external = NULL;
  size_t count = 1;
  struct jail_error error;
  napi_get_cb_info(env, info, &count, args, NULL, NULL);
  struct client *client = calloc(1, sizeof *client);
  if (!client)
    return fail(env, "no memory");
  client->env = env;
  client->owners = 1;
  napi_create_string_utf8(env, "code-jail", NAPI_AUTO_LENGTH, &name);
  resource = resource_of(env, client);
  if (!resource || napi_create_reference(env, args[0], 0, &client->callback) != napi_ok ||
      napi_create_threadsafe_function(env, NULL, resource, name, 0, 1, client, on_done_gone, client, on_outcomes,
                                      &client->done) != napi_ok) {
    disown(client);
    return fail(env, "the callback cannot be kept");
  }
  napi_unref_threadsafe_function(env, client->done);
  client->user = jail_user_open(on_done, client, &error);
  if (!client->user) {
    napi_release_threadsafe_function(client->done, napi_tsfn_release);
    napi_throw_error(env, "ERR_JAIL_UNAVAILABLE", error.message);
    return NULL;
  }
  napi_add_env_cleanup_hook(env, on_env_end, client);
  client->owners++;
  napi_create_external(env, client, on_client_gone, NULL, &external);
  return external;
}

// ---- jails ----

struct handle {          // of a jail, for JS
  struct client *client; // borrowed: lib/ keeps it as long as its jails
  struct jail *jail;
};

static void on_handle_gone(napi_env env, void *data, void *hint) {
  struct handle *handle = data;
  (void)env;
  (void)hint;
  jail_release(handle->jail);
  free(handle);
}

static napi_value open_with(napi_env env, napi_callback_info info,
                            bool (*read)(napi_env, napi_value *, struct open_args *)) {
  napi_value from[OPEN_ARGS_MAX], external = NULL;
  size_t count = OPEN_ARGS_MAX;
  struct open_args args = {0};
  struct jail_error error;
  void *client = NULL;
  napi_get_cb_info(env, info, &count, from, NULL, NULL);
  struct handle *handle = calloc(1, sizeof *handle);
  bool fine = handle && value_external(env, from[0], &client) && read(env, from, &args);
  if (fine && ((struct client *)client)->user)
    handle->jail = jail_open(((struct client *)client)->user, &args.config, &error);
  open_args_free(&args);
  if (!fine || !handle->jail) {
    free(handle);
    return fail(env, "open: wrong arguments, or no memory");
  }
  handle->client = client;
  napi_create_external(env, handle, on_handle_gone, NULL, &external);
  return external;
}

static napi_value js_open(napi_env env, napi_callback_info info) {
  return open_with(env, info, open_args_read);
}

static napi_value js_open_http(napi_env env, napi_callback_info info) {
  return open_with(env, info, open_args_read_http);
}

static napi_value js_open_socket(napi_env env, napi_callback_info info) {
  return open_with(env, info, open_args_read_socket);
}

static struct handle *handle_of(napi_env env, napi_value value) {
  void *pointer = NULL;
  if (!value_external(env, value, &pointer) || !((struct handle *)pointer)->client->user) {
    fail(env, "not an open jail");
    return NULL;
  }
  return pointer;
}

// ---- runs ----

// submit(jail, ticket, ...): see addon_submit.h. -> undefined, or the error as an
// object; the outcome comes by the callback.
static napi_value js_submit(napi_env env, napi_callback_info info) {
  napi_value args[SUBMIT_ARGS];
  size_t count = SUBMIT_ARGS;
  struct jail_error error = {0};
  struct jail_run *run = NULL;
  uint32_t ticket = 0;
  napi_get_cb_info(env, info, &count, args, NULL, NULL);
  struct handle *handle = handle_of(env, args[0]);
  if (!handle)
    return NULL;
  const char *wrong = submit_args_read(env, args, &ticket, &run, &error);
  if (wrong)
    return fail(env, wrong);
  if (!run)
    return value_error(env, &error);
  if (jail_submit(handle->jail, run, ticket, &error) != JAIL_OK)
    return value_error(env, &error);
  begin(handle->client);
  return NULL;
}

// cancel(jail, ticket), warm(jail, ticket, languages), close(jail, ticket)
static struct handle *ticket_call(napi_env env, napi_callback_info info, uint32_t *ticket, uint32_t *extra) {
  napi_value args[3];
  size_t count = 3;
  napi_get_cb_info(env, info, &count, args, NULL, NULL);
  struct handle *handle = handle_of(env, args[0]);
  if (handle && value_uint32(env, args[1], ticket) && (!extra || value_uint32(env, args[2], extra)))
    return handle;
  if (handle)
    fail(env, "wrong arguments");
  return NULL;
}

static napi_value js_cancel(napi_env env, napi_callback_info info) {
  uint32_t ticket;
  struct handle *handle = ticket_call(env, info, &ticket, NULL);
  if (handle)
    jail_cancel(handle->jail, ticket);
  return NULL;
}

static napi_value js_warm(napi_env env, napi_callback_info info) {
  uint32_t ticket, languages;
  struct handle *handle = ticket_call(env, info, &ticket, &languages);
  if (handle && jail_warm(handle->jail, languages, ticket))
    begin(handle->client);
  return NULL;
}

static napi_value js_close(napi_env env, napi_callback_info info) {
  uint32_t ticket;
  struct handle *handle = ticket_call(env, info, &ticket, NULL);
  if (handle && jail_close(handle->jail, ticket))
    begin(handle->client);
  return NULL;
}

// stats(jail) -> numbers, in the order that lib/native.js states
static napi_value js_stats(napi_env env, napi_callback_info info) {
  napi_value args[1], list = NULL;
  size_t count = 1;
  struct jail_stats now;
  napi_get_cb_info(env, info, &count, args, NULL, NULL);
  struct handle *handle = handle_of(env, args[0]);
  if (!handle)
    return NULL;
  jail_stats(handle->jail, &now);
  const uint64_t numbers[] = {
    now.queued,       now.running,           now.settled, now.refused,
    now.queued_bytes, now.running_memory_mb, now.zygotes, now.zygote_starts,
  };
  napi_create_array(env, &list);
  const uint32_t count_of = sizeof numbers / sizeof *numbers;
  for (uint32_t i = 0; i < count_of; i++)
    napi_set_element(env, list, i, value_number(env, (double)numbers[i]));
  for (uint32_t i = 0; i < JAIL_LANGUAGE_COUNT; i++) {
    napi_set_element(env, list, count_of + i, value_number(env, (double)now.parked[i]));
    napi_set_element(env, list, count_of + JAIL_LANGUAGE_COUNT + i, value_number(env, (double)now.cells[i]));
  }
  return list;
}

// place(number) -> text, or undefined
static napi_value js_place(napi_env env, napi_callback_info info) {
  napi_value args[1], value = NULL;
  size_t count = 1, bytes;
  uint32_t place = 0;
  napi_get_cb_info(env, info, &count, args, NULL, NULL);
  const char *text = value_uint32(env, args[0], &place) ? jail_place_text(place, &bytes) : NULL;
  if (text)
    napi_create_string_utf8(env, text, bytes, &value);
  return value;
}

// ---- the module ----

NAPI_MODULE_INIT() {
  static const struct {
    const char *name;
    napi_callback call;
  } functions[] = {{"connect", js_connect},
                   {"open", js_open},
                   {"openHttp", js_open_http},
                   {"openSocket", js_open_socket},
                   {"submit", js_submit},
                   {"cancel", js_cancel},
                   {"warm", js_warm},
                   {"close", js_close},
                   {"stats", js_stats},
                   {"place", js_place},
                   {"replace", addon_replace},
                   {"scanBody", addon_scan_body},
                   {"splitBody", addon_split_body},
                   {"hide", addon_hide},
                   {"peerUid", addon_peer_uid},
                   {"peerGone", addon_peer_gone}};
  napi_value function;
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    napi_create_function(env, functions[i].name, NAPI_AUTO_LENGTH, functions[i].call, NULL, &function);
    napi_set_named_property(env, exports, functions[i].name, function);
  }
  napi_set_named_property(env, exports, "layers", value_layer_names(env));
  napi_create_string_utf8(env, jail_http_version(), NAPI_AUTO_LENGTH, &function);
  napi_set_named_property(env, exports, "http", function);
  return exports;
}
