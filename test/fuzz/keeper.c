// sources: src/guest/boot.c src/guest/strict.c src/guest/closure.c src/guest/ask.c src/guest/scratch.c src/guest/birth.c src/guest/zygote.c src/guest/inmate.c src/guest/where.c src/cell/*.c
// The keeper's readers: BOOT's text, the engine's orders, the reports of a zygote
// and of cells, in any order and of any content. The descriptors, the clock and
// the kills are ours; nothing of the keeper's own logic is.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "../../src/protocol.h"
#include "fuzz.h"

enum { FIRST_FD = 1000, LAST_FD = 1064, PID = 4242 };

static struct feed feed;
static jmp_buf ended;
static bool open_fds[LAST_FD - FIRST_FD];
static uint64_t clock_ns;

static int give_fd(void) {
  for (int i = 0; i < LAST_FD - FIRST_FD; i++)
    if (!open_fds[i]) {
      open_fds[i] = true;
      return FIRST_FD + i;
    }
  return -1;
}

static int take_close(int fd) {
  if (fd < FIRST_FD || fd >= LAST_FD)
    return 0;
  MUST(open_fds[fd - FIRST_FD]); // else it is closed twice, and may be somebody else's by then
  open_fds[fd - FIRST_FD] = false;
  return 0;
}

// A message of the input: mostly as long as it should be, a type, one of few cells, anything.
static size_t next_message(char *to, size_t room, size_t right) {
  uint16_t size = 0;
  uint8_t choice = feed_byte(&feed);
  if (choice & 15)
    size = (uint16_t)right;
  if ((choice & 16) || size != right)
    size += feed_byte(&feed);
  size = size > room ? (uint16_t)room : size;
  feed_take(&feed, to, size);
  if (size >= 8) {
    to[0] &= 7, to[4] &= 7;
    memset(to + 1, 0, 3), memset(to + 5, 0, 3);
  }
  return size;
}

static ssize_t take_recv(int fd, void *to, size_t size, int flags) {
  (void)fd, (void)flags;
  ssize_t got = (ssize_t)next_message(to, size, sizeof(struct order));
  // The engine's own: it asks for no more than hours.
  ((struct order *)to)->deadline_us &= 0xffffffffffu;
  return got;
}

static ssize_t take_recvmsg(int fd, struct msghdr *message, int flags) {
  static char bytes[8192];
  (void)fd, (void)flags;
  size_t size = next_message(bytes, sizeof bytes, sizeof(struct report)), done = 0;
  for (size_t i = 0; i < message->msg_iovlen && done < size; i++) {
    size_t part = message->msg_iov[i].iov_len < size - done ? message->msg_iov[i].iov_len : size - done;
    memcpy(message->msg_iov[i].iov_base, bytes + done, part);
    done += part;
  }
  // As the kernel does with SO_PASSCRED: who sent it, then what fits of the descriptors.
  struct ucred who = {.pid = feed_byte(&feed) & 1 ? PID : 0};
  size_t room = message->msg_controllen;
  struct cmsghdr *head = message->msg_control;
  MUST(room >= CMSG_SPACE(sizeof who));
  *head = (struct cmsghdr){CMSG_LEN(sizeof who), SOL_SOCKET, SCM_CREDENTIALS};
  memcpy(CMSG_DATA(head), &who, sizeof who);
  message->msg_controllen = CMSG_SPACE(sizeof who);
  room -= CMSG_SPACE(sizeof who);
  size_t count = feed_byte(&feed) % 6, most = (room - sizeof *head) / sizeof(int);
  if (count > most)
    count = most;
  if (count) {
    head = (struct cmsghdr *)((char *)head + CMSG_SPACE(sizeof who));
    *head = (struct cmsghdr){CMSG_LEN(count * sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
    for (size_t i = 0; i < count; i++) {
      int fd = give_fd();
      memcpy(CMSG_DATA(head) + i * sizeof fd, &fd, sizeof fd);
    }
    message->msg_controllen += CMSG_SPACE(count * sizeof(int));
  }
  return (ssize_t)done;
}

static ssize_t take_sendmsg(int fd, const struct msghdr *message, int flags) {
  (void)fd, (void)flags;
  MUST(message->msg_iovlen <= 2 && message->msg_iov[0].iov_len + message->msg_iov[1].iov_len <= 65536);
  return 1;
}

static ssize_t take_send(int fd, const void *bytes, size_t size, int flags) {
  (void)fd, (void)bytes, (void)flags;
  return (ssize_t)size;
}

static int take_kill(pid_t pid, int number) {
  (void)number;
  MUST(pid == PID); // whom the kernel named, and nobody else
  return 0;
}

static long take_syscall(long number, ...) {
  (void)number;
  errno = ENOSYS; // no pidfds: kills go by pid
  return -1;
}

_Noreturn static void take_exit(int code) {
  longjmp(ended, code + 1);
}

static int take_clock(clockid_t id, struct timespec *now) {
  (void)id;
  *now = (struct timespec){.tv_sec = (time_t)(clock_ns / 1000000000), .tv_nsec = (long)(clock_ns % 1000000000)};
  return 0;
}

static int take_open(const char *path, int flags, ...) {
  (void)path, (void)flags;
  return -1; // no /proc of a cell
}

#define recv take_recv
#define recvmsg take_recvmsg
#define send take_send
#define sendmsg take_sendmsg
#define kill take_kill
#define syscall take_syscall
#define _exit take_exit
#define close take_close
#define clock_gettime take_clock
#define open take_open
#define main keeper_main
#include "../../src/guest/report.c"
#define plan watch_plan
#include "../../src/guest/watch.c"
#undef plan
#include "../../src/guest/keeper.c"
#undef main
#undef open
#undef clock_gettime
#undef close
#undef _exit
#undef syscall
#undef kill
#undef sendmsg
#undef send
#undef recvmsg
#undef recv

static void read_boot(void) {
  struct boot boot = {0};
  size_t size = feed_byte(&feed) * 4u;
  char *text = calloc(1, size + 1); // the keeper's own buffer has that NUL, too
  MUST(text);
  feed_take(&feed, text, size);
  boot_parse(text, size, &boot);
  MUST(boot.preload_count >= 0 && boot.preload_count <= CLOSURE_LIST_MAX);
  for (int i = 0; i < boot.preload_count; i++)
    MUST(boot.preload[i] >= text && boot.preload[i] + strlen(boot.preload[i]) <= text + size);
  free(text);
}

static void serve_input(void) {
  while (feed.left)
    switch (feed_byte(&feed) % 5) {
    case 0:
    case 1:
      on_order();
      break;
    case 2:
    case 3:
      on_report();
      break;
    default:
      clock_ns += feed_byte(&feed) * 100000000ull;
      MUST(keep_time() >= -1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  feed = (struct feed){data, size};
  memset(open_fds, 0, sizeof open_fds);
  clock_ns = 1;
  read_boot();
  volatile bool lives = setjmp(ended) == 0;
  if (lives)
    serve_input();
  watch_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&watch_lock);
  size_t armed = 0;
  for (size_t i = 0; i < watch_count; i++)
    armed += watch_cells[i].armed;
  MUST(armed == armed_count && watch_count <= PROTOCOL_SLOT_MAX);
  while (watch_count)
    watch_forget(&watch_cells[0]);
  pthread_mutex_unlock(&watch_lock);
  for (size_t i = 0; lives && i < sizeof open_fds; i++)
    MUST(!open_fds[i]); // whatever came, nothing is kept
  return 0;
}
