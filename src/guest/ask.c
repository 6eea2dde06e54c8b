// ask.c: see ask.h.
#include "ask.h"

#include <elf.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
  CAPTURE_MAX = 1 << 20, // what a runtime or the loader may answer
  CAPTURE_MS = 10000,    // and how long it may take
};

char *ask(char *const argv[], char *const envp[]) {
  int out[2], status;
  char *answer = calloc(1, CAPTURE_MAX);
  size_t size = 0;
  pid_t pid;
  struct timespec start, now;
  posix_spawn_file_actions_t actions;
  if (!answer || pipe2(out, O_CLOEXEC))
    return free(answer), NULL;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out[1], 1);
  int failed = posix_spawn(&pid, argv[0], &actions, NULL, argv, envp);
  posix_spawn_file_actions_destroy(&actions);
  close(out[1]);
  clock_gettime(CLOCK_MONOTONIC, &start);
  while (!failed && size < CAPTURE_MAX - 1) {
    clock_gettime(CLOCK_MONOTONIC, &now);
    long left = CAPTURE_MS - (now.tv_sec - start.tv_sec) * 1000;
    struct pollfd source = {.fd = out[0], .events = POLLIN};
    if (left <= 0 || poll(&source, 1, (int)left) <= 0)
      break;
    ssize_t got = read(out[0], answer + size, CAPTURE_MAX - 1 - size);
    if (got <= 0)
      break;
    size += (size_t)got;
  }
  close(out[0]);
  if (!failed) {
    clock_gettime(CLOCK_MONOTONIC, &now);
    if ((now.tv_sec - start.tv_sec) * 1000 >= CAPTURE_MS)
      kill(pid, SIGKILL);
    if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status))
      failed = 1;
  }
  if (failed)
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
