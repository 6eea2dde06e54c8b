// strict.h: a keeper that is root for somebody who is not (launcher.c). Keeper's
// main thread, once.
#ifndef CODE_JAIL_STRICT_H
#define CODE_JAIL_STRICT_H

#include "../cell/cell.h"
#include "boot.h"

// 0 if everything that boot names is a file or folder that root alone can
// change, else a negative errno and *error.
int strict_check(const struct boot *boot, struct cell_error *error);

#endif
