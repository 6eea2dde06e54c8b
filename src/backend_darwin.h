// backend_darwin.h: the local jail without keeper, zygote or fork, as on macOS: a
// fresh interpreter for each run, booted ahead, each under a guard of its own
// (guest/guard.c). Shared by the files of that name; engine thread.
//
//   backend_darwin.c       what the pool asks for: queue, cells ahead of need
//   backend_darwin_cell.c  one cell: its start, its job, its end
//   backend_darwin_read.c  what comes out of it, and what became of its run
#ifndef CODE_JAIL_BACKEND_DARWIN_H
#define CODE_JAIL_BACKEND_DARWIN_H

#include <sys/types.h>
#include <uv.h>

#include "backend.h"
#include "buf.h"
#include "json.h"
#include "pool.h"
#include "protocol.h"
#include "solo.h"

enum {
  SOLO_READ_BYTES = 65536,      // at most, per stream and turn of the loop
  SOLO_OUTPUT_BYTES = 64 << 20, // both streams in all; past it the run is killed
  SOLO_BOOT_US = 30000000,
  SOLO_WATCH_US = 20000,   // between two looks at a run's memory
  SOLO_GONE_US = 15000000, // for a guard to end its cell; then it is killed itself
  SOLO_REAP_US = 5000,
  SOLO_CELLS_MAX = 256,
};

enum solo_line_kind { SOLO_OUT, SOLO_ERR, SOLO_RESULT, SOLO_JOB, SOLO_GUARD, SOLO_LINE_COUNT };
enum solo_state { SOLO_BOOTING, SOLO_PARKED, SOLO_BUSY, SOLO_ENDING };

struct solo_cell;
struct solo_line { // our end of a pipe or socket
  struct solo_cell *cell;
  int fd; // -1: closed
  uv_poll_t poll;
};

struct solo_cell {
  struct solo_cell *next;
  struct solo_place *place;
  enum solo_state state;
  struct solo_line lines[SOLO_LINE_COUNT];
  int handles; // of uv, not yet closed
  bool gone;   // reaped: freed with its last handle
  pid_t guard; // not reaped before `gone`
  pid_t pid;   // as the guard's child told it; 0: not yet
  uint32_t layers, info;
  struct solo_word word;
  size_t word_got;
  char why[244];        // why layers are missing
  struct jail_run *run; // borrowed
  size_t job_sent;
  uint64_t deadline_us, cpu_base_ns, base_bytes;
  struct capture out[2];
  struct frame_header header;
  size_t frame_got; // header included
  struct json_scan scan;
  char *body; // owned
  struct engine_timer timer;
};

struct solo_warmer {
  struct solo_warmer *next;
  struct jail_user *user;
  struct jail_outcome *call; // owned
  uint32_t languages;        // still to come
};

struct solo_place { // one per language
  struct solo *solo;
  enum jail_language language;
  struct jail_run *first, *last; // waiting for a cell
  uint32_t waiting;
  struct engine_timer idle;
};

struct solo {
  struct backend backend; // first
  struct pool *pool;      // borrowed
  struct solo_place places[JAIL_LANGUAGE_COUNT];
  struct solo_cell *cells;
  struct solo_warmer *warmers;
  bool closing;
  char scratch[SOLO_READ_BYTES];
};

// backend_darwin_cell.c
struct solo_cell *solo_cell_start(struct solo_place *place, struct jail_error *error); // BOOTING, or NULL
void solo_cell_take(struct solo_cell *cell, struct jail_run *run);                     // of one that is PARKED
void solo_cell_end(struct solo_cell *cell); // its run has settled, or never was
void solo_cell_close_line(struct solo_line *line);
int solo_cell_write(struct solo_cell *cell); // more of the job; -1: the cell is dead
void solo_cell_reap(struct engine_timer *timer);

// backend_darwin_read.c
void solo_on_output(uv_poll_t *poll, int status, int events);
void solo_on_result(uv_poll_t *poll, int status, int events);
void solo_on_guard(uv_poll_t *poll, int status, int events);
void solo_on_watch(struct engine_timer *timer); // of a BUSY cell: its time and its memory

// backend_darwin.c: told by cells.
void solo_on_parked(struct solo_cell *cell);
void solo_on_failed(struct solo_cell *cell, const char *why); // it did not boot; "stage: cause"
void solo_on_free(struct solo_cell *cell);                    // it has settled its run
void solo_on_gone(struct solo_cell *cell);                    // it is out of the list now

// darwin/host.c: what the system gives. fds: what the child has as 0, 1, ...; everything else is closed in it.
int solo_spawn(char **arguments, const int fds[SOLO_FD_COUNT], pid_t *pid); // 0 or errno
bool solo_usage(pid_t pid, uint64_t *cpu_ns, uint64_t *bytes, uint64_t *peak_bytes);

#endif
