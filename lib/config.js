'use strict';
// Configurations of a jail: checked whole, and what they make of a request's
// defaults and caps. See options.js.

const os = require('node:os');
const { JailError, misconfigured } = require('./errors.js');
const {
  ISOLATIONS,
  MiB,
  NUMBERS,
  NUMBER_NAMES,
  SIZES,
  readChoice,
  readEnv,
  readNumber,
  readTenant,
  show,
} = require('./options.js');

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

const UID = { unit: 'a uid', min: 0, cap: 0xfffffffe };

const CONFIG_OTHERS = [
  'socket',
  'socketOwner',
  'url',
  'token',
  'ca',
  'headers',
  'identity',
  'audience',
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

const CAP_NAMES = [...NUMBER_NAMES, 'codeBytes', 'inputBytes', 'filesBytes'];

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

/** @param {Record<string, unknown>} config @param {number} totalMemoryMb @returns {import('./options.js').Limits} */
function readLimits(config, totalMemoryMb) {
  const { read: caps, lowered } = readCaps(readObject('caps', config.caps));
  const given = readObject('defaults', config.defaults);
  refuseUnknown('defaults', given, [...NUMBER_NAMES, 'resultAs', 'env', 'tenant', 'minIsolation']);
  /** @type {Record<string, number>} */
  const defaults = {};
  const all = { ...caps, totalMemoryMb };
  for (const name of NUMBER_NAMES) defaults[name] = Math.min(NUMBERS[name].default, caps[name]);
  defaults.memoryMb = Math.min(defaults.memoryMb, totalMemoryMb);
  /** @type {import('./options.js').Limits} */
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
  for (const name of ['socket', 'url', 'token', 'ca', 'proxy', 'audience']) checkType(name, given[name], 'string');
  if (typeof given.headers !== 'function') checkType('headers', given.headers, 'object');
  if (given.identity !== undefined && given.identity !== 'metadata')
    throw misconfigured(`identity must be "metadata", not ${show(given.identity)}`);
  checkType('allowWeak', given.allowWeak, 'boolean');
  if (given.start !== undefined && given.start !== 'parked' && given.start !== 'cold')
    throw misconfigured(`start must be "parked" or "cold", not ${show(given.start)}`);
  return {
    numbers,
    socket: /** @type {string | undefined} */ (given.socket),
    socketOwner: given.socketOwner === undefined ? -1 : configNumber('socketOwner', given.socketOwner, UID),
    url: /** @type {string | undefined} */ (given.url),
    token: /** @type {string | undefined} */ (given.token),
    ca: /** @type {string | undefined} */ (given.ca),
    proxy: /** @type {string | undefined} */ (given.proxy),
    headers: /** @type {object | Function | undefined} */ (given.headers),
    identity: /** @type {string | undefined} */ (given.identity),
    audience: /** @type {string | undefined} */ (given.audience),
    allowWeak: given.allowWeak === true,
    cold: given.start === 'cold',
    node: readRuntime('node', given.node, ['path', 'preload', 'modules']),
    python: readRuntime('python', given.python, ['path', 'preload']),
    // Elsewhere the memory is the peer's to give.
    limits: readLimits(given, given.socket || given.url ? Number.MAX_SAFE_INTEGER : numbers.maxTotalMemoryMb),
  };
}

/** @typedef {ReturnType<typeof readConfig>} Config */

module.exports = { readConfig, CONFIG_NUMBERS };
