// outer.h: between namespaces.c (caller and builder) and init.c (pid 1).
#ifndef CODE_JAIL_OUTER_H
#define CODE_JAIL_OUTER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "internal.h"

struct outer_namespace {
  enum cell_layer layer;
  int flag;
  const char *link; // its name in /proc/self/ns
};
enum { NAMESPACE_COUNT = 6, LINK_MAX = 64 };
extern const struct outer_namespace outer_namespaces[NAMESPACE_COUNT];

// What the caller sees of itself, so that init can tell it is elsewhere.
struct view {
  char links[NAMESPACE_COUNT][LINK_MAX];
  dev_t root_device;
  ino_t root_inode;
};

struct outer {
  struct cell_plan *plan;
  const struct cell_root *root;
  int (*init_main)(void *);
  void *arg;
  struct view caller;
  bool by_root; // the first of the two ways
  uid_t uid;    // of the caller
  gid_t gid;
  int report[2]; // builder and init -> caller
  int go[2];     // builder -> init, once its ids are mapped
};

enum message_kind { MESSAGE_INIT = 1, MESSAGE_STANDS, MESSAGE_FAILED };
struct message { // below PIPE_BUF: written and read whole
  uint32_t kind;
  int32_t pid;       // INIT
  uint32_t stands;   // STANDS
  uint32_t has_proc; // STANDS
  struct cell_error error;
};

int outer_say(int fd, const struct message *message);
void outer_say_failed(int fd, const struct cell_error *error);
void outer_take_view(struct view *view);

// What stands, in the plan at hand: init's copy, or the caller's.
void outer_settle_plan(const struct outer *outer, const struct message *message);

// In init: verifies, tells the caller, and calls outer->init_main.
_Noreturn void outer_run_init(const struct outer *outer);

#endif
