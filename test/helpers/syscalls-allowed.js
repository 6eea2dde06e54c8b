'use strict';
// The system calls of x86_64 that a cell may make, with whatever arguments are
// not refused elsewhere. Written down apart from the filter, on purpose: who
// widens the filter must say so here as well.

const GROUPS = {
  'streams and files; which ones, the root and Landlock decide': `
    0 read, 1 write, 2 open, 3 close, 4 stat, 5 fstat, 6 lstat, 8 lseek, 17 pread64, 18 pwrite64, 19 readv,
    20 writev, 21 access, 22 pipe, 32 dup, 33 dup2, 40 sendfile, 72 fcntl, 74 fsync, 75 fdatasync, 76 truncate, 77 ftruncate,
    78 getdents, 79 getcwd, 80 chdir, 81 fchdir, 82 rename, 83 mkdir, 84 rmdir, 85 creat, 86 link, 87 unlink,
    88 symlink, 89 readlink, 90 chmod, 91 fchmod, 92 chown, 93 fchown, 94 lchown, 95 umask, 132 utime, 137 statfs,
    138 fstatfs, 191 getxattr, 192 lgetxattr, 193 fgetxattr, 194 listxattr, 195 llistxattr, 196 flistxattr,
    217 getdents64, 235 utimes, 257 openat, 258 mkdirat, 260 fchownat, 261 futimesat, 262 newfstatat, 263 unlinkat,
    264 renameat, 265 linkat, 266 symlinkat, 267 readlinkat, 268 fchmodat, 269 faccessat, 280 utimensat,
    285 fallocate, 292 dup3, 293 pipe2, 295 preadv, 296 pwritev, 316 renameat2, 326 copy_file_range, 327 preadv2,
    328 pwritev2, 332 statx, 436 close_range, 437 openat2, 439 faccessat2, 452 fchmodat2`,
  'waiting for descriptors': `
    7 poll, 23 select, 213 epoll_create, 232 epoll_wait, 233 epoll_ctl, 270 pselect6, 271 ppoll, 281 epoll_pwait,
    284 eventfd, 290 eventfd2, 291 epoll_create1, 441 epoll_pwait2`,
  'a Unix pair of its own': '45 recvfrom, 48 shutdown, 51 getsockname, 52 getpeername',
  'memory of its own': `
    10 mprotect, 11 munmap, 12 brk, 25 mremap, 26 msync, 28 madvise, 329 pkey_mprotect, 330 pkey_alloc, 331 pkey_free`,
  'signals to itself': `
    13 rt_sigaction, 14 rt_sigprocmask, 127 rt_sigpending, 128 rt_sigtimedwait, 130 rt_sigsuspend, 131 sigaltstack,
    282 signalfd, 289 signalfd4`,
  'threads, and children it cannot have': `
    24 sched_yield, 61 wait4, 158 arch_prctl, 186 gettid, 218 set_tid_address, 247 waitid, 273 set_robust_list,
    309 getcpu, 334 rseq, 449 futex_waitv`,
  'time and timers': `
    35 nanosleep, 36 getitimer, 37 alarm, 38 setitimer, 96 gettimeofday, 100 times, 201 time, 222 timer_create,
    223 timer_settime, 224 timer_gettime, 225 timer_getoverrun, 226 timer_delete, 228 clock_gettime, 229 clock_getres,
    230 clock_nanosleep, 283 timerfd_create, 286 timerfd_settime, 287 timerfd_gettime`,
  'questions about itself and the machine': `
    39 getpid, 63 uname, 97 getrlimit, 98 getrusage, 99 sysinfo, 102 getuid, 104 getgid, 107 geteuid, 108 getegid,
    110 getppid, 111 getpgrp, 115 getgroups, 118 getresuid, 120 getresgid, 125 capget, 140 getpriority,
    143 sched_getparam, 145 sched_getscheduler, 146 sched_get_priority_max, 147 sched_get_priority_min,
    204 sched_getaffinity, 318 getrandom`,
};

module.exports = Object.fromEntries(
  Object.values(GROUPS)
    .flatMap((text) => text.trim().split(/,\s*/))
    .map((item) => item.split(' ')),
);
