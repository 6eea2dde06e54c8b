// wall.h: the walls that a cell without a keeper has, built by its guard's child
// before the interpreter is executed. One file per platform implements it.
#ifndef CODE_JAIL_WALL_H
#define CODE_JAIL_WALL_H

#include <stddef.h>
#include <stdint.h>

enum {
  WALL_PATH_MAX = 1024,
#ifdef __APPLE__
  WALL_MAXRSS_UNIT = 1, // of getrusage
#else
  WALL_MAXRSS_UNIT = 1024,
#endif
};

struct wall {
  char scratch[WALL_PATH_MAX]; // resolved; the one place where the cell may write
  char **readable;             // borrowed: absolute paths that it may read though they lie where it may not
  size_t readable_count;
  const char *program; // the one that it may execute
};

// Builds, then walks into each wall. The layers that held, as bits of enum
// solo_layer; why says what is wrong with the others.
uint32_t wall_build(const struct wall *wall, char why[244]);

#endif
