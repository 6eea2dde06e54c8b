// closure.c: finds what a runtime is made of, by asking the runtime and the
// dynamic loader rather than by guessing at folders. Caller and thread: see closure.h.
#include "closure.h"
#include "ask.h"
#include "report.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
  PRELOAD_MAX = 100000,  // the kernel's cap on one environment string is 128 KiB
  EXTENSIONS_MAX = 4000, // extension modules looked at for their libraries
  ENTRIES_MAX = 4096,
};

// ---- the two lists being made ----

_Noreturn static void no_memory(void) { // the keeper has nothing to lose yet
  struct cell_error error = {0};
  cell_fail(&error, -ENOMEM, "boot", "no memory for the list of what the runtime needs");
  report_failure(PROTOCOL_FD, 0, &error);
  _exit(1);
}

static void *needed(void *memory) {
  if (!memory)
    no_memory();
  return memory;
}

static char *text(const char *format, ...) {
  char *out = NULL;
  va_list args;
  va_start(args, format);
  if (vasprintf(&out, format, args) < 0)
    no_memory();
  va_end(args);
  return out;
}

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static void entry(struct closure *closure, enum cell_root_kind kind, const char *target, const char *source) {
  struct cell_root *root = &closure->root;
  for (size_t i = 0; i < root->count; i++)
    if (!strcmp(root->entries[i].target, target))
      return; // the first one wins
  if (!root->entries)
    root->entries = calloc(ENTRIES_MAX, sizeof *root->entries);
  if (!root->entries)
    no_memory();
  if (root->count == ENTRIES_MAX)
    return;
  root->entries[root->count++] = (struct cell_root_entry){kind, text("%s", target), source ? text("%s", source) : NULL};
}

static void readable(struct cell_plan *plan, const char *path) {
  size_t used = 0;
  while (used < sizeof plan->paths && plan->paths[used]) {
    if (!strcmp(plan->paths + used, path))
      return;
    used += strlen(plan->paths + used) + 1;
  }
  if (used + strlen(path) + 2 <= sizeof plan->paths)
    memcpy(plan->paths + used, path, strlen(path) + 1);
}

static void argument(struct closure *closure, const char *word) {
  size_t count = 0;
  while (closure->argv && closure->argv[count])
    count++;
  closure->argv = needed(realloc(closure->argv, (count + 2) * sizeof *closure->argv));
  closure->argv[count] = text("%s", word);
  closure->argv[count + 1] = NULL;
}

// ---- shared libraries ----

struct place {
  struct cell_plan *plan;
  struct closure *closure;
  bool own_root;
};

static void library(const struct place *place, const char *name, const char *path) {
  char real[PATH_MAX];
  if (!realpath(path, real))
    return;
  if (place->own_root) {
    char *target = text("/rt/lib/%s", base_name(name));
    entry(place->closure, CELL_ROOT_BIND, target, real);
    free(target);
  } else {
    readable(place->plan, real);
  }
}

// Lets the loader say which libraries program and the extensions (colon-separated) need.
static void trace(const struct place *place, const char *loader, const char *program, const char *extensions) {
  char *argv[] = {(char *)loader, "--list", (char *)program, NULL};
  char *envp[] = {text("LD_PRELOAD=%s", extensions), NULL};
  char *answer = ask(argv, envp);
  free(envp[0]);
  for (char *line = answer, *end; line && *line; line = end) {
    end = line + strcspn(line, "\n");
    if (*end)
      *end++ = 0;
    char name[PATH_MAX] = "", path[PATH_MAX] = "";
    if (sscanf(line, " %4095s => %4095s (", name, path) == 2 && path[0] == '/')
      library(place, name, path);
  }
  free(answer);
}

struct extensions {
  const struct place *place;
  const char *loader, *program;
  char list[PRELOAD_MAX + PATH_MAX];
  size_t size;
  int seen;
};

static void flush_extensions(struct extensions *all) {
  if (all->size)
    trace(all->place, all->loader, all->program, all->list);
  all->size = 0;
  all->list[0] = 0;
}

static void add_extensions(struct extensions *all, const char *folder, int depth) {
  DIR *dir = depth < 12 ? opendir(folder) : NULL;
  for (struct dirent *item; dir && (item = readdir(dir)) && all->seen < EXTENSIONS_MAX;) {
    char path[PATH_MAX];
    if (item->d_name[0] == '.' || snprintf(path, sizeof path, "%s/%s", folder, item->d_name) >= PATH_MAX)
      continue;
    const char *dot = strstr(item->d_name, ".so");
    if (item->d_type == DT_DIR)
      add_extensions(all, path, depth + 1);
    else if (dot && (!dot[3] || dot[3] == '.') && !strchr(path, ':') && !strchr(path, ' ')) {
      all->seen++;
      all->size +=
        (size_t)snprintf(all->list + all->size, sizeof all->list - all->size, "%s%s", all->size ? ":" : "", path);
      if (all->size > PRELOAD_MAX)
        flush_extensions(all);
    }
  }
  if (dir)
    closedir(dir);
}

static bool is_python(const struct boot *boot) {
  return !strcmp(boot->language, "python");
}

// ---- what every root holds ----

static void common(const struct place *place) {
  static const char *const devices[] = {"null", "zero", "full", "random", "urandom"};
  struct closure *closure = place->closure;
  for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
    char *node = text("/dev/%s", devices[i]);
    entry(closure, CELL_ROOT_DEVICE, node, node);
    free(node);
  }
  entry(closure, CELL_ROOT_LINK, "/dev/fd", "/proc/self/fd");
  entry(closure, CELL_ROOT_LINK, "/dev/stdin", "/proc/self/fd/0");
  entry(closure, CELL_ROOT_LINK, "/dev/stdout", "/proc/self/fd/1");
  entry(closure, CELL_ROOT_LINK, "/dev/stderr", "/proc/self/fd/2");
  entry(closure, CELL_ROOT_DIR, "/proc", NULL);
  entry(closure, CELL_ROOT_DIR, "/cell", NULL);
  entry(closure, CELL_ROOT_DIR, "/tmp", NULL);
  entry(closure, CELL_ROOT_FILE, "/canary",
        "No Landlock rule names this file: a cell that can read it has no Landlock.\n");
  entry(closure, CELL_ROOT_FILE, "/etc/passwd", "cell:x:1000:1000::/cell:/bin/false\n");
  entry(closure, CELL_ROOT_FILE, "/etc/group", "cell:x:1000:\n");
  entry(closure, CELL_ROOT_FILE, "/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n");
  entry(closure, CELL_ROOT_FILE, "/etc/hosts", "127.0.0.1 localhost\n");
  if (access("/usr/share/zoneinfo", R_OK) == 0)
    entry(closure, CELL_ROOT_BIND, "/usr/share/zoneinfo", "/usr/share/zoneinfo");
}

static char *bind_at(const struct place *place, const char *target, const char *source) {
  if (place->own_root)
    entry(place->closure, CELL_ROOT_BIND, target, source);
  else
    readable(place->plan, source);
  return text("%s", place->own_root ? target : source);
}

// The guest's own files, the loader and the program; returns the program's path inside.
static char *program(const struct place *place, const struct boot *boot, const char *real, const char *loader,
                     char **script, char **lib) {
  const char *name = base_name(real);
  const char *file = is_python(boot) ? "python.py" : "javascript.js";
  char *at = text("/rt/bin/%s", name);
  char *inside = bind_at(place, at, real);
  char *folder = bind_at(place, "/rt/guest", boot->guest_dir);
  char *lib_at = text("/rt/%s", base_name(boot->guest_lib));
  *script = text("%s/%s", folder, file);
  *lib = bind_at(place, lib_at, boot->guest_lib);
  if (loader[0])
    free(bind_at(place, loader, loader));
  free(at), free(folder), free(lib_at);
  return inside;
}

// ---- node ----

// Follows links; a runtime that is no ELF program (a version manager's shim)
// is asked by `question` for the real one.
static int real_program(const struct boot *boot, char *const question[], char *const envp[], char real[PATH_MAX],
                        char loader[PATH_MAX], struct cell_error *error) {
  if (!realpath(boot->runtime, real))
    return cell_fail(error, -errno, "config", "%s: %s: install it, or name another with { %s: { path } }",
                     boot->runtime, strerror(errno), is_python(boot) ? "python" : "node");
  if (ask_interpreter(real, loader) == 0)
    return 0;
  char *answer = question ? ask(question, envp) : NULL;
  if (answer) {
    answer[strcspn(answer, "\n")] = 0;
    if (realpath(answer, real) && ask_interpreter(real, loader) == 0)
      return free(answer), 0;
  }
  free(answer);
  return cell_fail(
    error, -ENOEXEC, "config",
    "%s is neither a program nor a shim that says which one it stands for: name the program itself by its path",
    boot->runtime);
}

static int resolve_node(const struct place *place, const struct boot *boot, struct cell_error *error) {
  char real[PATH_MAX] = "", loader[PATH_MAX] = "", *script = NULL, *lib = NULL;
  char *envp[] = {"PATH=/usr/local/bin:/usr/bin:/bin", NULL};
  char *where[] = {(char *)boot->runtime, "-p", "process.execPath", NULL};
  int result = real_program(boot, where, envp, real, loader, error);
  if (result)
    return result;
  char *which[] = {real, "--version", NULL};
  char *version = ask(which, envp);
  int major = 0, minor = 0;
  if (!version || sscanf(version, "v%d.%d", &major, &minor) != 2 || major < 20)
    result = cell_fail(error, -ENOEXEC, "config", "%s --version does not say Node.js 20 or newer", real);
  if (result == 0 && version) {
    version[strcspn(version, "\r\n")] = 0;
    snprintf(place->closure->runtime, sizeof place->closure->runtime, "node %s", version + 1);
    trace(place, loader, real, "");
    char *inside = program(place, boot, real, loader, &script, &lib);
    bool old = major == 20 || (major == 22 && minor < 13) || (major == 23 && minor < 5);
    char *heap = text("--max-old-space-size=%u", boot->memory_cap_mb);
    const char *const flags[] = {inside,
                                 // Threads do not survive a fork; V8 must not wait for any.
                                 "--single-threaded", "--v8-pool-size=1", heap, "--experimental-vm-modules",
                                 "--no-warnings",
                                 // Hygiene, not a wall.
                                 old ? "--experimental-permission" : "--permission", "--allow-addons",
                                 "--allow-fs-read=*", "--allow-fs-write=*", script, lib};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
      argument(place->closure, flags[i]);
    if (!strcmp(boot->language, "typescript")) {
      char *stripper = boot->stripper ? bind_at(place, "/rt/stripper.js", boot->stripper) : text("");
      char *flag = text("--typescript=%s", stripper);
      argument(place->closure, flag);
      free(flag), free(stripper);
    }
    if (boot->module_dir)
      free(bind_at(place, "/rt/node_modules", boot->module_dir));
    for (int i = 0; i < boot->preload_count; i++)
      argument(place->closure, boot->preload[i]);
    free(inside), free(heap), free(script), free(lib);
  }
  free(version);
  return result;
}

// ---- python ----

// One line each: program, "X.Y", full version, stdlib, then the folders of installed packages.
static const char ask_python[] = "import os, sys, sysconfig, site\n"
                                 "print(os.path.realpath(getattr(sys, '_base_executable', None) or sys.executable))\n"
                                 "print('%d.%d' % sys.version_info[:2])\n"
                                 "print('.'.join(map(str, sys.version_info[:3])))\n"
                                 "print(os.path.realpath(sysconfig.get_path('stdlib')))\n"
                                 "for p in site.getsitepackages():\n"
                                 "    if os.path.isdir(p): print(os.path.realpath(p))\n";

static void python_sites(const struct place *place, struct extensions *all, const char *stdlib, const char *version,
                         char *line) {
  char *sites[CLOSURE_LIST_MAX];
  int count = 0;
  for (; line && *line && count < CLOSURE_LIST_MAX; line = strchr(line, 0) + 1) {
    size_t under = strlen(stdlib);
    add_extensions(all, line, 0);
    if (!place->own_root)
      sites[count] = bind_at(place, "", line);
    else if (!strncmp(line, stdlib, under) && line[under] == '/')
      sites[count] = text("/rt/lib/python%s%s", version, line + under);
    else {
      char *at = text("/rt/site/%d", count);
      sites[count] = bind_at(place, at, line);
      free(at);
    }
    count++;
  }
  char *number = text("%d", count);
  argument(place->closure, number);
  for (int i = 0; i < count; i++)
    argument(place->closure, sites[i]), free(sites[i]);
  free(number);
}

static int resolve_python(const struct place *place, const struct boot *boot, struct cell_error *error) {
  char real[PATH_MAX] = "", loader[PATH_MAX] = "", *script = NULL, *lib = NULL, *line[4] = {NULL}, *rest;
  char *envp[] = {"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", NULL};
  char *question[] = {(char *)boot->runtime, "-I", "-c", (char *)ask_python, NULL};
  char *answer = ask(question, envp);
  int count = 0;
  if (!answer)
    answer = ask(question, envp); // a shim that is being rewritten just now
  if (!answer) {
    int result = real_program(boot, NULL, envp, real, loader, error); // says it better where it is not there
    return result ? result
                  : cell_fail(error, -ENOEXEC, "config", "%s -I -c ... failed twice: is it Python 3?", boot->runtime);
  }
  for (rest = answer; *rest && count < 4; count++) {
    line[count] = rest;
    rest += strcspn(rest, "\n");
    if (*rest)
      *rest++ = 0;
  }
  for (char *c = rest; *c; c++)
    if (*c == '\n')
      *c = 0; // strings end at NUL, the list at an empty one
  int result = 0;
  if (count < 4 || ask_interpreter(line[0], loader))
    result = cell_fail(error, -ENOEXEC, "config", "%s does not say which program it is", boot->runtime);
  if (result == 0 && line[0] && line[3]) {
    static struct extensions all; // large, and the keeper has one closure
    all = (struct extensions){.place = place, .loader = loader, .program = line[0]};
    char *at = text("/rt/lib/python%s", line[1]);
    snprintf(place->closure->runtime, sizeof place->closure->runtime, "python %s", line[2]);
    trace(place, loader, line[0], "libgcc_s.so.1"); // glibc opens it by name when a thread ends
    char *inside = program(place, boot, line[0], loader, &script, &lib);
    const char *const flags[] = {inside, "-I", "-S", "-B", "-X", "utf8", script, lib};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
      argument(place->closure, flags[i]);
    free(bind_at(place, at, line[3]));
    char *extensions = text("%s/lib-dynload", line[3]);
    add_extensions(&all, extensions, 0);
    free(extensions);
    python_sites(place, &all, line[3], line[1], rest);
    flush_extensions(&all);
    for (int i = 0; i < boot->preload_count; i++)
      argument(place->closure, boot->preload[i]);
    free(inside), free(script), free(lib), free(at);
  }
  free(answer);
  return result;
}

int closure_resolve(const struct boot *boot, struct cell_plan *plan, struct closure *closure,
                    struct cell_error *error) {
  struct place place = {plan, closure, plan->want & CELL_BIT(CELL_OWN_ROOT)};
  // HOME and TMPDIR are known to each cell alone: its guest sets them.
  static char *bare[] = {"LANG=C.UTF-8", "PATH=/rt/bin", NULL};
  static char *rooted[] = {
    "LANG=C.UTF-8", "HOME=/cell", "TMPDIR=/tmp", "PATH=/rt/bin", "LD_LIBRARY_PATH=/rt/lib", NULL};
  closure->envp = place.own_root ? rooted : bare;
  if (place.own_root) {
    common(&place);
    readable(plan, "/rt");
    readable(plan, "/etc");
  }
  if (access("/usr/share/zoneinfo", R_OK) == 0)
    readable(plan, "/usr/share/zoneinfo");
  int result = is_python(boot) ? resolve_python(&place, boot, error) : resolve_node(&place, boot, error);
  // The loader keeps the path that is written into the program.
  if (result == 0 && place.own_root)
    for (size_t i = 0; i < closure->root.count; i++) {
      const struct cell_root_entry *it = &closure->root.entries[i];
      if (it->kind == CELL_ROOT_BIND && strncmp(it->target, "/rt/", 4))
        readable(plan, it->target);
    }
  return result;
}
