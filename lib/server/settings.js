'use strict';
// The service's settings: from the environment and the command line, checked
// whole before anything is opened. What is wrong is named, with the remedy; a
// token's text is in no message.

const { misconfigured } = require('../errors.js');
const { CONFIG_NUMBERS } = require('../config.js');
const { NUMBERS } = require('../options.js');

const MiB = 1024 * 1024;
const TOKEN_MIN = 24;
const TOKEN_MAX = 4096;
const TOKEN_REMEDY = 'make one with `openssl rand -hex 32`';

/**
 * @param {string} name
 * @param {string} token
 * @returns {string}
 */
function readToken(name, token) {
  if (token === '') throw misconfigured(`${name} is empty; ${TOKEN_REMEDY}`);
  if (/^\s|\s$/.test(token))
    throw misconfigured(`${name} begins or ends with white space, perhaps a line break; cut it off`);
  if (/[^!-~]|["&'<>\\]/.test(token))
    throw misconfigured(
      `${name} holds a character that no token has (allowed is visible ASCII without "&'<>\\); ${TOKEN_REMEDY}`,
    );
  if (token.length < TOKEN_MIN)
    throw misconfigured(`${name} has ${token.length} characters; the least is ${TOKEN_MIN}: ${TOKEN_REMEDY}`);
  if (token.length > TOKEN_MAX)
    throw misconfigured(`${name} has ${token.length} characters; the limit is ${TOKEN_MAX}`);
  if (new Set(token).size < 8) throw misconfigured(`${name} is easily guessed; ${TOKEN_REMEDY}`);
  return token;
}

/**
 * The tokens that are accepted: the current one, and while it is being rotated the previous one.
 *
 * @param {NodeJS.ProcessEnv} env
 */
function readTokens({ CODE_SANDBOX_TOKEN: current, CODE_SANDBOX_TOKEN_PREVIOUS: previous }) {
  if (current === undefined)
    throw misconfigured(`CODE_SANDBOX_TOKEN is not set: the service answers nobody without; ${TOKEN_REMEDY}`);
  const tokens = [readToken('CODE_SANDBOX_TOKEN', current)];
  if (previous !== undefined && previous !== '') tokens.push(readToken('CODE_SANDBOX_TOKEN_PREVIOUS', previous));
  return tokens;
}

/**
 * Numbers of the environment: [variable, default, least, most].
 * @type {Record<string, [string, number | undefined, number, number]>}
 */
const FROM_ENV = {
  port: ['PORT', 8080, 0, 65535],
  maxTimeoutMs: ['CODE_SANDBOX_MAX_TIMEOUT_MS', 10000, 1, NUMBERS.timeoutMs.cap],
  maxMemoryMb: ['CODE_SANDBOX_MAX_MEMORY_MB', undefined, NUMBERS.memoryMb.min, NUMBERS.memoryMb.cap],
  totalMemoryMb: ['CODE_SANDBOX_TOTAL_MEMORY_MB', undefined, 16, CONFIG_NUMBERS.maxTotalMemoryMb.cap],
  slots: ['CODE_SANDBOX_CONCURRENCY', undefined, 1, CONFIG_NUMBERS.maxConcurrent.cap],
  parked: ['CODE_SANDBOX_PARKED', undefined, 0, CONFIG_NUMBERS.parked.cap],
  maxQueue: ['CODE_SANDBOX_MAX_QUEUE', 200, 0, CONFIG_NUMBERS.maxQueue.cap],
  queueTimeoutMs: ['CODE_SANDBOX_QUEUE_TIMEOUT_MS', 30000, 1, CONFIG_NUMBERS.queueTimeoutMs.cap],
  maxConnections: ['CODE_SANDBOX_MAX_CONNECTIONS', 1024, 8, 65536],
  drainMs: ['CODE_SANDBOX_DRAIN_MS', 9000, 0, 600000],
};

// No variables: nobody has needed another value, and a test may.
const FIXED = {
  maxBodyBytes: 32 * MiB,
  maxHeldBytes: 256 * MiB, // of requests that are being read, wait or run
  headersMs: 10000, // until a request's headers are there
  bodyMs: 30000, // until its body is, too
  idleBodyMs: 10000, // between two pieces of it
  keepAliveMs: 75000, // longer than what load balancers keep a connection for, or they would meet a closing one
  answerMs: 30000, // for the client to take its answer
};

/** @param {string} name @param {string} text @param {number} min @param {number} max */
function readNumber(name, text, min, max) {
  const value = /^\d{1,12}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= min && value <= max) return value;
  throw misconfigured(`${name} must be a whole number from ${min} to ${max}, not ${JSON.stringify(text.slice(0, 40))}`);
}

/**
 * @param {NodeJS.ProcessEnv} env
 * @param {Record<string, unknown>} [given] what the caller says itself; wins over env
 * @returns {any}
 */
function readSettings(env, given = {}) {
  /** @type {Record<string, unknown>} */
  const settings = {
    ...FIXED,
    host: env.CODE_SANDBOX_HOST || '127.0.0.1',
    logLevel: env.CODE_SANDBOX_LOG_LEVEL || 'info',
  };
  settings.allowWeak = env.CODE_SANDBOX_ALLOW_WEAK === '1';
  for (const [key, [name, fallback, min, max]] of Object.entries(FROM_ENV)) {
    const text = env[name];
    settings[key] = text === undefined || text === '' ? fallback : readNumber(name, text, min, max);
  }
  for (const [key, value] of Object.entries(given)) if (value !== undefined) settings[key] = value;
  return settings;
}

module.exports = { readSettings, readTokens, readNumber };
