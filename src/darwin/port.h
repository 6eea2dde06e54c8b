// port.h: included ahead of every file of a build for macOS: what the sources
// take from Linux and the C library of macOS has under another name, or not.
#ifndef CODE_JAIL_PORT_H
#define CODE_JAIL_PORT_H

#include <crt_externs.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#define environ (*_NSGetEnviron())
#define pthread_setname_np(thread, name) ((void)(thread), pthread_setname_np(name))

static inline void explicit_bzero(void *data, size_t size) {
  memset(data, 0, size);
  __asm__ volatile("" : : "r"(data) : "memory");
}

static inline int dup3(int from, int to, int flags) {
  return dup2(from, to) < 0 || (flags & O_CLOEXEC && fcntl(to, F_SETFD, FD_CLOEXEC)) ? -1 : to;
}

static inline int pipe2(int ends[2], int flags) {
  if (pipe(ends))
    return -1;
  for (int i = 0; i < 2; i++)
    if ((flags & O_CLOEXEC && fcntl(ends[i], F_SETFD, FD_CLOEXEC)) ||
        (flags & O_NONBLOCK && fcntl(ends[i], F_SETFL, O_NONBLOCK))) {
      close(ends[0]);
      close(ends[1]);
      return -1;
    }
  return 0;
}

#endif
