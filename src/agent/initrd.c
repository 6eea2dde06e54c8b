// initrd.c: the first program of a guest whose kernel has its drivers as modules,
// as a distribution's has. Static, /init of the initrd that apps/jailer/kernel.sh
// makes; a kernel with virtio built in needs neither.
//
// Loads /modules/* in the order of their names, mounts /dev/vda read-only, makes
// it the root, and executes the program that the kernel's command line names:
// program=/agent, which the kernel puts in our environment. Its arguments are ours.
// What fails is said on the console, and answered by the kernel with a panic.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { DISK_WAIT_MS = 10000, LOOK_MS = 5 };

_Noreturn static void fail(const char *what) {
  dprintf(2, "initrd: %s: %s\n", what, strerror(errno));
  _exit(1);
}

static int is_module(const struct dirent *entry) {
  return entry->d_name[0] != '.';
}

// A module that the kernel has already is as good as loaded.
static void load_modules(void) {
  struct dirent **found;
  int count = scandir("/modules", &found, is_module, alphasort);
  if (count < 0)
    return;
  if (chdir("/modules"))
    fail("/modules");
  for (int i = 0; i < count; i++) {
    int fd = open(found[i]->d_name, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || (syscall(SYS_finit_module, fd, "", 0) && errno != EEXIST))
      fail(found[i]->d_name);
    close(fd);
    unlink(found[i]->d_name); // its memory is the guest's
    free(found[i]);
  }
  free(found);
  if (chdir("/"))
    fail("/");
}

// A driver finds its devices a little after it was loaded.
static void mount_root(void) {
  struct timespec look = {.tv_nsec = LOOK_MS * 1000000L};
  for (int waited = 0; access("/dev/vda", F_OK) && waited < DISK_WAIT_MS; waited += LOOK_MS)
    nanosleep(&look, NULL);
  if (mount("/dev/vda", "/root", "ext4", MS_RDONLY | MS_NODEV, NULL))
    fail("/dev/vda");
}

// An initrd cannot be pivoted away from: it is covered.
static void enter_root(void) {
  if (umount2("/dev", MNT_DETACH) || chdir("/root") || mount(".", "/", NULL, MS_MOVE, NULL) || chroot(".") ||
      chdir("/"))
    fail("the root file system");
}

int main(int argc, char **argv) {
  char *program = getenv("program");
  (void)argc;
  if (!program) {
    errno = EINVAL;
    fail("no program= on the kernel's command line");
  }
  mkdir("/dev", 0755);
  mkdir("/root", 0755);
  if (mount("devtmpfs", "/dev", "devtmpfs", MS_NOSUID | MS_NOEXEC, NULL))
    fail("/dev");
  load_modules();
  mount_root();
  enter_root();
  argv[0] = program;
  execv(program, argv);
  fail(program);
}
