// wall.c: in the place of src/darwin/wall.c: a host on which no wall can be had.
// Where a file `walled` lies beside its folder it says that all stand, so that the way behind that is tested too.
#include <stdio.h>
#include <unistd.h>

#include "../../src/guest/wall.h"
#include "../../src/solo.h"

uint32_t wall_build(const struct wall *wall, char why[244]) {
  char marker[WALL_PATH_MAX + 16];
  snprintf(marker, sizeof marker, "%s/../walled", wall->scratch);
  if (access(marker, F_OK) == 0)
    return SOLO_ISOLATED | SOLO_BIT(SOLO_NO_FORK);
  snprintf(why, 244, "there is no sandbox_init on this host");
  return 0;
}
