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
const { build, fingerprint, isBuilt, readStamp } = require('./build.js');

const ROOT = path.join(__dirname, '..');
const quiet = process.argv.includes('--quiet');

function say(text) {
  if (!quiet || process.stderr.isTTY) process.stderr.write(`setup: ${text}\n`);
}

class SetupError extends Error {}

function compiles(source, args = []) {
  const cc = process.env.CC || 'cc';
  const run = spawnSync(cc, ['-x', 'c', '-', ...args], { input: source, encoding: 'utf8' });
  return run.status === 0;
}

function runs(command, ...args) {
  return spawnSync(command, args, { stdio: 'ignore' }).status === 0;
}

// What the build and the first run need, each by its effect rather than by a
// package's name: a compiler of the user's own choice is as good.
const NEEDS = [
  { what: 'a C compiler', package: 'gcc', has: () => runs(process.env.CC || 'cc', '--version') },
  {
    what: 'the C library, static',
    package: 'libc6-dev',
    has: () => compiles('int main(void) { return 0; }', ['-static', '-o', '/dev/null']),
  },
  { what: 'make', package: 'make', has: () => runs('make', '--version') },
  { what: 'python3 (for node-gyp, and as a runtime)', package: 'python3', has: () => runs('python3', '-c', '') },
  {
    what: 'the JSON tokenizer jsmn (a header)',
    package: 'libjsmn-dev',
    has: () => compiles('#include <jsmn.h>\n', ['-E', '-o', '/dev/null']),
  },
];

function installDebianPackages() {
  const missing = NEEDS.filter((need) => !need.has());
  if (missing.length === 0) return;
  const names = missing.map((need) => need.package);
  const list = missing.map((need) => `  - ${need.what} (Debian: ${need.package})`).join('\n');
  const command = `apt-get install -y --no-install-recommends ${names.join(' ')}`;
  const isRoot = process.getuid?.() === 0;
  if (!isRoot || !runs('apt-get', '--version')) {
    throw new SetupError(
      `Missing on this machine:\n${list}\n` +
        (isRoot
          ? 'There is no apt-get here; install these by other means, then run this again.'
          : `Not root, so nothing was installed. Run:\n  sudo ${command}\nthen run this again.`),
    );
  }
  say(`installing ${names.join(', ')}`);
  const apt = (...args) =>
    spawnSync('apt-get', args, {
      stdio: ['ignore', 'pipe', 'pipe'],
      encoding: 'utf8',
      env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
    });
  const install = ['install', '-y', '--no-install-recommends', ...names];
  let run = apt(...install);
  if (run.status !== 0) {
    apt('update'); // the lists of a fresh machine are often empty
    run = apt(...install);
  }
  const still = missing.filter((need) => !need.has());
  if (run.status !== 0 || still.length > 0) {
    throw new SetupError(`Could not install:\n${list}\n\`${command}\` said:\n${run.stdout}${run.stderr}`);
  }
}

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
  if (!isCurrent && process.platform === 'linux') installDebianPackages();
  installNpmPackages();
  curl.ensure({
    onStart: () => say('building libcurl from source (a minute, once)'),
    onFallback: (why) => say(`${why}\nsetup: the machine’s shared libcurl is used instead`),
  });
  build({ onStart: () => say('building the native parts') });
}

try {
  setup();
} catch (error) {
  process.stderr.write(`\n${error instanceof SetupError ? error.message : error.stack}\n`);
  process.exitCode = 1;
}
