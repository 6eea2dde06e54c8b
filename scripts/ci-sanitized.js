'use strict';
// Builds the addon under a sanitizer, in a copy of the tree of its own
// (.cache/sanitized), and runs the tests of the host's side there:
//   node scripts/ci-sanitized.js           addresses and undefined behaviour
//   node scripts/ci-sanitized.js thread    races between threads
// The keeper is static and the guests live under a data limit: the sanitizers
// fit into neither, so their C is covered by test/c alone.
//
// Node itself is not instrumented. ThreadSanitizer sees its locks, descriptors and
// threads all the same (it stands before the C library), and is told to judge the
// accesses of instrumented code alone; so nothing has to be suppressed. That it sees
// what it is for is shown each time: without the lock of the engine's intake it must
// report a race.

const { execFileSync, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const curl = require('./build-curl.js');

const ROOT = path.join(__dirname, '..');
const COPY = path.join(ROOT, '.cache', 'sanitized');
const RELEASE = path.join(COPY, 'build', 'Release');
const RACES = path.join(COPY, 'race'); // .PID: what that process has reported
const CC = process.env.CC || 'cc';
// Of each: the tests that exercise what it looks for.
const MODES = {
  address: {
    flags: ['-fsanitize=address,undefined', '-fno-sanitize-recover=undefined'],
    within: [],
    runtimes: ['libasan.so', 'libubsan.so'],
    env: { ASAN_OPTIONS: 'detect_leaks=0:abort_on_error=1', UBSAN_OPTIONS: 'print_stacktrace=1' },
    tests: [
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
    ],
    report: 'sanitized.txt',
  },
  thread: {
    flags: ['-fsanitize=thread'],
    runtimes: ['libtsan.so'],
    // Its map of the address space has no place for every random layout.
    within: ['setarch', '-R'],
    env: { TSAN_OPTIONS: `log_path=${RACES}:exitcode=66:ignore_noninstrumented_modules=1` },
    tests: ['hostile-host', 'run-code', 'frames', 'zygotes', 'threads', 'http/transport', 'socket/transport'],
    report: 'threads.txt',
  },
};
const mode = MODES[process.argv[2] ?? 'address'];
if (!mode) throw new Error(`no such sanitizer: ${process.argv[2]}; there are ${Object.keys(MODES).join(', ')}`);

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

function copyTree() {
  fs.rmSync(COPY, { recursive: true, force: true });
  fs.mkdirSync(RELEASE, { recursive: true });
  for (const name of ['lib', 'bin', 'src', 'test', 'scripts', 'examples', 'package.json', 'index.d.ts']) {
    fs.cpSync(path.join(ROOT, name), path.join(COPY, name), { recursive: true });
  }
  fs.symlinkSync(path.join(ROOT, 'node_modules'), path.join(COPY, 'node_modules'));
  for (const name of ['guest_node.node', 'guest_python.so', 'code-jail-keeper']) {
    fs.copyFileSync(path.join(ROOT, 'build', 'Release', name), path.join(RELEASE, name));
  }
}

function buildAddon() {
  execFileSync(
    CC,
    [
      ...'-shared -fPIC -std=gnu11 -O1 -g -fno-omit-frame-pointer -pthread -fvisibility=hidden -D_GNU_SOURCE'.split(
        ' ',
      ),
      ...'-DNAPI_VERSION=9 -DNODE_GYP_MODULE_NAME=code_jail -DBUILDING_NODE_EXTENSION -Wl,-z,nodelete'.split(' '),
      ...[...mode.flags, `-I${headers()}`],
      ...curl
        .print('defines')
        .split(' ')
        .map((name) => `-D${name}`),
      `-I${curl.print('include')}`,
      ...addonSources(),
      ...curl.print('libs').split(' '),
      ...['-Wl,--exclude-libs,ALL', '-Wl,-Bsymbolic', '-o', path.join(RELEASE, 'code_jail.node')],
    ],
    { cwd: COPY, stdio: 'inherit' },
  );
}

/** @returns {boolean} whether all went well, in time where there is a limit */
function test(tests, report, stdio, timeout) {
  const preload = mode.runtimes
    .map((name) => execFileSync(CC, [`-print-file-name=${name}`], { encoding: 'utf8' }).trim())
    .map((file) => fs.realpathSync(file));
  const env = {
    ...mode.env,
    LD_PRELOAD: preload.join(' '),
    CODE_JAIL_TEST_SANITIZED: '1',
    CODE_JAIL_TEST_REPORT: report,
  };
  const set = Object.entries(env).map(([name, value]) => `${name}=${value}`);
  const command = [process.execPath, path.join(COPY, 'scripts', 'test.js'), ...tests];
  const [file, ...args] = [...mode.within, 'env', ...set, ...command];
  return spawnSync(file, args, { cwd: COPY, stdio: ['ignore', stdio, stdio], timeout }).status === 0;
}

// Also of processes whose end nobody looked at, and of tests that passed the second time.
function takeRaces() {
  const files = fs.readdirSync(COPY).filter((name) => name.startsWith('race.'));
  const texts = files.map((name) => fs.readFileSync(path.join(COPY, name), 'utf8'));
  for (const name of files) fs.rmSync(path.join(COPY, name));
  return texts;
}

function seesPlantedRace() {
  const engine = path.join(COPY, 'src', 'engine.c');
  const text = fs.readFileSync(engine, 'utf8');
  const post = text.match(/^void engine_post\(.*?^}/ms)?.[0];
  const unlocked = post?.replace(/^ *pthread_mutex_(un)?lock\(&lock\);\n/gm, '');
  if (!post || unlocked === post) throw new Error('engine_post takes no lock any more: plant the race elsewhere');
  fs.writeFileSync(engine, text.replace(post, unlocked));
  buildAddon();
  fs.writeFileSync(engine, text);
  // What is lost in the race may be waited for until all is over; it has been reported by then.
  const planted = path.join(COPY, 'planted.txt');
  const passed = test(['run-code', '--test-name-pattern=the queue'], planted, 'ignore', 60000);
  return !passed && takeRaces().some((race) => /data race .*engine\.c/.test(race));
}

copyTree();
if (mode === MODES.thread && !seesPlantedRace()) {
  console.error('a race that was planted has not been reported: nothing would be proven');
  process.exit(1);
}
buildAddon();
const passed = test(mode.tests, path.join(ROOT, '.cache', 'ci', mode.report), 'inherit');
const races = takeRaces();
for (const race of races) console.error(race);
process.exitCode = passed && races.length === 0 ? 0 : 1;
