// boot.h: what the engine asks for. Keeper's main thread, once.
#ifndef CODE_JAIL_BOOT_H
#define CODE_JAIL_BOOT_H

#include <stdbool.h>
#include <stddef.h>

enum { CLOSURE_LIST_MAX = 32 };

struct boot { // ORDER_BOOT, parsed; every string borrowed from the message
  const char *language, *start, *runtime, *guest_dir, *guest_lib, *module_dir;
  const char *preload[CLOSURE_LIST_MAX];
  int preload_count;
  bool allow_weak;
  unsigned memory_cap_mb;
};

// Splits ORDER_BOOT's text in place; boot borrows from it.
void boot_parse(char *text, size_t bytes, struct boot *boot);

// Closes every descriptor from first on: a host may have some that exec keeps.
void boot_close_from(int first);

// The host's own soft limit on descriptors is made for the host.
void boot_raise_descriptors(void);

#endif
