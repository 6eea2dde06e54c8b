'use strict';
// Builds the native parts with node-gyp, when their sources have changed.
// Called by setup.js, and by hand: `npm run build [-- --force | TARGET...]`.
//
// The stamp in build/ is a hash of everything the result depends on, so that a
// second call costs some milliseconds. Node-API is stable across Node versions:
// the version of Node is not part of it.

const { spawnSync } = require('node:child_process');
const crypto = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');
const curl = require('./build-curl.js');

const ROOT = path.join(__dirname, '..');
const BUILD = path.join(ROOT, 'build');
const STAMP = path.join(BUILD, '.stamp.json');
const RESULTS = [
  'code_jail.node',
  'guest_node.node',
  'guest_python.so',
  'code-jail-keeper',
  'code-jail-launcher',
  'code-jail-agent',
  'code-jail-initrd',
  'code-jail-warden',
];

function listFiles(dir) {
  return fs
    .readdirSync(dir, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile() && /\.[ch]$/.test(entry.name))
    .map((entry) => path.join(entry.parentPath ?? entry.path, entry.name))
    .sort();
}

function hash(...parts) {
  const sum = crypto.createHash('sha256');
  for (const part of parts) sum.update(part).update('\0');
  return sum.digest('hex');
}

// What a configuration depends on (binding.gyp lists its files by `ls`), and
// what the build does on top.
function fingerprint() {
  const files = listFiles(path.join(ROOT, 'src'));
  const names = files.map((file) => path.relative(ROOT, file)).join('\n');
  const gyp = fs.readFileSync(path.join(ROOT, 'binding.gyp'));
  const flags = ['CC', 'CFLAGS', 'LDFLAGS'].map((name) => process.env[name] ?? '').join('\n');
  const libcurl = curl.mode() === 'static' ? curl.prefix() : 'system';
  const configure = hash(gyp, names, flags, process.arch, process.platform, libcurl);
  return { configure, build: hash(configure, ...files.map((file) => fs.readFileSync(file))) };
}

function readStamp() {
  try {
    return JSON.parse(fs.readFileSync(STAMP, 'utf8'));
  } catch {
    return {};
  }
}

function isBuilt(stamp, now) {
  return stamp.build === now.build && RESULTS.every((name) => fs.existsSync(path.join(BUILD, 'Release', name)));
}

// Headers of this very Node where they lie beside it; otherwise node-gyp looks
// by itself (npm's nodedir), and downloads them as a last resort.
function nodedir() {
  if (process.env.npm_config_nodedir) return [];
  for (const prefix of [path.dirname(path.dirname(process.execPath)), '/usr', '/usr/local']) {
    const headers = path.join(prefix, 'include', 'node');
    const has = (name) => fs.existsSync(path.join(headers, name));
    if (has('node_api.h') && has('uv.h') && has('common.gypi')) return [`--nodedir=${prefix}`];
  }
  return [];
}

// One build at a time in this folder: a second one waits for the first.
function withLock(work) {
  const lock = path.join(ROOT, '.cache', 'build.lock');
  fs.mkdirSync(path.dirname(lock), { recursive: true });
  for (;;) {
    try {
      fs.writeFileSync(lock, String(process.pid), { flag: 'wx' });
      break;
    } catch (error) {
      if (error.code !== 'EEXIST') throw error;
    }
    if (!isAlive(lock)) fs.rmSync(lock, { force: true });
    else Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 100);
  }
  try {
    return work();
  } finally {
    fs.rmSync(lock, { force: true });
  }
}

function isAlive(lock) {
  try {
    const pid = Number(fs.readFileSync(lock, 'utf8'));
    return pid > 0 && process.kill(pid, 0);
  } catch (error) {
    return error.code === 'EPERM';
  }
}

// An installed package has no node-gyp of its own; npm names the one that it brings.
function gypScript() {
  try {
    return require.resolve('node-gyp/bin/node-gyp.js', { paths: [ROOT] });
  } catch (error) {
    if (!process.env.npm_config_node_gyp) throw error;
    return process.env.npm_config_node_gyp;
  }
}

function gyp(args, verbose) {
  const script = gypScript();
  // gyp links with the C++ driver by default; this is C, and needs no libstdc++.
  const env = { ...process.env, LINK: process.env.CC || 'cc', npm_config_loglevel: 'error' };
  const run = spawnSync(process.execPath, [script, ...args, ...nodedir()], {
    cwd: ROOT,
    env,
    stdio: ['ignore', verbose ? 'inherit' : 'pipe', verbose ? 'inherit' : 'pipe'],
    encoding: 'utf8',
    maxBuffer: 64 << 20,
  });
  if (run.error) throw run.error;
  if (run.status !== 0) {
    if (!verbose) process.stderr.write(run.stdout + run.stderr);
    throw new Error(`The native build failed (node-gyp ${args.join(' ')}); its output is above.`);
  }
}

/**
 * @param {{ force?: boolean, verbose?: boolean, targets?: string[], onStart?: () => void }} [options]
 * @returns {boolean} whether anything had to be built
 */
function build({ force = false, verbose = false, targets = [], onStart = () => {} } = {}) {
  if (!force && targets.length === 0 && isBuilt(readStamp(), fingerprint())) return false;
  return withLock(() => {
    const now = fingerprint();
    const stamp = readStamp();
    if (!force && targets.length === 0 && isBuilt(stamp, now)) return false;
    onStart();
    const fresh = stamp.configure === now.configure && fs.existsSync(path.join(BUILD, 'Makefile'));
    if (force || !fresh) {
      gyp(['configure'], verbose);
      fs.writeFileSync(STAMP, JSON.stringify({ configure: now.configure }));
    }
    gyp(['build', '--jobs', '2', ...targets], verbose);
    if (targets.length === 0) fs.writeFileSync(STAMP, JSON.stringify(now));
    return true;
  });
}

module.exports = { build, fingerprint, readStamp, isBuilt };

if (require.main === module) {
  const args = process.argv.slice(2);
  try {
    const done = build({
      force: args.includes('--force'),
      verbose: !args.includes('--quiet'),
      targets: args.filter((arg) => !arg.startsWith('--')),
    });
    if (!done && !args.includes('--quiet')) console.log('The native build is up to date.');
  } catch (error) {
    console.error(error.code === 'MODULE_NOT_FOUND' ? 'node-gyp is not installed: npm run setup' : error.message);
    process.exitCode = 1;
  }
}
