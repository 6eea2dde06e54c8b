// root.c: the small file system that all cells of a zygote live in. Runs in the
// builder (namespaces.c), single-threaded, in a mount namespace of its own.
//
// Every source is opened before anything is mounted, so that no mount can hide
// one, and what was checked is what is mounted. The tree is then filled from
// within: the new root is "/" already, so that no link in it, and no mistake in
// a target, can lead to the host's files. Last, mountinfo is read back.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "internal.h"

#ifndef __NR_mount_setattr
#define __NR_mount_setattr 442
#endif

enum { ENTRIES_MAX = 4096, MOUNTINFO_MAX = 1 << 20, NO_SOURCE = -1 };

enum { RECURSIVE = 0x8000 }; // AT_RECURSIVE
enum { ATTR_RDONLY = 1, ATTR_NOSUID = 2, ATTR_NODEV = 4, ATTR_NOEXEC = 8 };

struct mount_attributes { // the kernel's struct mount_attr; older headers lack it
  uint64_t set, clear, propagation, userns_fd;
};

// ---- sources ----

static int check_source(const struct cell_root_entry *entry, int fd, struct cell_error *error) {
  struct stat status;
  if (fstat(fd, &status) < 0)
    return cell_fail(error, errno, "root", "%s: %s", entry->source, strerror(errno));
  const bool device = entry->kind == CELL_ROOT_DEVICE;
  const bool fits = device ? S_ISCHR(status.st_mode) : S_ISREG(status.st_mode) || S_ISDIR(status.st_mode);
  // A socket or FIFO can be used through a read-only mount: a way to the host.
  return fits ? 0
              : cell_fail(error, EINVAL, "root", "%s is no %s", entry->source,
                          device ? "character device" : "file or directory");
}

static bool has_source(const struct cell_root_entry *entry) {
  return entry->kind == CELL_ROOT_BIND || entry->kind == CELL_ROOT_DEVICE;
}

static int open_sources(const struct cell_root *root, int *sources, struct cell_error *error) {
  for (size_t i = 0; i < root->count; i++) {
    const struct cell_root_entry *entry = &root->entries[i];
    if (!has_source(entry))
      continue;
    sources[i] = open(entry->source, O_PATH | O_CLOEXEC);
    if (sources[i] < 0)
      return cell_fail(error, errno, "root", "%s: %s", entry->source, strerror(errno));
    int result = check_source(entry, sources[i], error);
    if (result < 0)
      return result;
  }
  return 0;
}

// ---- mounts ----

struct mount_line {
  char *path;    // where it is mounted
  char *options; // of this mount: "ro,nosuid,..."
};

// Takes the next line of mountinfo apart. The kernel writes blanks in paths as
// octal, so that fields are what blanks separate. False at the end.
static bool next_mount(char **rest, struct mount_line *mount) {
  char *line = strsep(rest, "\n");
  if (line == NULL || *line == '\0')
    return false;
  for (int field = 1; field <= 6; field++) { // id parent device root PATH OPTIONS
    char *text = strsep(&line, " ");
    if (field == 5)
      mount->path = text;
    if (field == 6)
      mount->options = text;
    if (text == NULL)
      return false;
  }
  return true;
}

static bool has_option(const char *options, const char *name) {
  size_t length = strlen(name);
  for (const char *at = options; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
    if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0'))
      return true;
  return false;
}

// mountinfo as text; the caller frees it. NULL with errno set.
static char *read_mounts(void) {
  char *text = malloc(MOUNTINFO_MAX);
  int fd = text ? open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC) : -1;
  size_t length = 0;
  ssize_t count = -1;
  while (fd >= 0 && length < MOUNTINFO_MAX - 1 && (count = read(fd, text + length, MOUNTINFO_MAX - 1 - length)) > 0)
    length += (size_t)count;
  if (fd >= 0)
    close(fd);
  if (fd < 0 || count != 0) { // not read to its end
    free(text);
    return NULL;
  }
  text[length] = '\0';
  return text;
}

static bool is_beneath(const char *path, const char *top) {
  size_t length = strlen(top);
  return strncmp(path, top, length) == 0 && (path[length] == '\0' || path[length] == '/');
}

// Kernels before 5.12: each mount beneath path in turn, keeping what is set
// already, because a locked flag that is left out is refused.
static int restrict_each(const char *path, unsigned attributes) {
  static const struct {
    const char *name;
    unsigned long flag;
    unsigned attribute;
  } flags[] = {
    {"ro", MS_RDONLY, ATTR_RDONLY},     {"nosuid", MS_NOSUID, ATTR_NOSUID}, {"nodev", MS_NODEV, ATTR_NODEV},
    {"noexec", MS_NOEXEC, ATTR_NOEXEC}, {"noatime", MS_NOATIME, 0},         {"nodiratime", MS_NODIRATIME, 0},
    {"relatime", MS_RELATIME, 0},
  };
  char *text = read_mounts(), *rest = text;
  struct mount_line line;
  int result = text ? 0 : -EIO;
  while (result == 0 && next_mount(&rest, &line)) {
    unsigned long wanted = MS_BIND | MS_REMOUNT;
    if (!is_beneath(line.path, path))
      continue;
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
      if ((flags[i].attribute & attributes) || has_option(line.options, flags[i].name))
        wanted |= flags[i].flag;
    if (mount(NULL, line.path, NULL, wanted, NULL) < 0)
      result = -errno;
  }
  free(text);
  return result;
}

static int restrict_mounts(const char *path, unsigned attributes) {
  struct mount_attributes change = {.set = attributes};
  if (syscall(__NR_mount_setattr, AT_FDCWD, path, RECURSIVE, &change, sizeof change) == 0)
    return 0;
  return errno == ENOSYS || errno == EPERM || errno == EINVAL ? restrict_each(path, attributes) : -errno;
}

// Every mount read-only and nosuid, and only devices devices. /proc is not
// ours to judge: init covers it with its own.
static int check_mounts(struct cell_error *error) {
  char *text = read_mounts(), *rest = text;
  struct mount_line line;
  int result = text ? 0 : cell_fail(error, EIO, "root", "mountinfo cannot be read");
  while (result == 0 && next_mount(&rest, &line)) {
    const bool device = strncmp(line.path, "/dev/", 5) == 0;
    if (is_beneath(line.path, "/proc"))
      continue;
    if (!has_option(line.options, "ro") || !has_option(line.options, "nosuid") ||
        (!device && !has_option(line.options, "nodev")))
      result = cell_fail(error, EPERM, "root", "%s stayed %s", line.path, line.options);
  }
  free(text);
  return result;
}

// ---- the tree ----

// Makes the parents of path, then path itself if it is to be a directory.
static int make_directories(const char *path, bool whole) {
  char part[4096];
  if (path[0] != '/' || strlen(path) >= sizeof part)
    return -EINVAL;
  for (const char *at = path + 1;; at++) {
    if (*at != '/' && *at != '\0')
      continue;
    if (*at == '\0' && !whole)
      return 0;
    snprintf(part, sizeof part, "%.*s", (int)(at - path), path);
    if (mkdir(part, 0755) < 0 && errno != EEXIST)
      return -errno;
    if (*at == '\0')
      return 0;
  }
}

static int make_file(const char *path, const char *content) {
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
  if (fd < 0)
    return errno == EEXIST ? 0 : -errno; // an earlier entry's stays
  size_t length = content ? strlen(content) : 0;
  ssize_t written = length ? write(fd, content, length) : 0;
  int result = written < 0 ? -errno : (size_t)written == length ? 0 : -ENOSPC;
  close(fd);
  return result;
}

static int bind_source(const char *target, int source, bool device) {
  char from[32];
  struct stat status;
  snprintf(from, sizeof from, "/proc/self/fd/%d", source);
  int result = fstat(source, &status) < 0 ? -errno : 0;
  if (result == 0)
    result = S_ISDIR(status.st_mode) ? make_directories(target, true) : make_file(target, NULL);
  if (result == 0 && mount(from, target, NULL, MS_BIND | MS_REC, NULL) < 0)
    result = -errno;
  if (result == 0)
    result = restrict_mounts(target, ATTR_RDONLY | ATTR_NOSUID | (device ? ATTR_NOEXEC : ATTR_NODEV));
  return result;
}

static int make_entry(const struct cell_root_entry *entry, int source) {
  int result = make_directories(entry->target, entry->kind == CELL_ROOT_DIR);
  if (result < 0)
    return result;
  switch (entry->kind) {
  case CELL_ROOT_DIR:
    return 0;
  case CELL_ROOT_FILE:
    return make_file(entry->target, entry->source);
  case CELL_ROOT_LINK:
    return symlink(entry->source, entry->target) < 0 ? -errno : 0;
  case CELL_ROOT_BIND:
    return bind_source(entry->target, source, false);
  case CELL_ROOT_DEVICE:
    return bind_source(entry->target, source, true);
  }
  return -EINVAL;
}

static int fill(const struct cell_root *root, const int *sources, struct cell_error *error) {
  for (size_t i = 0; i < root->count; i++) {
    const struct cell_root_entry *entry = &root->entries[i];
    int result = make_entry(entry, sources[i]);
    if (result < 0)
      return cell_fail(error, result, "root", "%s%s%s: %s", entry->target, has_source(entry) ? " from " : "",
                       has_source(entry) ? entry->source : "", strerror(-result));
  }
  // Anyone may read it, and no Landlock rule names it: who can open it is not
  // behind Landlock. Always there, for cell_verify.
  int result = make_file("/canary", "readable by anyone who is not behind Landlock\n");
  return result < 0 ? cell_fail(error, result, "root", "/canary: %s", strerror(-result)) : 0;
}

// ---- entering ----

static const char *mount_empty(struct cell_error *error) {
  static const char *const places[] = {"/tmp", "/run", "/mnt", "/var", "/home"};
  int code = ENOENT;
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    if (mount("cell", places[i], "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=1m") == 0)
      return places[i];
    code = errno;
  }
  cell_fail(error, code, "mount", "a tmpfs for the root: %s", strerror(code));
  return NULL;
}

// init can mount its own /proc only where it sees a whole one, and we need one
// for the sources. Real root mounts a fresh one; others carry the host's over,
// which may be masked (then init's mount fails, and cells have none).
static int carry_proc(const char *place, bool own_proc, struct cell_error *error) {
  char path[64];
  snprintf(path, sizeof path, "%s/proc", place);
  if (mkdir(path, 0555) < 0)
    return cell_fail(error, errno, "root", "%s: %s", path, strerror(errno));
  int result = own_proc ? mount("proc", path, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL)
                        : mount("/proc", path, NULL, MS_BIND | MS_REC, NULL);
  return result < 0 ? cell_fail(error, errno, "mount /proc", "%s", strerror(errno)) : 0;
}

static int enter(const struct cell_root *root, const int *sources, bool own_proc, struct cell_error *error) {
  int result = 0;
  const char *place = mount_empty(error);
  if (place == NULL)
    return error->code;
  if ((result = carry_proc(place, own_proc, error)) < 0)
    return result;
  // With "." twice the old root ends up mounted over the new one, and is taken
  // off again below; until then its mounts can still be bound from.
  int old = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (old < 0 || chdir(place) < 0 || syscall(SYS_pivot_root, ".", ".") < 0)
    return cell_fail(error, errno, "pivot_root", "%s%s", strerror(errno),
                     errno == EINVAL ? " (the root file system is an initramfs, or gVisor's)" : "");
  result = fill(root, sources, error);
  if (result == 0 && !cell_leaves_out(CELL_OWN_ROOT) &&
      (fchdir(old) < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0))
    result = cell_fail(error, errno, "pivot_root", "leave the old root: %s", strerror(errno));
  close(old);
  if (result == 0 &&
      mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
    result = cell_fail(error, errno, "root", "make it read-only: %s", strerror(errno));
  return result < 0 || cell_leaves_out(CELL_OWN_ROOT) ? result : check_mounts(error);
}

int cell_root_enter(const struct cell_root *root, bool own_proc, struct cell_error *error) {
  // Nothing mounted here may travel to the host, nor the other way round.
  if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
    return cell_fail(error, errno, "mount", "make / private: %s", strerror(errno));
  if (root->count > ENTRIES_MAX)
    return cell_fail(error, E2BIG, "root", "%zu entries", root->count);
  int *sources = calloc(root->count + 1, sizeof *sources);
  if (sources == NULL)
    return cell_fail(error, ENOMEM, "root", "no memory");
  for (size_t i = 0; i < root->count; i++)
    sources[i] = NO_SOURCE;
  mode_t mask = umask(0);
  int result = open_sources(root, sources, error);
  if (result == 0)
    result = enter(root, sources, own_proc, error);
  umask(mask);
  for (size_t i = 0; i < root->count; i++)
    if (sources[i] != NO_SOURCE)
      close(sources[i]);
  free(sources);
  return result;
}
