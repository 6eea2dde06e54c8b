// boot.h: the engine's BOOT order, received and parsed. Called once, by the
// keeper's main thread.
#ifndef CODE_JAIL_BOOT_H
#define CODE_JAIL_BOOT_H

#include <stdbool.h>

#include "closure.h"

// 0, 1 where the engine has gone, or a negative errno and *error. Every string
// of *boot lives as long as the process. strict: the engine is not root as we
// are (see launcher.c), so every path must be root's.
int boot_receive(struct boot *boot, bool strict, struct cell_error *error);

#endif
