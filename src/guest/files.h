// files.h: the files that a job brings, into the working folder of its cell.
// Caller: inmate.c and inmate_solo.c, in the cell, its walls up.
#ifndef CODE_JAIL_FILES_H
#define CODE_JAIL_FILES_H

#include <stddef.h>

// Takes `bytes` of struct job_file entries, by receive (0, or -1: the sender is
// gone), and writes each file as it comes. 0; an errno, with the rest of them
// received and dropped; -1 where receive fails or they are none of ours.
int files_receive(size_t bytes, int (*receive)(void *to, size_t bytes));

#endif
