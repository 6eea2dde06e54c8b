// sources: src/guest/files.c
// A job's files in a cell: what is written, and that no path leads out of the folder, whoever checked it before.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../src/guest/files.h"
#include "../../src/protocol.h"

static int count, failures;

static void ok(int passed, const char *what) {
  printf("%sok %d - %s\n", passed ? "" : "not ", ++count, what);
  failures += !passed;
}

static struct {
  char bytes[1024];
  size_t size, at;
} job;

static int receive(void *to, size_t bytes) {
  if (bytes > job.size - job.at)
    return -1;
  memcpy(to, job.bytes + job.at, bytes);
  job.at += bytes;
  return 0;
}

static void add(const char *path, size_t path_bytes, const char *data) {
  struct job_file file = {(uint32_t)path_bytes, (uint32_t)strlen(data)};
  memcpy(job.bytes + job.size, &file, sizeof file);
  memcpy(job.bytes + job.size + sizeof file, path, path_bytes);
  memcpy(job.bytes + job.size + sizeof file + path_bytes, data, file.data_bytes);
  job.size += sizeof file + path_bytes + file.data_bytes;
}

// One file under this name.
static int take(const char *path, size_t path_bytes) {
  job.size = job.at = 0;
  add(path, path_bytes, "data");
  return files_receive(job.size, receive);
}
#define TAKE(path) take(path, sizeof path - 1)

static int holds(const char *path, const char *want) {
  char text[16] = "";
  int fd = open(path, O_RDONLY);
  ssize_t size = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
  if (fd >= 0)
    close(fd);
  return size == (ssize_t)strlen(want) && !strcmp(text, want);
}

int main(void) {
  char folder[] = "/tmp/code-jail-files-XXXXXX", clean[64];
  if (!mkdtemp(folder) || chdir(folder) || mkdir("in", 0700) || chdir("in"))
    return 1;
  ok(TAKE("a") == 0 && holds("a", "data"), "a file");
  ok(TAKE("b/c/d") == 0 && TAKE("b/c/e") == 0 && holds("b/c/e", "data"), "in folders, some of which are there");
  ok(TAKE("..a") == 0 && TAKE("...") == 0 && TAKE(".b") == 0, "names with dots");
  ok(TAKE("../x") == -1 && TAKE("f/../../x") == -1 && TAKE("..") == -1 && access("../x", F_OK), "not above it");
  ok(TAKE("/tmp/x") == -1 && TAKE("g//x") == -1 && TAKE("g/") == -1 && TAKE("") == -1 && TAKE("./g") == -1 &&
       TAKE("g\0h") == -1 && access("g", F_OK),
     "no absolute path, empty part or NUL");
  ok(TAKE("a") == EEXIST && TAKE("a/b") == ENOTDIR && TAKE("b") == EEXIST, "nothing that is there is written to");
  ok(symlink("../x", "link") == 0 && TAKE("link") == EEXIST && access("../x", F_OK), "nor what a link leads to");
  job.size = job.at = 0;
  add("a", 1, "again");
  add("after", 5, "late");
  ok(files_receive(job.size, receive) == EEXIST && job.at == job.size && access("after", F_OK),
     "behind a failure the rest is taken and dropped");
  job.size = job.at = 0;
  add("h", 1, "data");
  ok(files_receive(job.size - 1, receive) == -1 && files_receive(4, receive) == -1, "lengths that do not fit");
  snprintf(clean, sizeof clean, "rm -r %s", folder);
  if (chdir("/") || system(clean))
    return 1;
  printf("1..%d\n", count);
  return failures != 0;
}
