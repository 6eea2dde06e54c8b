// layer_names.h: what results call the layers. For cell.c and, in the engine, layers.c.
#ifndef LAYER_NAMES_H
#define LAYER_NAMES_H

#include "cell.h"

static const char *const layer_names[] = {
  [CELL_USER_NAMESPACE] = "user-namespace",
  [CELL_PID_NAMESPACE] = "pid-namespace",
  [CELL_MOUNT_NAMESPACE] = "mount-namespace",
  [CELL_NETWORK_NAMESPACE] = "network-namespace",
  [CELL_IPC_NAMESPACE] = "ipc-namespace",
  [CELL_UTS_NAMESPACE] = "uts-namespace",
  [CELL_OWN_ROOT] = "own-root",
  [CELL_NO_CAPABILITIES] = "no-capabilities",
  [CELL_NO_NEW_PRIVS] = "no-new-privs",
  [CELL_LANDLOCK] = "landlock",
  [CELL_SECCOMP] = "seccomp",
  [CELL_RLIMITS] = "rlimits",
  [CELL_CGROUP] = "cgroup",
  [CELL_SEPARATE_UID] = "separate-uid",
};
_Static_assert(sizeof layer_names / sizeof *layer_names == CELL_LAYER_COUNT, "a layer has no name");

#endif
