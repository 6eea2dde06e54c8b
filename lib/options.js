'use strict';
// Requests and configurations: read from own properties only, checked whole,
// refused with the field's name, the limit and a remedy. Defaults and caps live
// here and nowhere else; a test compares index.d.ts with them.

const os = require('node:os');
const { randomUUID } = require('node:crypto');
const { JailError, invalid, misconfigured } = require('./errors.js');
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
  envKeys: 64,
  envBytes: 32 * KiB,
  idCharacters: 128,
  tenantCharacters: 128,
};

const LANGUAGES = ['javascript', 'python'];
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
    this.tenant = limits.tenant;
    this.id = '';
    this.minIsolation = limits.minIsolation; // index into ISOLATIONS, or -1
    this.asText = limits.asText;
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
  if (!(/** @type {any} */ (code).isWellFormed())) {
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
 * @returns {Request}
 */
function readRequest(request, limits) {
  if (request === null || typeof request !== 'object')
    throw invalid(`the request must be an object { language, code, … }, not ${show(request)}`);
  const to = new Request(limits);
  let hasCode = false;
  try {
    for (const key of Object.keys(request)) {
      const value = request[key];
      if (value === undefined) continue;
      readField(to, key, value, limits);
      if (key === 'code') hasCode = true;
    }
  } catch (error) {
    // A getter, a proxy or a toJSON of the caller's.
    throw error instanceof JailError ? error : invalid(`the request cannot be read: ${describe(error)}`, error);
  }
  if (to.language < 0) throw invalid(`language is missing; it must be one of ${LANGUAGES.map(show).join(', ')}`);
  if (!hasCode) throw invalid('code is missing');
  if (to.memoryMb > limits.caps.totalMemoryMb)
    throw invalid(
      `memoryMb is ${to.memoryMb}; all runs together may have ${limits.caps.totalMemoryMb} MiB (maxTotalMemoryMb)`,
    );
  if (to.id === '') to.id = randomUUID();
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

// ---- configurations ----

/** Half of what this machine, or this process' cgroup, has. In MiB. */
function halfOfMemory() {
  const allowed = process.constrainedMemory?.() ?? 0;
  const all = os.totalmem();
  return Math.floor((allowed > 0 && allowed < all ? allowed : all) / 2 / MiB);
}

/**
 * The configuration's numbers. Defaults that follow from the machine are functions.
 * @type {Record<string, { unit: string, min: number, default: number | (() => number), cap: number }>}
 */
const CONFIG_NUMBERS = {
  parked: { unit: 'cells per language', min: 0, default: () => os.availableParallelism(), cap: 64 },
  maxConcurrent: { unit: 'runs', min: 1, default: () => Math.max(4, 2 * os.availableParallelism()), cap: 512 },
  maxQueue: { unit: 'runs', min: 0, default: 1000, cap: 100000 },
  queueTimeoutMs: { unit: 'ms', min: 1, default: 30000, cap: 3600000 },
  maxTotalMemoryMb: { unit: 'MiB', min: 16, default: halfOfMemory, cap: 16 * 1024 * 1024 },
  maxConnections: { unit: 'connections', min: 1, default: 64, cap: 1024 },
  idleMs: { unit: 'ms', min: 100, default: 60000, cap: 86400000 },
};

const CONFIG_OTHERS = [
  'socket',
  'url',
  'token',
  'ca',
  'headers',
  'proxy',
  'allowWeak',
  'start',
  'node',
  'python',
  'minIsolation',
  'defaults',
  'caps',
];

/** @param {string} name @param {unknown} value @returns {Record<string, unknown>} */
function readObject(name, value) {
  if (value === undefined) return {};
  if (value === null || typeof value !== 'object' || Array.isArray(value))
    throw misconfigured(`${name} must be an object, not ${show(value)}`);
  return /** @type {Record<string, unknown>} */ (value);
}

/** @param {string} where @param {object} object @param {string[]} known */
function refuseUnknown(where, object, known) {
  for (const key of Object.keys(object))
    if (!known.includes(key)) throw misconfigured(`${where} has no ${show(key)}; it knows ${known.join(', ')}`);
}

/** @param {string} name @param {unknown} value @param {{ unit: string, min: number, cap: number }} rule @returns {number} */
function configNumber(name, value, { unit, min, cap }) {
  if (typeof value === 'number' && Number.isInteger(value) && value >= min && value <= cap) return value;
  throw misconfigured(`${name} must be an integer from ${min} to ${cap} (${unit}), not ${show(value)}`);
}

const CAP_NAMES = [...NUMBER_NAMES, 'codeBytes', 'inputBytes'];

/** @param {Record<string, unknown>} caps */
function readCaps(caps) {
  refuseUnknown('caps', caps, CAP_NAMES);
  /** @type {Record<string, number>} */
  const read = {};
  const lowered = new Set();
  for (const name of CAP_NAMES) {
    const rule = NUMBERS[name] ?? { unit: 'bytes', min: 0, cap: SIZES[name] };
    read[name] = caps[name] === undefined ? rule.cap : configNumber(`caps.${name}`, caps[name], rule);
    if (read[name] < rule.cap) lowered.add(name);
  }
  return { read, lowered };
}

// A request's own checks, with the configuration's error code.
function asConfig(where, work) {
  try {
    return work();
  } catch (error) {
    throw error instanceof JailError ? misconfigured(`${where}: ${error.message}`) : error;
  }
}

/** @param {Record<string, unknown>} config @param {number} totalMemoryMb @returns {Limits} */
function readLimits(config, totalMemoryMb) {
  const { read: caps, lowered } = readCaps(readObject('caps', config.caps));
  const given = readObject('defaults', config.defaults);
  refuseUnknown('defaults', given, [...NUMBER_NAMES, 'resultAs', 'env', 'tenant', 'minIsolation']);
  /** @type {Record<string, number>} */
  const defaults = {};
  const all = { ...caps, totalMemoryMb };
  for (const name of NUMBER_NAMES) defaults[name] = Math.min(NUMBERS[name].default, caps[name]);
  defaults.memoryMb = Math.min(defaults.memoryMb, totalMemoryMb);
  /** @type {Limits} */
  const limits = { defaults, caps: all, lowered, minIsolation: -1, tenant: null, asText: false, env: '' };
  asConfig('defaults', () => {
    for (const name of NUMBER_NAMES)
      if (given[name] !== undefined) defaults[name] = readNumber(name, given[name], limits);
    if (given.resultAs !== undefined) limits.asText = readChoice('resultAs', given.resultAs, ['value', 'text']) === 1;
    if (given.env !== undefined) limits.env = readEnv(given.env);
    if (given.tenant !== undefined) limits.tenant = readTenant(given.tenant);
    for (const value of [given.minIsolation, config.minIsolation])
      if (value !== undefined)
        limits.minIsolation = Math.max(limits.minIsolation, readChoice('minIsolation', value, ISOLATIONS));
  });
  return limits;
}

/** @param {string} name @param {unknown} value @param {string[]} known */
function readRuntime(name, value, known) {
  const runtime = readObject(name, value);
  refuseUnknown(name, runtime, known);
  for (const key of ['path', 'modules']) {
    const path = runtime[key];
    if (path !== undefined && (typeof path !== 'string' || path === '' || path.includes('\0')))
      throw misconfigured(`${name}.${key} must be a path, not ${show(path)}`);
  }
  const preload = runtime.preload ?? [];
  if (!Array.isArray(preload) || preload.length > 32)
    throw misconfigured(`${name}.preload must be an array of at most 32 module names`);
  for (const one of preload)
    if (typeof one !== 'string' || !/^[\w@./:-]+$/.test(one))
      throw misconfigured(`${name}.preload names ${show(one)}, which is no module name`);
  return {
    path: /** @type {string | undefined} */ (runtime.path),
    modules: /** @type {string | undefined} */ (runtime.modules),
    preload: /** @type {string[]} */ ([...preload]),
  };
}

/** @param {string} name @param {unknown} value @param {'string' | 'boolean' | 'object'} type */
function checkType(name, value, type) {
  if (value !== undefined && (value === null || typeof value !== type))
    throw misconfigured(`${name} must be a ${type}, not ${name === 'token' ? `a ${typeof value}` : show(value)}`);
}

/**
 * @param {unknown} config
 */
function readConfig(config) {
  const given = readObject('the configuration', config);
  refuseUnknown('the configuration', given, [...Object.keys(CONFIG_NUMBERS), ...CONFIG_OTHERS]);
  /** @type {Record<string, number>} */
  const numbers = {};
  for (const [name, rule] of Object.entries(CONFIG_NUMBERS)) {
    const fallback = typeof rule.default === 'function' ? rule.default() : rule.default;
    numbers[name] = given[name] === undefined ? Math.max(rule.min, fallback) : configNumber(name, given[name], rule);
  }
  for (const name of ['socket', 'url', 'token', 'ca', 'proxy']) checkType(name, given[name], 'string');
  if (typeof given.headers !== 'function') checkType('headers', given.headers, 'object');
  checkType('allowWeak', given.allowWeak, 'boolean');
  if (given.start !== undefined && given.start !== 'parked' && given.start !== 'cold')
    throw misconfigured(`start must be "parked" or "cold", not ${show(given.start)}`);
  return {
    numbers,
    socket: /** @type {string | undefined} */ (given.socket),
    url: /** @type {string | undefined} */ (given.url),
    token: /** @type {string | undefined} */ (given.token),
    ca: /** @type {string | undefined} */ (given.ca),
    proxy: /** @type {string | undefined} */ (given.proxy),
    headers: /** @type {object | Function | undefined} */ (given.headers),
    allowWeak: given.allowWeak === true,
    cold: given.start === 'cold',
    node: readRuntime('node', given.node, ['path', 'preload', 'modules']),
    python: readRuntime('python', given.python, ['path', 'preload']),
    // Elsewhere the memory is the peer's to give.
    limits: readLimits(given, given.socket || given.url ? Number.MAX_SAFE_INTEGER : numbers.maxTotalMemoryMb),
  };
}

/** @typedef {ReturnType<typeof readConfig>} Config */

module.exports = { Request, readRequest, readConfig, NUMBERS, CONFIG_NUMBERS, SIZES, LANGUAGES, ISOLATIONS };
