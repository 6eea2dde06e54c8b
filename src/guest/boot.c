// boot.c: see boot.h.
#include "boot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../cell/cell.h"

void boot_parse(char *text, size_t bytes, struct boot *boot) {
  for (char *at = text; at < text + bytes && *at; at += strlen(at) + 1) {
    char *value = strchr(at, '=');
    if (!value)
      continue;
    const struct {
      const char *name;
      const char **to;
    } known[] = {{"language", &boot->language},   {"start", &boot->start},         {"runtime", &boot->runtime},
                 {"guest_dir", &boot->guest_dir}, {"guest_lib", &boot->guest_lib}, {"module_dir", &boot->module_dir},
                 {"stripper", &boot->stripper}};
    size_t name = (size_t)(value++ - at);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
      if (strlen(known[i].name) == name && !strncmp(at, known[i].name, name))
        *known[i].to = value;
    if (!strncmp(at, "preload=", 8) && boot->preload_count < CLOSURE_LIST_MAX)
      boot->preload[boot->preload_count++] = value;
    if (!strncmp(at, "allow_weak=", 11))
      boot->allow_weak = *value == '1';
    if (!strncmp(at, "memory_cap_mb=", 14))
      boot->memory_cap_mb = (unsigned)strtoul(value, NULL, 10);
  }
}

bool boot_barred(const struct boot *boot, struct cell_error *error) {
  const char *const files[] = {boot->runtime, boot->guest_lib, boot->guest_dir};
  struct stat info;
  for (size_t i = 0; geteuid() == 0 && i < sizeof files / sizeof *files; i++)
    if (stat(files[i], &info) == 0 && !(info.st_mode & (S_ISDIR(info.st_mode) ? S_IXOTH : S_IROTH)))
      return cell_fail(error, -EACCES, "config", "only root may read %s, and a cell has a uid of its own", files[i]) !=
             0;
  return false;
}

static void close_from(int first) {
  struct rlimit limit = {.rlim_cur = 1024, .rlim_max = 1024};
  if (syscall(SYS_close_range, first, ~0u, 0) == 0)
    return;
  getrlimit(RLIMIT_NOFILE, &limit); // older kernels: one by one
  for (rlim_t fd = (rlim_t)first; fd < limit.rlim_max && fd < 1 << 20; fd++)
    close((int)fd);
}

int boot_settle(int socket) {
  int null = open("/dev/null", O_RDWR);
  for (int fd = 0; fd < 3; fd++)
    dup2(null, fd);
  close_from(socket + 1);
  if (null > socket)
    close(null);
  prctl(PR_SET_NAME, "code-jail");
  return fcntl(socket, F_SETFD, FD_CLOEXEC) || chdir("/") ? -errno : 0;
}

void boot_raise_descriptors(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit))
    return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}
