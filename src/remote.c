// remote.c: an answer; see remote.h. The other host may be anything: an answer is checked
// as strictly as a cell's frame, and only then becomes a result.
#include "remote.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "files.h"
#include "json.h"
#include "text.h"

// What an answer may hold beside its result.
enum { ENVELOPE_NODES_MAX = 1024, JAIL_BYTES_MAX = 16 << 10, LAYERS_MAX = 64 };

// ---- the answer ----

enum member {
  ID,
  OK,
  STATUS,
  RESULT,
  STDOUT,
  STDERR,
  STDOUT_DROPPED,
  STDERR_DROPPED,
  ERROR,
  EXIT_CODE,
  SIGNAL,
  TIMED_OUT,
  USAGE,
  JAIL,
  DURATION_MS,
  FILES,
  FILES_MISSING,
  MEMBER_COUNT,
};

static const char *const member_names[MEMBER_COUNT] = {
  "id",       "ok",     "status",   "result", "stdout", "stderr",     "stdoutDropped", "stderrDropped", "error",
  "exitCode", "signal", "timedOut", "usage",  "jail",   "durationMs", "files",         "filesMissing",
};

struct reading {
  struct json_doc doc;
  int at[MEMBER_COUNT];
  struct jail_run *run;
  const char *wrong; // the first member that is not what it should be
};

static bool is_there(const struct reading *in, int value) {
  return value >= 0 && !json_is_null(&in->doc, value);
}

// Each reader notes the member's name where it has the wrong type; absent and
// null are the same.
static void read_text(struct reading *in, int value, const char *name, struct jail_text *text) {
  if (is_there(in, value) && !json_text(&in->doc, value, text) && !in->wrong)
    in->wrong = name;
}

static int64_t read_count(struct reading *in, int value, const char *name, int64_t most, int64_t absent) {
  int64_t number = absent;
  if (is_there(in, value) && (!json_integer(&in->doc, value, &number) || number < 0 || number > most)) {
    if (!in->wrong)
      in->wrong = name;
    return absent;
  }
  return number;
}

// Milliseconds with a fraction, as microseconds.
static int64_t read_ms(struct reading *in, int value, const char *name) {
  double ms = -1;
  if (is_there(in, value) && (!json_number(&in->doc, value, &ms) || !(ms >= 0) || ms > 1e12)) {
    if (!in->wrong)
      in->wrong = name;
    return -1;
  }
  return ms < 0 ? -1 : (int64_t)(ms * 1000 + 0.5);
}

static int read_word(struct reading *in, int value, const char *name, const char *const *words, int count) {
  for (int i = 0; i < count; i++)
    if (json_equals(&in->doc, value, words[i]))
      return i;
  if (!in->wrong)
    in->wrong = name;
  return 0;
}

static void read_status(struct reading *in) {
  static const char *const words[] = {
    [JAIL_STATUS_OK] = "ok",
    [JAIL_STATUS_ERROR] = "error",
    [JAIL_STATUS_TIMEOUT] = "timeout",
    [JAIL_STATUS_OUT_OF_MEMORY] = "out_of_memory",
    [JAIL_STATUS_OUTPUT_LIMIT] = "output_limit",
    [JAIL_STATUS_NOT_SERIALIZABLE] = "not_serializable",
    [JAIL_STATUS_RESULT_TOO_LARGE] = "result_too_large",
    [JAIL_STATUS_KILLED] = "killed",
  };
  struct jail_outcome *out = &in->run->outcome;
  bool ok = false, timed_out = false;
  out->status = (enum jail_status)read_word(in, in->at[STATUS], "status", words, sizeof words / sizeof *words);
  if (!json_bool(&in->doc, in->at[OK], &ok) || ok != (out->status == JAIL_STATUS_OK))
    in->wrong = in->wrong ? in->wrong : "ok";
  if (is_there(in, in->at[TIMED_OUT]) &&
      (!json_bool(&in->doc, in->at[TIMED_OUT], &timed_out) || timed_out != (out->status == JAIL_STATUS_TIMEOUT)))
    in->wrong = in->wrong ? in->wrong : "timedOut";
}

static void read_signal(struct reading *in) {
  static const struct {
    const char *name;
    int number;
  } known[] = {
    {"SIGKILL", SIGKILL}, {"SIGABRT", SIGABRT}, {"SIGSEGV", SIGSEGV}, {"SIGTERM", SIGTERM}, {"SIGBUS", SIGBUS},
    {"SIGFPE", SIGFPE},   {"SIGILL", SIGILL},   {"SIGSYS", SIGSYS},   {"SIGTRAP", SIGTRAP}, {"SIGINT", SIGINT},
    {"SIGHUP", SIGHUP},   {"SIGQUIT", SIGQUIT}, {"SIGPIPE", SIGPIPE}, {"SIGALRM", SIGALRM}, {"SIGUSR1", SIGUSR1},
    {"SIGUSR2", SIGUSR2}, {"SIGXCPU", SIGXCPU}, {"SIGXFSZ", SIGXFSZ},
  };
  if (!is_there(in, in->at[SIGNAL]))
    return;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (json_equals(&in->doc, in->at[SIGNAL], known[i].name))
      in->run->outcome.signal = known[i].number;
  if (!in->run->outcome.signal && !in->wrong)
    in->wrong = "signal";
}

static void read_fault(struct reading *in) {
  struct jail_fault *fault = &in->run->outcome.fault;
  int error = in->at[ERROR];
  static const char *const names[] = {"name", "message", "sourceLine", "stack", "path", "line", "column"};
  int at[7];
  if (!is_there(in, error))
    return;
  if (!json_is_object(&in->doc, error) || !json_members(&in->doc, error, names, at, 7)) {
    in->wrong = in->wrong ? in->wrong : "error";
    return;
  }
  struct jail_text *texts[] = {&fault->name, &fault->message, &fault->source_line, &fault->stack, &fault->path};
  fault->present = true;
  for (int i = 0; i < 5; i++)
    read_text(in, at[i], "error", texts[i]);
  fault->line = (uint32_t)read_count(in, at[5], "error", UINT32_MAX, 0);
  fault->column = (uint32_t)read_count(in, at[6], "error", UINT32_MAX, 0);
}

static void read_usage(struct reading *in) {
  struct jail_outcome *out = &in->run->outcome;
  static const char *const names[] = {"queueMs", "startMs", "runMs", "cpuMs", "peakMemoryBytes"};
  int at[5];
  if (!is_there(in, in->at[USAGE]))
    return;
  if (!json_is_object(&in->doc, in->at[USAGE]) || !json_members(&in->doc, in->at[USAGE], names, at, 5)) {
    in->wrong = in->wrong ? in->wrong : "usage";
    return;
  }
  int64_t cpu_us = read_ms(in, at[3], "usage");
  out->queue_us = read_ms(in, at[0], "usage");
  out->start_us = read_ms(in, at[1], "usage");
  out->run_us = read_ms(in, at[2], "usage");
  out->cpu_ns = cpu_us < 0 ? -1 : cpu_us * 1000;
  out->peak_bytes = read_count(in, at[4], "usage", 1ll << 53, -1);
}

static bool is_list_of(struct reading *in, int list, bool (*is_fine)(const struct json_doc *doc, int value)) {
  int count = 0;
  if (!json_is_array(&in->doc, list))
    return false;
  for (int it = json_first(&in->doc, list); it >= 0; it = json_next(&in->doc, list, it))
    if (++count > LAYERS_MAX || !is_fine(&in->doc, it))
      return false;
  return true;
}

static bool is_missing_layer(const struct json_doc *doc, int value) {
  static const char *const names[] = {"layer", "reason"};
  int at[2];
  return json_is_object(doc, value) && json_members(doc, value, names, at, 2) && json_is_string(doc, at[0]) &&
         json_is_string(doc, at[1]);
}

// Where it ran, as that end verified it. Its text goes on as it is, checked, and
// the JS side keeps what it made of it: the same few texts come again and again.
static void read_jail(struct reading *in, enum jail_isolation *isolation) {
  static const char *const names[] = {"isolation", "layers", "missing", "runtime", "start"};
  static const char *const words[] = {"unverified", "process", "gvisor", "microvm"};
  const char *span;
  size_t size;
  int at[5], jail = in->at[JAIL];
  *isolation = JAIL_ISOLATION_NONE;
  if (!is_there(in, jail))
    return;
  json_span(&in->doc, jail, &span, &size);
  bool fine = json_is_object(&in->doc, jail) && size <= JAIL_BYTES_MAX && json_members(&in->doc, jail, names, at, 5) &&
              is_list_of(in, at[1], json_is_string) && is_list_of(in, at[2], is_missing_layer) &&
              (!is_there(in, at[3]) || json_is_string(&in->doc, at[3])) &&
              (!is_there(in, at[4]) || json_is_string(&in->doc, at[4]));
  if (!fine || text_from_utf8(&in->run->outcome.jail, span, size)) {
    in->wrong = in->wrong ? in->wrong : "jail";
    return;
  }
  *isolation = (enum jail_isolation)read_word(in, at[0], "jail.isolation", words, 4);
}

// { stdout, stderr, exitCode, timedOut, durationMs }: what it does not say stays unknown.
static void read_older(struct reading *in) {
  struct jail_outcome *out = &in->run->outcome;
  bool timed_out = false;
  if (is_there(in, in->at[TIMED_OUT]) && !json_bool(&in->doc, in->at[TIMED_OUT], &timed_out))
    in->wrong = in->wrong ? in->wrong : "timedOut";
  out->run_us = read_ms(in, in->at[DURATION_MS], "durationMs");
  out->status = timed_out ? JAIL_STATUS_TIMEOUT : out->exit_code == 0 ? JAIL_STATUS_OK : JAIL_STATUS_ERROR;
}

static void read_result(struct reading *in) {
  const struct jail_request *request = &in->run->request;
  const char *span;
  size_t size;
  if (in->at[RESULT] < 0)
    return;
  json_span(&in->doc, in->at[RESULT], &span, &size);
  if (size > request->max_result_bytes || text_from_utf8(&in->run->outcome.result, span, size))
    in->wrong = in->wrong ? in->wrong : "result";
}

static void read_files(struct reading *in) {
  if (in->run->request.collect && in->at[FILES] >= 0 &&
      files_text(&in->run->outcome.files, &in->doc, in->at[FILES], in->at[FILES_MISSING]) && !in->wrong)
    in->wrong = "files";
}

static bool read_members(struct reading *in, enum jail_isolation *isolation) {
  struct jail_outcome *out = &in->run->outcome;
  bool older = in->at[STATUS] < 0;
  out->remote = true;
  out->queue_us = out->start_us = out->run_us = out->cpu_ns = out->peak_bytes = -1;
  out->start = JAIL_START_UNKNOWN;
  out->exit_code = (int32_t)read_count(in, in->at[EXIT_CODE], "exitCode", INT32_MAX, -1);
  out->stdout_dropped = (uint64_t)read_count(in, in->at[STDOUT_DROPPED], "stdoutDropped", 1ll << 53, 0);
  out->stderr_dropped = (uint64_t)read_count(in, in->at[STDERR_DROPPED], "stderrDropped", 1ll << 53, 0);
  read_text(in, in->at[STDOUT], "stdout", &out->out);
  read_text(in, in->at[STDERR], "stderr", &out->err);
  read_signal(in);
  read_fault(in);
  read_usage(in);
  read_jail(in, isolation);
  read_result(in);
  read_files(in);
  if (older)
    read_older(in);
  else
    read_status(in);
  if (!older && !json_equals(&in->doc, in->at[ID], in->run->request.id))
    in->wrong = "id";
  return !in->wrong;
}

static const char *fault_text(enum json_fault fault) {
  switch (fault) {
  case JSON_UTF8:
    return "it is not UTF-8";
  case JSON_TOO_DEEP:
    return "it is nested too deeply";
  case JSON_TOO_MANY:
    return "it has too many values (maxResultNodes)";
  default:
    return "it is not JSON";
  }
}

static enum jail_code too_weak(const struct jail_run *run, enum jail_isolation got, struct jail_error *error) {
  const char *name = remote_isolation_name(got);
  return error_set(error, JAIL_ISOLATION, "minIsolation is %s, and the answer verifies %s: it is not used",
                   remote_isolation_name(run->request.min_isolation), name ? name : "nothing");
}

enum jail_code remote_read(struct jail_run *run, const char *text, size_t size, struct jail_error *error) {
  struct reading in = {.run = run};
  enum jail_isolation isolation;
  enum jail_code code = JAIL_OK;
  uint32_t more = ENVELOPE_NODES_MAX + (run->request.collect ? FILES_NODES_MAX : 0);
  enum json_fault fault = json_parse(&in.doc, text, size, run->request.max_result_nodes + more);
  if (fault)
    return error_set(error, JAIL_PROTOCOL, "the sandbox's answer is no result: %s", fault_text(fault));
  if (!json_is_object(&in.doc, 0))
    code = error_set(error, JAIL_PROTOCOL, "the sandbox's answer is no result: it is not an object");
  else if (!json_members(&in.doc, 0, member_names, in.at, MEMBER_COUNT))
    code = error_set(error, JAIL_PROTOCOL, "the sandbox's answer is no result: it has a member twice");
  else if (in.at[STATUS] < 0 && in.at[EXIT_CODE] < 0)
    code = error_set(error, JAIL_PROTOCOL, "the sandbox's answer is no result: it has neither status nor exitCode");
  else if (!read_members(&in, &isolation))
    code = error_set(error, JAIL_PROTOCOL, "the sandbox's answer is no result: its `%s` is wrong", in.wrong);
  else if (isolation < run->request.min_isolation)
    code = too_weak(run, isolation, error);
  json_free(&in.doc);
  return code;
}
