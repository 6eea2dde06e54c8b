// files.c: see files.h. Names were checked by the host; here again, for what could
// lead out of the folder: it is written to as the cell's own user, and nobody else has.
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../protocol.h"

static bool is_below(const char *path, size_t bytes) {
  if (memchr(path, 0, bytes))
    return false;
  for (const char *part = path;;) {
    size_t size = strcspn(part, "/");
    if (size == 0 || (size == 1 && part[0] == '.') || (size == 2 && part[0] == '.' && part[1] == '.'))
      return false;
    if (part[size] == 0)
      return true;
    part += size + 1;
  }
}

static int make_folders(char *path) {
  for (char *slash = path; (slash = strchr(slash, '/')); *slash++ = '/') {
    *slash = 0;
    if (mkdir(path, 0700) && errno != EEXIST)
      return errno;
  }
  return 0;
}

static int write_all(int fd, const char *data, size_t bytes) {
  while (bytes) {
    ssize_t size = write(fd, data, bytes);
    if (size < 0 && errno == EINTR)
      continue;
    if (size < 0)
      return errno;
    data += size;
    bytes -= (size_t)size;
  }
  return 0;
}

// path NULL: only takes its bytes.
static int receive_file(const char *path, size_t bytes, int (*receive)(void *to, size_t bytes)) {
  static char chunk[65536];
  int fd = path ? open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600) : -1;
  int failed = path && fd < 0 ? errno : 0;
  while (bytes && failed >= 0) {
    size_t size = bytes < sizeof chunk ? bytes : sizeof chunk;
    if (receive(chunk, size))
      failed = -1;
    else if (fd >= 0 && !failed)
      failed = write_all(fd, chunk, size);
    bytes -= size;
  }
  if (fd >= 0)
    close(fd);
  return failed;
}

int files_receive(size_t bytes, int (*receive)(void *to, size_t bytes)) {
  int failed = 0;
  while (bytes) {
    struct job_file file;
    char path[JOB_PATH_MAX + 1];
    if (bytes < sizeof file || receive(&file, sizeof file))
      return -1;
    bytes -= sizeof file;
    if (file.path_bytes == 0 || file.path_bytes > JOB_PATH_MAX || file.path_bytes > bytes ||
        file.data_bytes > bytes - file.path_bytes || receive(path, file.path_bytes))
      return -1;
    path[file.path_bytes] = 0;
    if (!is_below(path, file.path_bytes))
      return -1;
    bytes -= file.path_bytes + file.data_bytes;
    if (!failed)
      failed = make_folders(path);
    int now = receive_file(failed ? NULL : path, file.data_bytes, receive);
    if (now < 0)
      return -1;
    failed = failed ? failed : now;
  }
  return failed;
}
