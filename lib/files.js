'use strict';
// The files of a request, checked and made one block, as C and the cell take them
// (struct job_file in src/protocol.h): lengths of path and data, path, data; and so on.

const { isUint8Array } = require('node:util/types');
const { invalid } = require('./errors.js');

const MAX_FILES = 256;
const MAX_FILES_BYTES = 16 * 1024 * 1024;
const MAX_PATH_BYTES = 255;
const MAX_LEVELS = 16;
const HEAD_BYTES = 8;
const LITTLE = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;

/** @param {string} path for a message */
const quote = (path) => JSON.stringify(path.length > 60 ? `${path.slice(0, 60)}…` : path);

/** What is wrong with it; null: nothing. @param {string} path @returns {string | null} */
function faultOfPath(path) {
  if (path === '') return 'is empty';
  if (path.length > MAX_PATH_BYTES || Buffer.byteLength(path) > MAX_PATH_BYTES)
    return `is over ${MAX_PATH_BYTES} bytes`;
  if (!(/** @type {any} */ (path).isWellFormed())) return 'has half a surrogate pair';
  if (/[\0\\]/.test(path)) return 'holds a NUL or a backslash; folders are parted by /';
  const parts = path.split('/');
  if (parts.length > MAX_LEVELS) return `is over ${MAX_LEVELS} levels deep`;
  if (parts.includes('')) return 'begins or ends with /, or has two in a row; it must be relative, as in data/a.csv';
  if (parts.includes('.') || parts.includes('..')) return 'has . or .. in it; write it without';
  return null;
}

/** @param {Set<string>} paths */
function refuseTwins(paths) {
  for (const path of paths)
    for (let at = path.indexOf('/'); at >= 0; at = path.indexOf('/', at + 1))
      if (paths.has(path.slice(0, at))) throw invalid(`files has ${quote(path.slice(0, at))} both as file and folder`);
}

/** @param {string} path @param {unknown} value */
function sizeOf(path, value) {
  if (isUint8Array(value)) return value.byteLength;
  if (typeof value !== 'string') throw invalid(`files[${quote(path)}] must be a string or a Uint8Array`);
  return Buffer.byteLength(value);
}

/**
 * @param {any} files path -> text or bytes
 * @param {number} cap bytes in all @param {boolean} isLowered by the host
 * @returns {Buffer | null} null: there are none
 */
function packFiles(files, cap, isLowered) {
  if (files === null || typeof files !== 'object' || Array.isArray(files) || ArrayBuffer.isView(files))
    throw invalid('files must be an object { "path": text or Uint8Array }');
  const names = Object.keys(files);
  if (names.length === 0) return null;
  if (names.length > MAX_FILES) throw invalid(`files has ${names.length} entries; the limit is ${MAX_FILES}`);
  const values = [];
  let data = 0;
  let bytes = 0;
  for (const path of names) {
    const fault = faultOfPath(path);
    if (fault !== null) throw invalid(`files has the path ${quote(path)}, which ${fault}`);
    const value = files[path]; // once: it may be a getter
    const size = sizeOf(path, value);
    data += size;
    bytes += HEAD_BYTES + Buffer.byteLength(path) + size;
    if (data > cap)
      throw invalid(`files are over ${cap} bytes in all, the limit${isLowered ? ', set by this host (caps)' : ''}`);
    if (typeof value === 'string' && !(/** @type {any} */ (value).isWellFormed()))
      throw invalid(`files[${quote(path)}] has half a surrogate pair; pass bytes instead`);
    values.push([path, value, size]);
  }
  refuseTwins(new Set(names));
  return writeAll(values, bytes);
}

/** @param {any[]} values @param {number} bytes */
function writeAll(values, bytes) {
  const block = Buffer.alloc(bytes); // zeros: what a value claims to be long may have shrunk since
  const view = new DataView(block.buffer, block.byteOffset, bytes);
  let at = 0;
  for (const [path, value, size] of values) {
    view.setUint32(at, Buffer.byteLength(path), LITTLE);
    view.setUint32(at + 4, size, LITTLE);
    at += HEAD_BYTES;
    at += block.write(path, at);
    if (typeof value === 'string') block.write(value, at);
    else block.set(value.byteLength > size ? value.subarray(0, size) : value, at);
    at += size;
  }
  return block;
}

/** As they travel. @param {Buffer | null} block @returns {Record<string, { base64: string }>} */
function unpackFiles(block) {
  const files = Object.create(null);
  if (block === null) return files;
  const view = new DataView(block.buffer, block.byteOffset, block.byteLength);
  for (let at = 0; at < block.length; ) {
    const behindPath = at + HEAD_BYTES + view.getUint32(at, LITTLE);
    const end = behindPath + view.getUint32(at + 4, LITTLE);
    files[block.toString('utf8', at + HEAD_BYTES, behindPath)] = { base64: block.toString('base64', behindPath, end) };
    at = end;
  }
  return files;
}

module.exports = { MAX_FILES, MAX_FILES_BYTES, packFiles, unpackFiles };
