'use strict';
// All linters, each named with what it found: `npm run lint [-- NAME...]`.
// A tool that is not installed is an error that names its Debian package.

const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const curl = require('./build-curl.js');

const ROOT = path.join(__dirname, '..');
const bin = (name) => path.join('node_modules', '.bin', name);

function list(dir, pattern) {
  if (!fs.existsSync(path.join(ROOT, dir))) return [];
  return fs
    .readdirSync(path.join(ROOT, dir), { recursive: true })
    .map((name) => path.join(dir, String(name)))
    .filter((name) => pattern.test(name))
    .sort();
}

function nodeHeaders() {
  return [path.dirname(path.dirname(process.execPath)), '/usr', '/usr/local']
    .map((prefix) => path.join(prefix, 'include', 'node'))
    .find((dir) => fs.existsSync(path.join(dir, 'node_api.h')));
}

const cFiles = [...list('src', /\.[ch]$/), ...list('test', /\.c$/)];
const sources = list('src', /\.c$/);
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
const scripts = ['.ci/run', ...list('scripts', /\.sh$/)].filter((name) => fs.existsSync(path.join(ROOT, name)));

const CHECKS = {
  // .clang-tidy holds the checks; -quiet leaves only findings.
  biome: [bin('biome'), ['check', '--error-on-warnings']],
  tsc: [bin('tsc'), ['-p', '.']],
  'clang-format': ['clang-format', ['--dry-run', '-Werror', ...cFiles], 'clang-format'],
  gcc: [
    'cc',
    ['-fsyntax-only', '-O2', '-Wall', '-Wextra', '-Werror', '-Wformat-security', ...flags, ...sources],
    'gcc',
  ],
  'clang-tidy': ['clang-tidy', ['-quiet', '-warnings-as-errors=*', ...sources, '--', ...flags], 'clang-tidy'],
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
  shellcheck: ['shellcheck', scripts, 'shellcheck'],
};

const wanted = process.argv.slice(2);
let failed = 0;
for (const [name, [command, args, debian]] of Object.entries(CHECKS)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue;
  const run = spawnSync(command, args, { cwd: ROOT, encoding: 'utf8', maxBuffer: 64 << 20 });
  const missing = run.error?.code === 'ENOENT';
  const good = run.status === 0;
  if (!good) failed++;
  console.log(`${good ? 'ok    ' : 'failed'} ${name}`);
  if (missing)
    console.log(`  ${command} is not installed${debian ? ` (Debian: apt-get install ${debian})` : ': npm run setup'}`);
  else if (!good) console.log((run.stdout + run.stderr).replace(/^\d+ warnings? generated\.\n/gm, ''));
}
process.exitCode = failed > 0 ? 1 : 0;
