// layers.c: the names of the local jail's layers, on Linux. See jail.h; darwin/layers.c has the others.
#include "cell/cell.h"
#include "jail.h"

const char *jail_layer_name(uint32_t layer) {
  static const char *const names[] = {
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
  _Static_assert(sizeof names / sizeof *names == CELL_LAYER_COUNT, "a layer has no name");
  return layer < CELL_LAYER_COUNT ? names[layer] : NULL;
}
