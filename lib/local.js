'use strict';
// The local jail: what its configuration becomes, and its calls.

const fs = require('node:fs');
const path = require('node:path');
const { FLAGS, Call, Counts, connect, submit, ask } = require('./calls.js');
const { JailError } = require('./errors.js');
const { bootsWithoutKeeper } = require('./local-darwin.js');
const { stripperFor } = require('./stripper.js');
const native = require('./native.js');
const { LANGUAGES } = require('./options.js');

// A booted runtime is replaced by another, behind the scenes, after so many cells
// or so long: its cells share its address layout and its hash seeds.
const RENEWAL = { cells: 20000, ms: 3600000 };

// ---- runtimes ----

/** Where PATH has the program; null where it has none. @param {string} name */
function find(name) {
  for (const dir of [...(process.env.PATH ?? '').split(path.delimiter), '/usr/bin', '/usr/local/bin']) {
    if (!path.isAbsolute(dir)) continue;
    const file = path.join(dir, name);
    try {
      fs.accessSync(file, fs.constants.X_OK);
      if (fs.statSync(file).isFile()) return file;
    } catch {
      // not here
    }
  }
  return null;
}

/** The text of the keeper's BOOT order: see src/protocol.h. */
function bootText(language, runtime, config, parts, preload, modules, stripper = null) {
  const lines = [
    `language=${language}`,
    `start=${config.cold ? 'cold' : 'parked'}`,
    `runtime=${path.resolve(runtime)}`,
    `guest_dir=${parts.guestDir}`,
    `guest_lib=${language === 'python' ? parts.guestPython : parts.guestNode}`,
    `allow_weak=${config.allowWeak ? 1 : 0}`,
    `memory_cap_mb=${Math.min(config.limits.caps.memoryMb, config.numbers.maxTotalMemoryMb)}`,
    ...(stripper ? [`stripper=${stripper}`] : []),
    ...preload.map((name) => `preload=${name}`),
  ];
  if (modules) lines.push(`module_dir=${path.resolve(modules)}`);
  return `${lines.join('\0')}\0`;
}

/** @param {import('./config.js').Config} config */
function boots(config, parts, stripper) {
  const { node, python } = config;
  const pythonPath = python.path ?? find('python3');
  const foreign = node.preload.some((name) => !require('node:module').isBuiltin(name));
  const modules = node.modules ?? (foreign ? path.join(process.cwd(), 'node_modules') : undefined);
  const nodeText = (language, stripper) =>
    bootText(language, node.path ?? process.execPath, config, parts, node.preload, modules, stripper);
  return [
    nodeText('javascript'),
    pythonPath && bootText('python', pythonPath, config, parts, python.preload, undefined),
    nodeText('typescript', stripper),
  ];
}

// ---- the jail ----

/** A local jail: what createJail gives, without its checks. */
class Local {
  /**
   * @param {import('./config.js').Config} config
   * @param {{ shared?: boolean, parts?: ReturnType<typeof native.parts>, renewal?: typeof RENEWAL, keeper?: boolean, stripper?: string | null }} [how]
   *   shared: one for the whole process; keeper: whether there is one, which macOS has not
   */
  constructor(config, how = {}) {
    const { shared = false, parts = native.parts(), renewal = RENEWAL, keeper = process.platform !== 'darwin' } = how;
    const { stripper = stripperFor(config) } = how;
    const { numbers } = config;
    const texts = keeper ? boots(config, parts, stripper) : bootsWithoutKeeper(config, parts, find, stripper);
    this.backend = 'local';
    this.hasPython = Boolean(texts[1]);
    this.addon = native.load();
    /** @type {Promise<void> | null} */
    this.closed = null;
    this.counts = new Counts();
    this.handle = this.addon.open(
      connect(),
      shared ? JSON.stringify([parts.keeper, texts, numbers]) : null,
      parts.keeper,
      texts,
      numbers.parked,
      numbers.maxConcurrent,
      numbers.maxQueue,
      numbers.queueTimeoutMs,
      numbers.idleMs,
      numbers.maxTotalMemoryMb,
      config.cold,
      renewal.cells,
      renewal.ms,
    );
  }

  /**
   * @param {import('./options.js').Request} request
   * @param {AbortSignal | null} signal not aborted
   */
  run(request, signal, resolve, reject) {
    if (this.closed) throw closedError();
    if (request.minIsolation > 0)
      throw new JailError(
        'ERR_JAIL_ISOLATION',
        'minIsolation asks for more than the local jail can prove, which is "process"; set CODE_SANDBOX_URL or FIRECRACKER_SOCKET',
        { backend: 'local' },
      );
    if (request.language === 1 && !this.hasPython) throw noPython();
    const call = new Call(
      'local',
      this.handle,
      resolve,
      reject,
      request.id,
      request.asText,
      request.output,
      this.counts,
    );
    submit(call, request, signal, request.minIsolation === 0 ? FLAGS.process : 0, 0, null, null);
  }

  /** @param {string[]} languages @returns {Promise<void>} */
  warm(languages) {
    let bits = 0;
    for (const language of languages) bits |= 1 << LANGUAGES.indexOf(language);
    return ask('local', this.handle, (ticket) => {
      if (this.closed) throw closedError();
      if (bits & 2 && !this.hasPython) throw noPython();
      this.addon.warm(this.handle, ticket, bits);
    });
  }

  stats() {
    if (this.closed) throw closedError();
    const [queued, running, settled, refused, queuedBytes, runningMemoryMb, zygotes, zygoteStarts, ...rest] =
      this.addon.stats(this.handle);
    return {
      backend: 'local',
      queued,
      running,
      settled,
      refused,
      queuedBytes,
      runningMemoryMb,
      parked: byLanguage(rest.slice(0, LANGUAGES.length)),
      cells: byLanguage(rest.slice(LANGUAGES.length)),
      zygotes,
      zygoteStarts,
      ...this.counts.read(),
    };
  }

  /** @returns {Promise<void>} */
  close() {
    this.closed ??= ask('local', this.handle, (ticket) => this.addon.close(this.handle, ticket));
    return this.closed;
  }
}

/** @param {number[]} numbers */
const byLanguage = (numbers) => Object.fromEntries(LANGUAGES.map((language, i) => [language, numbers[i]]));

function closedError() {
  return new JailError('ERR_JAIL_CLOSED', 'the jail has been closed', { backend: 'local' });
}

function noPython() {
  return new JailError('ERR_JAIL_CONFIG', 'no python3 in PATH: install it, or set python: { path } in createJail', {
    backend: 'local',
  });
}

module.exports = { Local };
