// addon_replace.c: this process becomes another program, and what others can
// see of its environment. For the sandbox service alone: its tokens leave the
// environment by an exec, the rest by being moved. JS thread.
#include <errno.h>
#include <fcntl.h>
#include <node_api.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "addon_value.h"

enum { LIST_MAX = 4096 };

static void free_list(char **list) {
  for (size_t i = 0; list && list[i]; i++)
    free(list[i]);
  free(list);
}

// Owned, NULL at its end; NULL where it is no array of strings.
static char **text_list(napi_env env, napi_value value) {
  uint32_t count = 0;
  if (napi_get_array_length(env, value, &count) != napi_ok || count > LIST_MAX)
    return NULL;
  char **list = calloc((size_t)count + 1, sizeof *list);
  for (uint32_t i = 0; list && i < count; i++) {
    napi_value item;
    size_t bytes;
    if (napi_get_element(env, value, i, &item) != napi_ok || !value_utf8_copy(env, item, &list[i], &bytes)) {
      free_list(list);
      return NULL;
    }
  }
  return list;
}

// Returns only if it failed.
static void become(const char *path, char **argv, char **environment) {
  sigset_t none;
  for (int fd = 0; fd < 3; fd++) // Node has these closed by an exec, too
    fcntl(fd, F_SETFD, 0);
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  signal(SIGPIPE, SIG_DFL); // Node ignores it, and an exec would pass that on
  execve(path, argv, environment);
}

// replace(path, argv, environment as "NAME=VALUE"s) returns only if it failed.
// The other threads end with the exec; Node opens its descriptors O_CLOEXEC.
napi_value addon_replace(napi_env env, napi_callback_info info) {
  napi_value args[3];
  size_t count = 3, bytes;
  char path[4096];
  napi_get_cb_info(env, info, &count, args, NULL, NULL);
  char **argv = text_list(env, args[1]), **environment = text_list(env, args[2]);
  bool fine = argv && environment && napi_get_value_string_utf8(env, args[0], path, sizeof path, &bytes) == napi_ok;
  if (fine) {
    become(path, argv, environment);
    napi_throw_error(env, "ERR_JAIL_CONFIG", strerror(errno));
  } else {
    napi_throw_error(env, "ERR_JAIL_CONFIG", "replace takes a path and two arrays of strings");
  }
  free_list(argv);
  free_list(environment);
  return NULL;
}

// hide(): what /proc/PID/environ shows is the memory that was filled
// at exec, to everybody in old gVisor. The variables move out of there, and stay
// what they are for this process. Before any thread of ours: they ask for none.
napi_value addon_hide(napi_env env, napi_callback_info info) {
  (void)info;
  for (char **one = environ; one && *one; one++) {
    char *shown = *one, *copy = strdup(shown);
    if (!copy) {
      napi_throw_error(env, "ERR_JAIL_CONFIG", strerror(errno));
      return NULL;
    }
    *one = copy; // for as long as the process lives
    explicit_bzero(shown, strlen(shown));
  }
  return NULL;
}
