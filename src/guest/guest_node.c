// guest_node.c: guest.h for lib/guest/javascript.js, and nothing more. Loaded
// once by it, in the zygote, on the main thread; a second load exports nothing,
// and once a job has been taken only send, leave and abort still act.
//
// V8's own C++ functions are looked up by name (the same mangled names on Node
// 20 to 26); where one is missing, what it gives is left out and the run works.
#include <dlfcn.h>
#include <node_api.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "guest.h"
#include "trial.h"
#include "where.h"

static struct { // owner: the main thread
  enum { BOOTING, SERVING, TAKEN } state;
  bool loaded;
  napi_env env;
  char small[64 * 1024]; // frames that fit need no allocation
} guest;

static void *symbol(const char *name) {
  return dlsym(RTLD_DEFAULT, name);
}

static napi_value fail(napi_env env, const char *message) {
  napi_throw_error(env, NULL, message);
  return NULL;
}

// ---- ends that JavaScript does not see coming ----

// What V8 does when its heap cannot grow. It may not allocate.
static void on_out_of_memory(const char *location, const void *details) {
  (void)location, (void)details;
  if (guest.state != TAKEN)
    _exit(1);
  guest_send(FRAME_OUT_OF_MEMORY, NULL, 0, NULL, 0);
}

static void on_fatal(const char *location, const char *message) {
  (void)location, (void)message;
  guest_die();
}

// Runs when Node tears its environment down, which happens for one reason
// only: the event loop has nothing left to do, and there is no value yet. This
// is the last moment before Node joins threads that a forked process has not.
static void on_teardown(void *data) {
  (void)data;
  static const char meta[] =
    "{\"error\":{\"name\":\"NeverSettledError\",\"message\":\"The code waits for a promise that can no longer"
    " settle: no timer, request or other work is left that could settle it.\",\"line\":null,\"column\":null,"
    "\"sourceLine\":null,\"stack\":null,\"path\":null}}";
  if (guest.state != TAKEN)
    _exit(1);
  guest_send(FRAME_ERROR, meta, sizeof meta - 1, NULL, 0);
}

static void find_where(void *isolate);

static void watch_ends(napi_env env) {
  void *(*current)(void) = symbol("_ZN2v87Isolate10GetCurrentEv");
  void (*on_oom)(void *, void *) = symbol("_ZN2v87Isolate18SetOOMErrorHandlerEPFvPKcRKNS_10OOMDetailsEE");
  void (*on_error)(void *, void *) = symbol("_ZN2v87Isolate20SetFatalErrorHandlerEPFvPKcS2_E");
  void *isolate = current ? current() : NULL;
  if (isolate && on_oom)
    on_oom(isolate, (void *)on_out_of_memory);
  if (isolate && on_error)
    on_error(isolate, (void *)on_fatal);
  find_where(isolate);
  napi_add_env_cleanup_hook(env, on_teardown, NULL);
}

// ---- where ----

// The signal's handler asks V8 to interrupt itself: it calls back at the next
// turn of a loop or call of a function. What waits, in the event loop or in
// native code, runs no JavaScript, and has no stack to tell of.
static struct {
  void *isolate;
  void (*interrupt)(void *isolate, void (*callback)(void *, void *), void *data);
  void *(*trace)(void *isolate, int limit, int options);
  int (*count)(void *trace);
  void *(*frame)(void *trace, void *isolate, uint32_t index);
  uint64_t (*location)(void *frame); // two ints: line and column, from 0
  void *(*script)(void *frame);
  void *(*function)(void *frame);
} where;

static void name_of(void *string, char *text, size_t size) {
  text[0] = 0;
  if (string)
    napi_get_value_string_utf8(guest.env, string, text, size, NULL);
}

// Nothing here may run JavaScript.
static void on_interrupt(void *isolate, void *data) {
  enum { LIMIT = 200, OVERVIEW = 15 }; // line, column, script and function
  static struct where_frame frames[WHERE_FRAMES_MAX];
  size_t count = 0;
  (void)data;
  void *trace = where.trace(isolate, LIMIT, OVERVIEW);
  int depth = trace ? where.count(trace) : 0;
  for (int i = 0; i < depth && count < WHERE_FRAMES_MAX; i++) {
    void *frame = where.frame(trace, isolate, (uint32_t)i);
    char script[16];
    name_of(where.script(frame), script, sizeof script);
    bool module = !strcmp(script, "code.mjs");
    if (!module && strcmp(script, "code.js"))
      continue;
    frames[count].module = module;
    uint64_t place = where.location(frame);
    frames[count].line = (uint32_t)place + 1;
    frames[count].column = (uint32_t)(place >> 32) + 1;
    name_of(where.function(frame), frames[count].name, WHERE_NAME_MAX);
    count++;
  }
  where_tell(frames, count);
}

static void look(void) {
  where.interrupt(where.isolate, on_interrupt, NULL);
}

static void find_where(void *isolate) {
  where.isolate = isolate;
  where.interrupt = symbol("_ZN2v87Isolate16RequestInterruptEPFvPS0_PvES2_");
  where.trace = symbol("_ZN2v810StackTrace17CurrentStackTraceEPNS_7IsolateEiNS0_17StackTraceOptionsE");
  where.count = symbol("_ZNK2v810StackTrace13GetFrameCountEv");
  where.frame = symbol("_ZNK2v810StackTrace8GetFrameEPNS_7IsolateEj");
  where.location = symbol("_ZNK2v810StackFrame11GetLocationEv");
  where.script = symbol("_ZNK2v810StackFrame13GetScriptNameEv");
  where.function = symbol("_ZNK2v810StackFrame15GetFunctionNameEv");
  if (isolate && where.interrupt && where.trace && where.count && where.frame && where.location && where.script &&
      where.function)
    where_look = look;
}

// ---- serve ----

// OpenSSL tells a fork by getpid(), which may be the same in every cell.
static void seed_openssl(void) {
  void (*seed)(const void *, int) = symbol("RAND_seed");
  unsigned char bytes[32];
  guest_random(bytes);
  if (seed)
    seed(bytes, sizeof bytes);
}

// serve(runtime) -> [pid, seed], in each cell.
static napi_value js_serve(napi_env env, napi_callback_info info) {
  size_t argc = 1;
  napi_value argv[1], result, item;
  char runtime[64] = "", why[256] = "";
  uv_loop_t *loop;
  if (guest.state != BOOTING)
    return NULL;
  napi_get_cb_info(env, info, &argc, argv, NULL, NULL);
  napi_get_value_string_utf8(env, argv[0], runtime, sizeof runtime, NULL);
  if (napi_get_uv_event_loop(env, &loop) != napi_ok)
    return fail(env, "no event loop");
  guest.state = SERVING;
  pid_t zygote = getpid();
  if (!trial_begin()) {
    if (guest_serve(runtime, why) < 0)
      guest_fail(why);
    trial_apply();
  }
  if (getpid() != zygote && uv_loop_fork(loop))
    _exit(1);
  seed_openssl();
  watch_ends(env);

  unsigned char bytes[32];
  uint32_t seed;
  guest_random(bytes);
  memcpy(&seed, bytes, sizeof seed);
  napi_create_array_with_length(env, 3, &result);
  napi_get_boolean(env, trial_running(), &item);
  napi_set_element(env, result, 2, item);
  napi_create_int32(env, getpid(), &item);
  napi_set_element(env, result, 0, item);
  napi_create_uint32(env, (seed & 0x7fffffff) | 1, &item);
  napi_set_element(env, result, 1, item);
  return result;
}

// fail(text): the boot cannot go on.
static napi_value js_fail(napi_env env, napi_callback_info info) {
  size_t argc = 1;
  napi_value argv[1];
  char text[4096] = "";
  if (guest.state != BOOTING)
    return NULL;
  napi_get_cb_info(env, info, &argc, argv, NULL, NULL);
  napi_get_value_string_utf8(env, argv[0], text, sizeof text, NULL);
  guest_fail(text);
}

// ---- take ----

static bool is_ascii(const char *text, size_t size) {
  uint64_t word, high = 0;
  for (; size >= 8; text += 8, size -= 8) {
    memcpy(&word, text, 8);
    high |= word;
  }
  for (; size; text++, size--)
    high |= (unsigned char)*text;
  return !(high & 0x8080808080808080u);
}

static napi_value string_of(napi_env env, const char *text, size_t size) {
  napi_value value = NULL;
  if (is_ascii(text, size))
    napi_create_string_latin1(env, text, size, &value);
  else
    napi_create_string_utf8(env, text, size, &value);
  return value;
}

static napi_value number_of(napi_env env, double number) {
  napi_value value = NULL;
  napi_create_double(env, number, &value);
  return value;
}

// take(code, input): a rehearsal's job, made of these; take(): the real one,
// once. -> [code, input, env, maxResultBytes, maxResultNodes, flags, files]
static napi_value js_take(napi_env env, napi_callback_info info) {
  size_t argc = 2;
  napi_value argv[2], result, items[7];
  char code[1024], input[256];
  struct guest_job job = {
    .code = code, .input = input, .env = "", .files = "", .max_result_bytes = 1 << 22, .max_result_nodes = 200000};
  if (guest.state == TAKEN)
    return NULL;
  napi_get_cb_info(env, info, &argc, argv, NULL, NULL);
  if (argc == 2) {
    napi_get_value_string_utf8(env, argv[0], code, sizeof code, &job.code_bytes);
    napi_get_value_string_utf8(env, argv[1], input, sizeof input, &job.input_bytes);
  } else {
    uv_loop_t *loop;
    if (guest.state != SERVING)
      return NULL;
    if (trial_running())
      trial_learn();
    guest_take(&job);
    guest.state = TAKEN;
    if (napi_get_uv_event_loop(env, &loop) == napi_ok)
      uv_update_time(loop);
  }
  items[0] = string_of(env, job.code, job.code_bytes);
  items[1] = string_of(env, job.input, job.input_bytes);
  items[2] = string_of(env, job.env, job.env_bytes);
  items[3] = number_of(env, job.max_result_bytes);
  items[4] = number_of(env, job.max_result_nodes);
  items[5] = number_of(env, job.flags);
  items[6] = string_of(env, job.files, job.files_bytes);
  napi_create_array_with_length(env, 7, &result);
  for (uint32_t i = 0; i < 7; i++) {
    if (!items[i])
      return fail(env, "The job does not fit into this runtime");
    napi_set_element(env, result, i, items[i]);
  }
  return result;
}

// ---- send, leave, abort ----

// Text of a string value, in the room given or else allocated (for the rest of
// the process's life). NULL where value is no string or memory is short.
static char *text_of(napi_env env, napi_value value, char *room, size_t room_bytes, size_t *size) {
  napi_valuetype type;
  char *text = room;
  *size = 0;
  if (napi_typeof(env, value, &type) != napi_ok || type != napi_string)
    return NULL;
  if (napi_get_value_string_utf8(env, value, NULL, 0, size) != napi_ok)
    return NULL;
  if (*size >= room_bytes && !(text = malloc(*size + 1)))
    guest_send(FRAME_OUT_OF_MEMORY, NULL, 0, NULL, 0);
  napi_get_value_string_utf8(env, value, text, *size + 1, size);
  return text;
}

// send(kind, meta, result): kind is a code of enum frame_kind, the others
// strings or null. Returns only in a rehearsal, after as much work.
static napi_value js_send(napi_env env, napi_callback_info info) {
  size_t argc = 3, meta_bytes, result_bytes;
  napi_value argv[3];
  int32_t kind = 0;
  napi_get_cb_info(env, info, &argc, argv, NULL, NULL);
  napi_get_value_int32(env, argv[0], &kind);
  char *meta = text_of(env, argv[1], guest.small, sizeof guest.small / 2, &meta_bytes);
  char *result = text_of(env, argv[2], guest.small + sizeof guest.small / 2, sizeof guest.small / 2, &result_bytes);
  if (guest.state == TAKEN)
    guest_send(kind, meta, meta_bytes, result, result_bytes);
  if (meta != guest.small)
    free(meta);
  if (result != guest.small + sizeof guest.small / 2)
    free(result);
  return NULL;
}

static napi_value js_leave(napi_env env, napi_callback_info info) {
  size_t argc = 1;
  napi_value argv[1];
  int32_t code = 0;
  napi_get_cb_info(env, info, &argc, argv, NULL, NULL);
  napi_get_value_int32(env, argv[0], &code);
  guest_leave(code);
}

static napi_value js_abort(napi_env env, napi_callback_info info) {
  (void)env, (void)info;
  abort();
}

// ---- locate ----

// locate(syntaxError) -> [line, column], 1-based, or undefined: where V8 found
// the fault. Node shows it for scripts only, within the text of the stack.
static napi_value js_locate(napi_env env, napi_callback_info info) {
  static void *(*current)(void), *(*context_of)(void *), *(*message_of)(void *, void *);
  static uint64_t (*line_of)(void *, void *); // Maybe<int>: a flag, then the int
  static int (*column_of)(void *);
  size_t argc = 1;
  napi_value argv[1], result, item;
  bool is_error = false;
  if (!current) {
    context_of = symbol("_ZN2v87Isolate17GetCurrentContextEv");
    message_of = symbol("_ZN2v89Exception13CreateMessageEPNS_7IsolateENS_5LocalINS_5ValueEEE");
    line_of = symbol("_ZNK2v87Message13GetLineNumberENS_5LocalINS_7ContextEEE");
    column_of = symbol("_ZNK2v87Message14GetStartColumnEv");
    if (context_of && message_of && line_of && column_of)
      current = symbol("_ZN2v87Isolate10GetCurrentEv");
  }
  napi_get_cb_info(env, info, &argc, argv, NULL, NULL);
  if (!current || napi_is_error(env, argv[0], &is_error) != napi_ok || !is_error)
    return NULL;
  void *isolate = current(), *message = message_of(isolate, argv[0]);
  if (!message)
    return NULL;
  uint64_t line = line_of(message, context_of(isolate));
  if (!(line & 0xff))
    return NULL;
  napi_create_array_with_length(env, 2, &result);
  napi_create_int32(env, (int32_t)(line >> 32), &item);
  napi_set_element(env, result, 0, item);
  napi_create_int32(env, column_of(message) + 1, &item);
  napi_set_element(env, result, 1, item);
  return result;
}

NAPI_MODULE_INIT() {
  static const struct {
    const char *name;
    napi_callback call;
  } functions[] = {{"serve", js_serve}, {"fail", js_fail},   {"take", js_take},    {"send", js_send},
                   {"leave", js_leave}, {"abort", js_abort}, {"locate", js_locate}};
  if (guest.loaded)
    return exports;
  guest.loaded = true;
  guest.env = env;
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    napi_value function;
    napi_create_function(env, functions[i].name, NAPI_AUTO_LENGTH, functions[i].call, NULL, &function);
    napi_set_named_property(env, exports, functions[i].name, function);
  }
  return exports;
}
