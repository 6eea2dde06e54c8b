// remote_request.c: a request as another host reads it. See remote.h.
#include "remote.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// The defaults of the contract (a test compares them with lib/options.js).
enum {
  DEFAULT_TIMEOUT_MS = 10000,
  DEFAULT_MEMORY_MB = 256,
  DEFAULT_OUTPUT_BYTES = 1 << 20,
  DEFAULT_RESULT_BYTES = 4 << 20,
  DEFAULT_RESULT_NODES = 200000,
  ENVELOPE_BYTES_MAX = 1 << 20, // of an answer, beside its result and output
};

static int add_text(struct buf *out, const char *text) {
  return buf_add(out, text, strlen(text));
}

// Copies up to the next byte that JSON wants escaped, then that one.
static int add_string(struct buf *out, const char *bytes, size_t size) {
  size_t from = 0, at = 0;
  int failed = add_text(out, "\"");
  for (; at < size && !failed; at++) {
    unsigned char byte = (unsigned char)bytes[at];
    char escape[8];
    if (byte >= 0x20 && byte != '"' && byte != '\\')
      continue;
    if (byte == '"' || byte == '\\')
      snprintf(escape, sizeof escape, "\\%c", byte);
    else if (byte == '\n')
      snprintf(escape, sizeof escape, "\\n");
    else
      snprintf(escape, sizeof escape, "\\u%04x", byte);
    failed = buf_add(out, bytes + from, at - from) || add_text(out, escape);
    from = at + 1;
  }
  return failed || buf_add(out, bytes + from, size - from) || add_text(out, "\"");
}

static int add_name(struct buf *out, const char *name) {
  return add_text(out, ",\"") || add_text(out, name) || add_text(out, "\":");
}

static int add_field(struct buf *out, const char *name, const char *value) {
  return value && *value ? add_name(out, name) || add_string(out, value, strlen(value)) : 0;
}

static int add_number(struct buf *out, const char *name, uint32_t value, uint32_t unless) {
  char digits[16];
  snprintf(digits, sizeof digits, "%" PRIu32, value);
  return value == unless ? 0 : add_name(out, name) || add_text(out, digits);
}

// "K=V" NUL ... as an object.
static int add_env(struct buf *out, const char *env, size_t size) {
  const char *end = env + size, *separator = "{";
  if (!size)
    return 0;
  int failed = add_name(out, "env");
  while (env < end && !failed) {
    const char *stop = memchr(env, 0, (size_t)(end - env));
    const char *equals = memchr(env, '=', (size_t)(end - env));
    if (!stop || !equals || equals > stop)
      return -1;
    failed = add_text(out, separator) || add_string(out, env, (size_t)(equals - env)) || add_text(out, ":") ||
             add_string(out, equals + 1, (size_t)(stop - equals - 1));
    separator = ",";
    env = stop + 1;
  }
  return failed || add_text(out, "}");
}

const char *remote_isolation_name(enum jail_isolation isolation) {
  static const char *const names[] = {NULL, "process", "gvisor", "microvm"};
  return (unsigned)isolation < sizeof names / sizeof *names ? names[isolation] : NULL;
}

int remote_write(struct buf *out, const struct jail_run *run, bool stream) {
  const struct jail_request *request = &run->request;
  const char *code = run->payload + sizeof(struct job_header);
  const char *input = code + request->code_bytes;
  const char *env = input + request->input_bytes;
  const char *files = env + request->env_bytes;
  // A peer that does not know checks finds no `code`, and so has nothing to run.
  const char *text = request->check ? "check" : "code";
  bool has_input = request->input_bytes != 4 || memcmp(input, "null", 4) != 0;
  int failed = add_text(out, "{\"language\":\"") || add_text(out, jail_language_name(request->language)) ||
               add_text(out, "\"") || add_field(out, "id", request->id) || add_name(out, text) ||
               add_string(out, code, request->code_bytes);
  if (has_input && request->input_bytes)
    failed = failed || add_name(out, "input") || buf_add(out, input, request->input_bytes);
  failed = failed || add_env(out, env, request->env_bytes);
  if (request->files_bytes) // members as they are
    failed = failed || add_text(out, ",") || buf_add(out, files, request->files_bytes);
  failed = failed || add_number(out, "timeoutMs", request->timeout_ms, DEFAULT_TIMEOUT_MS) ||
           add_number(out, "memoryMb", request->memory_mb, DEFAULT_MEMORY_MB) ||
           add_number(out, "maxOutputBytes", request->max_output_bytes, DEFAULT_OUTPUT_BYTES) ||
           add_number(out, "maxResultBytes", request->max_result_bytes, DEFAULT_RESULT_BYTES) ||
           add_number(out, "maxResultNodes", request->max_result_nodes, DEFAULT_RESULT_NODES) ||
           add_field(out, "minIsolation", remote_isolation_name(request->min_isolation)) ||
           add_field(out, "tenant", request->tenant) || add_text(out, stream ? ",\"stream\":true}" : "}");
  return failed ? -1 : 0;
}

// A byte of output may come as six ("\u0000"); a result and files come as they are.
size_t remote_answer_max(const struct jail_request *request) {
  size_t files = request->collect ? PROTOCOL_FILES_MAX : 0;
  return (size_t)request->max_result_bytes + files + 12u * (size_t)request->max_output_bytes + ENVELOPE_BYTES_MAX;
}
