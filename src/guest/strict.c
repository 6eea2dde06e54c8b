// strict.c: see strict.h.
#include "strict.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// Root's, and nobody else may change it, up to the root of the file system. In a
// sticky folder others may make files of their own, and cannot move root's.
static int check_owner(const char *path, struct cell_error *error) {
  char real[PATH_MAX];
  struct stat status;
  if (!realpath(path, real))
    return cell_fail(error, errno, "config", "%.80s: %s", path, strerror(errno));
  for (char *end;; *end = '\0') {
    if (stat(real[0] ? real : "/", &status) < 0)
      return cell_fail(error, errno, "config", "%.80s: %s", real, strerror(errno));
    bool sticky = S_ISDIR(status.st_mode) && (status.st_mode & S_ISVTX);
    if (status.st_uid != 0 || ((status.st_mode & 022) && !sticky))
      return cell_fail(error, EPERM, "config", "%.80s is not root's alone, and code-jail-launcher starts nothing else",
                       real[0] ? real : "/");
    if (!(end = strrchr(real, '/')))
      return 0;
  }
}

// Who asks is not root, and must not become root by what it names.
int strict_check(const struct boot *boot, struct cell_error *error) {
  const char *paths[] = {boot->runtime, boot->guest_dir, boot->guest_lib, boot->module_dir, boot->stripper};
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
