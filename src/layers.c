// layers.c: the names of the local jail's layers, on Linux. See jail.h; darwin/layers.c has the others.
#include "cell/layer_names.h"
#include "jail.h"

const char *jail_layer_name(uint32_t layer) {
  return layer < CELL_LAYER_COUNT ? layer_names[layer] : NULL;
}
