// bpf.h: executes a filter on a call, for the filters' test and their fuzzer.
#ifndef BPF_RUN_H
#define BPF_RUN_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define BPF_MALFORMED 0xdeadbeefu

// The part of classic BPF that the kernel's constant-action walk knows, too: any other
// instruction would make a call slow for every caller. steps: how many it took.
static uint32_t bpf_run(const struct sock_filter *code, int length, const struct seccomp_data *data, size_t *steps) {
  uint32_t a = 0;
  *steps = 0;
  for (int at = 0; at < length; at++, ++*steps) {
    const struct sock_filter *it = &code[at];
    switch (it->code) {
    case BPF_LD | BPF_W | BPF_ABS:
      if (it->k % 4 || it->k + 4 > sizeof *data)
        return BPF_MALFORMED;
      memcpy(&a, (const char *)data + it->k, 4);
      break;
    case BPF_JMP | BPF_JA:
      if (it->k >= (uint32_t)length)
        return BPF_MALFORMED;
      at += (int)it->k;
      break;
    case BPF_JMP | BPF_JEQ | BPF_K:
      at += a == it->k ? it->jt : it->jf;
      break;
    case BPF_JMP | BPF_JGE | BPF_K:
      at += a >= it->k ? it->jt : it->jf;
      break;
    case BPF_JMP | BPF_JSET | BPF_K:
      at += a & it->k ? it->jt : it->jf;
      break;
    case BPF_RET | BPF_K:
      return it->k;
    default:
      return BPF_MALFORMED;
    }
  }
  return BPF_MALFORMED; // ran off the end
}

#endif
