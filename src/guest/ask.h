// ask.h: questions that a runtime answers better than a guess. Keeper's main thread.
#ifndef CODE_JAIL_ASK_H
#define CODE_JAIL_ASK_H

#include <limits.h>

// Runs argv and returns what it wrote to stdout (the caller frees it); NULL if
// it failed, or took over ten seconds.
char *ask(char *const argv[], char *const envp[]);

// The program's ELF interpreter ("" for a static one); -1 where path is no
// 64-bit ELF program.
int ask_interpreter(const char *path, char name[PATH_MAX]);

#endif
