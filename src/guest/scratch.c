// scratch.c: see scratch.h. What a cell has left is removed without following
// links, without recursion (a tree may be deeper than any stack) and on a thread
// of its own (it may be large).
#include "scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { DEPTH_MAX = 32, ENTRIES_MAX = 4096, CLOSE_MS = 500 };
#define NAME ".code-jail-scratch-XXXXXX"
#define PREFIX_LENGTH (sizeof NAME - sizeof "XXXXXX")
#define MARK ".of-a-keeper" // in each such folder: what has another's content is never swept

static int base = -1; // of all folders; written by the main thread before there is another
static char base_path[CELL_SCRATCH_MAX];
static uid_t shift; // from a cell's id, as the plan has it, to ours; main thread
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static uint32_t dropped;                                     // under lock: how many times there was something to remove
static pthread_mutex_t sweeping = PTHREAD_MUTEX_INITIALIZER; // one at a time, or names would clash
static atomic_bool closing;                                  // the thread that removes gives up

static int open_folder(int at, const char *name) {
  return openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static bool is_dots(const char *name) {
  return !strcmp(name, ".") || !strcmp(name, "..");
}

// ---- removing ----

// One level: files go, folders move up into `top` under a new name, to be a
// level themselves. Whatever cannot be removed stays, and is no reason to stop.
static void flatten(int top, const char *name, uint64_t *serial) {
  int fd = open_folder(top, name);
  DIR *dir = fd < 0 ? NULL : fdopendir(fd);
  if (!dir) {
    if (fd >= 0)
      close(fd);
    return;
  }
  fchmod(fd, 0700); // its owner may have taken our right to list it
  for (struct dirent *item; (item = readdir(dir));) {
    char moved[48];
    if (is_dots(item->d_name) || unlinkat(fd, item->d_name, 0) == 0)
      continue;
    if (unlinkat(fd, item->d_name, AT_REMOVEDIR) == 0)
      continue;
    snprintf(moved, sizeof moved, "gone-%llu", (unsigned long long)++*serial);
    // To change its "..", the kernel asks the right to write it. Another's it may have already.
    int changed = fchmodat(fd, item->d_name, 0700, 0);
    (void)changed;
    renameat(fd, item->d_name, top, moved);
  }
  closedir(dir);
  unlinkat(top, name, AT_REMOVEDIR);
}

static uint64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

// Everything in `top` whose name begins so, until it is gone, nothing moves any
// more, or the time is over (0: no limit).
static void sweep(int top, const char *prefix, uint64_t limit_ms) {
  uint64_t serial = (uint64_t)now_ms() << 20, until = now_ms() + limit_ms;
  for (size_t before = SIZE_MAX;;) {
    int fd = open_folder(top, ".");
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    size_t count = 0;
    uint64_t first = serial;
    if (!dir) {
      if (fd >= 0)
        close(fd);
      return;
    }
    for (struct dirent *item; (item = readdir(dir));) {
      if (is_dots(item->d_name) || strncmp(item->d_name, prefix, strlen(prefix)) || !strcmp(item->d_name, MARK))
        continue;
      if (limit_ms ? now_ms() > until : closing)
        break;
      flatten(top, item->d_name, &serial);
      count++;
    }
    closedir(dir);
    if (count == 0 || (serial == first && count >= before) || (limit_ms ? now_ms() > until : closing))
      return;
    before = count;
  }
}

static void *sweeper(void *unused) {
  (void)unused;
  uint32_t seen = 0;
  for (;;) {
    pthread_mutex_lock(&lock);
    while (dropped == seen)
      pthread_cond_wait(&more, &lock);
    seen = dropped;
    pthread_mutex_unlock(&lock);
    pthread_mutex_lock(&sweeping);
    sweep(base, "gone-", 0);
    pthread_mutex_unlock(&sweeping);
  }
  return NULL;
}

// ---- the folder of all folders ----

// Made by a keeper, and nobody else's that is only named alike.
static bool is_ours(int fd) {
  struct stat folder, mark;
  return fstat(fd, &folder) == 0 && folder.st_uid == geteuid() && fstatat(fd, MARK, &mark, AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISREG(mark.st_mode) && mark.st_uid == geteuid();
}

// The mark goes last: what could not be swept in time is still ours.
static void remove_swept(int fd, int at, const char *name) {
  unlinkat(fd, MARK, 0);
  if (unlinkat(at, name, AT_REMOVEDIR) < 0)
    (void)mknodat(fd, MARK, S_IFREG, 0);
}

// A lock tells whether its keeper still lives: the kernel drops it with the process.
static void remove_stale(const char *place) {
  int top = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *dir = top < 0 ? NULL : fdopendir(top);
  if (!dir) {
    if (top >= 0)
      close(top);
    return;
  }
  for (struct dirent *item; (item = readdir(dir));) {
    if (strlen(item->d_name) != sizeof NAME - 1 || strncmp(item->d_name, NAME, PREFIX_LENGTH))
      continue;
    int fd = open_folder(top, item->d_name);
    if (fd < 0)
      continue;
    if (is_ours(fd) && flock(fd, LOCK_EX | LOCK_NB) == 0) {
      sweep(fd, "", CLOSE_MS);
      remove_swept(fd, top, item->d_name);
    }
    close(fd);
  }
  closedir(dir);
}

static bool open_at(const char *place) {
  snprintf(base_path, sizeof base_path, "%s/" NAME, place);
  if (!mkdtemp(base_path))
    return false;
  base = open_folder(AT_FDCWD, base_path);
  // 0711: a cell passes through to its own, and cannot list its siblings'.
  if (base >= 0 && flock(base, LOCK_SH | LOCK_NB) == 0 && fchmod(base, 0711) == 0 &&
      mknodat(base, MARK, S_IFREG, 0) == 0)
    return true;
  if (base >= 0)
    close(base);
  base = -1;
  rmdir(base_path);
  return false;
}

void scratch_open(struct cell_plan *plan) {
  static const char *const places[] = {"/tmp", "/var/tmp", "/run", "/dev/shm"};
  if (plan->want & CELL_BIT(CELL_MOUNT_NAMESPACE))
    return;
  for (size_t i = 0; i < sizeof places / sizeof *places && base < 0; i++) {
    remove_stale(places[i]);
    if (open_at(places[i]))
      snprintf(plan->scratch, sizeof plan->scratch, "%s", base_path);
  }
}

void scratch_owner(pid_t init, const struct cell_plan *plan) {
  char path[32], line[128];
  unsigned inside, outside, count;
  snprintf(path, sizeof path, "/proc/%d/uid_map", (int)init);
  FILE *map = base < 0 ? NULL : fopen(path, "re");
  while (map && fgets(line, sizeof line, map))
    if (sscanf(line, "%u %u %u", &inside, &outside, &count) == 3 && plan->uid_base >= inside &&
        plan->uid_base - inside < count)
      shift = outside - inside;
  if (map)
    fclose(map);
}

int scratch_start(void) {
  pthread_t thread;
  return base < 0 ? 0 : -pthread_create(&thread, NULL, sweeper, NULL);
}

void scratch_close(void) {
  if (base < 0)
    return;
  closing = true;
  pthread_mutex_lock(&sweeping);
  sweep(base, "", CLOSE_MS);
  pthread_mutex_unlock(&sweeping);
  remove_swept(base, AT_FDCWD, base_path);
}

// ---- one cell's ----

static void name_of(uint32_t cell, char name[16]) {
  snprintf(name, 16, "%u", cell);
}

int scratch_make(uint32_t cell, const struct cell_plan *plan) {
  char name[16];
  name_of(cell, name);
  if (base < 0)
    return 0;
  if (mkdirat(base, name, 0700) < 0)
    return -errno;
  bool own_uid = (plan->want & CELL_BIT(CELL_SEPARATE_UID)) && plan->uid_count > 0;
  uid_t uid = own_uid ? shift + plan->uid_base + cell % plan->uid_count : geteuid();
  if (own_uid && fchownat(base, name, uid, uid, AT_SYMLINK_NOFOLLOW) < 0) {
    int result = -errno;
    unlinkat(base, name, AT_REMOVEDIR);
    return result;
  }
  return 0;
}

void scratch_drop(uint32_t cell) {
  char name[16], gone[24];
  if (base < 0)
    return;
  name_of(cell, name);
  snprintf(gone, sizeof gone, "gone-%s", name);
  if (unlinkat(base, name, AT_REMOVEDIR) == 0) // most are empty
    return;
  renameat(base, name, base, gone);
  pthread_mutex_lock(&lock);
  dropped++;
  pthread_cond_signal(&more);
  pthread_mutex_unlock(&lock);
}

// The cell lives, and may change the tree under our feet: every step is relative
// to an open folder, no link is followed, and the number of steps has an end.
static uint64_t measure(int fd, int depth, uint32_t *left) {
  uint64_t bytes = 0;
  DIR *dir = fdopendir(fd); // takes fd
  if (!dir) {
    close(fd);
    return 0;
  }
  for (struct dirent *item; bytes != UINT64_MAX && (item = readdir(dir));) {
    struct stat status;
    if (is_dots(item->d_name))
      continue;
    if ((*left)-- == 0 || depth == DEPTH_MAX) {
      *left = 0;
      bytes = UINT64_MAX;
    } else if (fstatat(dirfd(dir), item->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0) {
      bytes += (uint64_t)status.st_blocks * 512u;
      int below = S_ISDIR(status.st_mode) ? open_folder(dirfd(dir), item->d_name) : -1;
      uint64_t inside = below >= 0 ? measure(below, depth + 1, left) : 0;
      bool hidden = S_ISDIR(status.st_mode) && below < 0 && errno == EACCES; // from us, who are of its own uid
      bytes = hidden || inside == UINT64_MAX ? UINT64_MAX : bytes + inside;
    }
  }
  closedir(dir);
  return bytes;
}

uint64_t scratch_bytes(uint32_t cell) {
  char name[16];
  uint32_t left = ENTRIES_MAX;
  name_of(cell, name);
  int fd = base < 0 ? -1 : open_folder(base, name);
  if (fd < 0)
    return base >= 0 && errno == EACCES ? UINT64_MAX : 0;
  return measure(fd, 0, &left);
}
