// touch.h: the pages that a run writes, made a new cell's own at a stroke.
//
// After a fork each page of the zygote that a cell writes costs a fault of its
// own. There are some three hundred of them in the simplest run, and they are
// the same ones in every cell. So the zygote forks a trial cell that rehearses,
// sees what it wrote (touch_learn) and ends; every cell then asks for all of it
// at once (touch_apply), which takes a fifth off the price of a cell. Only
// speed depends on it: where /proc/self/pagemap or MADV_POPULATE_WRITE (Linux
// 5.14) is missing, pages come one by one.
//
// Static functions in a header: guest_node.c and guest_python.c are libraries
// of their own, each with one zygote. Main thread only.
#ifndef CODE_JAIL_TOUCH_H
#define CODE_JAIL_TOUCH_H

#include "spawner.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TOUCH_WRITE = 23 }; // MADV_POPULATE_WRITE, for older headers
enum { TOUCH_BATCH = 512, TOUCH_MAX = 4096 };
#define TOUCH_OWN (1ull << 63 | 1ull << 56) // present, and mapped by this process alone

struct touch_range {
  uint64_t from, to;
};

static struct {
  struct touch_range ranges[TOUCH_MAX];
  size_t count;
  int pipe[2];
  bool trial; // this process is the trial cell
  bool cold;
} touch;

static void touch_add(uint64_t page, uint64_t size) {
  struct touch_range *last = touch.count ? &touch.ranges[touch.count - 1] : NULL;
  if (last && page - last->to <= size) // a hole of one page costs less than a call
    last->to = page + size;
  else if (touch.count < TOUCH_MAX)
    touch.ranges[touch.count++] = (struct touch_range){page, page + size};
}

static void touch_scan(int pagemap, uint64_t from, uint64_t to) {
  uint64_t entries[TOUCH_BATCH], size = (uint64_t)sysconf(_SC_PAGESIZE);
  while (from < to) {
    ssize_t got = pread(pagemap, entries, sizeof entries, (off_t)(from / size * sizeof *entries));
    if (got < (ssize_t)sizeof *entries)
      return;
    for (size_t i = 0; i < (size_t)got / sizeof *entries && from < to; i++, from += size)
      if ((entries[i] & TOUCH_OWN) == TOUCH_OWN)
        touch_add(from, size);
  }
}

// In the trial cell, once it has rehearsed: tells the zygote, and ends.
_Noreturn static void touch_learn(void) {
  FILE *maps = fopen("/proc/self/maps", "re");
  int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  char line[1024], mode[8];
  unsigned long from, to;
  while (maps && pagemap >= 0 && fgets(line, sizeof line, maps))
    if (sscanf(line, "%lx-%lx %7s", &from, &to, mode) == 3 && mode[1] == 'w' && mode[3] == 'p')
      touch_scan(pagemap, from, to);
  const char *bytes = (const char *)touch.ranges;
  for (size_t left = touch.count * sizeof *touch.ranges; left;) {
    ssize_t sent = write(touch.pipe[1], bytes, left);
    if (sent <= 0)
      break;
    bytes += sent;
    left -= (size_t)sent;
  }
  _exit(0);
}

// A cold cell serves itself alone. Asked before the guest clears its environment.
__attribute__((constructor)) static void touch_see_cold(void) {
  touch.cold = getenv(SPAWNER_COLD) != NULL;
}

// In the zygote, before it serves. True in the trial cell, which must rehearse
// and then call touch_learn. A trial that fails is a trial without a lesson.
static bool touch_trial(void) {
  if (touch.cold)
    return false;
  FILE *maps = fopen("/proc/self/maps", "re");
  char line[1024];
  unsigned long from, to;
  while (maps && fgets(line, sizeof line, maps)) // V8 marks its heap MADV_DONTFORK
    if (sscanf(line, "%lx-%lx", &from, &to) == 2)
      madvise((void *)from, to - from, MADV_DOFORK);
  if (maps)
    fclose(maps);
  if (pipe2(touch.pipe, O_CLOEXEC))
    return false;
  pid_t pid = fork();
  if (pid == 0) {
    close(touch.pipe[0]);
    alarm(10);
    return touch.trial = true;
  }
  close(touch.pipe[1]);
  size_t size = 0;
  ssize_t got = 0;
  while (pid > 0 && (got = read(touch.pipe[0], (char *)touch.ranges + size, sizeof touch.ranges - size)) > 0)
    size += (size_t)got;
  touch.count = size / sizeof *touch.ranges;
  close(touch.pipe[0]);
  if (pid > 0)
    waitpid(pid, NULL, 0);
  return false;
}

static void touch_apply(void) {
  for (size_t i = 0; i < touch.count; i++) {
    const struct touch_range *range = &touch.ranges[i];
    madvise((void *)range->from, range->to - range->from, TOUCH_WRITE);
  }
}

#endif
