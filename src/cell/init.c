// init.c: pid 1 of a zygote's namespaces, already in the root: verifies where it
// is by the effect, tells its maker, and becomes what the keeper wants it to be.
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "outer.h"

enum { TMPFS_KIND = 0x01021994 };

// In this namespace nothing is up, not even lo: there is no route to anywhere.
// (gVisor brings lo up by itself: there nobody listens.)
static bool network_is_empty(void) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(9)};
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0)
    return false;
  struct ifreq request;
  int others = 0;
  for (int index = 1; index <= 16; index++) { // by index: an interface that is down has no address
    memset(&request, 0, sizeof request);
    request.ifr_ifindex = index;
    if (ioctl(fd, SIOCGIFNAME, &request) == 0 && ioctl(fd, SIOCGIFFLAGS, &request) == 0 &&
        (request.ifr_flags & IFF_UP) && !(request.ifr_flags & IFF_LOOPBACK))
      others++;
  }
  address.sin_addr.s_addr = htonl(0xa9fea9fe); // 169.254.169.254
  bool reached = connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
  close(fd);
  return others == 0 && !reached;
}

static bool root_is_own(const struct view *caller) {
  struct statfs kind;
  struct stat status;
  if (statfs("/", &kind) < 0 || kind.f_type != TMPFS_KIND || stat("/", &status) < 0)
    return false;
  bool elsewhere = status.st_dev != caller->root_device || status.st_ino != caller->root_inode;
  bool read_only = mkdir("/.probe", 0700) < 0 && errno == EROFS;
  return elsewhere && read_only && access("/canary", R_OK) == 0;
}

static bool host_name_is_own(void) {
  char name[8] = "";
  return gethostname(name, sizeof name) == 0 && strcmp(name, "cell") == 0;
}

// What the layer of a namespace means, tried; here is what init sees of itself.
static bool holds(enum cell_layer layer, const struct outer *outer, const struct view *here) {
  for (size_t i = 0; i < NAMESPACE_COUNT; i++) {
    if (outer_namespaces[i].layer != layer)
      continue;
    // The name of the namespace is there and another than the caller's.
    if (!here->links[i][0] || strcmp(here->links[i], outer->caller.links[i]) == 0)
      return false;
  }
  switch (layer) {
  case CELL_PID_NAMESPACE:
    return getpid() == 1;
  case CELL_NETWORK_NAMESPACE:
    return network_is_empty();
  case CELL_UTS_NAMESPACE:
    return host_name_is_own();
  case CELL_OWN_ROOT:
    return root_is_own(&outer->caller);
  default:
    return true;
  }
}

// Covers the carried /proc by one of this pid namespace. Where that is refused
// (a masked /proc outside, as in a container) the zygote, which is ours, keeps
// the carried one; every cell covers it.
static bool mount_own_proc(void) {
  return mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) == 0;
}

static int settle_init(const struct outer *outer, struct message *message) {
  struct cell_error *error = &message->error;
  struct view here;
  ssize_t size;
  char go;
  // The builder's word that the ids are mapped; its end alone if it failed.
  do
    size = read(outer->go[0], &go, 1);
  while (size < 0 && errno == EINTR);
  if (size != 1)
    return cell_fail(error, EPIPE, "init", "the builder ended early");
  if (syscall(SYS_setresgid, 0, 0, 0) < 0 || syscall(SYS_setresuid, 0, 0, 0) < 0)
    return cell_fail(error, errno, "init", "become root inside: %s", strerror(errno));
  if (outer->by_root && syscall(SYS_setgroups, 0, NULL) < 0)
    return cell_fail(error, errno, "init", "setgroups: %s", strerror(errno));
  outer_take_view(&here); // by the carried /proc, which is there in any case
  if (cell_raises(outer->plan, CELL_UTS_NAMESPACE) && sethostname("cell", 4) < 0)
    return cell_fail(error, errno, "init", "sethostname: %s", strerror(errno));
  message->has_proc = cell_wants(outer->plan, CELL_OWN_ROOT) && mount_own_proc();
  for (int layer = 0; layer < CELL_LAYER_COUNT; layer++) {
    if (!(outer->plan->want & CELL_OUTER_LAYERS & CELL_BIT(layer)))
      continue;
    if (!cell_leaves_out((enum cell_layer)layer) && !holds((enum cell_layer)layer, outer, &here))
      return cell_fail(error, EPERM, "verify", "%s was made but does not hold",
                       cell_layer_name((enum cell_layer)layer));
    message->stands |= CELL_BIT(layer);
  }
  return 0;
}

void outer_settle_plan(const struct outer *outer, const struct message *message) {
  struct cell_plan *plan = outer->plan;
  plan->stands = message->stands | (outer->by_root ? CELL_BIT(CELL_SEPARATE_UID) : 0);
  plan->has_proc = message->has_proc;
  plan->uid_base = outer->by_root ? CELL_OUTER_ID : 0;
  plan->uid_count = outer->by_root ? CELL_OUTER_ID_COUNT : 0;
}

_Noreturn void outer_run_init(const struct outer *outer) {
  struct message message = {.kind = MESSAGE_STANDS};
  close(outer->go[1]); // or its end would never come
  if (settle_init(outer, &message) < 0) {
    outer_say_failed(outer->report[1], &message.error);
    _exit(1);
  }
  outer_say(outer->report[1], &message);
  close(outer->report[1]);
  close(outer->go[0]);
  outer_settle_plan(outer, &message);
  _exit(outer->init_main(outer->arg));
}
