'use strict';
// Files that a run gets, and files that it is asked for: read from a request,
// written as the JSON text that travels (see struct job_header in
// src/protocol.h), and read from what came back, which may be a guest's own making.

const { invalid } = require('./errors.js');

const MiB = 1024 * 1024;
const FILES = { count: 256, bytes: 8 * MiB, names: 64, pathBytes: 255, levels: 16 };
const REASONS = ['absent', 'link', 'not_a_file', 'too_large', 'too_many', 'bad_name', 'unreadable', 'not_ended'];

/** Why this is no relative path; null: it is one. @param {unknown} path @returns {string | null} */
function faultOf(path) {
  if (typeof path !== 'string' || path === '') return 'must be a relative path, not empty';
  if (!(/** @type {any} */ (path).isWellFormed())) return 'has half a surrogate pair';
  if (Buffer.byteLength(path) > FILES.pathBytes) return `is over ${FILES.pathBytes} bytes`;
  if (/[\0\\]/.test(path)) return 'holds a NUL or a backslash';
  const parts = path.split('/');
  if (parts.length > FILES.levels) return `is more than ${FILES.levels} levels deep`;
  if (parts.some((part) => part === '' || part === '.' || part === '..'))
    return 'must be relative, without empty parts, . and ..';
  return null;
}

const show = (path) => JSON.stringify(String(path).slice(0, 60));

/** @param {string} path @param {unknown} value a text, or bytes, or what carries them over a wire @returns {string | Uint8Array} */
function contentOf(path, value) {
  if (typeof value === 'string') {
    if (!(/** @type {any} */ (value).isWellFormed()))
      throw invalid(`files[${show(path)}] has half a surrogate pair, which UTF-8 cannot carry; give bytes instead`);
    return value;
  }
  if (value instanceof Uint8Array) return value;
  throw invalid(`files[${show(path)}] must be a string or a Uint8Array`);
}

/**
 * @param {unknown} files @param {number} most bytes in all
 * @returns {string} a member of JSON text; empty where there are none
 */
function readFiles(files, most) {
  if (files === null || typeof files !== 'object' || Array.isArray(files))
    throw invalid('files must be an object { path: string or Uint8Array }');
  const paths = Object.keys(files);
  if (paths.length > FILES.count) throw invalid(`files has ${paths.length} entries; the limit is ${FILES.count}`);
  const folders = new Set();
  let bytes = 0;
  const parts = paths.map((path) => {
    const fault = faultOf(path);
    if (fault) throw invalid(`files has the path ${show(path)}, which ${fault}`);
    for (let at = path.indexOf('/'); at >= 0; at = path.indexOf('/', at + 1)) folders.add(path.slice(0, at));
    const content = contentOf(path, files[path]);
    bytes += typeof content === 'string' ? Buffer.byteLength(content) : content.byteLength;
    if (bytes > most) throw invalid(`files are over ${most} bytes in all; that is the limit`);
    return [path, content];
  });
  const both = paths.find((path) => folders.has(path));
  if (both !== undefined) throw invalid(`files has ${show(both)} as a file and as a folder`);
  return paths.length === 0
    ? ''
    : `"files":{${parts.map(([path, content]) => `${JSON.stringify(path)}:${textOf(content)}`).join(',')}}`;
}

/** @param {string | Uint8Array} content */
function textOf(content) {
  if (typeof content === 'string') {
    const text = JSON.stringify(content);
    // A control character takes six; of many of them base64 is shorter, and fits into a service's body.
    return text.length <= 2 * content.length + 2 ? text : textOf(Buffer.from(content));
  }
  const { buffer, byteOffset, byteLength } = content;
  return `{"base64":"${Buffer.from(buffer, byteOffset, byteLength).toString('base64')}"}`;
}

/** @param {unknown} collect @returns {string[]} */
function readCollect(collect) {
  if (!Array.isArray(collect)) throw invalid('collect must be an array of relative paths');
  if (collect.length > FILES.names)
    throw invalid(
      `collect has ${collect.length} paths; the limit is ${FILES.names}, and a folder's name stands for all in it`,
    );
  for (const path of collect) {
    const fault = faultOf(path);
    if (fault) throw invalid(`collect has ${show(path)}, which ${fault}`);
  }
  return [...new Set(collect)];
}

/** What both are on their way: see src/protocol.h. @param {string} files @param {string[] | null} collect */
function filesText(files, collect) {
  const asked = collect === null ? '' : `"collect":${JSON.stringify(collect)}`;
  return files && asked ? `${files},${asked}` : files || asked;
}

// ---- what came back ----

/** @param {string[]} collect @param {string} path */
const isAsked = (collect, path) => collect.some((one) => path === one || path.startsWith(`${one}/`));

/** @param {string} text @returns {Buffer | null} */
function bytesOf(text) {
  const bytes = Buffer.from(text, 'base64');
  const padding = text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0;
  return text.length % 4 === 0 && bytes.length === (text.length / 4) * 3 - padding ? bytes : null;
}

/**
 * @param {string} text its shape has been checked: see src/files.h
 * @param {string[]} collect what was asked for
 * @param {boolean} asText to be passed on: judged, and not decoded
 * @returns {{ files: Record<string, Buffer>, filesMissing: { path: string, reason: string }[] } | null}
 *   null: no honest guest has written this
 */
function readCollected(text, collect, asText) {
  const { files, filesMissing } = JSON.parse(text);
  const found = [];
  let bytes = 0;
  for (const [path, { base64 }] of Object.entries(files)) {
    if (faultOf(path) !== null || !isAsked(collect, path)) return null;
    const content = bytesOf(base64);
    if (content === null) return null;
    bytes += content.length;
    found.push([path, asText ? null : content]);
  }
  if (bytes > FILES.bytes) return null;
  for (const { path, reason } of filesMissing)
    if (!REASONS.includes(reason) || path.length > FILES.pathBytes || !isAsked(collect, path)) return null;
  // fromEntries: a file may be named __proto__.
  return { files: Object.fromEntries(found), filesMissing };
}

/** Where the run has not come to an end of its own. @param {string[]} collect */
const notEnded = (collect) => ({ files: {}, filesMissing: collect.map((path) => ({ path, reason: 'not_ended' })) });

/**
 * Adds what was collected to a result. What no honest guest writes ends a local run as
 * `killed`, as other words on its result channel do; from a peer it is a failure.
 *
 * @param {any} result @param {string | undefined} text @param {string[]} collect @param {boolean} asText
 * @returns {boolean} false: it is no answer
 */
function addCollected(result, text, collect, asText) {
  const found = text === undefined || !result.ok ? notEnded(collect) : readCollected(text, collect, asText);
  if (found === null && result.jail.backend !== 'local') return false;
  if (found === null) {
    const message = 'The code wrote to its result channel itself, and was stopped';
    const error = { name: 'KilledError', message, line: null, column: null, sourceLine: null, stack: null, path: null };
    Object.assign(result, { ok: false, status: 'killed', error, exitCode: null, signal: 'SIGKILL' });
  }
  Object.assign(result, found ?? notEnded(collect));
  if (asText) result.filesText = result.ok && text !== undefined ? text : JSON.stringify(notEnded(collect));
  return true;
}

/** A request's `files` as they came over a wire: bytes in base64. @param {any} files @returns {any} */
function fromWire(files) {
  if (files === null || typeof files !== 'object' || Array.isArray(files)) return files;
  const entries = Object.entries(files).map(([path, value]) => {
    if (value === null || typeof value !== 'object') return [path, value];
    const { base64, ...more } = value;
    const bytes = typeof base64 === 'string' && Object.keys(more).length === 0 ? bytesOf(base64) : null;
    if (bytes === null) throw invalid(`files[${show(path)}] must be a string or { "base64": text }`);
    return [path, bytes];
  });
  return Object.fromEntries(entries);
}

module.exports = { FILES, REASONS, faultOf, readFiles, readCollect, filesText, readCollected, addCollected, fromWire };
