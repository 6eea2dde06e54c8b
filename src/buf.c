// buf.c: see buf.h.
#include "buf.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Makes room for `size` bytes in all, doubling, but never more than `most`.
static int make_room(char **data, size_t *room, size_t size, size_t most) {
  if (size <= *room)
    return 0;
  if (size > most)
    return -1;
  size_t grown = *room ? *room : 256;
  while (grown < size)
    grown *= 2;
  if (grown > most)
    grown = most;
  char *moved = realloc(*data, grown);
  if (!moved)
    return -1;
  *data = moved;
  *room = grown;
  return 0;
}

int buf_add(struct buf *buf, const void *data, size_t size) {
  if (size > buf->ceiling - buf->size || make_room(&buf->data, &buf->room, buf->size + size, buf->ceiling))
    return -1;
  if (size)
    memcpy(buf->data + buf->size, data, size);
  buf->size += size;
  return 0;
}

void buf_free(struct buf *buf) {
  free(buf->data);
  *buf = (struct buf){.ceiling = buf->ceiling};
}

void capture_init(struct capture *capture, size_t cap) {
  *capture = (struct capture){.cap = cap};
}

void capture_free(struct capture *capture) {
  free(capture->head);
  free(capture->tail);
  *capture = (struct capture){.cap = capture->cap};
}

static void add_to_tail(struct capture *capture, const char *data, size_t size) {
  size_t most = capture->cap / 2;
  if (size > most) { // only its end can stay
    data += size - most;
    size = most;
  }
  if (!size)
    return;
  if (capture->tail_size < most) {
    size_t grow = size < most - capture->tail_size ? size : most - capture->tail_size;
    if (make_room(&capture->tail, &capture->tail_room, capture->tail_size + grow, most))
      return;
    memcpy(capture->tail + capture->tail_size, data, grow);
    capture->tail_size += grow;
    data += grow;
    size -= grow;
  }
  while (size) { // full: the oldest byte is at tail_at
    size_t run = size < most - capture->tail_at ? size : most - capture->tail_at;
    memcpy(capture->tail + capture->tail_at, data, run);
    capture->tail_at = (capture->tail_at + run) % most;
    data += run;
    size -= run;
  }
}

void capture_add(struct capture *capture, const char *data, size_t size) {
  size_t most = capture->cap - capture->cap / 2;
  size_t first = 0;
  // Once a byte has gone to the tail (or was lost), none may go to the head.
  if (capture->total == capture->head_size && capture->head_size < most) {
    first = size < most - capture->head_size ? size : most - capture->head_size;
    if (make_room(&capture->head, &capture->head_room, capture->head_size + first, most))
      first = 0;
    else
      memcpy(capture->head + capture->head_size, data, first);
    capture->head_size += first;
  }
  capture->total += size;
  add_to_tail(capture, data + first, size - first);
}

size_t buf_cut_at_end(const char *text, size_t size) {
  for (size_t back = 1; back <= 3 && back <= size; back++) {
    unsigned char byte = (unsigned char)text[size - back];
    if (byte < 0x80)
      return 0;
    if (byte >= 0xC0) {
      size_t want = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
      return want > back ? back : 0;
    }
  }
  return 0;
}

static size_t cut_at_start(const char *text, size_t size) {
  size_t cut = 0;
  while (cut < size && cut < 3 && ((unsigned char)text[cut] & 0xC0) == 0x80)
    cut++;
  return cut;
}

// Puts the ring's bytes in order.
static void unroll(struct capture *capture, char *to) {
  size_t first = capture->tail_size - capture->tail_at;
  if (capture->tail_size) {
    memcpy(to, capture->tail + capture->tail_at, first);
    memcpy(to + first, capture->tail, capture->tail_at);
  }
}

int capture_finish(struct capture *capture, char **text, size_t *size, uint64_t *dropped) {
  enum { NOTICE_MAX = 80 };
  size_t head = capture->head_size, tail = capture->tail_size;
  bool cut = capture->total > head + tail;
  *text = NULL;
  *size = 0;
  *dropped = cut ? capture->total - head - tail : 0;
  if (head + tail == 0) // nothing written, or a cap of 0: the count says it
    return capture_free(capture), 0;
  char *all = malloc(head + NOTICE_MAX + tail);
  if (!all)
    return -1;
  if (head)
    memcpy(all, capture->head, head);
  if (!cut) {
    unroll(capture, all + head);
    *size = head + tail;
  } else {
    char *end = all + head + NOTICE_MAX;
    unroll(capture, end);
    size_t lost_head = buf_cut_at_end(all, head), lost_tail = cut_at_start(end, tail);
    head -= lost_head;
    *dropped += lost_head + lost_tail;
    const char *line = head && all[head - 1] != '\n' ? "\n" : "";
    int notice = snprintf(all + head, NOTICE_MAX, "%s[code-jail: %" PRIu64 " bytes left out]\n", line, *dropped);
    memmove(all + head + notice, end + lost_tail, tail - lost_tail);
    *size = head + (size_t)notice + tail - lost_tail;
  }
  capture_free(capture);
  *text = all;
  return 0;
}
