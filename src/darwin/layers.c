// layers.c: the names of the local jail's layers, on macOS. See jail.h.
#include "../jail.h"
#include "../solo.h"

const char *jail_layer_name(uint32_t layer) {
  static const char *const names[] = {
    [SOLO_FILES] = "sandbox-files",     [SOLO_NETWORK] = "sandbox-network", [SOLO_SIGNALS] = "sandbox-signals",
    [SOLO_NO_FORK] = "sandbox-no-fork", [SOLO_RLIMITS] = "rlimits",         [SOLO_GROUP] = "process-group",
  };
  _Static_assert(sizeof names / sizeof *names == SOLO_LAYER_COUNT, "a layer has no name");
  return layer < SOLO_LAYER_COUNT ? names[layer] : NULL;
}
