// watch.c: see watch.h. The kernel's own limits come first (RLIMIT_DATA, a sized
// tmpfs); the watch catches what they do not count, together.
#include "watch.h"
#include "scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
  WATCH_US = 5000,   // how often memory is looked at while a job runs
  HIDDEN_MAX = 4,    // looks at a process without a first thread
  LINGER = 40,       // looks without a running job before the thread sleeps
  FOLDER_US = 50000, // the same for folders on disk, which have to be walked
};

pthread_mutex_t watch_lock = PTHREAD_MUTEX_INITIALIZER;
struct watched watch_cells[PROTOCOL_SLOT_MAX];
size_t watch_count;

static const struct cell_plan *plan;
static pthread_cond_t armed_one = PTHREAD_COND_INITIALIZER;
static size_t armed_count;

// ---- the table ----

struct watched *watch_find(uint32_t id) {
  for (size_t i = 0; i < watch_count; i++)
    if (watch_cells[i].id == id)
      return &watch_cells[i];
  return NULL;
}

struct watched *watch_add(uint32_t id) {
  if (watch_count == PROTOCOL_SLOT_MAX)
    return NULL;
  struct watched *cell = &watch_cells[watch_count++];
  *cell = (struct watched){.id = id, .pidfd = -1, .status = -1, .tmpfs = {-1, -1}};
  return cell;
}

static void set_armed(struct watched *cell, bool armed) {
  if (cell->armed == armed)
    return;
  cell->armed = armed;
  if (!armed)
    armed_count--;
  else if (armed_count++ == 0)
    pthread_cond_broadcast(&armed_one);
}

static void close_fd(int fd) {
  if (fd >= 0)
    close(fd);
}

void watch_forget(struct watched *cell) {
  set_armed(cell, false);
  close_fd(cell->pidfd);
  close_fd(cell->status);
  close_fd(cell->tmpfs[0]);
  close_fd(cell->tmpfs[1]);
  scratch_drop(cell->id);
  *cell = watch_cells[--watch_count];
}

// The pid is the cell's own for as long as it is in the table: the zygote reaps
// only when the keeper says so.
static void send_signal(const struct watched *cell, int number) {
  if (cell->pidfd >= 0 && syscall(SYS_pidfd_send_signal, cell->pidfd, number, NULL, 0) == 0)
    return;
  if (cell->pid > 0)
    kill(cell->pid, number);
}

void watch_kill(struct watched *cell, uint32_t verdict) {
  if (!cell->verdict)
    cell->verdict = verdict;
  send_signal(cell, SIGKILL);
}

void watch_ask(const struct watched *cell) {
  send_signal(cell, WHERE_SIGNAL);
}

// ---- memory ----

struct memory {
  uint64_t own_bytes;   // anonymous pages, and the page tables, which have no limit of their own
  uint64_t shmem_bytes; // mapped pages of its tmpfs mounts, where these are not counted themselves
  uint64_t rss_bytes;   // VmRSS
  uint64_t threads;
};

static uint64_t field(const char *text, const char *name) {
  const char *at = strstr(text, name);
  return at ? strtoull(at + strlen(name), NULL, 10) * 1024u : 0;
}

// Only `status`: it counts without walking the mappings, however many there are.
static int read_memory(int status, struct memory *memory) {
  char text[4096];
  ssize_t size = status < 0 ? -1 : pread(status, text, sizeof text - 1, 0);
  if (size <= 0)
    return -1;
  text[size] = 0;
  memory->own_bytes = field(text, "\nRssAnon:") + field(text, "\nVmPTE:");
  memory->shmem_bytes = field(text, "\nRssShmem:");
  memory->rss_bytes = field(text, "\nVmRSS:");
  if (!strstr(text, "\nRssAnon:")) // gVisor tells only their sum with file pages
    memory->own_bytes = memory->rss_bytes;
  memory->threads = field(text, "\nThreads:") / 1024u;
  return 0;
}

static uint64_t tmpfs_bytes(const struct watched *cell) {
  uint64_t used = 0;
  struct statfs about;
  for (int i = 0; i < 2; i++)
    if (cell->tmpfs[i] >= 0 && fstatfs(cell->tmpfs[i], &about) == 0)
      used += (uint64_t)(about.f_blocks - about.f_bfree) * (uint64_t)about.f_bsize;
  return used;
}

void watch_park(struct watched *cell, struct report *report) {
  struct memory memory = {0};
  char path[64];
  cell->pidfd = (int)syscall(SYS_pidfd_open, cell->pid, 0);
  snprintf(path, sizeof path, "/proc/%d/status", (int)cell->pid);
  cell->status = open(path, O_RDONLY | O_CLOEXEC);
  read_memory(cell->status, &memory);
  cell->base_bytes = memory.own_bytes;
  cell->rss_bytes = cell->peak_bytes = memory.rss_bytes;
  cell->parked = true;
  cell->due_ns = 0;
  report->rss_bytes = memory.rss_bytes;
  const int placed = cell_cgroup_enter(cell->id, cell->pid);
  if (placed < 0)
    watch_kill(cell, VERDICT_LOST);
  else if (placed)
    report->layers |= CELL_BIT(CELL_CGROUP);
}

void watch_gone(struct watched *cell, struct report *report) {
  if (cell_cgroup_leave(cell->id) && !cell->verdict)
    cell->verdict = VERDICT_MEMORY; // the kernel's own, before the watch saw it
  report->verdict = cell->verdict;
  if (report->rss_bytes < cell->peak_bytes)
    report->rss_bytes = cell->peak_bytes;
  watch_forget(cell);
}

void watch_arm(struct watched *cell, uint64_t memory) {
  cell->limit_bytes = cell->base_bytes + memory;
  if (cell_cgroup_limit(cell->id, memory) < 0)
    watch_kill(cell, VERDICT_LOST);
  set_armed(cell, true);
}

static void look_at(struct watched *cell) {
  struct memory memory;
  if (!cell->armed || read_memory(cell->status, &memory))
    return;
  if (!memory.rss_bytes) {
    // A zombie tells no figures. One whose other threads go on has ended its
    // first on purpose, to be seen by nobody; one that is just ending has them
    // for a moment, and a kill changes nothing about its exit code.
    if (memory.threads > 1 && ++cell->hidden >= HIDDEN_MAX)
      watch_kill(cell, VERDICT_NONE);
    return;
  }
  uint64_t held = memory.own_bytes + (cell->tmpfs[0] >= 0 ? tmpfs_bytes(cell) : memory.shmem_bytes);
  uint64_t files = cell->folder_bytes; // may be UINT64_MAX
  uint64_t seen = cell->rss_bytes + (held > cell->base_bytes ? held - cell->base_bytes : 0);
  if (seen > cell->peak_bytes)
    cell->peak_bytes = seen;
  if (files > cell->limit_bytes || held + files > cell->limit_bytes)
    watch_kill(cell, VERDICT_MEMORY);
}

static void look(void) {
  for (size_t i = 0; armed_count && i < watch_count; i++)
    look_at(&watch_cells[i]);
}

static void *watch(void *unused) {
  (void)unused;
  const struct timespec pause = {.tv_nsec = WATCH_US * 1000};
  for (int idle = 0;; nanosleep(&pause, NULL)) {
    pthread_mutex_lock(&watch_lock);
    idle = armed_count ? 0 : idle + 1;
    while (!armed_count && idle >= LINGER)
      pthread_cond_wait(&armed_one, &watch_lock);
    look();
    pthread_mutex_unlock(&watch_lock);
  }
  return NULL;
}

// ---- folders on disk, where there is no tmpfs to ask ----

// A walk may take long: never with the lock held, or deadlines would wait for it.
static void measure_folders(const uint32_t *ids, size_t count) {
  for (size_t i = 0; i < count; i++) {
    uint64_t bytes = scratch_bytes(ids[i]);
    pthread_mutex_lock(&watch_lock);
    struct watched *cell = watch_find(ids[i]);
    if (cell)
      cell->folder_bytes = bytes;
    pthread_mutex_unlock(&watch_lock);
  }
}

static void *watch_folders(void *unused) {
  (void)unused;
  static uint32_t ids[PROTOCOL_SLOT_MAX];
  const struct timespec pause = {.tv_nsec = FOLDER_US * 1000};
  for (;; nanosleep(&pause, NULL)) {
    size_t count = 0;
    pthread_mutex_lock(&watch_lock);
    while (!armed_count)
      pthread_cond_wait(&armed_one, &watch_lock);
    for (size_t i = 0; i < watch_count; i++)
      if (watch_cells[i].armed)
        ids[count++] = watch_cells[i].id;
    pthread_mutex_unlock(&watch_lock);
    measure_folders(ids, count);
  }
  return NULL;
}

int watch_start(const struct cell_plan *of) {
  pthread_t thread;
  plan = of;
  int result = pthread_create(&thread, NULL, watch, NULL);
  if (result == 0 && plan->scratch[0])
    result = pthread_create(&thread, NULL, watch_folders, NULL);
  return -result;
}
