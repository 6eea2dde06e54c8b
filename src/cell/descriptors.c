// descriptors.c: no descriptor of the zygote's stays alive in a cell. Runs in
// the cell, before any wall, while the zygote's /proc is in sight.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"

enum {
  // Numbers tried one by one: a listing costs more. What lies beyond may as well
  // be closed: under RLIMIT_NOFILE nothing can take such a number again.
  SCAN_MAX = CELL_DESCRIPTORS_MAX,
  SCAN_MAX_BLIND = 65536, // where neither close_range nor /proc is there
};

struct directory_entry { // as getdents64 fills it; libc has no name for it
  uint64_t inode;
  int64_t offset;
  uint16_t size;
  uint8_t type;
  char name[];
};

static bool is_kept(int fd, const int *keep, size_t keep_count) {
  for (size_t i = 0; i < keep_count; i++)
    if (keep[i] == fd)
      return true;
  return fd <= 2;
}

// Replaced, not closed: the runtime still writes to the numbers it knew, and
// must not hit what would take such a number next.
static int blank(int null, int fd, struct cell_error *error) {
  if (dup3(null, fd, O_CLOEXEC) < 0)
    return cell_fail(error, errno, "descriptors", "replace %d: %s", fd, strerror(errno));
  return 0;
}

static int blank_listed(int list, int null, const int *keep, size_t keep_count, struct cell_error *error) {
  char buffer[4096] __attribute__((aligned(8)));
  for (;;) {
    long size = syscall(SYS_getdents64, list, buffer, sizeof buffer);
    if (size < 0)
      return cell_fail(error, errno, "descriptors", "list: %s", strerror(errno));
    if (size == 0)
      return 0;
    for (long at = 0; at < size;) {
      const struct directory_entry *entry = (const void *)(buffer + at);
      int fd = atoi(entry->name); // "." and ".." give 0, which is kept
      at += entry->size;
      if (fd == list || fd == null || is_kept(fd, keep, keep_count))
        continue;
      int result = blank(null, fd, error);
      if (result < 0)
        return result;
    }
  }
}

static int blank_scanned(int null, int most, const int *keep, size_t keep_count, struct cell_error *error) {
  for (int fd = 3; fd < most; fd++) {
    if (fd == null || is_kept(fd, keep, keep_count) || fcntl(fd, F_GETFD) < 0)
      continue;
    int result = blank(null, fd, error);
    if (result < 0)
      return result;
  }
  return 0;
}

static bool close_from(int first) {
  return syscall(__NR_close_range, first, ~0u, 0) == 0;
}

static int blank_all(int null, const int *keep, size_t keep_count, struct cell_error *error) {
  if (close_from(SCAN_MAX))
    return blank_scanned(null, SCAN_MAX, keep, keep_count, error);
  int list = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (list < 0)
    return blank_scanned(null, SCAN_MAX_BLIND, keep, keep_count, error);
  int result = blank_listed(list, null, keep, keep_count, error);
  close(list);
  return result;
}

int cell_descriptors(const int *keep, size_t keep_count, struct cell_error *error) {
  for (size_t i = 0; i < keep_count; i++)
    if (keep[i] >= SCAN_MAX)
      return cell_fail(error, EINVAL, "descriptors", "%d is no small number", keep[i]);
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0)
    return cell_fail(error, errno, "descriptors", "open /dev/null: %s", strerror(errno));
  int result = blank_all(null, keep, keep_count, error);
  close(null);
  return result;
}
