'use strict';
// The local jail's side of the addon: what its configuration becomes, calls out,
// outcomes back. The hot path is `submit` and `onOutcome`: positional arguments,
// one call into C, one call back, one object literal.

const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { JailError } = require('./errors.js');
const native = require('./native.js');
const { LANGUAGES } = require('./options.js');

const STATUSES = [
  'ok',
  'error',
  'timeout',
  'out_of_memory',
  'output_limit',
  'not_serializable',
  'result_too_large',
  'killed',
];
const STARTS = ['parked', 'fork', 'cold'];
const SIGNALS = new Map(Object.entries(os.constants.signals).map(([name, number]) => [number, name]));

/** Calls that are under way, by ticket. @type {Map<number, any>} */
const calls = new Map();
let tickets = 0;

function nextTicket() {
  do tickets = (tickets + 1) >>> 0;
  while (tickets === 0 || calls.has(tickets));
  return tickets;
}

// ---- outcomes ----

/** Per place and layers: what is the same in every result. @type {Map<string, any>} */
const places = new Map();
/** @type {any} */
let lastPlace = null;

/** @param {number} place @param {number} layers */
function placeOf(place, layers) {
  if (lastPlace !== null && lastPlace.place === place && lastPlace.bits === layers) return lastPlace;
  const key = `${place}:${layers}`;
  lastPlace = places.get(key) ?? readPlace(place, layers);
  places.set(key, lastPlace);
  return lastPlace;
}

/** @param {number} place @param {number} bits */
function readPlace(place, bits) {
  const addon = native.load();
  const entries = String(addon.place(place) ?? '').split('\0');
  const first = (name) => entries.find((entry) => entry.startsWith(`${name}=`))?.slice(name.length + 1);
  const missing = entries
    .filter((entry) => entry.startsWith('missing='))
    .map((entry) => {
      const [, layer, reason] = /** @type {RegExpExecArray} */ (/^missing=([^:]*):?(.*)$/s.exec(entry));
      return Object.freeze({ layer, reason });
    });
  return {
    place,
    bits,
    isolation: first('isolation') === 'unverified' ? 'unverified' : 'process',
    runtime: first('runtime') ?? null,
    layers: Object.freeze(addon.layers.filter((_, bit) => (bits >>> bit) & 1)),
    missing: Object.freeze(missing),
  };
}

// Node's own way to name its signals; a real-time one has only a number.
const signalName = (number) => (number === 0 ? null : (SIGNALS.get(number) ?? `SIG${number}`));

/**
 * The callback from C; argument for argument value_outcome in src/addon_value.c.
 * Times come in µs, and -1 where something is not known.
 */
function onOutcome(
  ticket,
  failure,
  status,
  resultText,
  stdout,
  stderr,
  stdoutDropped,
  stderrDropped,
  exitCode,
  signal,
  queueUs,
  startUs,
  runUs,
  cpuNs,
  peakBytes,
  placeNumber,
  layers,
  start,
  name,
  message,
  line,
  column,
  sourceLine,
  stack,
  errorPath,
) {
  const call = calls.get(ticket);
  if (call === undefined) return; // aborted: it has been rejected already
  calls.delete(ticket);
  if (call.signal !== null) call.signal.removeEventListener('abort', call);
  if (failure !== undefined) {
    call.reject(toError(failure));
    return;
  }
  if (status === undefined) {
    call.resolve();
    return;
  }
  const place = placeOf(placeNumber, layers);
  const result = {
    id: call.id,
    ok: status === 0,
    status: STATUSES[status],
    result: null,
    stdout,
    stderr,
    stdoutDropped,
    stderrDropped,
    error:
      name === undefined && message === undefined
        ? null
        : {
            name: name ?? 'Error',
            message: message ?? '',
            line: line || null,
            column: column || null,
            sourceLine: sourceLine ?? null,
            stack: stack ?? null,
            path: errorPath ?? null,
          },
    exitCode: exitCode < 0 ? null : exitCode,
    signal: signalName(signal),
    timedOut: status === 2,
    usage: {
      queueMs: queueUs / 1000,
      startMs: startUs / 1000,
      runMs: runUs / 1000,
      cpuMs: cpuNs < 0 ? null : cpuNs / 1e6,
      peakMemoryBytes: peakBytes < 0 ? null : peakBytes,
    },
    jail: {
      backend: 'local',
      isolation: place.isolation,
      layers: place.layers,
      missing: place.missing,
      runtime: place.runtime,
      start: STARTS[start],
    },
  };
  if (call.asText) /** @type {any} */ (result).resultText = resultText ?? null;
  else if (resultText !== undefined) result.result = JSON.parse(resultText); // checked by the engine
  call.resolve(result);
}

/** @param {{ code: string, message: string, retryable: boolean, retryAfterMs: number }} failure */
function toError({ code, message, retryable, retryAfterMs }) {
  return new JailError(code, message, { retryable, backend: 'local', retryAfterMs: retryAfterMs || null });
}

// ---- calls ----

/** One call under way; also the listener of its AbortSignal. */
class Call {
  constructor(handle, resolve, reject, id, asText) {
    this.handle = handle;
    this.resolve = resolve;
    this.reject = reject;
    this.id = id;
    this.asText = asText;
    this.ticket = 0;
    /** @type {AbortSignal | null} */
    this.signal = null;
  }

  /** The signal has fired: reject now, and let the engine kill behind it. */
  handleEvent() {
    calls.delete(this.ticket);
    this.reject(/** @type {AbortSignal} */ (this.signal).reason);
    native.load().cancel(this.handle, this.ticket);
  }
}

/** @type {any} */
let client = null;

function connect() {
  client ??= native.load().connect(onOutcome);
  return client;
}

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
function bootText(language, runtime, config, parts, preload, modules) {
  const lines = [
    `language=${language}`,
    `start=${config.cold ? 'cold' : 'parked'}`,
    `runtime=${path.resolve(runtime)}`,
    `guest_dir=${parts.guestDir}`,
    `guest_lib=${language === 'python' ? parts.guestPython : parts.guestNode}`,
    `allow_weak=${config.allowWeak ? 1 : 0}`,
    `memory_cap_mb=${Math.min(config.limits.caps.memoryMb, config.numbers.maxTotalMemoryMb)}`,
    ...preload.map((name) => `preload=${name}`),
  ];
  if (modules) lines.push(`module_dir=${path.resolve(modules)}`);
  return `${lines.join('\0')}\0`;
}

/** @param {import('./options.js').Config} config */
function boots(config, parts) {
  const { node, python } = config;
  const pythonPath = python.path ?? find('python3');
  const foreign = node.preload.some((name) => !require('node:module').isBuiltin(name));
  const modules = node.modules ?? (foreign ? path.join(process.cwd(), 'node_modules') : undefined);
  return [
    bootText('javascript', node.path ?? process.execPath, config, parts, node.preload, modules),
    pythonPath && bootText('python', pythonPath, config, parts, python.preload, undefined),
  ];
}

// ---- the jail ----

/** A local jail: what createJail gives, without its checks. */
class Local {
  /**
   * @param {import('./options.js').Config} config
   * @param {{ shared?: boolean, parts?: ReturnType<typeof native.parts> }} [how] shared: one for the whole process
   */
  constructor(config, { shared = false, parts = native.parts() } = {}) {
    const { numbers } = config;
    const [javascript, python] = boots(config, parts);
    this.hasPython = Boolean(python);
    this.addon = native.load();
    /** @type {Promise<void> | null} */
    this.closed = null;
    this.handle = this.addon.open(
      connect(),
      shared ? JSON.stringify([parts.keeper, javascript, python, numbers]) : null,
      parts.keeper,
      javascript,
      python,
      numbers.parked,
      numbers.maxConcurrent,
      numbers.maxQueue,
      numbers.queueTimeoutMs,
      numbers.idleMs,
      numbers.maxTotalMemoryMb,
      config.cold,
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
    const call = new Call(this.handle, resolve, reject, request.id, request.asText);
    call.ticket = nextTicket();
    const failure = this.addon.submit(
      this.handle,
      call.ticket,
      request.language,
      request.code,
      request.input,
      request.env,
      request.tenant,
      request.timeoutMs,
      request.memoryMb,
      request.maxOutputBytes,
      request.maxResultBytes,
      request.maxResultNodes,
      request.minIsolation === 0,
    );
    if (failure !== undefined) throw toError(failure);
    calls.set(call.ticket, call);
    if (signal !== null) {
      call.signal = signal;
      signal.addEventListener('abort', call, { once: true });
    }
  }

  /** @param {string[]} languages @returns {Promise<void>} */
  warm(languages) {
    let bits = 0;
    for (const language of languages) bits |= 1 << LANGUAGES.indexOf(language);
    return new Promise((resolve, reject) => {
      if (this.closed) throw closedError();
      if (bits & 2 && !this.hasPython) throw noPython();
      const call = new Call(this.handle, resolve, reject, '', false);
      call.ticket = nextTicket();
      calls.set(call.ticket, call);
      this.addon.warm(this.handle, call.ticket, bits);
    });
  }

  stats() {
    if (this.closed) throw closedError();
    const [queued, running, settled, refused, queuedBytes, runningMemoryMb, ...rest] = this.addon.stats(this.handle);
    return {
      backend: 'local',
      queued,
      running,
      settled,
      refused,
      queuedBytes,
      runningMemoryMb,
      parked: { javascript: rest[0], python: rest[1] },
      cells: { javascript: rest[2], python: rest[3] },
      zygotes: rest[4],
      zygoteStarts: rest[5],
    };
  }

  /** @returns {Promise<void>} */
  close() {
    this.closed ??= new Promise((resolve, reject) => {
      const call = new Call(this.handle, resolve, reject, '', false);
      call.ticket = nextTicket();
      calls.set(call.ticket, call);
      this.addon.close(this.handle, call.ticket);
    });
    return this.closed;
  }
}

function closedError() {
  return new JailError('ERR_JAIL_CLOSED', 'the jail has been closed', { backend: 'local' });
}

function noPython() {
  return new JailError('ERR_JAIL_CONFIG', 'no python3 in PATH: install it, or set python: { path } in createJail', {
    backend: 'local',
  });
}

module.exports = { Local };
