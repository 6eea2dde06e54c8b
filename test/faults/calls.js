'use strict';
// Which errors the system calls of x86_64 can give when the machine runs out of
// something or refuses it. Left out is what cannot fail where it is called from
// (getpid, close, a SIGKILL to a child of one's own), ends the process, or fails
// without an errno (brk).

const GROUPS = [
  [
    'EMFILE ENFILE ENOMEM',
    `2 open, 22 pipe, 32 dup, 33 dup2, 41 socket, 53 socketpair, 257 openat, 290 eventfd2, 291 epoll_create1,
     292 dup3, 293 pipe2, 294 inotify_init1, 434 pidfd_open, 437 openat2, 444 landlock_create_ruleset`,
  ],
  ['EAGAIN ENOMEM ENOSPC EPERM', '56 clone, 57 fork, 58 vfork, 272 unshare, 308 setns, 435 clone3'],
  ['ENOMEM', '9 mmap, 10 mprotect, 25 mremap, 28 madvise'],
  [
    'ENOSPC EPERM ENOMEM',
    `77 ftruncate, 80 chdir, 81 fchdir, 82 rename, 83 mkdir, 84 rmdir, 87 unlink, 88 symlink, 90 chmod, 91 fchmod,
     92 chown, 93 fchown, 155 pivot_root, 165 mount, 166 umount2, 258 mkdirat, 259 mknodat, 260 fchownat,
     263 unlinkat, 264 renameat, 266 symlinkat, 268 fchmodat, 442 mount_setattr`,
  ],
  [
    'EPERM ENOMEM',
    `4 stat, 5 fstat, 6 lstat, 16 ioctl, 21 access, 54 setsockopt, 72 fcntl, 79 getcwd, 89 readlink, 105 setuid,
     106 setgid, 112 setsid, 116 setgroups, 117 setresuid, 119 setresgid, 126 capset, 131 sigaltstack, 137 statfs,
     138 fstatfs, 141 setpriority, 157 prctl, 160 setrlimit, 170 sethostname, 217 getdents64, 262 newfstatat,
     267 readlinkat, 269 faccessat, 302 prlimit64, 317 seccomp, 332 statx, 439 faccessat2, 445 landlock_add_rule,
     446 landlock_restrict_self`,
  ],
  ['EINTR EAGAIN ENOMEM', '0 read, 17 pread64, 19 readv, 42 connect, 44 sendto, 45 recvfrom, 46 sendmsg, 47 recvmsg'],
  ['EINTR EAGAIN ENOSPC', '1 write, 18 pwrite64, 20 writev'],
  [
    'EINTR',
    '7 poll, 35 nanosleep, 61 wait4, 73 flock, 230 clock_nanosleep, 232 epoll_wait, 247 waitid, 271 ppoll, 281 epoll_pwait',
  ],
  ['EINTR EAGAIN', '318 getrandom'],
  ['EMFILE ENFILE EAGAIN ENOMEM EPERM', '59 execve'],
];

const CALLS = new Map(
  GROUPS.flatMap(([errors, calls]) =>
    calls.split(',').map((text) => {
      const [number, name] = text.trim().split(' ');
      return [Number(number), { name, errors: errors.split(' ') }];
    }),
  ),
);

/** @param {number} number @returns {string[]} names of errors; none for what is left out */
const canFail = (number) => CALLS.get(number)?.errors ?? [];

/** @param {number} number */
const nameOf = (number) => CALLS.get(number)?.name ?? `call ${number}`;

module.exports = { canFail, nameOf };
