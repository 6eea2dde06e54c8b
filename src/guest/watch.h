// watch.h: the keeper's table of live cells, and the thread that watches their
// memory. The table is read and written by both threads under watch_lock.
#ifndef CODE_JAIL_WATCH_H
#define CODE_JAIL_WATCH_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "../cell/cell.h"
#include "../protocol.h"

struct watched {
  uint32_t id;
  pid_t pid;
  int pidfd, status, tmpfs[2]; // -1 where there is none; status: /proc/PID/status
  uint32_t verdict;            // enum verdict, of the first who killed it
  bool ordered, parked, armed; // the zygote has been asked for it; it waits; it runs
  int hidden;                  // looks in a row that saw no first thread
  int strikes;                 // set-up time-outs so far
  uint64_t due_ns;             // deadline (armed) or set-up time-out (not parked); 0 none
  uint64_t ask_ns;             // armed: when it is asked where it is; 0: no more
  uint64_t limit_bytes;        // armed: what its own pages and its tmpfs may come to
  uint64_t base_bytes;         // its own pages when parked
  uint64_t rss_bytes;          // all its pages when parked
  uint64_t peak_bytes;         // rss_bytes, and the most that was seen on top
  uint64_t folder_bytes;       // what its folder held when last measured
};

extern pthread_mutex_t watch_lock;
extern struct watched watch_cells[PROTOCOL_SLOT_MAX];
extern size_t watch_count;

int watch_start(const struct cell_plan *plan); // the thread, which borrows plan; 0 or a negative errno

// All of these with watch_lock held.
struct watched *watch_find(uint32_t id);
struct watched *watch_add(uint32_t id); // NULL: the table is full
// pid is set: opens, reads the baseline, gives it a group; report: what of it the engine is told.
void watch_park(struct watched *cell, struct report *report);
void watch_arm(struct watched *cell, uint64_t memory); // may add `memory` to its baseline
void watch_kill(struct watched *cell, uint32_t verdict);
void watch_ask(const struct watched *cell);                   // where it is: see guest/where.h
void watch_gone(struct watched *cell, struct report *report); // it has ended: why, and its peak; forgets it
void watch_forget(struct watched *cell); // lets go of what it holds, its folder too; another moves to its place

#endif
