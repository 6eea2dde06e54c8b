// report.h: how keeper, zygote and cells say things over a seqpacket socket.
#ifndef CODE_JAIL_REPORT_H
#define CODE_JAIL_REPORT_H

#include <stddef.h>
#include <sys/types.h>

#include "../cell/cell.h"
#include "../protocol.h"

enum { REPORT_FDS_MAX = 3 };

// One datagram: the report, then text. fds (borrowed) go with it. Returns 0 or
// a negative errno; a receiver that has gone is no signal.
int report_send(int to, const struct report *report, const char *text, size_t bytes, const int *fds, size_t fd_count);

// REPORT_FAILED for cell (0: the boot), with the error as "stage: cause".
void report_failure(int to, uint32_t cell, const struct cell_error *error);

// What the keeper receives: a report, who sent it (in the receiver's pid
// namespace, by the kernel's word; the socket has SO_PASSCRED), and what came with it.
struct delivery {
  struct report report;
  char text[4096];
  size_t text_bytes;
  pid_t sender;
  int fds[REPORT_FDS_MAX];
  size_t fd_count;
};

// Does not wait. Returns 1 for a message, 0 at the end, -1 for nothing. The
// caller owns in->fds.
int report_receive(int from, struct delivery *in);
void report_drop(struct delivery *in); // closes what came with it

#endif
