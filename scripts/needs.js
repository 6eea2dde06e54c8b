'use strict';
// What the tests, or the linters and fuzzers, want of the machine beyond the build:
// `node scripts/needs.js NAME`. Where it cannot be installed this says what that
// means, and the tests that miss something skip with a reason.

const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const { install, runs, compiles, DebianError } = require('./debian.js');

const onPath = (name) =>
  (process.env.PATH ?? '').split(':').some((folder) => fs.existsSync(`${folder}/${name}`)) ||
  ['/usr/sbin', '/sbin'].some((folder) => fs.existsSync(`${folder}/${name}`));
const tool = (name, what, packages = [name]) => ({ what, packages, has: () => onPath(name) });

const FUZZ = 'int LLVMFuzzerTestOneInput(const char *d, unsigned long n) { return d == 0 && n; }';
const fuzzes = () => compiles(FUZZ, ['-fsanitize=fuzzer,address', '-o', '/dev/null'], 'clang');
const clangMajor = () => execFileSync('clang', ['-dumpversion'], { encoding: 'utf8' }).split('.')[0];

const LISTS = {
  tests: [
    {
      what: 'jemalloc, to preload',
      packages: ['libjemalloc2'],
      has: () => fs.existsSync('/usr/share/doc/libjemalloc2'),
    },
    tool('openssl', 'certificates for loopback'),
    tool('socat', 'a line to a socket'),
    tool('runsc', 'gVisor'),
    tool('ip', 'network namespaces', ['iproute2']),
    tool('qemu-system-x86_64', 'a machine under emulation', ['qemu-system-x86']),
    tool('mkfs.ext4', 'its disk', ['e2fsprogs']),
    tool('cpio', 'its initrd'),
    tool('busybox', 'its shell', ['busybox-static']),
    tool('shellcheck', 'a linter for scripts'),
    tool('yamllint', 'a linter for descriptions'),
  ],
  package: [
    tool('readelf', 'what a binary binds to', ['binutils']),
    tool('pkg-config', 'where a library is'),
    {
      what: 'a shared libcurl, for a build without the static one',
      packages: ['libcurl4-openssl-dev'],
      has: () => runs('pkg-config', '--exists', 'libcurl'),
    },
  ],
  arm64: [
    tool('qemu-aarch64-static', 'an emulator', ['qemu-user-static']),
    tool('aarch64-linux-gnu-gcc', 'a cross compiler', ['gcc-aarch64-linux-gnu', 'libc6-dev-arm64-cross']),
    tool('readelf', 'what a binary binds to', ['binutils']),
    {
      what: 'its C++ library',
      packages: ['libstdc++6-arm64-cross'],
      has: () => fs.existsSync('/usr/aarch64-linux-gnu/lib/libstdc++.so.6'),
    },
  ],
  dashboard: [tool('chromium', 'a browser'), tool('runsc', 'gVisor'), tool('ip', 'network namespaces', ['iproute2'])],
  checks: [
    ...['clang-format', 'clang-tidy', 'cppcheck', 'shellcheck', 'yamllint'].map((name) => tool(name, 'a linter')),
    tool('clang', 'a compiler that fuzzes'),
    {
      // Its package is named by clang's version, and only recommended by it.
      what: 'its library for that',
      packages: () => (runs('clang', '--version') ? [`libclang-rt-${clangMajor()}-dev`] : []),
      has: fuzzes,
    },
  ],
};

const name = process.argv[2];
if (!Object.hasOwn(LISTS, name)) {
  console.error(`needs: one of ${Object.keys(LISTS).join(', ')} is expected`);
  process.exit(2);
}
try {
  // One after the other where a package's name depends on what came before.
  const [plain, late] = [
    LISTS[name].filter((one) => Array.isArray(one.packages)),
    LISTS[name].filter((one) => !Array.isArray(one.packages)),
  ];
  for (const needs of [plain, late]) install(needs, (text) => process.stderr.write(`needs: ${text}\n`));
} catch (error) {
  if (!(error instanceof DebianError)) throw error;
  process.stderr.write(`${error.message}\n`);
  // Without them tests skip, each with its reason; linters and fuzzers cannot do without.
  process.exitCode = name === 'tests' ? 0 : 1;
}
