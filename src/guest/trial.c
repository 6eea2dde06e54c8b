// trial.c: see trial.h.
#include "trial.h"
#include "spawner.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
  POPULATE_WRITE = 23, // MADV_POPULATE_WRITE, for older headers
  RANGES_MAX = 4096,
  BATCH = 512, // pagemap entries read at once: a huge page's
  HUGE_BYTES = 2 << 20,
  HUGE_WORTH = 48, // pages of one stretch of text that a run must read
};
#define PRESENT (1ull << 63)
#define OWN (1ull << 63 | 1ull << 56) // present, and mapped by this process alone

struct range {
  uint64_t from, to;
  int text; // 0: written pages; else the protection of a stretch of text
};

static struct {
  struct range ranges[RANGES_MAX];
  size_t count;
  int pipe[2];
  bool running; // this process is the trial cell
  bool cold;
} trial;

// A cold cell serves itself alone. Asked before the guest clears its environment.
__attribute__((constructor)) static void see_cold(void) {
  trial.cold = getenv(SPAWNER_COLD) != NULL;
}

bool trial_running(void) {
  return trial.running;
}

// ---- in the trial cell ----

static void add(uint64_t from, uint64_t size, int text) {
  struct range *last = trial.count ? &trial.ranges[trial.count - 1] : NULL;
  if (last && !text && !last->text && from - last->to <= size) // a hole of one page costs less than a call
    last->to = from + size;
  else if (trial.count < RANGES_MAX)
    trial.ranges[trial.count++] = (struct range){from, from + size, text};
}

static void scan_written(int pagemap, uint64_t from, uint64_t to) {
  uint64_t entries[BATCH], size = (uint64_t)sysconf(_SC_PAGESIZE);
  while (from < to) {
    ssize_t got = pread(pagemap, entries, sizeof entries, (off_t)(from / size * sizeof *entries));
    if (got < (ssize_t)sizeof *entries)
      return;
    for (size_t i = 0; i < (size_t)got / sizeof *entries && from < to; i++, from += size)
      if ((entries[i] & OWN) == OWN)
        add(from, size, 0);
  }
}

static void scan_text(int pagemap, uint64_t from, uint64_t to, int protection) {
  uint64_t entries[BATCH], size = HUGE_BYTES / BATCH;
  if ((uint64_t)sysconf(_SC_PAGESIZE) != size)
    return; // huge pages of another size: not worth a second way
  for (from = (from + HUGE_BYTES - 1) & ~(uint64_t)(HUGE_BYTES - 1); from + HUGE_BYTES <= to; from += HUGE_BYTES) {
    int count = 0;
    if (pread(pagemap, entries, sizeof entries, (off_t)(from / size * sizeof *entries)) != sizeof entries)
      return;
    for (size_t i = 0; i < BATCH; i++)
      count += (entries[i] & PRESENT) != 0;
    if (count >= HUGE_WORTH)
      add(from, HUGE_BYTES, protection);
  }
}

_Noreturn void trial_learn(void) {
  FILE *maps = fopen("/proc/self/maps", "re");
  int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  char line[1024], mode[8];
  unsigned long from, to, inode;
  while (maps && pagemap >= 0 && fgets(line, sizeof line, maps)) {
    if (sscanf(line, "%lx-%lx %7s %*x %*s %lu", &from, &to, mode, &inode) != 4 || mode[3] != 'p')
      continue;
    if (mode[1] == 'w')
      scan_written(pagemap, from, to);
    else if (mode[0] == 'r' && inode)
      scan_text(pagemap, from, to, PROT_READ | (mode[2] == 'x' ? PROT_EXEC : 0));
  }
  const char *bytes = (const char *)trial.ranges;
  for (size_t left = trial.count * sizeof *trial.ranges; left;) {
    ssize_t sent = write(trial.pipe[1], bytes, left);
    if (sent <= 0)
      break;
    bytes += sent;
    left -= (size_t)sent;
  }
  _exit(0);
}

// ---- in the zygote ----

static bool is_huge(const void *at) {
  FILE *maps = fopen("/proc/self/smaps", "re");
  char line[1024];
  unsigned long from, to, kilobytes = 0;
  bool within = false;
  while (maps && fgets(line, sizeof line, maps)) {
    if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
      within = (uintptr_t)at >= from && (uintptr_t)at < to;
    else if (within && sscanf(line, "AnonHugePages: %lu", &kilobytes) == 1)
      break;
  }
  if (maps)
    fclose(maps);
  return kilobytes >= HUGE_BYTES >> 10;
}

// A huge page with the same content takes the place of the text at `at`, in one
// step of the kernel: whoever runs there notices nothing.
static bool make_huge(char *at, int protection) {
  char *room = mmap(NULL, 2 * HUGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED)
    return false;
  char *copy = (char *)(((uintptr_t)room + HUGE_BYTES - 1) & ~(uintptr_t)(HUGE_BYTES - 1));
  madvise(copy, HUGE_BYTES, MADV_HUGEPAGE);
  memcpy(copy, at, HUGE_BYTES);
  __builtin___clear_cache(copy, copy + HUGE_BYTES);
  static bool proven; // a look for each would take longer than the copies
  proven = proven || is_huge(copy);
  bool done = proven && mprotect(copy, HUGE_BYTES, protection) == 0 &&
              mremap(copy, HUGE_BYTES, HUGE_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, at) == at;
  munmap(room, 2 * HUGE_BYTES); // whatever has not moved away
  return done;
}

// Acts on what was learned of the text, and keeps what is for every cell.
static void keep_written(void) {
  size_t kept = 0;
  bool huge = true;
  for (size_t i = 0; i < trial.count; i++) {
    struct range *range = &trial.ranges[i];
    if (!range->text)
      trial.ranges[kept++] = *range;
    else if (huge)
      huge = make_huge((char *)(uintptr_t)range->from, range->text);
  }
  trial.count = kept;
}

static void let_memory_fork(void) { // V8 marks its heap MADV_DONTFORK
  FILE *maps = fopen("/proc/self/maps", "re");
  char line[1024];
  unsigned long from, to;
  while (maps && fgets(line, sizeof line, maps))
    if (sscanf(line, "%lx-%lx", &from, &to) == 2)
      madvise((void *)from, to - from, MADV_DOFORK);
  if (maps)
    fclose(maps);
}

bool trial_begin(void) {
  if (trial.cold || pipe2(trial.pipe, O_CLOEXEC))
    return false;
  let_memory_fork();
  pid_t pid = fork();
  if (pid == 0) {
    close(trial.pipe[0]);
    alarm(10); // one that hangs must not hold up the boot for ever
    return trial.running = true;
  }
  close(trial.pipe[1]);
  size_t size = 0;
  ssize_t got = 0;
  while (pid > 0 && (got = read(trial.pipe[0], (char *)trial.ranges + size, sizeof trial.ranges - size)) > 0)
    size += (size_t)got;
  trial.count = size / sizeof *trial.ranges;
  close(trial.pipe[0]);
  if (pid > 0)
    waitpid(pid, NULL, 0);
  keep_written();
  return false;
}

// ---- in a cell ----

void trial_apply(void) {
  for (size_t i = 0; i < trial.count; i++)
    madvise((void *)(uintptr_t)trial.ranges[i].from, trial.ranges[i].to - trial.ranges[i].from, POPULATE_WRITE);
}
