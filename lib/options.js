'use strict';
// Requests: read from own properties only, checked whole, refused with the
// field's name, the limit and a remedy. Defaults and caps live here (those of a
// configuration in config.js) and nowhere else; a test compares index.d.ts with them.

const { randomUUID } = require('node:crypto');
const { invalid, isJailError } = require('./errors.js');
const { FILES, filesText, readCollect, readFiles } = require('./files.js');
const { inputText, MAX_BYTES } = require('./input.js');

const KiB = 1024;
const MiB = 1024 * KiB;

/**
 * The request's numbers. `unit` is for the messages.
 * @type {Record<string, { unit: string, min: number, default: number, cap: number }>}
 */
const NUMBERS = {
  timeoutMs: { unit: 'ms', min: 1, default: 10000, cap: 60000 },
  memoryMb: { unit: 'MiB', min: 16, default: 256, cap: 4096 },
  maxOutputBytes: { unit: 'bytes', min: 0, default: MiB, cap: 16 * MiB },
  maxResultBytes: { unit: 'bytes', min: 0, default: 4 * MiB, cap: 64 * MiB },
  maxResultNodes: { unit: 'JSON values', min: 0, default: 200000, cap: 5000000 },
};
const NUMBER_NAMES = Object.keys(NUMBERS);

// Caps of what is no number.
const SIZES = {
  codeBytes: MiB,
  inputBytes: MAX_BYTES,
  filesBytes: FILES.bytes,
  envKeys: 64,
  envBytes: 32 * KiB,
  idCharacters: 128,
  tenantCharacters: 128,
};

const LANGUAGES = ['javascript', 'python', 'typescript']; // in the order of enum jail_language
const WARMED = ['javascript', 'python']; // where nobody says which: TypeScript boots with its first run
const CHECK_FIELDS = ['language', 'code', 'timeoutMs', 'memoryMb', 'minIsolation', 'id', 'tenant'];
const ISOLATIONS = ['process', 'gvisor', 'microvm']; // weakest first

/** @param {unknown} value @returns {string} for a message: short, and never the caller's data at length */
function show(value) {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'an array';
  switch (typeof value) {
    case 'string':
      return value.length > 40 ? `${JSON.stringify(value.slice(0, 40))}…` : JSON.stringify(value);
    case 'number':
    case 'boolean':
    case 'undefined':
      return String(value);
    case 'object':
      return 'an object';
    default:
      return `a ${typeof value}`;
  }
}

// ---- requests ----

/** What readRequest gives: every field, in one shape. */
class Request {
  /** @param {Limits} limits */
  constructor(limits) {
    this.language = -1; // index into LANGUAGES
    this.code = '';
    this.input = 'null'; // JSON text
    this.env = limits.env; // "K=V" NUL ...
    this.files = ''; // members of JSON text: see lib/files.js
    /** @type {string[] | null} the files that it is asked for */
    this.collect = null;
    this.filesAsText = false; // they are only passed on
    this.tenant = limits.tenant;
    this.id = '';
    this.minIsolation = limits.minIsolation; // index into ISOLATIONS, or -1
    this.asText = limits.asText;
    this.isCheck = false; // compile only
    /** @type {import('./output.js').Hearer | null} who hears what it writes, as it comes */
    this.output = null;
    this.timeoutMs = limits.defaults.timeoutMs;
    this.memoryMb = limits.defaults.memoryMb;
    this.maxOutputBytes = limits.defaults.maxOutputBytes;
    this.maxResultBytes = limits.defaults.maxResultBytes;
    this.maxResultNodes = limits.defaults.maxResultNodes;
  }
}

/**
 * @typedef {object} Limits what a jail's configuration makes of the tables above
 * @property {Record<string, number>} defaults
 * @property {Record<string, number>} caps
 * @property {Set<string>} lowered names of the caps that the host has lowered
 * @property {number} minIsolation
 * @property {string | null} tenant
 * @property {boolean} asText
 * @property {string} env
 */

/** @param {string} name @param {unknown} value @param {Limits} limits @returns {number} */
function readNumber(name, value, limits) {
  const { unit, min } = NUMBERS[name];
  const cap = limits.caps[name];
  if (typeof value === 'number' && Number.isInteger(value) && value >= min && value <= cap) return value;
  if (typeof value !== 'number' || !Number.isInteger(value))
    throw invalid(`${name} must be an integer (${unit}), not ${show(value)}`);
  if (value < min) throw invalid(`${name} is ${value}; the least is ${min} ${unit}`);
  const whose = limits.lowered.has(name) ? ', set by this host (caps)' : '';
  throw invalid(`${name} is ${value}; the limit is ${cap} ${unit}${whose}`);
}

/** Without half a surrogate pair. @param {string} text @returns {boolean} */
const isWellFormed = (text) => /** @type {any} */ (text).isWellFormed();

/** @param {unknown} code @param {Limits} limits @returns {string} */
function readCode(code, limits) {
  const cap = limits.caps.codeBytes;
  if (typeof code !== 'string') throw invalid(`code must be a string, not ${show(code)}`);
  if (code.length * 3 > cap) {
    const bytes = code.length > cap ? code.length : Buffer.byteLength(code);
    if (bytes > cap) {
      const whose = limits.lowered.has('codeBytes') ? ', set by this host (caps)' : '';
      throw invalid(`code is ${code.length > cap ? 'over ' : ''}${bytes} bytes; the limit is ${cap}${whose}`);
    }
  }
  // UTF-8 cannot carry it, and a replaced character would be another program.
  if (!isWellFormed(code)) {
    const at = code.search(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/);
    throw invalid(`code has half a surrogate pair at index ${at}; write it as an escape in the program's text`);
  }
  return code;
}

/** @param {unknown} env @returns {string} */
function readEnv(env) {
  if (env === null || typeof env !== 'object' || Array.isArray(env))
    throw invalid(`env must be an object of strings, not ${show(env)}`);
  const names = Object.keys(env);
  if (names.length > SIZES.envKeys) throw invalid(`env has ${names.length} keys; the limit is ${SIZES.envKeys}`);
  let text = '';
  for (const name of names) {
    const value = env[name];
    if (typeof value !== 'string') throw invalid(`env.${name} must be a string, not ${show(value)}`);
    if (name === '' || /[=\0]/.test(name))
      throw invalid(`env has the key ${show(name)}; none may be empty or hold = or NUL`);
    if (value.includes('\0')) throw invalid(`env.${name} holds a NUL, which no environment can`);
    if (!isWellFormed(name)) throw invalid(`env has the key ${show(name)}, which has half a surrogate pair`);
    if (!isWellFormed(value)) throw invalid(`env.${name} has half a surrogate pair, which UTF-8 cannot carry`);
    text += `${name}=${value}\0`;
  }
  const bytes = Buffer.byteLength(text);
  if (bytes > SIZES.envBytes) throw invalid(`env is ${bytes} bytes in all; the limit is ${SIZES.envBytes}`);
  return text;
}

/** @param {string} name @param {unknown} value @param {number} cap @returns {string} */
function readName(name, value, cap) {
  if (typeof value !== 'string') throw invalid(`${name} must be a string, not ${show(value)}`);
  if (value === '') throw invalid(`${name} is empty; leave it out instead`);
  if (value.length > cap) throw invalid(`${name} has ${value.length} characters; the limit is ${cap}`);
  return value;
}

/** @param {string} name @param {unknown} value @param {string[]} choices @returns {number} */
function readChoice(name, value, choices) {
  const index = typeof value === 'string' ? choices.indexOf(value) : -1;
  if (index < 0) throw invalid(`${name} must be one of ${choices.map(show).join(', ')}, not ${show(value)}`);
  return index;
}

/** @param {unknown} value @returns {string} */
function readTenant(value) {
  const tenant = readName('tenant', value, SIZES.tenantCharacters);
  if (tenant.includes('\0')) throw invalid('tenant holds a NUL');
  return tenant;
}

/** @param {Request} to @param {string} key @param {unknown} value @param {Limits} limits */
function readField(to, key, value, limits) {
  switch (key) {
    case 'language':
      to.language = readChoice(key, value, LANGUAGES);
      return;
    case 'code':
      to.code = readCode(value, limits);
      return;
    case 'input':
      to.input = inputText(value, limits.caps.inputBytes);
      return;
    case 'timeoutMs':
    case 'memoryMb':
    case 'maxOutputBytes':
    case 'maxResultBytes':
    case 'maxResultNodes':
      to[key] = readNumber(key, value, limits);
      return;
    case 'resultAs':
      to.asText = readChoice(key, value, ['value', 'text']) === 1;
      return;
    case 'env':
      to.env = readEnv(value);
      return;
    case 'files':
      to.files = readFiles(value, limits.caps.filesBytes);
      return;
    case 'collect':
      to.collect = readCollect(value);
      return;
    case 'minIsolation':
      to.minIsolation = Math.max(to.minIsolation, readChoice(key, value, ISOLATIONS));
      return;
    case 'id':
      to.id = readName(key, value, SIZES.idCharacters);
      return;
    case 'tenant':
      to.tenant = readTenant(value);
      return;
    default:
      throw invalid(`${show(key)} is not a field of a request`);
  }
}

/**
 * @param {unknown} request
 * @param {Limits} limits
 * @param {string[] | null} [only] the fields that it may have; null: all
 * @returns {Request}
 */
function readRequest(request, limits, only = null) {
  if (request === null || typeof request !== 'object')
    throw invalid(`the request must be an object { language, code, … }, not ${show(request)}`);
  const to = new Request(limits);
  let hasCode = false;
  try {
    for (const key of Object.keys(request)) {
      const value = request[key];
      if (value === undefined) continue;
      if (only !== null && !only.includes(key))
        throw invalid(`${show(key)} is not a field of a check, which runs nothing; it has ${only.join(', ')}`);
      readField(to, key, value, limits);
      if (key === 'code') hasCode = true;
    }
  } catch (error) {
    // A getter, a proxy or a toJSON of the caller's.
    throw isJailError(error) ? error : invalid(`the request cannot be read: ${describe(error)}`, error);
  }
  if (to.language < 0) throw invalid(`language is missing; it must be one of ${LANGUAGES.map(show).join(', ')}`);
  if (!hasCode) throw invalid('code is missing');
  to.files = filesText(to.files, to.collect);
  if (to.memoryMb > limits.caps.totalMemoryMb)
    throw invalid(
      `memoryMb is ${to.memoryMb}; all runs together may have ${limits.caps.totalMemoryMb} MiB (maxTotalMemoryMb)`,
    );
  if (to.id === '') to.id = randomUUID();
  return to;
}

/**
 * A request to compile, and to run nothing: there is no result or output to bound.
 * @param {unknown} request
 * @param {Limits} limits
 * @returns {Request}
 */
function readCheck(request, limits) {
  const to = readRequest(request, limits, CHECK_FIELDS);
  to.isCheck = true;
  to.env = '';
  to.asText = false;
  for (const name of ['maxOutputBytes', 'maxResultBytes', 'maxResultNodes']) to[name] = NUMBERS[name].default;
  return to;
}

/** @param {unknown} error */
function describe(error) {
  try {
    return error instanceof Error ? error.message : show(error);
  } catch {
    return 'it throws';
  }
}

module.exports = {
  Request,
  readRequest,
  readCheck,
  readNumber,
  readChoice,
  readEnv,
  readTenant,
  show,
  MiB,
  NUMBERS,
  NUMBER_NAMES,
  SIZES,
  LANGUAGES,
  WARMED,
  ISOLATIONS,
};
