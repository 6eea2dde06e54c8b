// sources: src/events.c src/live.c src/json.c src/json_scan.c src/text.c src/buf.c
// An answer that comes in pieces, with parts of a run's output before it, from
// whoever stands in a peer's place.
#include "../../src/events.h"
#include "fuzz.h"

enum { OUTPUT_MAX = 64 };

static size_t told;

void engine_deliver_part(struct jail_user *user, uint32_t ticket, int stream, struct live *live, const char *data,
                         size_t size) {
  (void)user, (void)ticket, (void)live;
  MUST(stream == JAIL_STDOUT || stream == JAIL_STDERR);
  for (size_t i = 0; i < size; i++)
    told += data[i] != 1; // reads each byte
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct feed feed = {data, size};
  struct jail_run run = {.request = {.max_output_bytes = OUTPUT_MAX, .live = {true, true}}};
  struct buf answer = {.ceiling = 1 << 16};
  struct events events;
  uint8_t most = feed_byte(&feed);
  told = 0;
  for (int i = 0; i < 2; i++)
    run.live[i].left = OUTPUT_MAX;
  events_begin(&events, &run);
  for (bool fine = true; fine && feed.left && events.open;) {
    size_t piece = feed.left < (size_t)most + 1 ? feed.left : (size_t)most + 1;
    MUST(!buf_add(&answer, (const char *)feed.at, piece));
    feed.at += piece;
    feed.left -= piece;
    fine = events_take(&events, &run, &answer);
    MUST(events.scanned == answer.size);
    MUST(!fine || !events.open || !answer.size || !memchr(answer.data, '\n', answer.size));
  }
  MUST(told <= 2u * OUTPUT_MAX);
  buf_free(&answer);
  return 0;
}
