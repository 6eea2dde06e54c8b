'use strict';
// The files that a run gets, written before its text runs, and those that it was
// asked for, read when it has ended. In the cell: what is read here, the text could
// have read as well. Links are not followed, and nothing that is no plain file is opened.

const fs = require('node:fs');

const { closeSync, fstatSync, lstatSync, mkdirSync, openSync, opendirSync, readSync, writeSync } = fs;
const { O_CREAT, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_WRONLY, S_IFMT, S_IFREG, S_IFDIR, S_IFLNK } = fs.constants;
const { from, allocUnsafe } = Buffer;
const { stringify } = JSON;
const uncurry = (method) => Function.prototype.call.bind(method);
const base64Of = uncurry(Buffer.prototype.base64Slice);
const subarray = uncurry(Uint8Array.prototype.subarray);
const slice = uncurry(String.prototype.slice);
const indexOf = uncurry(String.prototype.indexOf);
const exec = uncurry(RegExp.prototype.exec);

// As lib/files.js has them. What is missing in folders leaves room for a word on each of 64 names.
const MOST = { __proto__: null, files: 256, bytes: 8 << 20, missing: 436, visited: 10000, pathBytes: 255, levels: 16 };

/** @param {string} root @param {Record<string, string | { base64: string }>} files */
function writeFiles(root, files) {
  const made = new Set();
  for (const path of Object.keys(files)) {
    for (let at = indexOf(path, '/', 0); at >= 0; at = indexOf(path, '/', at + 1)) {
      const folder = slice(path, 0, at);
      if (!made.has(folder)) mkdirSync(`${root}/${folder}`);
      made.add(folder);
    }
    const value = files[path];
    const bytes = typeof value === 'string' ? from(value, 'utf8') : from(value.base64, 'base64');
    const fd = openSync(`${root}/${path}`, O_WRONLY | O_CREAT | O_EXCL, 0o644);
    for (let done = 0; done < bytes.length; ) done += writeSync(fd, bytes, done);
    closeSync(fd);
  }
}

class Collection {
  constructor(root) {
    this.root = root;
    this.files = '';
    this.count = 0;
    this.bytes = 0;
    this.missing = '';
    this.missed = 0;
    this.visited = 0;
    this.seen = { __proto__: null };
  }

  miss(path, reason) {
    const separator = this.missed++ === 0 ? '' : ',';
    this.missing += `${separator}{"path":${stringify(path)},"reason":"${reason}"}`;
  }

  // Every folder on the way is looked at: a link is none.
  add(path) {
    for (let at = indexOf(path, '/', 0); at >= 0; at = indexOf(path, '/', at + 1)) {
      const kind = kindOf(`${this.root}/${slice(path, 0, at)}`);
      if (kind !== 'folder') return this.miss(path, kind === 'link' || kind === 'unreadable' ? kind : 'absent');
    }
    this.take(path, path);
  }

  /** @param {string} path @param {string} asked by what name @returns {boolean} whether to go on with it */
  take(path, asked) {
    const kind = kindOf(`${this.root}/${path}`);
    if (kind === 'folder') return this.addFolder(path, asked);
    if (kind !== 'file') this.miss(path, kind);
    else if (this.seen[path] === undefined) {
      if (this.count >= MOST.files) return this.stop(asked);
      this.read(path);
    }
    return true;
  }

  /** @returns {boolean} false */
  stop(asked) {
    this.miss(asked, 'too_many');
    return false;
  }

  addFolder(path, asked) {
    let folder;
    try {
      folder = opendirSync(`${this.root}/${path}`);
    } catch {
      this.miss(path, 'unreadable');
      return true;
    }
    let more = true;
    let isBad = false;
    for (let entry = folder.readSync(); entry !== null && more; entry = folder.readSync()) {
      const inner = `${path}/${entry.name}`;
      if (++this.visited > MOST.visited || this.missed >= MOST.missing) more = this.stop(asked);
      else if (isPath(inner)) more = this.take(inner, asked);
      else if (!isBad) {
        isBad = true;
        this.miss(path, 'bad_name');
      }
    }
    folder.closeSync();
    return more;
  }

  read(path) {
    const found = contentOf(`${this.root}/${path}`, MOST.bytes - this.bytes);
    if (typeof found === 'string') return this.miss(path, found);
    this.seen[path] = true;
    this.bytes += found.length;
    const separator = this.count++ === 0 ? '' : ',';
    this.files += `${separator}${stringify(path)}:{"base64":"${base64Of(found, 0, found.length)}"}`;
  }
}

// A name that is no UTF-8 has been replaced, and is not there under what is left of it.
function isPath(path) {
  if (exec(/[\0\\\ufffd]/, path) !== null || from(path, 'utf8').length > MOST.pathBytes) return false;
  let levels = 1;
  for (let at = indexOf(path, '/', 0); at >= 0; at = indexOf(path, '/', at + 1)) levels++;
  return levels <= MOST.levels;
}

function kindOf(file) {
  let found;
  try {
    found = lstatSync(file);
  } catch (error) {
    return error.code === 'ENOENT' || error.code === 'ENOTDIR' ? 'absent' : 'unreadable';
  }
  const type = found.mode & S_IFMT;
  if (type === S_IFLNK || (type === S_IFREG && found.nlink > 1)) return 'link';
  return type === S_IFREG ? 'file' : type === S_IFDIR ? 'folder' : 'not_a_file';
}

/** @returns {Buffer | string} or why not */
function contentOf(file, room) {
  let fd;
  try {
    fd = openSync(file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  } catch (error) {
    return error.code === 'ELOOP' ? 'link' : 'unreadable';
  }
  try {
    const { mode, size } = fstatSync(fd);
    if ((mode & S_IFMT) !== S_IFREG) return 'not_a_file';
    if (size > room) return 'too_large';
    const bytes = allocUnsafe(size);
    let done = 0;
    while (done < size) {
      const part = readSync(fd, bytes, done, size - done, null);
      if (part === 0) break;
      done += part;
    }
    return subarray(bytes, 0, done);
  } catch {
    return 'unreadable';
  } finally {
    closeSync(fd);
  }
}

/** @param {string} root @param {string[]} paths @returns {string} JSON: see src/files.h */
function collectFiles(root, paths) {
  const collection = new Collection(root);
  for (let i = 0; i < paths.length; i++) collection.add(paths[i]);
  return `{"files":{${collection.files}},"filesMissing":[${collection.missing}]}`;
}

module.exports = { collectFiles, writeFiles };
