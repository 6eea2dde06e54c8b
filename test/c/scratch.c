// sources: src/guest/scratch.c
//
// Folders for cells that can have no tmpfs: what a cell leaves behind in one,
// however it is shaped, is measured, out of sight at once and then gone; and
// nothing beyond it is ever touched.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../src/guest/scratch.h"

static int printed, failures;
static struct cell_plan plan;
static char outside[64] = "/tmp/scratch-canary-XXXXXX";

static void point(bool good, const char *what) {
  printf("%sok %d - %s\n", good ? "" : "not ", ++printed, what);
  failures += !good;
}

static bool exists(const char *name) {
  char path[128];
  struct stat status;
  snprintf(path, sizeof path, "%s/%s", plan.scratch, name);
  return lstat(path, &status) == 0;
}

static bool in_cell(unsigned cell) {
  char path[128];
  snprintf(path, sizeof path, "%s/%u", plan.scratch, cell);
  return chdir(path) == 0;
}

static void make_file(const char *path, size_t bytes) {
  int fd = open(path, O_WRONLY | O_CREAT, 0600);
  static char zeros[65536];
  memset(zeros, 1, sizeof zeros);
  for (size_t left = bytes; left > 0; left -= left < sizeof zeros ? left : sizeof zeros)
    if (write(fd, zeros, left < sizeof zeros ? left : sizeof zeros) < 0)
      break;
  close(fd);
}

// Nothing at all is left: a deep tree is taken apart under many names.
static bool is_empty(void) {
  int count = 0;
  DIR *dir = opendir(plan.scratch);
  for (struct dirent *item; dir && (item = readdir(dir));)
    count += item->d_name[0] != '.';
  if (dir)
    closedir(dir);
  return count == 0;
}

static bool gone_soon(void) {
  for (int i = 0; i < 1000 && !is_empty(); i++)
    usleep(10000);
  return is_empty();
}

static void test_one(void) {
  struct stat status, base;
  point(scratch_make(1, &plan) == 0 && exists("1"), "a cell has a folder");
  char path[128];
  snprintf(path, sizeof path, "%s/1", plan.scratch);
  point(stat(path, &status) == 0 && (status.st_mode & 07777) == 0700, "that is its own alone");
  point(stat(plan.scratch, &base) == 0 && (base.st_mode & 07777) == 0711, "among others that it cannot list");
  point(scratch_make(1, &plan) == -EEXIST, "and never somebody else's");
  point(scratch_bytes(1) == 0, "an empty one counts nothing");
  scratch_drop(1);
  point(!exists("1") && !exists("gone-1"), "an empty one is gone at once");
  point(scratch_bytes(1) == 0, "one that is not there counts nothing");
}

static void test_size(void) {
  scratch_make(2, &plan);
  in_cell(2);
  make_file("a", 1 << 20);
  mkdir("d", 0700);
  make_file("d/b", 2 << 20);
  uint64_t bytes = scratch_bytes(2);
  point(bytes >= 3u << 20 && bytes < 4u << 20, "files are counted, in folders too");
  int links = symlink(outside, "link") + symlink("/usr", "usr") + symlink(".", "loop");
  point(links == 0 && scratch_bytes(2) < 4u << 20, "links are not followed");
  for (int i = 0; i < 5000; i++) {
    char name[16];
    snprintf(name, sizeof name, "f%d", i);
    make_file(name, 0);
  }
  point(scratch_bytes(2) == UINT64_MAX, "too many files count as too much");
  chdir("/");
  scratch_drop(2);
  point(!exists("2"), "a full one is out of sight at once");
  point(gone_soon(), "and gone soon");
  point(access(outside, F_OK) == 0, "a link's target stays");
}

static void test_deep(void) {
  scratch_make(3, &plan);
  in_cell(3);
  for (int i = 0; i < 2000 && mkdir("d", 0700) == 0; i++)
    if (chdir("d"))
      break;
  make_file("leaf", 10);
  chdir("/");
  point(scratch_bytes(3) == UINT64_MAX, "a tree deeper than is sensible counts as too much");
  scratch_drop(3);
  point(gone_soon(), "and goes, without recursion");
}

static void test_locked(void) {
  scratch_make(4, &plan);
  in_cell(4);
  mkdir("locked", 0700);
  make_file("locked/file", 10);
  chmod("locked", 0);
  chdir("/");
  uint64_t bytes = scratch_bytes(4);
  point(geteuid() == 0 ? bytes != UINT64_MAX : bytes == UINT64_MAX, "what is hidden from us counts as too much");
  scratch_drop(4);
  point(gone_soon(), "and goes all the same");
}

// Another keeper, which is killed: what it left is removed by the next.
static void test_stale(void) {
  char left[CELL_SCRATCH_MAX] = "";
  int ends[2];
  if (pipe(ends))
    return;
  pid_t child = fork();
  if (child == 0) {
    struct cell_plan other = {0};
    // Its own, not the parent's: scratch.c has one.
    char *argv[] = {(char *)"scratch", (char *)"--other", NULL};
    (void)other;
    dup2(ends[1], 1);
    execv("/proc/self/exe", argv);
    _exit(1);
  }
  close(ends[1]);
  ssize_t size = read(ends[0], left, sizeof left - 1);
  left[size > 0 ? size : 0] = '\0';
  struct stat status;
  point(stat(left, &status) == 0, "a second keeper has a folder of its own, and leaves the first's alone");
  point(exists("."), "(the first's)");
  kill(child, 9);
  waitpid(child, NULL, 0);
  point(stat(left, &status) == 0, "killed, it leaves it behind");
  child = fork();
  if (child == 0) {
    char *argv[] = {(char *)"scratch", (char *)"--other", (char *)"--end", NULL};
    close(1);
    execv("/proc/self/exe", argv);
    _exit(1);
  }
  waitpid(child, NULL, 0);
  point(stat(left, &status) < 0, "the next one removes it");
  point(exists("."), "and not that of one who lives");
}

static int other(int count) {
  struct cell_plan mine = {0};
  scratch_open(&mine);
  scratch_make(7, &mine);
  printf("%s", mine.scratch);
  fflush(stdout);
  if (count < 3)
    pause();
  scratch_close();
  return 0;
}

int main(int count, char **argv) {
  if (count > 1 && !strcmp(argv[1], "--other"))
    return other(count);
  int canary = mkstemp(outside);
  close(canary);
  point(scratch_bytes(1) == 0 && scratch_make(1, &plan) == 0, "where there is none, nothing is made");
  scratch_open(&plan);
  point(plan.scratch[0] == '/' && exists("."), "a folder for all folders");
  point(scratch_start() == 0, "and somebody who removes");
  test_one();
  test_size();
  test_deep();
  test_locked();
  test_stale();
  scratch_make(5, &plan);
  in_cell(5);
  make_file("x", 10);
  chdir("/");
  scratch_close();
  point(access(plan.scratch, F_OK) < 0, "at the end nothing is left");
  unlink(outside);
  printf("1..%d\n", printed);
  return failures > 0;
}
