'use strict';
// Builds the addon with the address and undefined-behaviour sanitizers, in a
// copy of the tree of its own (.cache/sanitized), and runs the tests of the host's
// side there. The keeper is static and the guests live under a data limit: the
// sanitizers fit into neither, so their C is covered by test/c alone.

const { execFileSync, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const curl = require('./build-curl.js');

const ROOT = path.join(__dirname, '..');
const COPY = path.join(ROOT, '.cache', 'sanitized');
const CC = process.env.CC || 'cc';
// The tests that exercise the host's side.
const TESTS = [
  'cases',
  'hostile-host',
  'run-code',
  'frames',
  'input',
  'options',
  'zygotes',
  'http/answers',
  'http/transport',
  'http/tls',
];

function addonSources() {
  const gyp = fs.readFileSync(path.join(ROOT, 'binding.gyp'), 'utf8');
  const target = gyp.slice(gyp.indexOf("'code_jail'"));
  const list = target.slice(target.indexOf('['), target.indexOf(']'));
  return [...list.matchAll(/'(src\/[^']+\.c)'/g)].map((match) => match[1]);
}

function headers() {
  const prefixes = [path.dirname(path.dirname(process.execPath)), '/usr', '/usr/local'];
  const found = prefixes.find((prefix) => fs.existsSync(path.join(prefix, 'include', 'node', 'node_api.h')));
  if (!found) throw new Error('Node\u2019s headers are not beside this Node');
  return path.join(found, 'include', 'node');
}

fs.rmSync(COPY, { recursive: true, force: true });
const release = path.join(COPY, 'build', 'Release');
fs.mkdirSync(release, { recursive: true });
for (const name of ['lib', 'bin', 'src', 'test', 'scripts', 'examples', 'package.json', 'index.d.ts']) {
  fs.cpSync(path.join(ROOT, name), path.join(COPY, name), { recursive: true });
}
fs.symlinkSync(path.join(ROOT, 'node_modules'), path.join(COPY, 'node_modules'));
for (const name of ['guest_node.node', 'guest_python.so', 'code-jail-keeper']) {
  fs.copyFileSync(path.join(ROOT, 'build', 'Release', name), path.join(release, name));
}

execFileSync(
  CC,
  [
    ...'-shared -fPIC -std=gnu11 -O1 -g -fno-omit-frame-pointer -pthread -fvisibility=hidden -D_GNU_SOURCE'.split(' '),
    ...'-DNAPI_VERSION=9 -DNODE_GYP_MODULE_NAME=code_jail -DBUILDING_NODE_EXTENSION -Wl,-z,nodelete'.split(' '),
    ...['-fsanitize=address,undefined', '-fno-sanitize-recover=undefined', `-I${headers()}`],
    ...curl
      .print('defines')
      .split(' ')
      .map((name) => `-D${name}`),
    `-I${curl.print('include')}`,
    ...addonSources(),
    ...curl.print('libs').split(' '),
    ...['-Wl,--exclude-libs,ALL', '-Wl,-Bsymbolic', '-o', path.join(release, 'code_jail.node')],
  ],
  { cwd: ROOT, stdio: 'inherit' },
);

const preload = ['libasan.so', 'libubsan.so']
  .map((name) => execFileSync(CC, [`-print-file-name=${name}`], { encoding: 'utf8' }).trim())
  .map((file) => fs.realpathSync(file));
const run = spawnSync(process.execPath, [path.join(COPY, 'scripts', 'test.js'), ...TESTS], {
  cwd: COPY,
  stdio: ['ignore', 'inherit', 'inherit'],
  env: {
    ...process.env,
    LD_PRELOAD: preload.join(' '),
    ASAN_OPTIONS: 'detect_leaks=0:abort_on_error=1',
    UBSAN_OPTIONS: 'print_stacktrace=1',
    CODE_JAIL_TEST_SANITIZED: '1',
    CODE_JAIL_TEST_REPORT: path.join(ROOT, '.cache', 'ci', 'sanitized.txt'),
  },
});
process.exitCode = run.status === 0 ? 0 : 1;
