// Preloaded by transport.test.js: getsockopt(TCP_INFO), which the HTTP backend
// calls just before it sends over a kept connection, takes SLOW_MS the second time.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SLOW_US = 150000 };

int getsockopt(int fd, int level, int name, void *value, socklen_t *size) {
  static int (*real)(int, int, int, void *, socklen_t *);
  static int calls;
  if (!real)
    real = (int (*)(int, int, int, void *, socklen_t *))dlsym(RTLD_NEXT, "getsockopt");
  int result = real(fd, level, name, value, size);
  if (level == IPPROTO_TCP && name == TCP_INFO && ++calls == 2)
    usleep(SLOW_US);
  return result;
}
