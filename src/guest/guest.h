// guest.h: what a zygote and its cells do, whatever the language. Implemented
// by zygote.c, which is linked into guest_node.node, guest_python.so and the
// keeper (for cold starts). Called from one thread, the runtime's main one.
#ifndef CODE_JAIL_GUEST_H
#define CODE_JAIL_GUEST_H

#include <stddef.h>
#include <stdint.h>

#include "../protocol.h"

struct guest_job {                        // borrowed: valid until the process ends
  const char *code, *input, *env, *files; // see struct job_header; each is followed by a NUL that does not count
  size_t code_bytes, input_bytes, env_bytes, files_bytes;
  uint64_t memory_bytes;
  uint32_t max_result_bytes, max_result_nodes;
  uint32_t flags; // of enum job_flag
};

// In the zygote, once it has booted, preloaded and is single-threaded: says
// READY (runtime: "node 22.23.5", "python 3.11.7"), then forks cells as asked.
// Returns 0 in each new cell, walls and filter up; the zygote itself never
// returns. In a cold start the process is a cell already, and it returns 0 at
// once with the filter up. Negative: could not start; *why says what.
// Makes every mapping MADV_DOFORK itself.
int guest_serve(const char *runtime, char why[256]);

// In the zygote, before guest_serve: the boot cannot go on (a preload that is
// not there, ...). The text reaches the caller's JailError. Never returns.
_Noreturn void guest_fail(const char *text);

// In the cell, once re-seeded and pre-touched: verifies the walls, parks
// (REPORT_PARKED), blocks for the job, puts its descriptors in place
// (1 stdout, 2 stderr, PROTOCOL_RESULT_FD), closes everything else, lowers the
// limits and closes the last doors. Exits the process on any failure.
void guest_take(struct guest_job *job);

// Writes the frame and sleeps until killed. Never returns. result may be NULL.
// Only the first call writes; async-signal-safe with meta and result NULL.
_Noreturn void guest_send(enum frame_kind kind, const char *meta, size_t meta_bytes, const char *result,
                          size_t result_bytes);

// As guest_send, for a handler: FRAME_OUT_OF_MEMORY if a further 4 MiB cannot
// be mapped, else FRAME_ABORTED. The SIGABRT handler that guest_take installs
// calls it. Before a job has arrived it just exits.
_Noreturn void guest_die(void);

// _exit. (stdout and stderr are the runtime's to flush before.)
_Noreturn void guest_leave(int code);

// 32 bytes from getrandom, for re-seeding.
void guest_random(unsigned char bytes[32]);

#endif
