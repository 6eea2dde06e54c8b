'use strict';
// Which jail a call goes to, and the promise around it. The choice is made by
// configuration alone, once per call: a jail that fails is an error, never a
// reason to use a weaker one.

const { JailError, invalid, misconfigured } = require('./errors.js');
const { Local } = require('./local.js');
const { LANGUAGES, readConfig, readRequest } = require('./options.js');

const CALL_OPTIONS = ['signal'];

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

/** @param {string} backend @param {string} because */
function notInThisBuild(backend, because) {
  return new JailError(
    'ERR_JAIL_CONFIG',
    `${because} selects the ${backend} backend, which this build of code-jail does not contain; nothing weaker is used instead`,
    { backend },
  );
}

/** @param {any} options @returns {AbortSignal | null} */
function readSignal(options) {
  if (options === undefined) return null;
  if (options === null || typeof options !== 'object')
    throw invalid('the options of a call must be an object { signal }');
  for (const key of Object.keys(options))
    if (options[key] !== undefined && !CALL_OPTIONS.includes(key))
      throw invalid(`a call has no option ${JSON.stringify(key)}; it knows ${CALL_OPTIONS.join(', ')}`);
  const { signal } = options;
  if (signal === undefined || signal === null) return null;
  if (
    typeof signal !== 'object' ||
    typeof signal.aborted !== 'boolean' ||
    typeof signal.addEventListener !== 'function'
  )
    throw invalid('signal must be an AbortSignal');
  return signal;
}

/** Submits, or rejects; never throws. @returns {Promise<any>} */
function submit(local, limits, request, options) {
  return new Promise((resolve, reject) => {
    const signal = readSignal(options);
    if (signal !== null && signal.aborted) {
      reject(signal.reason);
      return;
    }
    local.run(readRequest(request, limits), signal, resolve, reject);
  });
}

/** @param {string[] | undefined} languages */
function readLanguages(languages) {
  if (languages === undefined) return LANGUAGES;
  if (!Array.isArray(languages)) throw invalid('warm takes an array of languages');
  for (const one of languages)
    if (!LANGUAGES.includes(one)) throw invalid(`warm knows ${LANGUAGES.join(', ')}, not ${JSON.stringify(one)}`);
  return languages;
}

/**
 * @param {unknown} config
 * @param {object} [how] for tests: see Local
 */
function makeJail(config, how) {
  const read = readConfig(config);
  const [backend, because] = select(read, null);
  if (backend !== 'local') throw notInThisBuild(backend, because);
  const local = new Local(read, how);
  const jail = {
    runCode: (request, options) => submit(local, read.limits, request, options),
    warm: async (languages) => local.warm(readLanguages(languages)),
    stats: () => local.stats(),
    close: () => local.close(),
    [Symbol.asyncDispose ?? Symbol.for('nodejs.asyncDispose')]: () => local.close(),
  };
  return Object.freeze(jail);
}

/** @param {unknown} [config] */
function createJail(config = {}) {
  if (process.platform !== 'linux') throw misconfigured(`this build has no local jail for ${process.platform}`);
  return makeJail(config);
}

// ---- the default jail: one per process, whoever loads this ----

/** @type {{ local: Local, limits: any } | null} */
let fallback = null;

function defaultLocal() {
  if (fallback === null) {
    const read = readConfig({});
    fallback = { local: new Local(read, { shared: true }), limits: read.limits };
  }
  return fallback;
}

/**
 * @param {unknown} request
 * @param {{ signal?: AbortSignal }} [options]
 * @returns {Promise<any>}
 */
function runCode(request, options) {
  try {
    const [backend, because] = select({}, process.env);
    if (backend !== 'local') throw notInThisBuild(backend, because);
    const { local, limits } = defaultLocal();
    return submit(local, limits, request, options);
  } catch (error) {
    return Promise.reject(error);
  }
}

module.exports = { runCode, createJail, makeJail };
