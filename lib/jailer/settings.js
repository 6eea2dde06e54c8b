'use strict';
// The daemon's settings: from the command line and the environment, checked
// whole before anything is opened.

const os = require('node:os');
const path = require('node:path');
const { misconfigured } = require('../errors.js');
const { CONFIG_NUMBERS } = require('../config.js');
const { NUMBERS } = require('../options.js');
const { readNumber } = require('../server/settings.js');
const { ENGINES, NAMES } = require('./engines.js');

const MiB = 1024 * 1024;

/** Numbers of the environment: [variable, default, least, most]. @type {Record<string, [string, number, number, number]>} */
const FROM_ENV = {
  maxTimeoutMs: ['CODE_JAIL_MAX_TIMEOUT_MS', 60000, 1, NUMBERS.timeoutMs.cap],
  maxMemoryMb: ['CODE_JAIL_MAX_MEMORY_MB', 1024, NUMBERS.memoryMb.min, NUMBERS.memoryMb.cap],
  slots: ['CODE_JAIL_CONCURRENCY', Math.max(4, 2 * os.availableParallelism()), 1, CONFIG_NUMBERS.maxConcurrent.cap],
  maxQueue: ['CODE_JAIL_MAX_QUEUE', 1000, 0, CONFIG_NUMBERS.maxQueue.cap],
  queueTimeoutMs: ['CODE_JAIL_QUEUE_TIMEOUT_MS', 30000, 1, CONFIG_NUMBERS.queueTimeoutMs.cap],
  drainMs: ['CODE_JAIL_DRAIN_MS', 9000, 0, 600000],
};

const FIXED = {
  maxLineBytes: 32 * MiB,
  maxHeldBytes: 256 * MiB, // of lines that are being read, wait or run
  maxConnections: 2048,
  lineMs: 10000, // until the line is there
  startMs: 5000, // what an engine may take beside the run itself
  answerMs: 30000, // for the client to take its answer
};

/** @param {string[]} uids */
function readUids(uids) {
  return uids.map((text) => readNumber('--uid', text, 0, 0xfffffffe));
}

const NO_SOCKET = 'no socket: give --socket PATH or CODE_JAIL_SOCKET, or start it by a systemd socket unit';

/** Whether systemd hands a listening socket over. @param {NodeJS.ProcessEnv} env */
const isHandedOver = (env) => env.LISTEN_PID === String(process.pid);

/** What is wrong with the command line; '' if nothing. @param {{ socket?: string, engine?: string }} given */
function faultOf({ socket, engine }) {
  return (
    faultOfEngine(engine) || (socket || process.env.CODE_JAIL_SOCKET || isHandedOver(process.env) ? '' : NO_SOCKET)
  );
}

/** What is wrong with it; '' if nothing. @param {string | undefined} engine */
function faultOfEngine(engine = process.env.CODE_JAIL_ENGINE) {
  if (engine && Object.hasOwn(ENGINES, engine)) return '';
  return `--engine is ${engine ? JSON.stringify(engine) : 'missing'}; it must be one of ${NAMES.join(', ')}`;
}

/**
 * @param {NodeJS.ProcessEnv} env
 * @param {{ socket?: string, engine?: string, metrics?: string, uids?: string[] }} given wins over env
 * @returns {any}
 */
function readSettings(env, given) {
  const engine = given.engine ?? env.CODE_JAIL_ENGINE;
  const fault = faultOfEngine(engine);
  if (fault) throw misconfigured(fault);
  const socket = given.socket ?? env.CODE_JAIL_SOCKET;
  const uids = given.uids ?? (env.CODE_JAIL_UIDS ? env.CODE_JAIL_UIDS.split(',') : []);
  /** @type {Record<string, unknown>} */
  const settings = { ...FIXED, engine, env, logLevel: env.CODE_JAIL_LOG_LEVEL || 'info' };
  for (const [key, [name, fallback, min, max]] of Object.entries(FROM_ENV))
    settings[key] = env[name] ? readNumber(name, env[name], min, max) : fallback;
  settings.uids = new Set(uids.length > 0 ? readUids(uids) : [0, process.getuid?.()]);
  settings.socket = socket ? path.resolve(socket) : null;
  settings.metrics = given.metrics ?? env.CODE_JAIL_METRICS ?? null;
  return settings;
}

module.exports = { readSettings, faultOf, isHandedOver, NO_SOCKET };
