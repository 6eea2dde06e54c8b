// wall.c: wall.h by the Seatbelt sandbox of macOS. sandbox_init has been called
// deprecated since 10.8 and is what the system itself is built on; it is looked
// up at run time, and what it is said to deny counts only where it was denied.
//
// Not run on a Mac yet: see SECURITY.md.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../guest/wall.h"
#include "../solo.h"

enum { PROFILE_MAX = 32768 };

// Of several rules that fit, the last one holds. Reading stays open where the
// system's own libraries are: what is closed is where people keep things.
static const char head[] =
  "(version 1)\n(allow default)\n"
  "(deny network*)\n(deny mach-lookup)\n(deny mach-register)\n(deny mach-priv*)\n(deny iokit-open)\n"
  "(deny ipc-posix*)\n(deny ipc-sysv*)\n(deny sysctl-write)\n(deny process-fork)\n"
  "(deny signal)\n(allow signal (target self))\n"
  "(deny process-info*)\n(allow process-info* (target self))\n"
  "(deny process-exec*)\n(deny file-write*)\n"
  "(allow file-write-data (literal \"/dev/null\"))\n"
  "(deny file-read-data (subpath \"/Users\") (subpath \"/Volumes\") (subpath \"/Network\") (subpath \"/private\")"
  " (subpath \"/Library\") (subpath \"/opt\") (subpath \"/usr/local\") (subpath \"/Applications\"))\n"
  "(allow file-read-data (subpath \"/private/var/db/timezone\") (subpath \"/private/var/db/dyld\"))\n";

struct profile {
  char text[PROFILE_MAX];
  size_t size;
  bool bad;
};

static void add(struct profile *profile, const char *before, const char *path, const char *after) {
  // A path that would need quoting is refused, rather than quoted wrongly.
  for (const char *at = path; *at; at++)
    profile->bad |= *at == '"' || *at == '\\' || (unsigned char)*at < 32;
  size_t room = sizeof profile->text - profile->size;
  int size = snprintf(profile->text + profile->size, room, "%s\"%s\"%s\n", before, path, after);
  profile->bad |= size < 0 || (size_t)size >= room;
  profile->size += profile->bad ? 0 : (size_t)size;
}

static const char *enter(const struct wall *wall) {
  static struct profile profile;
  // int sandbox_init(const char *profile, uint64_t flags, char **errorbuf): flags 0, a profile in words
  int (*sandbox_init)(const char *, uint64_t, char **) =
    (int (*)(const char *, uint64_t, char **))dlsym(RTLD_DEFAULT, "sandbox_init");
  if (!sandbox_init)
    return "this system has no sandbox_init";
  memcpy(profile.text, head, sizeof head);
  profile.size = sizeof head - 1;
  add(&profile, "(allow process-exec* (literal ", wall->program, "))");
  add(&profile, "(allow file-read* (literal ", wall->program, "))");
  // The first is the runtime's own folder: the python3 of a framework executes a second program of it.
  if (wall->readable_count)
    add(&profile, "(allow process-exec* (subpath ", wall->readable[0], "))");
  for (size_t i = 0; i < wall->readable_count; i++)
    add(&profile, "(allow file-read* (subpath ", wall->readable[i], "))");
  add(&profile, "(allow file-read* file-write* (subpath ", wall->scratch, "))");
  if (profile.bad)
    return "a path of the runtime cannot be written into a sandbox profile";
  char *words = NULL;
  return sandbox_init(profile.text, 0, &words) ? words ? words : "sandbox_init refused" : NULL;
}

// ---- the canary: each denial is tried, and so is what must still work ----

struct canary {
  char outside[WALL_PATH_MAX + 16], inside[WALL_PATH_MAX + 16];
  int listener;
  struct sockaddr_in address;
};

static bool opens(const char *path, int flags) {
  int fd = open(path, flags | O_CLOEXEC, 0600);
  if (fd >= 0)
    close(fd);
  return fd >= 0;
}

static bool connects(const struct canary *canary) {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  bool done = fd >= 0 && connect(fd, (const struct sockaddr *)&canary->address, sizeof canary->address) == 0;
  if (fd >= 0)
    close(fd);
  return done;
}

static bool forks(void) {
  pid_t pid = fork();
  if (pid == 0)
    _exit(0);
  if (pid > 0)
    waitpid(pid, NULL, 0);
  return pid > 0;
}

// What works before the walls stand: without that a denial behind them proves nothing.
static uint32_t possible(struct canary *canary, const struct wall *wall) {
  uint32_t layers = 0;
  socklen_t size = sizeof canary->address;
  snprintf(canary->outside, sizeof canary->outside, "%s.canary", wall->scratch);
  snprintf(canary->inside, sizeof canary->inside, "%s/.canary", wall->scratch);
  canary->address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  canary->listener = socket(AF_INET, SOCK_STREAM, 0);
  if (opens(canary->outside, O_RDWR | O_CREAT | O_EXCL))
    layers |= SOLO_BIT(SOLO_FILES);
  if (canary->listener >= 0 &&
      bind(canary->listener, (struct sockaddr *)&canary->address, sizeof canary->address) == 0 &&
      listen(canary->listener, 4) == 0 &&
      getsockname(canary->listener, (struct sockaddr *)&canary->address, &size) == 0 && connects(canary))
    layers |= SOLO_BIT(SOLO_NETWORK);
  if (kill(getppid(), 0) == 0)
    layers |= SOLO_BIT(SOLO_SIGNALS);
  if (forks())
    layers |= SOLO_BIT(SOLO_NO_FORK);
  return layers;
}

static uint32_t denied(const struct canary *canary) {
  uint32_t layers = 0;
  if (!opens(canary->outside, O_RDONLY) && !opens(canary->outside, O_WRONLY) && unlink(canary->outside) &&
      opens(canary->inside, O_RDWR | O_CREAT))
    layers |= SOLO_BIT(SOLO_FILES);
  if (!connects(canary))
    layers |= SOLO_BIT(SOLO_NETWORK);
  if (kill(getppid(), 0) && kill(getpid(), 0) == 0)
    layers |= SOLO_BIT(SOLO_SIGNALS);
  if (!forks())
    layers |= SOLO_BIT(SOLO_NO_FORK);
  return layers;
}

uint32_t wall_build(const struct wall *wall, char why[244]) {
  struct canary canary;
  uint32_t layers = possible(&canary, wall);
  const char *failure = enter(wall);
  if (failure) {
    snprintf(why, 244, "%s", failure);
    layers = 0;
  } else {
    layers &= denied(&canary);
    if ((layers & SOLO_ISOLATED) != SOLO_ISOLATED)
      snprintf(why, 244, "the sandbox was entered, and what it must deny was not denied");
  }
  if (canary.listener >= 0)
    close(canary.listener);
  unlink(canary.inside);
  return layers;
}
