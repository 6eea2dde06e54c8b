// jail.h: the core's one public header. Plain C: whoever binds it to another
// world (addon.c to Node-API) includes this and nothing else of the core.
//
// Threads: every function here is called on the user's own thread (a user is one
// Node environment), except on_done, which the engine thread calls. There is one
// engine per process, however many users it has.
#ifndef CODE_JAIL_JAIL_H
#define CODE_JAIL_JAIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The jail itself failed. Their names are ERR_JAIL_*, see jail_code_name.
enum jail_code {
  JAIL_OK = 0,
  JAIL_INVALID_REQUEST,
  JAIL_CONFIG,
  JAIL_UNAVAILABLE,
  JAIL_UNAUTHORIZED,
  JAIL_PROTOCOL,
  JAIL_OVERLOADED,
  JAIL_QUEUE_TIMEOUT,
  JAIL_DEADLINE,
  JAIL_ISOLATION,
  JAIL_CLOSED,
  JAIL_CANCELLED, // the caller has turned away: nobody hears of this one
  JAIL_CODE_COUNT,
};
const char *jail_code_name(enum jail_code code); // static

struct jail_error { // filled once, where the cause is known
  enum jail_code code;
  bool retryable;          // it provably never ran, and may run later
  uint32_t retry_after_ms; // 0: not known
  uint32_t http_status;    // of an HTTP answer that was no result; 0: there was none
  char message[400];
};

enum jail_language { JAIL_JAVASCRIPT, JAIL_PYTHON, JAIL_TYPESCRIPT, JAIL_LANGUAGE_COUNT };
const char *jail_language_name(enum jail_language language); // static
enum jail_start { JAIL_START_PARKED, JAIL_START_FORK, JAIL_START_COLD, JAIL_START_UNKNOWN };
// Each is more than those before it.
enum jail_isolation { JAIL_ISOLATION_NONE, JAIL_ISOLATION_PROCESS, JAIL_ISOLATION_GVISOR, JAIL_ISOLATION_MICROVM };

enum jail_status { // what became of the user's code
  JAIL_STATUS_OK,
  JAIL_STATUS_ERROR,
  JAIL_STATUS_TIMEOUT,
  JAIL_STATUS_OUT_OF_MEMORY,
  JAIL_STATUS_OUTPUT_LIMIT,
  JAIL_STATUS_NOT_SERIALIZABLE,
  JAIL_STATUS_RESULT_TOO_LARGE,
  JAIL_STATUS_KILLED,
};

// Text as a JavaScript engine stores it, so that the JS thread only copies.
struct jail_text {
  void *block;      // owned; free() it (jail_outcome_free does)
  const void *data; // within block, or static; NULL: there is no text
  size_t units;
  bool wide; // UTF-16, else Latin-1
};

struct jail_fault { // the user's error; every text may be absent
  bool present;
  struct jail_text name, message, source_line, stack, path;
  uint32_t line, column; // 1-based; 0: not known
};

enum jail_stream { JAIL_STDOUT = 1, JAIL_STDERR };

// What one asynchronous call came to, or a part of what it writes meanwhile. Owned by whoever took it.
struct jail_outcome {
  struct jail_outcome *next;
  uint32_t ticket;         // the caller's own number for the call
  struct jail_error error; // where code is not JAIL_OK, nothing below holds
  bool is_run;             // false for warm and close: nothing below holds
  uint32_t stream; // of enum jail_stream: a part of it, in `chunk`; nothing else holds, and the outcome is to come
  char *chunk;     // owned; UTF-8, though not all of it need be valid
  size_t chunk_bytes;
  enum jail_status status;
  enum jail_start start;
  uint32_t place;    // where it ran: see jail_place_text
  uint32_t layers;   // bits of enum cell_layer, verified in its own cell
  int32_t exit_code; // -1: none
  int32_t signal;    // 0: none
  int64_t queue_us, start_us, run_us;
  int64_t cpu_ns, peak_bytes; // -1: not measured
  uint64_t stdout_dropped, stderr_dropped;
  struct jail_text result, out, err; // result: JSON, checked
  struct jail_text files;            // of a run that collects: see files.h; absent where nothing was
  bool remote;                       // another host's answer: what it did not measure is -1, its place is in `jail`
  struct jail_text jail; // remote: { isolation, layers, missing, runtime, start } as JSON, checked; may be absent
  struct jail_fault fault;
};
void jail_outcome_free(struct jail_outcome *outcome); // takes it; NULL is fine

// ---- users ----

struct jail_user;

// Starts the engine if this is its first user. on_done(arg) says on the engine
// thread that jail_user_take has something; it must not block. NULL and *error
// filled on failure. Owned by the caller until jail_user_close.
struct jail_user *jail_user_open(void (*on_done)(void *arg), void *arg, struct jail_error *error);
// Takes the user. Cancels its runs, releases its jails; when it returns, on_done
// will not be called again. The last user's close ends the engine and joins it.
void jail_user_close(struct jail_user *user);
// All outcomes so far, oldest first, as a list that the caller now owns.
struct jail_outcome *jail_user_take(struct jail_user *user);

// ---- jails ----

struct jail_config {                     // everything borrowed for the call, and copied
  const char *key;                       // jails of equal key are shared; NULL: one of its own
  const char *keeper;                    // absolute path of the keeper
  const char *boot[JAIL_LANGUAGE_COUNT]; // text of ORDER_BOOT; NULL: that language is not to be had
  size_t boot_bytes[JAIL_LANGUAGE_COUNT];
  uint32_t parked, max_concurrent, max_queue, queue_timeout_ms, idle_ms;
  uint64_t max_total_memory_mb;
  uint32_t renew_cells, renew_ms; // a zygote is replaced after so many cells, or so long
  bool cold;
  // A jail elsewhere instead, over HTTP. max_concurrent is then how many connections there may be.
  const char *url;   // whole, with its path; NULL: a local jail
  const char *token; // secret
  const char *ca;    // PEM: whom to trust, for https
  size_t ca_bytes;
  const char *proxy; // URL; NULL: none
  // A jail elsewhere instead, on a Unix socket. max_concurrent as for HTTP.
  const char *socket;   // absolute path; NULL: none
  int64_t socket_owner; // the uid that must listen there; -1: not asked
};

struct jail; // one user's handle

// NULL and *error filled on failure. Owned until jail_release. Starts nothing yet.
struct jail *jail_open(struct jail_user *user, const struct jail_config *config, struct jail_error *error);
// Takes the handle; what it still has running is cancelled. Also after its user has been closed.
void jail_release(struct jail *jail);

struct jail_request { // everything borrowed for the call; the payload is written by the caller, see below
  enum jail_language language;
  uint32_t timeout_ms, memory_mb, max_output_bytes, max_result_bytes, max_result_nodes;
  bool need_process;  // refuse an unverified place
  bool check;         // compile only: nothing runs, and the result is a list of what is wrong
  bool live[2];       // parts of stdout, of stderr, as they come
  bool collect;       // its files are asked for
  const char *tenant; // NUL-terminated; NULL: none
  // Of a run that goes elsewhere:
  enum jail_isolation min_isolation; // refused by the peer, or its answer is
  const char *id;                    // echoed by it; NULL: none
  const char *headers;               // more of them: "Name: value\n" ..., checked; NULL: none
  size_t code_bytes, input_bytes, env_bytes, files_bytes;
};

struct jail_run; // not yet submitted: owned by the caller
// NULL and *error filled where a value is out of range or memory is short.
struct jail_run *jail_run_new(const struct jail_request *request, struct jail_error *error);
// Where the caller writes code, input (JSON text), env ("K=V" NUL ...) and files
// (members of a JSON object: see protocol.h), back to back, and one byte more for
// a terminator. Borrowed.
char *jail_run_payload(struct jail_run *run);
void jail_run_free(struct jail_run *run); // takes a run that was never submitted

// Takes the run; its outcome comes under `ticket`. JAIL_OK, or *error filled and the run freed.
enum jail_code jail_submit(struct jail *jail, struct jail_run *run, uint32_t ticket, struct jail_error *error);
// The run under `ticket` ends now; its outcome is JAIL_CANCELLED, if it had none yet.
void jail_cancel(struct jail *jail, uint32_t ticket);
// Boots the languages whose bits (1 << language) are set; the outcome comes when cells are parked.
// This one and the next: false where the handle has been closed already, then no outcome comes.
bool jail_warm(struct jail *jail, uint32_t languages, uint32_t ticket);
// Ends everything of this handle; the outcome comes when its last process is gone.
bool jail_close(struct jail *jail, uint32_t ticket); // ticket 0: no outcome

struct jail_stats {
  uint64_t queued, running, settled, refused; // now, now, ever, ever
  uint64_t queued_bytes, running_memory_mb;
  uint64_t parked[JAIL_LANGUAGE_COUNT], cells[JAIL_LANGUAGE_COUNT]; // waiting; alive in all
  uint64_t zygotes, zygote_starts;                                  // now, ever
};
void jail_stats(const struct jail *jail, struct jail_stats *out);

// What is the same for all runs of a zygote: "key=value" NUL ... (runtime,
// isolation, missing=layer:reason, repeated). Static; NULL where there is no such place.
const char *jail_place_text(uint32_t place, size_t *bytes);

// What HTTP is made of: libcurl and its parts with their versions, and how it is linked. Static.
const char *jail_http_version(void);

// The names of enum cell_layer's bits, in order; NULL behind the last.
const char *jail_layer_name(uint32_t layer);

#endif
