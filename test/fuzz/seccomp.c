// sources: src/cell/cell.c src/cell/landlock.c src/cell/rlimits.c src/cell/filters.c src/cell/seccomp.c
// The filters, made for any process id and any room, executed on any call: they
// end in an answer of theirs, within their own length, and never let through what
// the table does not name. test/c/cell_seccomp.c has the arguments.
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>

#include "../../src/cell/internal.h"
#include "../c/bpf.h"
#include "fuzz.h"

#if defined(__x86_64__)
#define NATIVE AUDIT_ARCH_X86_64
#else
#define NATIVE AUDIT_ARCH_AARCH64
#endif

static uint32_t run(const struct sock_filter *code, int length, const struct seccomp_data *data) {
  size_t steps;
  uint32_t answer = bpf_run(code, length, data, &steps);
  MUST(answer != BPF_MALFORMED);
  return answer;
}

static bool named(int number) {
  size_t count;
  const struct cell_syscall *table = cell_syscalls(&count);
  for (size_t i = 0; i < count; i++)
    if (table[i].number == number)
      return true;
  return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static struct sock_filter code[CELL_FILTER_MAX + 1];
  struct feed feed = {data, size};
  struct seccomp_data call;
  uint16_t room;
  int32_t self;
  feed_take(&feed, &room, sizeof room);
  feed_take(&feed, &self, sizeof self);
  feed_take(&feed, &call, sizeof call);
  uint8_t choice = feed_byte(&feed);
  size_t max = choice & 1 ? room % (CELL_FILTER_MAX + 1) : CELL_FILTER_MAX;
  if (choice & 2)
    call.arch = NATIVE;
  if (choice & 4)
    call.nr &= 511;
  if (choice & 8)
    memset((char *)call.args + 4, 0, 4), call.args[0] = (uint32_t)self;
  memset(code, 0xaa, sizeof code);
  bool small = choice & 16;
  int length = small ? cell_filter_close(code, max) : cell_filter_seal(code, max, self, choice & 32);
  MUST(((uint8_t *)&code[max])[0] == 0xaa && (length == -E2BIG || (length > 0 && (size_t)length <= max)));
  if (length < 0)
    return 0;
  uint32_t answer = run(code, length, &call);
  MUST(answer == SECCOMP_RET_ALLOW || answer == SECCOMP_RET_KILL_PROCESS || answer == (SECCOMP_RET_ERRNO | EPERM) ||
       answer == (SECCOMP_RET_ERRNO | ENOSYS) || (answer & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO);
  if (!small && answer == SECCOMP_RET_ALLOW)
    MUST(call.arch == NATIVE && named(call.nr));
  if (!small && answer == SECCOMP_RET_ALLOW && (call.nr == SYS_kill || call.nr == SYS_tgkill))
    MUST((uint32_t)call.args[0] == (uint32_t)self);
  return 0;
}
