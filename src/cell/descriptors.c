// descriptors.c: no descriptor of the zygote's stays alive in a cell. Runs in
// the cell, before any wall, while the zygote's /proc is in sight.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"

enum { SCAN_MAX = 4096 }; // where no /proc lists them: numbers tried one by one

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

static int blank_scanned(int null, const int *keep, size_t keep_count, struct cell_error *error) {
  for (int fd = 3; fd < SCAN_MAX; fd++) {
    if (fd == null || is_kept(fd, keep, keep_count) || fcntl(fd, F_GETFD) < 0)
      continue;
    int result = blank(null, fd, error);
    if (result < 0)
      return result;
  }
  return 0;
}

int cell_descriptors(const int *keep, size_t keep_count, struct cell_error *error) {
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0)
    return cell_fail(error, errno, "descriptors", "open /dev/null: %s", strerror(errno));
  int list = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int result =
    list >= 0 ? blank_listed(list, null, keep, keep_count, error) : blank_scanned(null, keep, keep_count, error);
  if (list >= 0)
    close(list);
  close(null);
  return result;
}
