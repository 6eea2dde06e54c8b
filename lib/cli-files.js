'use strict';
// Files of `code-jail run`: --file, --collect and --out.

const fs = require('node:fs');
const path = require('node:path');

/** The command line is wrong. */
class FilesError extends Error {}

/** @param {string[]} pairs NAME=PATH @returns {Record<string, Buffer>} */
function readFiles(pairs) {
  const entries = pairs.map((pair) => {
    const at = pair.indexOf('=');
    if (at < 1) throw new FilesError(`--file ${pair}: NAME=PATH is expected`);
    try {
      return [pair.slice(0, at), fs.readFileSync(pair.slice(at + 1))];
    } catch (error) {
      throw new FilesError(`--file ${pair}: ${error.message}`);
    }
  });
  const names = entries.map(([name]) => name);
  const twice = names.find((name, i) => names.indexOf(name) < i);
  if (twice !== undefined) throw new FilesError(`--file ${twice}=…: this name is there twice`);
  return Object.fromEntries(entries);
}

/** Nothing is overwritten, and no link in it can lead elsewhere. @param {string | undefined} out */
function assertFresh(out) {
  if (out === undefined) return;
  try {
    if (fs.readdirSync(out).length > 0) throw new FilesError(`--out ${out}: it is not empty; name a new folder`);
  } catch (error) {
    if (error.code !== 'ENOENT')
      throw error instanceof FilesError ? error : new FilesError(`--out ${out}: ${error.message}`);
  }
}

/** @param {string} out @param {Record<string, Uint8Array>} files whose paths have been checked */
function writeFiles(out, files) {
  for (const [name, bytes] of Object.entries(files)) {
    const file = path.join(out, name);
    fs.mkdirSync(path.dirname(file), { recursive: true });
    fs.writeFileSync(file, bytes, { flag: 'wx' });
  }
}

/** As JSON has it. @param {any} result */
function asJson(result) {
  if (result.files === undefined) return result;
  const entries = Object.entries(result.files);
  const files = entries.map(([name, bytes]) => [name, { base64: Buffer.from(bytes).toString('base64') }]);
  return { ...result, files: Object.fromEntries(files) };
}

module.exports = { FilesError, readFiles, assertFresh, writeFiles, asJson };
