// boot.h: what the engine asks for. Keeper's main thread, once.
#ifndef CODE_JAIL_BOOT_H
#define CODE_JAIL_BOOT_H

#include <stdbool.h>
#include <stddef.h>

enum { CLOSURE_LIST_MAX = 32 };

struct cell_error;

struct boot { // ORDER_BOOT, parsed; every string borrowed from the message
  const char *language, *start, *runtime, *guest_dir, *guest_lib, *module_dir, *stripper;
  const char *preload[CLOSURE_LIST_MAX];
  int preload_count;
  bool allow_weak;
  unsigned memory_cap_mb;
};

// Splits ORDER_BOOT's text in place; boot borrows from it.
void boot_parse(char *text, size_t bytes, struct boot *boot);

// Whether only root can read some file that it names, as after an installation
// under a narrow umask, and we are root: error then says which.
bool boot_barred(const struct boot *boot, struct cell_error *error);

// The standard streams are /dev/null, and of what a host may have left open to an
// exec only socket stays; the folder is /. 0 or a negative errno.
int boot_settle(int socket);

// The host's own soft limit on descriptors is made for the host.
void boot_raise_descriptors(void);

#endif
