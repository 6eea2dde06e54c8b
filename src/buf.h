// buf.h: a growable buffer with a ceiling, and the capture of an output stream.
// Callers: the core, on any one thread at a time.
#ifndef CODE_JAIL_BUF_H
#define CODE_JAIL_BUF_H

#include <stddef.h>
#include <stdint.h>

struct buf {  // zeroed and with a ceiling: empty
  char *data; // owned
  size_t size, room, ceiling;
};
// 0, or -1 if the ceiling or memory does not allow it; then nothing was added.
int buf_add(struct buf *buf, const void *data, size_t size);
void buf_free(struct buf *buf);

// The first and the last half of what a stream wrote, `cap` bytes at most.
struct capture {
  char *head, *tail; // owned; tail is a ring once it is full
  size_t head_size, head_room, tail_size, tail_room, tail_at;
  size_t cap;
  uint64_t total; // bytes that came in all
};
void capture_init(struct capture *capture, size_t cap);
// What does not fit (or for which there is no memory) is counted and left out.
void capture_add(struct capture *capture, const char *data, size_t size);
void capture_free(struct capture *capture);
// How many bytes at the end are the beginning of a UTF-8 character that was cut: 3 at most.
size_t buf_cut_at_end(const char *text, size_t size);
// What was kept, cut at UTF-8 boundaries, with one line between that says how
// much is missing. Sets *dropped. *text is the caller's to free, NULL if *size
// is 0. Empties the capture. 0, or -1 without memory.
int capture_finish(struct capture *capture, char **text, size_t *size, uint64_t *dropped);

#endif
