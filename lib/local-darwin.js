'use strict';
// The local jail where there is no keeper, as on macOS: the command line of each
// cell's guard (src/guest/guard.c), which the engine reads out of these texts.

const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');

/** What it resolves to; itself where it cannot be. @param {string} file */
function real(file) {
  try {
    return fs.realpathSync(file);
  } catch {
    return path.resolve(file); // the cell says what is wrong with it
  }
}

/** The folder that an installation is in: that of `bin/`. @param {string} program */
const prefixOf = (program) => path.dirname(path.dirname(program));

function text(config, readable, command) {
  const lines = [
    `scratch=${real(os.tmpdir())}`,
    `allow_weak=${config.allowWeak ? 1 : 0}`,
    ...readable.map((one) => `readable=${real(one)}`),
    ...command.map((one) => `argument=${one}`),
  ];
  return `${lines.join('\0')}\0`;
}

/**
 * @param {import('./config.js').Config} config
 * @param {{ guestDir: string, guestNode: string, guestPython: string }} parts
 * @param {(name: string) => string | null} find where PATH has a program
 * @param {string | null} stripper see stripperFor
 */
function bootsWithoutKeeper(config, parts, find, stripper) {
  const { node, python, limits, numbers } = config;
  const [major, minor] = process.versions.node.split('.').map(Number);
  const old = major < 22 || (major === 22 && minor < 13) || (major === 23 && minor < 5);
  const nodePath = real(node.path ?? process.execPath);
  const modules = node.modules ?? path.join(process.cwd(), 'node_modules');
  const foreign = node.preload.some((name) => !require('node:module').isBuiltin(name));
  const named = python.path ?? find('python3');
  const pythonPath = named && real(named);
  const own = [parts.guestDir, path.dirname(parts.guestNode)];
  const heap = Math.min(limits.caps.memoryMb, numbers.maxTotalMemoryMb);
  // The permission flags are hygiene, not a wall: the sandbox is the wall.
  const nodeCommand = [
    nodePath,
    `--max-old-space-size=${heap}`,
    '--experimental-vm-modules',
    '--no-warnings',
    old ? '--experimental-permission' : '--permission',
    '--allow-addons',
    '--allow-fs-read=*',
    '--allow-fs-write=*',
    path.join(parts.guestDir, 'javascript.js'),
    parts.guestNode,
  ];
  const readable = [prefixOf(nodePath), ...own, ...(foreign ? [modules] : [])];
  const script = path.join(parts.guestDir, 'python.py');
  return [
    text(config, readable, [...nodeCommand, ...node.preload]),
    pythonPath &&
      text(
        config,
        [prefixOf(pythonPath), ...own],
        [...[pythonPath, '-I', '-B', '-X', 'utf8', script, parts.guestPython, '0'], ...python.preload],
      ),
    text(
      config,
      [...readable, ...(stripper ? [stripper] : [])],
      [...nodeCommand, `--typescript=${stripper ? real(stripper) : ''}`, ...node.preload],
    ),
  ];
}

module.exports = { bootsWithoutKeeper };
