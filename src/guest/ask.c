// ask.c: see ask.h.
#include "ask.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
  CAPTURE_MAX = 1 << 20, // what a runtime or the loader may answer
  CAPTURE_MS = 10000,    // and how long it may take
};

static long since_ms(const struct timespec *start) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (now.tv_sec - start->tv_sec) * 1000 + (now.tv_nsec - start->tv_nsec) / 1000000;
}

// Reads to the end. False if that did not come in time, or in the room there is.
static bool read_all(int fd, char *answer) {
  struct timespec start;
  size_t size = 0;
  clock_gettime(CLOCK_MONOTONIC, &start);
  while (size < CAPTURE_MAX - 1) {
    long left = CAPTURE_MS - since_ms(&start);
    struct pollfd source = {.fd = fd, .events = POLLIN};
    int ready = left > 0 ? poll(&source, 1, (int)left) : 0;
    ssize_t got = ready > 0 ? read(fd, answer + size, CAPTURE_MAX - 1 - size) : -1;
    if (got == 0)
      return true;
    if (ready == 0 || (got < 0 && errno != EINTR))
      return false;
    if (got > 0)
      size += (size_t)got;
  }
  return false;
}

static bool ended_well(pid_t pid) {
  int status;
  pid_t got;
  do
    got = waitpid(pid, &status, 0);
  while (got < 0 && errno == EINTR);
  return got == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

char *ask(char *const argv[], char *const envp[]) {
  int out[2];
  char *answer = calloc(1, CAPTURE_MAX);
  pid_t pid;
  posix_spawn_file_actions_t actions;
  if (!answer || pipe2(out, O_CLOEXEC))
    return free(answer), NULL;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out[1], 1);
  bool good = posix_spawn(&pid, argv[0], &actions, NULL, argv, envp) == 0;
  posix_spawn_file_actions_destroy(&actions);
  close(out[1]);
  if (good) {
    good = read_all(out[0], answer);
    if (!good)
      kill(pid, SIGKILL); // it would be waited for without end
    good = ended_well(pid) && good;
  }
  close(out[0]);
  if (!good)
    free(answer), answer = NULL;
  return answer;
}

int ask_interpreter(const char *path, char name[PATH_MAX]) {
  Elf64_Ehdr head;
  Elf64_Phdr part;
  int found = -1, fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return -1;
  if (pread(fd, &head, sizeof head, 0) == sizeof head && !memcmp(head.e_ident, ELFMAG, SELFMAG) &&
      head.e_ident[EI_CLASS] == ELFCLASS64) {
    found = 0;
    name[0] = 0; // a static program has none
    for (int i = 0; i < head.e_phnum; i++) {
      if (pread(fd, &part, sizeof part, (off_t)(head.e_phoff + (size_t)i * sizeof part)) != sizeof part)
        break;
      if (part.p_type != PT_INTERP || part.p_filesz >= PATH_MAX)
        continue;
      if (pread(fd, name, part.p_filesz, (off_t)part.p_offset) != (ssize_t)part.p_filesz)
        found = -1;
      name[part.p_filesz] = 0;
    }
  }
  close(fd);
  return found;
}
