// filters.c: puts a seccomp filter in force, and the small one of a zygote.
// The filters of a cell are made in seccomp.c.
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"

int cell_filter_install(const struct sock_filter *code, int length) {
  struct sock_fprog program = {(unsigned short)length, (struct sock_filter *)code};
  long result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
  if (result < 0)
    return -errno;
  return result > 0 ? -EBUSY : 0; // a thread that has a filter of its own
}

int cell_zygote_filter(struct cell_error *error) {
  static const struct sock_filter code[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_io_uring_setup, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  // Nothing a zygote executes is to gain anything; and without it a filter
  // takes CAP_SYS_ADMIN.
  if (!cell_leaves_out(CELL_NO_NEW_PRIVS) && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
    return cell_fail(error, errno, "zygote filter", "no_new_privs: %s", strerror(errno));
  int result = cell_filter_install(code, sizeof code / sizeof *code);
  // No filters at all in this kernel: no plan asks for seccomp then, and a
  // runtime that did make rings is refused by the zygote (let_memory_fork).
  if (result == -EINVAL || result == -ENOSYS)
    return 0;
  return result < 0 ? cell_fail(error, result, "zygote filter", "%s", strerror(-result)) : 0;
}
