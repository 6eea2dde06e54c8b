'use strict';
// Which jail a call goes to, and the promise around it. The choice is made by
// configuration alone, once per call: a jail that fails is an error, never a
// reason to use a weaker one.

const { toCheck } = require('./check.js');
const { readConfig } = require('./config.js');
const { identityFromEnvironment } = require('./identity.js');
const { invalid, isJailError, misconfigured } = require('./errors.js');
const { Http } = require('./http.js');
const { Local } = require('./local.js');
const { observe } = require('./observe.js');
const { LANGUAGES, WARMED, readCheck, readRequest, show } = require('./options.js');
const { Output } = require('./output.js');
const { Socket } = require('./socket.js');

const CALL_OPTIONS = ['signal', 'onStdout', 'onStderr'];
const CHECK_OPTIONS = ['signal'];

/**
 * The backend that configuration or environment selects.
 * @param {{ socket?: string, url?: string }} config
 * @param {NodeJS.ProcessEnv | null} env null: not to be asked
 */
function select(config, env) {
  if (config.socket) return ['socket', 'socket'];
  if (config.url) return ['http', 'url'];
  if (env && process.platform === 'linux' && env.FIRECRACKER_SOCKET) return ['socket', 'FIRECRACKER_SOCKET'];
  if (env && env.CODE_SANDBOX_URL) return ['http', 'CODE_SANDBOX_URL'];
  return ['local', ''];
}

/** @param {any} options @param {string[]} known @returns {AbortSignal | null} */
function readSignal(options, known) {
  if (options === undefined) return null;
  if (options === null || typeof options !== 'object')
    throw invalid(`the options of a call must be an object { ${known.join(', ')} }`);
  for (const key of Object.keys(options))
    if (options[key] !== undefined && !known.includes(key))
      throw invalid(`this call has no option ${JSON.stringify(key)}; it knows ${known.join(', ')}`);
  const { signal } = options;
  if (signal === undefined || signal === null) return null;
  if (
    typeof signal !== 'object' ||
    typeof signal.aborted !== 'boolean' ||
    typeof signal.addEventListener !== 'function' ||
    typeof signal.removeEventListener !== 'function'
  )
    throw invalid('signal must be an AbortSignal');
  return signal;
}

/** @param {any} options @returns {Output | null} */
function readOutput({ onStdout, onStderr }) {
  for (const [name, listener] of Object.entries({ onStdout, onStderr }))
    if (listener !== undefined && listener !== null && typeof listener !== 'function')
      throw invalid(`${name} must be a function (text) => void, not ${show(listener)}`);
  return onStdout || onStderr ? new Output(onStdout, onStderr) : null;
}

/** What the caller's object holds, whose getters may throw. @template T @param {() => T} read @returns {T} */
function guarded(read) {
  try {
    return read();
  } catch (error) {
    throw isJailError(error) ? error : invalid('the options of a call cannot be read', error);
  }
}

/** Submits, or rejects; never throws. @returns {Promise<any>} */
function submit(backend, limits, request, options, read = readRequest) {
  return new Promise((resolve, reject) => {
    const isCheck = read === readCheck;
    const signal = guarded(() => readSignal(options, isCheck ? CHECK_OPTIONS : CALL_OPTIONS));
    const output = options === undefined || isCheck ? null : guarded(() => readOutput(options));
    if (signal?.aborted) {
      reject(signal.reason);
      return;
    }
    const job = read(request, limits);
    if (signal?.aborted) {
      reject(signal.reason); // by a getter or a toJSON of the request
      return;
    }
    job.output = output;
    const watched = read === readRequest ? observe(backend.backend, job, resolve, reject) : null;
    if (watched === null) backend.run(job, signal, resolve, reject);
    else
      try {
        backend.run(job, signal, watched.resolve, watched.reject);
      } catch (error) {
        watched.reject(error);
      }
  });
}

function check(backend, limits, request, options) {
  return submit(backend, limits, request, options, readCheck).then(toCheck);
}

/** @param {string[] | undefined} languages */
function readLanguages(languages) {
  if (languages === undefined) return WARMED;
  if (!Array.isArray(languages)) throw invalid('warm takes an array of languages');
  for (const one of languages)
    if (!LANGUAGES.includes(one)) throw invalid(`warm knows ${LANGUAGES.join(', ')}, not ${JSON.stringify(one)}`);
  return languages;
}

/** @param {string} backend @param {import('./config.js').Config} read @param {object} [how] */
function open(backend, read, how) {
  const { platform } = process;
  if (platform === 'darwin' ? backend !== 'local' : platform !== 'linux' && backend !== 'http')
    throw misconfigured(`this build has no ${backend} jail for ${platform}`);
  if (backend === 'http') return new Http(read, how);
  return backend === 'socket' ? new Socket(read, how) : new Local(read, how);
}

/**
 * @param {unknown} config
 * @param {object} [how] for tests: see Local
 */
function makeJail(config, how) {
  const read = readConfig(config);
  const chosen = open(select(read, null)[0], read, how);
  const jail = {
    runCode: (request, options) => submit(chosen, read.limits, request, options),
    checkCode: (request, options) => check(chosen, read.limits, request, options),
    warm: async (languages) => chosen.warm(readLanguages(languages)),
    stats: () => chosen.stats(),
    close: () => chosen.close(),
    [Symbol.asyncDispose ?? Symbol.for('nodejs.asyncDispose')]: () => chosen.close(),
  };
  return Object.freeze(jail);
}

/** @param {unknown} [config] */
function createJail(config = {}) {
  return makeJail(config);
}

// ---- the default jail: one per process, whoever loads this ----

/** The last default jail of each kind, and what it was made of. @type {Record<string, any>} */
const defaults = {};

const NAMES = { socket: 'FIRECRACKER_SOCKET', url: 'CODE_SANDBOX_URL', token: 'CODE_SANDBOX_TOKEN' };
const VARIABLES = {
  socket: [NAMES.socket],
  http: [NAMES.url, NAMES.token, 'CODE_SANDBOX_IDENTITY', 'CODE_SANDBOX_AUDIENCE', 'CODE_SANDBOX_IDENTITY_TOKEN'],
  local: [],
};

/** What the environment says of the backend that it selects. @param {string} backend @param {NodeJS.ProcessEnv} env */
function settingsOf(backend, env) {
  if (backend === 'socket') return { socket: env[NAMES.socket] };
  if (backend === 'local') return {};
  return { url: env[NAMES.url], token: env[NAMES.token], ...identityFromEnvironment(env) };
}

/**
 * A jail of one's own where runCode would go now: as configured, and otherwise by the environment.
 * @param {any} config
 * @param {NodeJS.ProcessEnv} [env]
 */
function selected(config, env = process.env) {
  const [backend, because] = select(config, env);
  const byEnv = because === NAMES.url || because === NAMES.socket;
  const { url, token, socket, ...more } = /** @type {any} */ (settingsOf(backend, env));
  const whole = { ...more, ...config, ...(byEnv && { url, token, socket }) };
  return { backend, because, config: whole, open: () => makeJail(whole, byEnv ? { names: NAMES } : {}) };
}

/** @param {string} backend */
function defaultJail(backend) {
  const made = VARIABLES[backend].map((name) => process.env[name]);
  const last = defaults[backend];
  if (last?.made.every((value, i) => value === made[i])) return last;
  const read = readConfig(settingsOf(backend, process.env));
  const jail = open(backend, read, { shared: true, names: NAMES });
  defaults[backend] = { jail, limits: read.limits, made }; // one that it replaces ends with its last run
  return defaults[backend];
}

/** @param {typeof submit} how @returns {Promise<any>} */
function byDefault(how, request, options) {
  try {
    const { jail, limits } = defaultJail(select({}, process.env)[0]);
    return how(jail, limits, request, options);
  } catch (error) {
    return Promise.reject(error);
  }
}

/** @param {unknown} request @param {{ signal?: AbortSignal, onStdout?: import('./output.js').Listener, onStderr?: import('./output.js').Listener }} [options] */
const runCode = (request, options) => byDefault(submit, request, options);

/** @param {unknown} request @param {{ signal?: AbortSignal }} [options] */
const checkCode = (request, options) => byDefault(check, request, options);

module.exports = { runCode, checkCode, createJail, makeJail, select, selected, NAMES };
