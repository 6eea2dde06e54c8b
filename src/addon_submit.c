// addon_submit.c: see addon_submit.h.
#include "addon_submit.h"

#include <stdlib.h>

#include "addon_value.h"

// As lib/calls.js has them.
enum { FLAG_PROCESS = 1, FLAG_CHECK = 2, FLAG_STDOUT = 4, FLAG_STDERR = 8, FLAG_COLLECT = 16 };

enum {
  ARG_JAIL, // the caller's
  ARG_TICKET,
  ARG_LANGUAGE,
  ARG_CODE,
  ARG_INPUT,
  ARG_ENV,
  ARG_FILES,
  ARG_TENANT,
  ARG_TIMEOUT,
  ARG_MEMORY,
  ARG_OUTPUT,
  ARG_RESULT,
  ARG_NODES,
  ARG_FLAGS,
  ARG_ISOLATION,
  ARG_ID,
  ARG_HEADERS,
  ARG_COUNT
};

static bool read_request(napi_env env, napi_value *args, struct jail_request *request, uint32_t *ticket) {
  uint32_t language, isolation, flags;
  bool fine = value_uint32(env, args[ARG_TICKET], ticket) && value_uint32(env, args[ARG_LANGUAGE], &language) &&
              value_utf8_size(env, args[ARG_CODE], &request->code_bytes) &&
              value_utf8_size(env, args[ARG_INPUT], &request->input_bytes) &&
              value_utf8_size(env, args[ARG_ENV], &request->env_bytes) &&
              value_utf8_size(env, args[ARG_FILES], &request->files_bytes) &&
              value_uint32(env, args[ARG_TIMEOUT], &request->timeout_ms) &&
              value_uint32(env, args[ARG_MEMORY], &request->memory_mb) &&
              value_uint32(env, args[ARG_OUTPUT], &request->max_output_bytes) &&
              value_uint32(env, args[ARG_RESULT], &request->max_result_bytes) &&
              value_uint32(env, args[ARG_NODES], &request->max_result_nodes) &&
              value_uint32(env, args[ARG_FLAGS], &flags) && value_uint32(env, args[ARG_ISOLATION], &isolation);
  if (fine) {
    request->language = (enum jail_language)language;
    request->min_isolation = (enum jail_isolation)isolation;
    request->need_process = flags & FLAG_PROCESS;
    request->check = flags & FLAG_CHECK;
    request->live[0] = flags & FLAG_STDOUT;
    request->live[1] = flags & FLAG_STDERR;
    request->collect = flags & FLAG_COLLECT;
  }
  return fine;
}

// The caller frees texts, also on failure.
static bool read_texts(napi_env env, napi_value *args, struct jail_request *request, char *texts[3]) {
  size_t bytes;
  bool fine = value_utf8_copy(env, args[ARG_TENANT], &texts[0], &bytes) &&
              value_utf8_copy(env, args[ARG_ID], &texts[1], &bytes) &&
              value_utf8_copy(env, args[ARG_HEADERS], &texts[2], &bytes);
  request->tenant = texts[0];
  request->id = texts[1];
  request->headers = texts[2];
  return fine;
}

// One after the other: each terminator is overwritten by the next.
static bool write_payload(napi_env env, napi_value *args, const struct jail_request *request, char *to) {
  const int parts[] = {ARG_CODE, ARG_INPUT, ARG_ENV, ARG_FILES};
  const size_t sizes[] = {request->code_bytes, request->input_bytes, request->env_bytes, request->files_bytes};
  bool fine = true;
  for (int i = 0; i < 4 && fine; to += sizes[i++])
    fine = value_utf8_into(env, args[parts[i]], to, sizes[i]);
  return fine;
}

const char *submit_args_read(napi_env env, napi_value args[SUBMIT_ARGS], uint32_t *ticket, struct jail_run **run,
                             struct jail_error *error) {
  _Static_assert((int)ARG_COUNT == (int)SUBMIT_ARGS, "an argument has no number");
  struct jail_request request = {0};
  char *texts[3] = {0};
  bool fine = read_request(env, args, &request, ticket) && read_texts(env, args, &request, texts);
  *run = fine ? jail_run_new(&request, error) : NULL;
  for (int i = 0; i < 3; i++)
    free(texts[i]);
  if (!fine)
    return "submit: wrong arguments";
  if (!*run || write_payload(env, args, &request, jail_run_payload(*run)))
    return NULL;
  jail_run_free(*run);
  *run = NULL;
  return "submit: a text has changed";
}
