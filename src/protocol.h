// protocol.h: every byte that crosses between host, keeper, zygote and cell.
//
//   engine --orders--> keeper --orders--> zygote --fork--> cell
//   engine <-reports-- keeper <-reports-- zygote, cell
//   engine ----job---> cell ----frame---> engine          (never the zygote)
//
// Orders and reports are single datagrams on AF_UNIX SOCK_SEQPACKET pairs, in
// the machine's own byte order: both ends come from one build and run on one
// machine. A job travels on a SOCK_STREAM pair of the cell's own, a frame on a
// pipe. Everything that arrives from a cell is hostile: check, cap, then use.
#ifndef CODE_JAIL_PROTOCOL_H
#define CODE_JAIL_PROTOCOL_H

#include <signal.h>
#include <stdint.h>

enum {
  PROTOCOL_FD = 3,               // keeper's end to the engine, and the zygote's to the keeper
  PROTOCOL_JOB_FD = 4,           // a parked cell's end of its job socket
  PROTOCOL_RESULT_FD = 3,        // the frame's pipe, once the job has arrived
  PROTOCOL_MESSAGE_MAX = 65536,  // a datagram, BOOT included
  PROTOCOL_META_MAX = 1 << 18,   // a frame's meta JSON
  PROTOCOL_FILES_MAX = 12 << 20, // a frame's files: 8 MiB in base64, and their names
  PROTOCOL_SLOT_MAX = 1024,      // cells alive at once under one zygote
};

// ---- engine -> keeper, and (FORK, REAP) keeper -> zygote ----
enum order_type {
  ORDER_BOOT = 1, // followed by text: key=value, each ended by NUL (see below)
  ORDER_FORK,     // make cell `cell` and park it
  ORDER_ARM,      // the job of `cell` is on its way: start deadline and memory watch
  ORDER_KILL,     // kill `cell` now (also after a finished run: nothing lingers)
  ORDER_PLAN,     // keeper -> zygote only: followed by struct cell_plan
  ORDER_REAP,     // keeper -> zygote only: `cell` may be waited for; its pid is free after this
};

struct order {
  uint32_t type;
  uint32_t cell;         // chosen by the engine, never 0, never used twice
  uint64_t deadline_us;  // ARM: from now on; FORK (keeper -> zygote): unused
  uint64_t memory_bytes; // ARM: what the cell may add to its parked baseline
};

// ---- engine -> launcher (launcher.c), where the host is not root but its keepers are ----
enum launch_type {
  LAUNCH_KEEPER = 1, // with one descriptor: the keeper's end of its socket
  LAUNCH_KILL,       // the keeper that was started under this id
};
struct launch {
  uint32_t type;
  uint32_t id; // chosen by the engine
};

// Keys of BOOT (all text; a key may repeat where it says so):
//   language   javascript | python | typescript
//   start      parked | cold
//   runtime    absolute path of the interpreter
//   guest_dir  absolute path of lib/guest
//   guest_lib  absolute path of guest_node.node or guest_python.so
//   stripper   absolute path of a script that erases types, for a Node.js that has none of its own (0 or 1)
//   preload    module name (repeats)
//   module_dir absolute path of a node_modules folder that holds the preloads (0 or 1)
//   allow_weak 0 | 1
//   memory_cap_mb  the largest memoryMb any run may ask for

// ---- zygote, cell -> keeper, and keeper -> engine ----
enum report_type {
  REPORT_READY = 1, // zygote serves; followed by text: key=value NUL (runtime, isolation, missing=layer:reason)
  REPORT_PARKED,    // cell waits for its job; fds: job socket (engine's end), then to the engine a pidfd
                    // (absent where there are none), to the keeper O_PATH fds of the cell's tmpfs mounts (0-2)
  REPORT_FAILED,    // a step failed: `cell` 0 means the boot; followed by "stage: cause" text
  REPORT_GONE,      // cell has ended; zygote -> keeper: not reaped yet
};

enum verdict {      // why a cell is gone, as the keeper knows it
  VERDICT_NONE = 0, // by itself
  VERDICT_ASKED,    // ORDER_KILL
  VERDICT_DEADLINE,
  VERDICT_MEMORY,
  VERDICT_LOST, // with its zygote
};

struct report {
  uint32_t type;
  uint32_t cell;
  int32_t pid;         // in the receiver's pid namespace where the receiver is the engine
  uint32_t layers;     // PARKED, READY: bits of enum cell_layer, each verified by its effect
  int32_t wait_status; // GONE: as waitpid gives it
  uint32_t verdict;    // GONE: enum verdict
  uint64_t cpu_ns;     // PARKED: already used when parked; GONE: used in all (0: not known)
  uint64_t rss_bytes;  // PARKED: baseline; GONE: peak seen by the memory watch (0: not known)
};

// ---- engine -> cell: the job ----
// One message starts with this header and carries three descriptors: stdout,
// stderr, result pipe. Behind it, in order: code, input, env ("K=V" NUL ...),
// files: nothing, or members of a JSON object, checked: "files":{path:text or
// {"base64":text}...}, to be written first, and "collect":[path...].
enum { JOB_MAGIC = 0x314a4a43 };
enum job_flag { JOB_CHECK = 1 }; // compile only: the result is a list of what is wrong
struct job_header {
  uint32_t magic;
  uint32_t code_bytes;
  uint32_t input_bytes; // JSON text: written by lib/ with JSON.stringify, or checked as it came (the service)
  uint32_t env_bytes;
  uint32_t files_bytes;
  uint32_t max_result_bytes;
  uint32_t max_result_nodes;
  uint32_t flags; // of enum job_flag
  uint64_t memory_bytes;
  uint32_t timeout_ms; // for RLIMIT_CPU only: the clock is kept outside
};

// ---- keeper -> cell ----
// Sent to a cell whose time is nearly over: it may then say where it is. Ignored
// by default, like no signal that could end a process.
enum { WHERE_SIGNAL = SIGURG };
#define PROTOCOL_TIMEOUT_NAME "TimeoutError"
#define PROTOCOL_TIMEOUT_WORDS "The code ran longer than %u ms and was stopped"

// A cell that has the job and cannot do it writes why back, "stage: cause", and ends.
enum { JOB_BACK_MAX = 224 };

// ---- cell -> engine: the frame, once ----
enum frame_kind {
  FRAME_OK = 'R',               // result: JSON text; meta: the files that were asked for (files.h), or none
  FRAME_ERROR = 'E',            // meta: {"exitCode":n?,"error":{...}}
  FRAME_NOT_SERIALIZABLE = 'N', // meta as above, error.path set
  FRAME_RESULT_TOO_LARGE = 'L', // meta as above
  FRAME_OUT_OF_MEMORY = 'M',    // meta as above, or none (a handler that may not allocate)
  FRAME_ABORTED = 'A',          // no meta: abort() was called
  FRAME_WHERE = 'W',            // meta as above, at most PIPE_BUF in all: where the code is, its time nearly over
};
// A WHERE may come once ahead of the frame. It is heard only where the run ends by its deadline.
enum { FRAME_MAGIC = 0x31464a43 };
struct frame_header {
  uint32_t magic;
  uint32_t kind;
  uint32_t meta_bytes;
  uint32_t result_bytes;
};
// Having written its frame a cell sleeps until it is killed, so that its usage
// can still be read from outside. process.exit and os._exit write no frame:
// they just exit, and the wait status is the exit code.

#endif
