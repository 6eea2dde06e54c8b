// addon_replace.c: this process becomes another program. For the sandbox
// service alone, whose tokens leave the environment only by an exec. JS thread.
#include <errno.h>
#include <fcntl.h>
#include <node_api.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "addon_value.h"

enum { LIST_MAX = 4096 };

// Owned, NULL at its end; NULL where it is no array of strings.
static char **text_list(napi_env env, napi_value value) {
  uint32_t count = 0;
  if (napi_get_array_length(env, value, &count) != napi_ok || count > LIST_MAX)
    return NULL;
  char **list = calloc((size_t)count + 1, sizeof *list);
  for (uint32_t i = 0; list && i < count; i++) {
    napi_value item;
    size_t bytes = 0;
    if (napi_get_element(env, value, i, &item) != napi_ok ||
        napi_get_value_string_utf8(env, item, NULL, 0, &bytes) != napi_ok || !(list[i] = malloc(bytes + 1)))
      return NULL; // the little that is lost is lost once, in a program that is about to end
    napi_get_value_string_utf8(env, item, list[i], bytes + 1, &bytes);
  }
  return list;
}

// replace(path, argv, environment as "NAME=VALUE"s) returns only if it failed.
// The other threads end with the exec; Node opens its descriptors O_CLOEXEC.
napi_value addon_replace(napi_env env, napi_callback_info info) {
  napi_value args[3];
  size_t count = 3, bytes;
  char path[4096];
  napi_get_cb_info(env, info, &count, args, NULL, NULL);
  char **argv = text_list(env, args[1]), **environment = text_list(env, args[2]);
  if (!argv || !environment || napi_get_value_string_utf8(env, args[0], path, sizeof path, &bytes) != napi_ok) {
    napi_throw_error(env, "ERR_JAIL_CONFIG", "replace takes a path and two arrays of strings");
    return NULL;
  }
  for (int fd = 0; fd < 3; fd++) // these, too, would close
    fcntl(fd, F_SETFD, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  signal(SIGPIPE, SIG_DFL); // Node ignores it, and an exec would pass that on
  execve(path, argv, environment);
  napi_throw_error(env, "ERR_JAIL_CONFIG", strerror(errno));
  return NULL;
}
