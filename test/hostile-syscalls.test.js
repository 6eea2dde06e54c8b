'use strict';
// Every system call number, tried from inside by native code with pointers and
// descriptors that cannot be right: what the filter lets through answers EFAULT
// or the like, what it refuses answers EPERM or ENOSYS. So nothing happens.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { matches, openJail, probe } = require('./helpers/run.js');

const jail = openJail();
const isX64 = process.arch === 'x64';
const only64 = !isX64 && 'the numbers are those of x86_64';

// Numbers of calls that end, stop or reshape the caller by being made at all.
// Tried elsewhere, or their refusal is seen by other means.
const NOT_TRIED = {
  15: 'rt_sigreturn',
  34: 'pause',
  60: 'exit',
  219: 'restart_syscall',
  231: 'exit_group',
  335: 'uretprobe: the kernel lets it pass every filter, and sends SIGILL to who calls it by hand',
  336: 'uprobe, likewise',
};

// Must be refused, each for a reason of its own.
const REFUSED = {
  clone3: 435,
  fork: 57,
  vfork: 58,
  execve: 59,
  execveat: 322,
  ptrace: 101,
  process_vm_readv: 310,
  process_vm_writev: 311,
  kcmp: 312,
  process_madvise: 440,
  process_mrelease: 448,
  pidfd_open: 434,
  pidfd_getfd: 438,
  pidfd_send_signal: 424,
  rt_sigqueueinfo: 129,
  rt_tgsigqueueinfo: 297,
  tkill: 200,
  socket: 41,
  connect: 42,
  accept: 43,
  accept4: 288,
  bind: 49,
  listen: 50,
  setsockopt: 54,
  io_uring_setup: 425,
  io_uring_enter: 426,
  io_uring_register: 427,
  bpf: 321,
  userfaultfd: 323,
  perf_event_open: 298,
  keyctl: 250,
  add_key: 248,
  request_key: 249,
  unshare: 272,
  setns: 308,
  mount: 165,
  umount2: 166,
  pivot_root: 155,
  chroot: 161,
  swapon: 167,
  swapoff: 168,
  fsopen: 430,
  fsconfig: 431,
  fsmount: 432,
  fspick: 433,
  open_tree: 428,
  move_mount: 429,
  mount_setattr: 442,
  memfd_create: 319,
  memfd_secret: 447,
  personality: 135,
  kexec_load: 246,
  kexec_file_load: 320,
  init_module: 175,
  finit_module: 313,
  delete_module: 176,
  reboot: 169,
  quotactl: 179,
  quotactl_fd: 443,
  name_to_handle_at: 303,
  open_by_handle_at: 304,
  syslog: 103,
  acct: 163,
  modify_ldt: 154,
  iopl: 172,
  ioperm: 173,
  vmsplice: 278,
  migrate_pages: 256,
  move_pages: 279,
  mbind: 237,
  set_mempolicy: 238,
  lookup_dcookie: 212,
  fanotify_init: 300,
  fanotify_mark: 301,
  flock: 73,
  shmget: 29,
  shmat: 30,
  shmctl: 31,
  semget: 64,
  semop: 65,
  semctl: 66,
  msgget: 68,
  msgsnd: 69,
  msgrcv: 70,
  msgctl: 71,
  mq_open: 240,
  mq_unlink: 241,
  setpriority: 141,
  sethostname: 170,
  setdomainname: 171,
  settimeofday: 164,
  clock_settime: 227,
  adjtimex: 159,
  clock_adjtime: 305,
  vhangup: 153,
  mknod: 133,
  mknodat: 259,
  ioprio_get: 252,
};

// Numbers that may answer anything else: reading and writing files of its own,
// memory, time, its own threads and signals. Whatever is not here must answer
// EPERM or ENOSYS. A number that joins this list needs a reason in its commit.
const MAY_PASS = require('./helpers/syscalls-allowed.js');

const SWEEP = `
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
BAD = ctypes.c_long(-1)
skipped = set(input['skip'])
result = {}
for number in range(0, 512):
    if number in skipped: continue
    ctypes.set_errno(0)
    value = libc.syscall(ctypes.c_long(number), BAD, BAD, BAD, BAD, BAD, BAD)
    result[str(number)] = errno.errorcode.get(ctypes.get_errno(), str(ctypes.get_errno())) if value == -1 else 'passed'
`;

describe('system calls', { skip: only64 }, () => {
  let sweep;
  it('a sweep over all numbers ends with the cell alive', async () => {
    const skip = Object.keys(NOT_TRIED).map(Number);
    sweep = await probe(jail, 'python', SWEEP, { skip });
    assert.equal(sweep[39], 'passed', 'getpid is the allowed control');
  });

  for (const [name, number] of Object.entries(REFUSED)) {
    it(`${name} is refused`, () => assert.match(sweep[number], /^(EPERM|ENOSYS)$/));
  }

  it('whatever is not on the list of harmless calls is refused', () => {
    const more = Object.entries(sweep)
      .filter(([number, outcome]) => !/^(EPERM|ENOSYS)$/.test(outcome) && !(number in MAY_PASS))
      .map(([number, outcome]) => `${number}: ${outcome}`);
    assert.deepEqual(more, []);
  });

  it('numbers beyond the table are refused', async () => {
    const far = `
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
result = []
for n in (512, 1000, 4096, 1 << 20):
    libc.syscall(n, -1, -1, -1)
    result.append(errno.errorcode[ctypes.get_errno()])
`;
    assert.deepEqual(new Set(await probe(jail, 'python', far)), new Set(['ENOSYS']));
  });

  // Each ends its cell: a run for every number. The control is the same text with
  // a native call in its place.
  const FOREIGN = {
    x32: `
import ctypes
ctypes.CDLL(None).syscall(0x40000000 | input['number'] if input['foreign'] else 39, -1, -1, -1, -1, -1, -1)
`,
    'the 32-bit kind': `
import ctypes, mmap
m = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
m.write(bytes([0x53]))                                  # push rbx
m.write(bytes([0xbb, 0xff, 0xff, 0xff, 0xff]))          # mov ebx, -1
m.write(bytes([0xb9, 0xff, 0xff, 0xff, 0xff]))          # mov ecx, -1
m.write(bytes([0xba, 0xff, 0xff, 0xff, 0xff]))          # mov edx, -1
m.write(bytes([0xb8]) + input['number'].to_bytes(4, 'little'))
m.write(bytes([0xcd, 0x80] if input['foreign'] else [0x90, 0x90]))  # int 0x80, or nothing
m.write(bytes([0x5b, 0xc3]))                            # pop rbx; ret
ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))()
`,
  };
  for (const [kind, code] of Object.entries(FOREIGN)) {
    it(`a call of ${kind} kills, whatever its number`, async () => {
      const call = (number, foreign) => jail.runCode({ language: 'python', code, input: { number, foreign } });
      matches(await call(39, false), { status: 'ok' });
      let next = 0;
      const some = async () => {
        for (let number = next++; number < 512; number = next++)
          matches(await call(number, true), { status: 'killed', signal: /^SIG(SYS|SEGV)$/ }, `number ${number}`);
      };
      await Promise.all([some(), some(), some(), some()]);
    });
  }

  // Calls that are needed, whose arguments make the difference.
  const ARGUMENTS = `
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def call(*args):
    ctypes.set_errno(0)
    value = libc.syscall(*[ctypes.c_long(a) for a in args])
    return errno.errorcode.get(ctypes.get_errno(), '?') if value == -1 else 'allowed'
r, w = os.pipe()
other = os.getpid() + 1
buffer = ctypes.create_string_buffer(4096)
BUF = ctypes.addressof(buffer)
path = ctypes.create_string_buffer(b'/cell')
cpus = ctypes.create_string_buffer(128); cpus[0] = 1
result = {
    'fcntl F_GETFL': call(72, r, 3, 0),
    'fcntl F_SETFL O_NONBLOCK': call(72, r, 4, 0o4000),
    'fcntl F_SETFL O_ASYNC': call(72, r, 4, 0o20000),
    'fcntl F_SETOWN': call(72, r, 8, os.getpid()),
    'fcntl F_SETSIG': call(72, r, 10, 9),
    'fcntl F_SETOWN_EX': call(72, r, 15, BUF),
    'fcntl F_SETLEASE': call(72, r, 1024, 0),
    'fcntl F_NOTIFY': call(72, r, 1026, 1),
    'fcntl F_SETPIPE_SZ': call(72, r, 1031, 1 << 20),
    'ioctl FIONREAD': call(16, r, 0x541b, BUF),
    'ioctl FIOASYNC': call(16, r, 0x5452, BUF),
    'ioctl FIOSETOWN': call(16, r, 0x8901, BUF),
    'ioctl SIOCSPGRP': call(16, r, 0x8902, BUF),
    'ioctl TIOCSTI': call(16, r, 0x5412, BUF),
    'ioctl TIOCSTI, high bits set': call(16, r, 0x5412 | (1 << 32), BUF),
    'prctl PR_GET_DUMPABLE': call(157, 3, 0, 0, 0, 0),
    'prctl PR_SET_PDEATHSIG': call(157, 1, 9, 0, 0, 0),
    'prctl PR_SET_DUMPABLE': call(157, 4, 1, 0, 0, 0),
    'prctl PR_SET_SECCOMP': call(157, 22, 2, BUF, 0, 0),
    'prctl PR_SET_MM': call(157, 35, 1, 0, 0, 0),
    'prctl PR_SET_PTRACER': call(157, 0x59616d61, -1, 0, 0, 0),
    'prlimit of another': call(302, other, 7, 0, BUF),
    'prlimit setting': call(302, 0, 7, BUF, 0),
    'sched_setaffinity of another': call(203, other, 128, ctypes.addressof(cpus)),
    'sched_getaffinity of itself': call(204, 0, 128, BUF),
    'sched_setscheduler of another': call(144, other, 0, BUF),
    'ioprio_set of another': call(251, 1, other, 0),
    'setpgid of another': call(109, other, 0),
    'kill another': call(62, other, 0),
    'kill everyone': call(62, -1, 0),
    'kill the group': call(62, 0, 0),
    'tgkill another': call(234, other, other, 0),
    'clone with CLONE_NEWUSER': call(56, 0x10000000 | 17, 0, 0, 0, 0),
    'clone as fork': call(56, 17, 0, 0, 0, 0),
    'mmap private': call(9, 0, 4096, 3, 0x22, -1, 0),
    'mmap shared anonymous': call(9, 0, 4096, 3, 0x21, -1, 0),
    'mmap growing down': call(9, 0, 4096, 3, 0x122, -1, 0),
    'mmap huge pages': call(9, 0, 2 << 20, 3, 0x40022, -1, 0),
    'mmap locked': call(9, 0, 4096, 3, 0x2022, -1, 0),
    'socketpair unix': call(53, 1, 1, 0, BUF),
    'socketpair inet': call(53, 2, 1, 0, BUF),
    'sendmsg': call(46, w, BUF, 0),
    'recvmsg': call(47, r, BUF, 0),
    'getsockopt SO_PEERPIDFD': call(55, r, 1, 77, BUF, BUF),
    'seccomp': call(317, 1, 0, BUF),
    'openat': call(257, -100, ctypes.addressof(path), 0, 0),
}
`;
  const ALLOWED = [
    'fcntl F_GETFL',
    'fcntl F_SETFL O_NONBLOCK',
    'ioctl FIONREAD',
    'prctl PR_GET_DUMPABLE',
    'sched_getaffinity of itself',
    'mmap private',
    'socketpair unix',
    'openat',
  ];

  for (const language of ['python']) {
    let seen;
    it(`arguments, tried from ${language}`, async () => {
      seen = await probe(jail, language, ARGUMENTS);
      for (const name of ALLOWED) assert.equal(seen[name], 'allowed', `${name} is an allowed control`);
    });
    it('the dangerous ones are refused, one by one', () => {
      const open = Object.entries(seen).filter(
        ([name, outcome]) => !ALLOWED.includes(name) && !/^(EPERM|ENOSYS|ESRCH|EACCES)$/.test(outcome),
      );
      assert.deepEqual(open, []);
    });
  }
});
