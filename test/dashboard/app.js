'use strict';
// The dashboard for tests: installed and built once, whoever asks first.

const { execFileSync } = require('node:child_process');
const crypto = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');

const ROOT = path.join(__dirname, '..', '..');
const APP = path.join(ROOT, 'apps', 'dashboard');
const SERVER = path.join(APP, '.next', 'standalone', 'apps', 'dashboard', 'server.js');
const CACHE = path.join(ROOT, '.cache', 'dashboard');

function npm(...args) {
  try {
    return execFileSync('npm', args, { cwd: APP, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
  } catch (error) {
    throw new Error(`npm ${args.join(' ')} failed:\n${error.stdout}${error.stderr}`);
  }
}

function hashOf(...names) {
  const hash = crypto.createHash('sha256');
  for (const name of names.sort()) hash.update(name).update(fs.readFileSync(path.join(APP, name)));
  return hash.digest('hex');
}

/** Runs `work` unless it was done for this `key`; test files that run at the same time wait for each other. */
function once(name, key, work) {
  fs.mkdirSync(CACHE, { recursive: true });
  const stamp = path.join(CACHE, name);
  const lock = `${stamp}.lock`;
  for (;;) {
    try {
      fs.writeFileSync(lock, String(process.pid), { flag: 'wx' });
      break;
    } catch (error) {
      if (error.code !== 'EEXIST') throw error;
      const owner = Number(fs.readFileSync(lock, 'utf8'));
      if (owner > 0 && !fs.existsSync(`/proc/${owner}`)) fs.rmSync(lock, { force: true });
      else Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200);
    }
  }
  try {
    if (fs.existsSync(stamp) && fs.readFileSync(stamp, 'utf8') === key) return;
    work();
    fs.writeFileSync(stamp, key);
  } finally {
    fs.rmSync(lock, { force: true });
  }
}

function install() {
  if (!fs.existsSync(path.join(APP, 'node_modules', 'next'))) fs.rmSync(path.join(CACHE, 'installed'), { force: true });
  once('installed', hashOf('package-lock.json'), () => npm('ci', '--ignore-scripts', '--no-audit', '--no-fund'));
}

function build() {
  install();
  const sources = ['src', 'public', 'scripts']
    .filter((dir) => fs.existsSync(path.join(APP, dir)))
    .flatMap((dir) =>
      fs.readdirSync(path.join(APP, dir), { recursive: true }).map((name) => path.join(dir, String(name))),
    )
    .filter((name) => fs.statSync(path.join(APP, name)).isFile());
  const addon = fs.statSync(path.join(ROOT, 'build', 'Release', 'code_jail.node')).mtimeMs;
  const key = `${hashOf('package.json', 'next.config.ts', ...sources)} ${addon}`;
  if (!fs.existsSync(SERVER)) fs.rmSync(path.join(CACHE, 'built'), { force: true });
  once('built', key, () => npm('run', 'build'));
  if (!fs.existsSync(SERVER)) throw new Error('next build left no standalone server');
}

module.exports = { APP, SERVER, build };
