// agent.c: pid 1 of a microVM that lives for one job. Static; /agent of the root
// file system that apps/jailer/rootfs.sh makes. Its argument says where the host
// is: "vsock" (the default: it listens at AGENT_PORT) or "serial" (a virtio-serial
// port of the name PORT_NAME).
//
// What the host sends is one line for the agent, then one line for the guest:
//
//   job 1 NANOSECONDS SEED      the time since 1970, and 32 fresh bytes in hex
//   { "language": ... }         the request, as on any socket of ours
//
// A snapshot is taken while the agent waits, before any interpreter has started:
// the clock and the kernel's generator are put right first, and nobody has drawn
// from it. Then the channel is handed over to node, whose own local jail (a second
// wall) runs the code: lib/jailer/guest.js writes one line back. Then the VM ends.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/random.h>
#include <linux/vm_sockets.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PORT_NAME "code-jail"
enum { AGENT_PORT = 52, SEED_BYTES = 32, HEAD_MAX = 128, PORT_WAIT_MS = 10000, LOOK_MS = 5, DRAIN_MS = 5000 };

// Ends Firecracker, and a QEMU that was told -no-reboot; neither powers off on x86 without more devices.
_Noreturn static void end(void) {
  sync();
  reboot(RB_AUTOBOOT);
  _exit(1);
}

_Noreturn static void fail(const char *what) {
  dprintf(2, "agent: %s: %s\n", what, strerror(errno));
  end();
}

// ---- the system that the local jail expects ----

static const struct {
  const char *type, *target, *options;
  unsigned long flags;
} mounts[] = {
  {"proc", "/proc", NULL, MS_NOSUID | MS_NODEV | MS_NOEXEC},
  {"sysfs", "/sys", NULL, MS_NOSUID | MS_NODEV | MS_NOEXEC},
  {"devtmpfs", "/dev", NULL, MS_NOSUID | MS_NOEXEC},
  {"tmpfs", "/run", "mode=755", MS_NOSUID | MS_NODEV},
  {"tmpfs", "/tmp", "mode=755", MS_NOSUID | MS_NODEV},
  {"cgroup2", "/sys/fs/cgroup", NULL, MS_NOSUID | MS_NODEV | MS_NOEXEC},
};

static void mount_all(void) {
  for (size_t i = 0; i < sizeof mounts / sizeof *mounts; i++)
    if (mount(mounts[i].type, mounts[i].target, mounts[i].type, mounts[i].flags, mounts[i].options) && errno != EBUSY)
      fail(mounts[i].target);
}

// ---- the channel ----

// Looks once. -1: no port of that name yet.
static int open_port(void) {
  int fd = -1;
  DIR *ports = opendir("/sys/class/virtio-ports");
  for (struct dirent *entry; ports && fd < 0 && (entry = readdir(ports));) {
    char path[300], name[sizeof PORT_NAME] = "";
    snprintf(path, sizeof path, "/sys/class/virtio-ports/%s/name", entry->d_name);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    bool ours = file >= 0 && read(file, name, sizeof name) == sizeof name && name[sizeof name - 1] == '\n' &&
                !memcmp(name, PORT_NAME, sizeof name - 1);
    if (file >= 0)
      close(file);
    snprintf(path, sizeof path, "/dev/%s", entry->d_name);
    if (ours)
      fd = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY);
  }
  if (ports)
    closedir(ports);
  return fd;
}

static int wait_for_port(void) {
  struct timespec look = {.tv_nsec = LOOK_MS * 1000000L};
  for (int waited = 0; waited < PORT_WAIT_MS; waited += LOOK_MS) {
    int fd = open_port();
    if (fd >= 0)
      return fd;
    nanosleep(&look, NULL);
  }
  errno = ENODEV;
  fail("virtio-serial");
}

static int listen_vsock(void) {
  struct sockaddr_vm here = {.svm_family = AF_VSOCK, .svm_cid = VMADDR_CID_ANY, .svm_port = AGENT_PORT};
  int fd = socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || bind(fd, (struct sockaddr *)&here, sizeof here) || listen(fd, 4))
    fail("vsock");
  return fd;
}

// ---- the agent's own line ----

struct head {
  uint64_t nanoseconds;
  unsigned char seed[SEED_BYTES];
};

static bool parse_head(const char *line, struct head *head) {
  int at = 0;
  if (sscanf(line, "job 1 %20" SCNu64 " %n", &head->nanoseconds, &at) != 1 || strlen(line + at) != 2 * SEED_BYTES)
    return false;
  for (int i = 0; i < SEED_BYTES; i++) {
    int used = 0;
    if (sscanf(line + at + 2 * i, "%2hhx%n", &head->seed[i], &used) != 1 || used != 2)
      return false;
  }
  return true;
}

// Byte by byte: what follows is not ours to read. False: it ended, or is no such line.
static bool read_head(int fd, struct head *head) {
  char line[HEAD_MAX];
  for (size_t size = 0; size < sizeof line;) {
    ssize_t got = read(fd, line + size, 1);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return false;
    if (line[size] == '\n') {
      line[size] = 0;
      return parse_head(line, head);
    }
    size++;
  }
  return false;
}

// A host that only asks whether we listen hangs up; the next one is heard.
static int accept_job(int listener, struct head *head) {
  for (;;) {
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0 && errno != EINTR && errno != ECONNABORTED)
      fail("accept");
    if (fd >= 0 && read_head(fd, head))
      return fd;
    if (fd >= 0)
      close(fd);
  }
}

// ---- entropy and clock: a copy of a snapshot has those of its siblings ----

static void freshen(const struct head *head) {
  struct timespec now = {(time_t)(head->nanoseconds / 1000000000), (long)(head->nanoseconds % 1000000000)};
  struct {
    struct rand_pool_info info;
    unsigned char seed[SEED_BYTES];
  } pool = {.info = {.entropy_count = SEED_BYTES * 8, .buf_size = SEED_BYTES}};
  memcpy(pool.info.buf, head->seed, SEED_BYTES);
  int fd = open("/dev/urandom", O_RDWR | O_CLOEXEC);
  if (fd < 0 || ioctl(fd, RNDADDENTROPY, &pool) || ioctl(fd, RNDRESEEDCRNG))
    fail("entropy");
  close(fd);
  if (clock_settime(CLOCK_REALTIME, &now))
    fail("clock");
}

// ---- the job ----

_Noreturn static void become_guest(int channel) {
  char *argv[] = {"/usr/local/bin/node", "/app/lib/jailer/guest.js", NULL};
  char *env[] = {"PATH=/usr/local/bin:/usr/bin", "HOME=/", NULL};
  if (dup2(channel, 0) >= 0 && dup2(channel, 1) >= 0 && !chdir("/tmp"))
    execve(argv[0], argv, env);
  dprintf(2, "agent: %s: %s\n", argv[0], strerror(errno));
  _exit(127);
}

// As pid 1 we reap whatever was left to us, until the guest's end.
static void run_guest(int channel) {
  pid_t guest = fork();
  if (guest < 0)
    fail("fork");
  if (!guest)
    become_guest(channel);
  for (pid_t gone; (gone = waitpid(-1, NULL, 0)) != guest;)
    if (gone < 0 && errno != EINTR)
      fail("wait");
}

// The answer may still be on its way when the VM ends: the host hangs up once it has it.
static void drain(int channel) {
  struct pollfd look = {.fd = channel, .events = POLLIN};
  char byte;
  shutdown(channel, SHUT_WR);
  while (poll(&look, 1, DRAIN_MS) > 0 && read(channel, &byte, 1) > 0)
    ;
}

int main(int argc, char **argv) {
  bool serial = argc > 1 && !strcmp(argv[1], "serial");
  struct head head;
  umask(022);
  mount_all();
  int channel;
  if (serial) {
    channel = wait_for_port();
    if (!read_head(channel, &head))
      fail("the host's first line");
  } else {
    int listener = listen_vsock();
    channel = accept_job(listener, &head);
    close(listener);
  }
  freshen(&head);
  run_guest(channel);
  if (!serial)
    drain(channel); // a virtio-serial port's write returns once the host has it
  end();
}
