// boot.c: see boot.h.
#include "boot.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../protocol.h"

static void parse_boot(char *text, size_t bytes, struct boot *boot) {
  for (char *at = text; at < text + bytes && *at; at += strlen(at) + 1) {
    char *value = strchr(at, '=');
    if (!value)
      continue;
    const struct {
      const char *name;
      const char **to;
    } known[] = {{"language", &boot->language},   {"start", &boot->start},         {"runtime", &boot->runtime},
                 {"guest_dir", &boot->guest_dir}, {"guest_lib", &boot->guest_lib}, {"module_dir", &boot->module_dir}};
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

// Root's, and nobody else may change it, up to the root of the file system.
static int check_owner(const char *path, struct cell_error *error) {
  char real[PATH_MAX];
  struct stat status;
  if (!realpath(path, real))
    return cell_fail(error, errno, "config", "%.80s: %s", path, strerror(errno));
  for (char *end;; *end = '\0') {
    if (stat(real[0] ? real : "/", &status) < 0)
      return cell_fail(error, errno, "config", "%.80s: %s", real, strerror(errno));
    if (status.st_uid != 0 || (status.st_mode & 022))
      return cell_fail(error, EPERM, "config", "%.80s is not root's alone, and code-jail-launcher starts nothing else",
                       real[0] ? real : "/");
    if (!(end = strrchr(real, '/')))
      return 0;
  }
}

// Who asks is not root, and must not become root by what it names.
static int check_strictly(const struct boot *boot, struct cell_error *error) {
  const char *paths[] = {boot->runtime, boot->guest_dir, boot->guest_lib, boot->module_dir};
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
    int result = paths[i] ? check_owner(paths[i], error) : 0;
    if (result < 0)
      return result;
  }
  for (int i = 0; i < boot->preload_count; i++)
    if (boot->preload[i][0] == '/' || boot->preload[i][0] == '.' || strstr(boot->preload[i], ".."))
      return cell_fail(error, EPERM, "config", "preload %.60s is a path; behind code-jail-launcher name a module",
                       boot->preload[i]);
  return 0;
}

int boot_receive(struct boot *boot, bool strict, struct cell_error *error) {
  static char message[PROTOCOL_MESSAGE_MAX + 1];
  ssize_t size;
  do
    size = recv(PROTOCOL_FD, message, PROTOCOL_MESSAGE_MAX, 0);
  while (size < 0 && errno == EINTR);
  if (size <= 0)
    return 1;
  struct order order;
  memcpy(&order, message, sizeof order);
  if ((size_t)size > sizeof order && order.type == ORDER_BOOT)
    parse_boot(message + sizeof order, (size_t)size - sizeof order, boot);
  if (!boot->language || !boot->runtime || !boot->guest_dir || !boot->guest_lib)
    return cell_fail(error, EPROTO, "boot", "the engine sent no complete BOOT order");
  return strict ? check_strictly(boot, error) : 0;
}
