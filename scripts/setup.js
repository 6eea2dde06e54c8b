'use strict';
// Brings a fresh clone to the point where it runs: Debian packages where they
// are missing and we may install them, npm packages, native build. Idempotent;
// with nothing to do it takes some milliseconds. No dependency of its own.
// `npm test` and `npm run demo` call it first.

const { spawnSync } = require('node:child_process');
const crypto = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');
const curl = require('./build-curl.js');
const { install, runs, compiles, DebianError } = require('./debian.js');
const { build, fingerprint, isBuilt, readStamp } = require('./build.js');

const ROOT = path.join(__dirname, '..');
const quiet = process.argv.includes('--quiet');

function say(text) {
  if (!quiet || process.stderr.isTTY) process.stderr.write(`setup: ${text}\n`);
}

class SetupError extends Error {}

// What the build and the first run need, each by its effect rather than by a
// package's name: a compiler of the user's own choice is as good.
const NEEDS = [
  { what: 'a C compiler', packages: ['gcc'], has: () => runs(process.env.CC || 'cc', '--version') },
  {
    what: 'the C library, static',
    packages: ['libc6-dev'],
    has: () => compiles('int main(void) { return 0; }', ['-static', '-o', '/dev/null']),
  },
  { what: 'make', packages: ['make'], has: () => runs('make', '--version') },
  { what: 'python3 (for node-gyp, and as a runtime)', packages: ['python3'], has: () => runs('python3', '-c', '') },
  {
    what: 'the JSON tokenizer jsmn (a header)',
    packages: ['libjsmn-dev'],
    has: () => compiles('#include <jsmn.h>\n', ['-E', '-o', '/dev/null']),
  },
];

function installNpmPackages() {
  const lock = path.join(ROOT, 'package-lock.json');
  const stamp = path.join(ROOT, 'node_modules', '.code-jail-setup');
  const now = crypto.createHash('sha256').update(fs.readFileSync(lock)).digest('hex');
  if (fs.existsSync(stamp) && fs.readFileSync(stamp, 'utf8') === now) return;
  say('installing npm packages');
  const npm = process.env.npm_execpath;
  const args = ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'];
  const run = npm?.endsWith('.js')
    ? spawnSync(process.execPath, [npm, ...args], { cwd: ROOT, stdio: ['ignore', 'pipe', 'pipe'], encoding: 'utf8' })
    : spawnSync('npm', args, { cwd: ROOT, stdio: ['ignore', 'pipe', 'pipe'], encoding: 'utf8' });
  if (run.status !== 0) throw new SetupError(`npm ci failed:\n${run.stdout ?? ''}${run.stderr ?? run.error}`);
  fs.writeFileSync(stamp, now);
}

function setup() {
  const [major] = process.versions.node.split('.').map(Number);
  if (major < 20) throw new SetupError(`Node.js 20 or newer is needed; this is ${process.version}.`);
  const isCurrent = isBuilt(readStamp(), fingerprint()) && runs('python3', '-c', '');
  if (!isCurrent && process.platform === 'linux') install(NEEDS, say);
  installNpmPackages();
  curl.ensure({
    onStart: () => say('building libcurl from source (a minute, once)'),
    onFallback: (why) => say(`${why}\nsetup: the machine’s shared libcurl is used instead`),
  });
  build({ onStart: () => say('building the native parts') });
  if (!quiet) say('ready');
}

try {
  setup();
} catch (error) {
  process.stderr.write(
    `\n${error instanceof SetupError || error instanceof DebianError ? error.message : error.stack}\n`,
  );
  process.exitCode = 1;
}
