// trial.h: what makes a new cell cheap, learned from one that rehearsed.
//
// After a fork every page of the zygote that a cell writes costs a fault of its
// own, and so does every stretch of program text that it reads: some six
// hundred in the simplest run, the same ones in every cell. So the zygote forks
// a trial cell that rehearses, sees what it touched, and ends. From then on:
//   - written pages: every cell asks for all of them at once (trial_apply);
//   - program text: the zygote keeps its busy stretches in huge pages, which
//     forks share without a fault. A file's pages are not copied by fork; each
//     cell would map them sixteen at a time, and unmap every one as it ends.
//     The price is a private copy of those stretches, once for each zygote.
// Only speed depends on it: where /proc/self/pagemap, MADV_POPULATE_WRITE (Linux
// 5.14) or huge pages are missing, pages come one by one. Main thread only.
#ifndef CODE_JAIL_TRIAL_H
#define CODE_JAIL_TRIAL_H

#include <stdbool.h>

// In the zygote, before it serves. True in the trial cell, which must rehearse
// and then call trial_learn. A trial that fails is a trial without a lesson.
bool trial_begin(void);

// This process is the trial cell.
bool trial_running(void);

// In the trial cell: tells the zygote what it touched, and ends.
_Noreturn void trial_learn(void);

// In a cell, walled: the pages that it is about to write.
void trial_apply(void);

#endif
