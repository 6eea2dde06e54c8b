'use strict';
// The package as its users get it: packed, and installed by npm into a copy of a fixture.
// All of it is kept in .cache/consumers, by content, so that a second run is quick.

const { execFileSync } = require('node:child_process');
const crypto = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');
const { pack } = require('../../../scripts/pack.js');

const ROOT = path.join(__dirname, '..', '..', '..');
const CACHE = path.join(ROOT, '.cache', 'consumers');

const sha256 = (data) => crypto.createHash('sha256').update(data).digest('hex');
const list = (folder) =>
  fs
    .readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath ?? entry.path, entry.name))
    .sort();

function npm(cwd, ...args) {
  const env = { ...process.env, NODE_OPTIONS: '', npm_config_loglevel: 'error' };
  return execFileSync('npm', args, { cwd, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });
}

/** Of all that is packed, and of what packs it. */
function fingerprint() {
  const { files } = JSON.parse(fs.readFileSync(path.join(ROOT, 'package.json'), 'utf8'));
  const sum = crypto.createHash('sha256');
  for (const name of [...files, 'package.json', 'README.md', 'scripts/pack.js', 'build/.stamp.json']) {
    const from = path.join(ROOT, name);
    if (!fs.existsSync(from)) continue;
    for (const file of fs.statSync(from).isDirectory() ? list(from) : [from])
      sum.update(file).update(fs.readFileSync(file));
  }
  return sum.digest('hex').slice(0, 16);
}

// Test files run side by side: the first one packs, the others wait.
function tarball() {
  const file = path.join(CACHE, `code-jail-${fingerprint()}.tgz`);
  if (!fs.existsSync(file)) {
    fs.mkdirSync(CACHE, { recursive: true });
    execFileSync('flock', [path.join(CACHE, 'lock'), process.execPath, __filename, file], { stdio: 'inherit' });
  }
  return file;
}

function make(file) {
  if (fs.existsSync(file)) return;
  for (const old of fs.readdirSync(CACHE)) if (old.endsWith('.tgz')) fs.rmSync(path.join(CACHE, old));
  fs.renameSync(pack(CACHE).file, file);
}

/**
 * A copy of the fixture `name`, with what its package.json names and the packed code-jail.
 * @param {string} name @returns {string} its folder
 */
function project(name) {
  const from = path.join(__dirname, '..', name);
  const to = path.join(CACHE, name);
  const packed = tarball();
  fs.mkdirSync(to, { recursive: true });
  for (const old of fs.readdirSync(to)) {
    if (old !== 'node_modules') fs.rmSync(path.join(to, old), { recursive: true });
  }
  fs.cpSync(from, to, { recursive: true });

  const manifest = JSON.parse(fs.readFileSync(path.join(from, 'package.json'), 'utf8'));
  manifest.dependencies = { ...manifest.dependencies, 'code-jail': `file:${packed}` };
  const text = JSON.stringify(manifest);
  fs.writeFileSync(path.join(to, 'package.json'), text);
  const stamp = path.join(to, 'node_modules', '.installed');
  if (!fs.existsSync(stamp) || fs.readFileSync(stamp, 'utf8') !== sha256(text)) {
    npm(to, 'install', '--ignore-scripts', '--no-package-lock', '--no-audit', '--no-fund');
    fs.writeFileSync(stamp, sha256(text));
  }
  return to;
}

module.exports = { project };

if (require.main === module) make(process.argv[2]);
