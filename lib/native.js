'use strict';
// Loads the addon, and finds what lies beside it. Everything that crosses into C
// crosses here; src/addon.c and src/addon_value.c state the other side.

const fs = require('node:fs');
const path = require('node:path');
const { JailError, bundled } = require('./errors.js');

// Literal, so that bundlers trace them.
const ROOT = path.join(__dirname, '..');
const PREBUILDS = path.join(__dirname, '..', 'prebuilds');

/** @type {any} */
let loaded = null;

// An installed package builds itself too: npm, which comes with Node, brings node-gyp.
function remedy() {
  if (process.platform !== 'linux' || process.arch !== 'x64') return 'it runs on Linux x86_64 alone';
  const isClone = fs.existsSync(path.join(ROOT, 'scripts', 'setup.js'));
  if (isClone) return `run \`npm run setup\` in ${ROOT}`;
  return (
    (fs.existsSync(PREBUILDS) ? 'none of its prebuilds fits' : 'its prebuilds are missing') +
    `; \`npm --prefix ${ROOT} run build\` builds it (Debian: gcc make python3 libjsmn-dev libcurl4-openssl-dev pkg-config)`
  );
}

/** Whether this is still in its package, and not in somebody's bundle. */
function isInPlace() {
  try {
    return JSON.parse(fs.readFileSync(path.join(ROOT, 'package.json'), 'utf8')).name === 'code-jail';
  } catch {
    return false;
  }
}

/** @returns {any} src/addon.c's exports */
function load() {
  if (loaded) return loaded;
  try {
    loaded = require('node-gyp-build')(ROOT);
  } catch (error) {
    if (!isInPlace()) throw bundled(__filename);
    throw new JailError(
      'ERR_JAIL_CONFIG',
      `code-jail has no native build for ${process.platform}-${process.arch}: ${remedy()}`,
      { backend: 'local', cause: error },
    );
  }
  return loaded;
}

/** Where keeper and guest libraries are: beside the addon, among prebuilds in a folder of its C library's name. */
function folder() {
  const { resolve, path: find } = require('node-gyp-build');
  const addon = (resolve ?? find)(ROOT);
  const libc = /\.(glibc|musl)\.node$/.exec(addon)?.[1] ?? '';
  return path.join(path.dirname(addon), libc);
}

/** What the local jail starts, all absolute. */
function parts() {
  load(); // or it says what is missing
  const dir = folder();
  return {
    keeper: path.join(dir, 'code-jail-keeper'),
    guestNode: path.join(dir, 'guest_node.node'),
    guestPython: path.join(dir, 'guest_python.so'),
    guestDir: path.join(__dirname, 'guest'),
  };
}

module.exports = { load, parts };
