// backend_local.h: the local jail's parts, for each other only. Engine thread.
//
//   backend_local.c         what the pool asks for; the pump of output
//   backend_local_place.c   one language: its zygotes, who waits for a cell, back-off
//   backend_local_keeper.c  one keeper process: its birth, its socket, its end
//   backend_local_cell.c    one cell: its pipes, and its job
//   backend_local_end.c     what comes out of it: output, frame, usage, verdict
//   backend_local_fault.c   an end that was not the code's own, in words
//   backend_local_spawn.c   a keeper's birth and its death
#ifndef CODE_JAIL_BACKEND_LOCAL_H
#define CODE_JAIL_BACKEND_LOCAL_H

#include <sys/types.h>
#include <uv.h>

#include "backend.h"
#include "buf.h"
#include "json.h"
#include "pool.h"
#include "protocol.h"

enum {
  LOCAL_READ_BYTES = 65536,      // at most, per stream and turn of the loop
  LOCAL_OUTPUT_BYTES = 64 << 20, // both streams in all; past it the run is killed
  LOCAL_GUARD_US = 250000,       // the engine's own deadline comes this much later
  LOCAL_REACT_US = 1000000,      // a keeper that does not react to a guard for so long is stuck
  LOCAL_GONE_US = 15000000,      // so is one that does not report an ordered kill for so long
  LOCAL_CELLS_MAX = PROTOCOL_SLOT_MAX - 16,
};

struct keeper;
struct place;
struct local;

// ---- cells ----

enum cell_state {
  CELL_FORKING, // ordered
  CELL_PARKED,  // waits for a job
  CELL_BUSY,    // has one
  CELL_ENDING,  // settled and killed; its GONE is to come
  CELL_GONE,    // only its handles are still closing
};

struct stream { // the reading end of a pipe
  struct cell *cell;
  int fd; // -1: not open
  uv_poll_t poll;
  bool flagged; // in local->flagged
  struct stream *next_flagged;
  struct capture capture;
};

enum { PIPE_OUT, PIPE_ERR, PIPE_RESULT, PIPE_COUNT };

struct cell {
  struct cell *prev, *next; // in keeper->cells, while it is not CELL_GONE
  struct cell *next_parked;
  struct keeper *keeper;
  enum cell_state state;
  uint32_t id, layers;
  int pidfd, status_fd; // -1: none
  pid_t pid;
  uint64_t cpu_base_ns, rss_base_bytes;
  int job_fd;
  uv_poll_t job_poll; // only while a large job is being written
  bool job_polled;
  int write_ends[PIPE_COUNT];
  struct stream streams[PIPE_COUNT];
  int handles;          // of uv, not yet closed
  struct jail_run *run; // borrowed; NULL: none, or it has settled
  size_t job_sent;
  struct frame_header header;
  size_t frame_got; // header included
  struct json_scan scan;
  char *body;              // owned
  struct jail_fault where; // owned; what it said of its place, and that it did
  bool where_told;
  struct engine_timer timer;
};

struct cell *cell_new(struct keeper *keeper, uint32_t id); // FORKING; NULL without memory
// PARKED: takes the descriptors. -1 if there are none for its pipes: it then is unusable.
int cell_park(struct cell *cell, const struct report *report, int job_fd, int pidfd);
// Gives it the run. -1 if it turns out to be dead: the run was not sent, and is the caller's again.
int cell_take(struct cell *cell, struct jail_run *run);
// The run is being cancelled by its owner: kill, and forget it.
void cell_abandon(struct cell *cell);
// Kills it, whatever it does; its run must have settled. GONE is to come within
// patience_us, or its keeper counts as stuck.
void cell_end_within(struct cell *cell, uint64_t patience_us);
void cell_end(struct cell *cell);  // the usual patience
void cell_free(struct cell *cell); // takes it
// It ended without having read all of the job: it ran nothing. why: what it said, or "".
bool cell_left_job(const struct cell *cell, char why[JOB_BACK_MAX]);
void cell_kill(const struct cell *cell); // directly, where there are pidfds
void cell_close_stream(struct stream *stream);
void cell_on_no_gone(struct engine_timer *timer);
void cell_on_guard(struct engine_timer *timer);
void cell_on_output(uv_poll_t *poll, int status, int events);
void cell_on_result(uv_poll_t *poll, int status, int events);
// Its process has ended: settles the run by what is known, and takes the cell.
void cell_on_gone(struct cell *cell, const struct report *report);
void cell_pump(struct stream *stream); // one read, in the turn's pumping phase
// Its keeper has gone without a word about it. As cell_on_gone.
void cell_on_lost(struct cell *cell);

// Fill the outcome's status and fault.
void fault_set(struct jail_run *run, enum jail_status status, const char *name, const char *format, ...)
  __attribute__((format(printf, 4, 5)));
void fault_out_of_memory(struct cell *cell);
void fault_killed(struct cell *cell, const char *why);
void fault_timeout(struct cell *cell); // with what the cell has said of its place
// The language's own error, where it says no more than its name, as Python's MemoryError.
void fault_explain_memory(struct jail_run *run);

// ---- keepers ----

enum keeper_state { KEEPER_BOOTING, KEEPER_READY, KEEPER_ENDING };

struct orders {       // what its socket did not take yet
  struct order *list; // owned
  size_t count, room;
};

struct keeper {
  struct keeper *next; // in local->keepers
  struct local *local;
  struct place *place; // NULL once it serves no more; it has no cells then
  enum jail_language language;
  enum keeper_state state;
  pid_t pid;         // 0 once reaped
  uint32_t launched; // started by the launcher, under this number; 0: by us
  int pidfd, socket;
  uv_poll_t socket_poll, pid_poll;
  bool socket_polled, pid_polled;
  int handles;
  uint64_t end_left_us; // before it is killed
  struct orders orders;
  struct cell *cells, *parked; // parked: the one that waits longest is last
  uint32_t next_cell, forking, parked_count, cell_count, busy, fork_failures;
  uint32_t info; // see jail_place_text
  bool verified; // isolation=process
  bool cold;
  bool resting; // it ends because nobody needs it
  bool retired; // a successor has taken over; it only lives for its busy cells
  uint64_t born_us;
  struct jail_error why; // of the boot's failure, once told
  struct engine_timer timer, fork_timer;
};

// Starts a keeper process for the place and sends BOOT. NULL and *error filled on failure.
struct keeper *keeper_start(struct place *place, struct jail_error *error);
void keeper_on_socket(uv_poll_t *poll, int status, int events);
void keeper_take_reports(struct keeper *keeper); // what its socket holds
void keeper_order(struct keeper *keeper, uint32_t type, uint32_t cell, uint64_t deadline_us, uint64_t memory_bytes);
// Its socket is closed, its cells are lost, and it will be reaped; by force if need be.
void keeper_end(struct keeper *keeper, bool by_force);
void keeper_fork(struct keeper *keeper);           // orders one more cell
struct cell *keeper_unpark(struct keeper *keeper); // NULL: none

// ---- places: one per language ----

struct warmer { // somebody who waits for parked cells; in one place at a time
  struct warmer *next;
  struct jail_user *user;
  struct jail_outcome *call; // owned
  uint32_t languages;        // still to come
};

struct place {
  struct local *local;
  enum jail_language language;
  struct keeper *keeper;    // NULL: none
  struct keeper *successor; // boots, to take over from an old one; NULL: none
  uint64_t renew_after_us;
  struct jail_run *first, *last; // waiting for a cell
  uint32_t waiting;
  struct warmer *warmers;
  uint32_t failures;       // in a row
  uint64_t not_before_us;  // back-off
  struct jail_error error; // of the last failure; code JAIL_OK: none
  bool hopeless;           // that failure will not pass by itself
  struct engine_timer retry, idle;
};

struct local {
  struct backend backend; // first
  struct pool *pool;      // borrowed
  struct place places[JAIL_LANGUAGE_COUNT];
  struct keeper *keepers; // all that are not yet reaped
  struct stream *flagged; // readable, to be pumped in this turn
  uv_check_t check;
  bool closing;
  char scratch[LOCAL_READ_BYTES];
};

void place_line_append(struct place *place, struct jail_run *run);
void place_line_remove(struct place *place, struct jail_run *run);
void place_serve(struct place *place);  // a cell for each that waits, as long as there are any
void place_demand(struct place *place); // what is missing is ordered: a keeper, cells
// Refuses for the same reason as the last time, if it is too early to try again.
bool place_refuses(const struct place *place, struct jail_error *error);
void place_release_warmers(struct place *place); // those whom this place no longer keeps waiting
void place_fail_warmers(struct place *place, const struct jail_error *error);

// Told by keepers and cells. Whoever stands in a loop's callback calls pool_pump after it.
void place_on_ready(struct keeper *keeper);
void place_on_parked(struct keeper *keeper);
void place_on_free(struct keeper *keeper);                           // a cell of it has ended or is missing
void place_on_end(struct place *place, const struct keeper *keeper); // it serves no more
void place_requeue(struct place *place, struct jail_run *run);
void local_flag(struct local *local, struct stream *stream);
void local_on_reaped(struct local *local, struct keeper *keeper); // takes the keeper

#endif
