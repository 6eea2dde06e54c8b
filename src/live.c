// live.c: see live.h.
#include "live.h"

#include <string.h>

#include "buf.h"
#include "run.h"

void live_add(struct jail_run *run, int stream, const char *data, size_t size) {
  struct live *live = &run->live[stream - 1];
  char joint[2 * sizeof live->part];
  if (!live->left)
    return;
  if (size > live->left)
    size = live->left;
  live->left -= size;
  if (size < sizeof live->part) { // its end may belong to what was there before
    memcpy(joint, live->part, live->part_bytes);
    memcpy(joint + live->part_bytes, data, size);
    data = joint;
    size += live->part_bytes;
    live->part_bytes = 0;
  }
  size_t cut = buf_cut_at_end(data, size);
  if (size > cut) {
    engine_deliver_part(run->user, run->outcome.ticket, stream, live, data, size - cut);
    live->part_bytes = 0;
  }
  if (cut && live->left) {
    memcpy(live->part, data + size - cut, cut);
    live->part_bytes = cut;
  }
}

void live_end(struct jail_run *run) {
  for (int stream = JAIL_STDOUT; stream <= JAIL_STDERR; stream++) {
    struct live *live = &run->live[stream - 1];
    if (live->left && live->part_bytes)
      engine_deliver_part(run->user, run->outcome.ticket, stream, live, "", 0);
    live->left = 0;
  }
}
