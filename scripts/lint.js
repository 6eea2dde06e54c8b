'use strict';
// All linters, each named with what it found: `npm run lint [-- NAME...]`.
// A tool that is not installed is an error that names its Debian package.

const { spawn } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const curl = require('./build-curl.js');

const ROOT = path.join(__dirname, '..');
const bin = (name) => path.join('node_modules', '.bin', name);

function list(dir, pattern) {
  if (!fs.existsSync(path.join(ROOT, dir))) return [];
  return fs
    .readdirSync(path.join(ROOT, dir), { recursive: true })
    .map((name) => path.join(dir, String(name)))
    .filter((name) => pattern.test(name) && !/node_modules|\.next/.test(name))
    .sort();
}

function nodeHeaders() {
  return [path.dirname(path.dirname(process.execPath)), '/usr', '/usr/local']
    .map((prefix) => path.join(prefix, 'include', 'node'))
    .find((dir) => fs.existsSync(path.join(dir, 'node_api.h')));
}

const cFiles = [...list('src', /\.[ch]$/), ...list('test', /\.c$/)];
const sources = list('src', /\.c$/).filter((name) => !name.startsWith(path.join('src', 'darwin')));
const include = nodeHeaders();
const flags = ['-std=gnu11', '-D_GNU_SOURCE', '-DNAPI_VERSION=9', '-Isrc', ...(include ? ['-isystem', include] : [])];
flags.push(
  '-isystem',
  curl.print('include'),
  ...curl
    .print('defines')
    .split(' ')
    .map((name) => `-D${name}`),
);
const scripts = ['.ci/run', ...list('scripts', /\.sh$/), ...list('apps', /\.sh$/), ...list('infra', /\.sh$/)].filter(
  (name) => fs.existsSync(path.join(ROOT, name)),
);

const WARNINGS = ['-Wall', '-Wextra', '-Werror', '-Wformat-security'];

// Stands for one source file: the slow checks run on as many at once as there are cores.
const EACH = Symbol('each');

const CHECKS = {
  // .clang-tidy holds the checks; -quiet leaves only findings.
  biome: [bin('biome'), ['check', '--error-on-warnings']],
  tsc: [bin('tsc'), ['-p', '.']],
  'clang-format': ['clang-format', ['--dry-run', '-Werror', ...cFiles], 'clang-format'],
  // Compiles, as the build does: what is known only then, unused results too, is found.
  gcc: [
    'cc',
    ['-c', '-o', '/dev/null', '-O2', '-U_FORTIFY_SOURCE', '-D_FORTIFY_SOURCE=2', ...WARNINGS, ...flags, EACH],
    'gcc',
  ],
  'clang-tidy': ['clang-tidy', ['-quiet', '-warnings-as-errors=*', EACH, '--', ...flags], 'clang-tidy'],
  cppcheck: [
    'cppcheck',
    [
      '--enable=warning,performance,portability',
      '--inline-suppr',
      '--error-exitcode=1',
      '--quiet',
      '--std=c11',
      '--suppress=missingIncludeSystem',
      '-D_GNU_SOURCE',
      '-D__x86_64__',
      '-D__linux__',
      '-Isrc',
      'src',
    ],
    'cppcheck',
  ],
  // What macOS has under names of its own is in src/darwin, which no other tool here can read.
  darwin: ['node', ['scripts/darwin.js', include ?? '']],
  shellcheck: ['shellcheck', ['-x', ...scripts], 'shellcheck'],
  yamllint: ['yamllint', ['-s', 'infra', '.github'], 'yamllint'],
};

function run(command, args) {
  return new Promise((resolve) => {
    const child = spawn(command, args, { cwd: ROOT, stdio: ['ignore', 'pipe', 'pipe'] });
    let text = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (chunk) => {
        text += chunk;
      });
    }
    child.on('error', (error) => resolve({ good: false, missing: error.code === 'ENOENT', text: error.message }));
    child.on('close', (status) => resolve({ good: status === 0, missing: false, text }));
  });
}

async function runEach(command, args) {
  const left = [...sources];
  const runs = [];
  const lane = async () => {
    for (let file = left.shift(); file; file = left.shift()) {
      runs.push(
        await run(
          command,
          args.map((arg) => (arg === EACH ? file : arg)),
        ),
      );
    }
  };
  await Promise.all(Array.from({ length: os.availableParallelism() }, lane));
  return {
    good: runs.every((one) => one.good),
    missing: runs.some((one) => one.missing),
    text: runs
      .filter((one) => !one.good)
      .map((one) => one.text)
      .join(''),
  };
}

async function main() {
  const wanted = process.argv.slice(2);
  for (const [name, [command, args, debian]] of Object.entries(CHECKS)) {
    if (wanted.length > 0 && !wanted.includes(name)) continue;
    const { good, missing, text } = await (args.includes(EACH) ? runEach : run)(command, args);
    console.log(`${good ? 'ok    ' : 'failed'} ${name}`);
    if (good) continue;
    process.exitCode = 1;
    if (missing)
      console.log(
        `  ${command} is not installed${debian ? ` (Debian: apt-get install ${debian})` : ': npm run setup'}`,
      );
    else console.log(text.replace(/^\d+ warnings? generated\.\n/gm, ''));
  }
}

main();
