'use strict';
// Calls that are under way, whatever jail they went to, and what their outcomes
// become. The hot path is a jail's `submit` and `onOutcome` here: positional
// arguments, one call into C, one call back, one object literal.

const os = require('node:os');
const { JailError, invalid } = require('./errors.js');
const { addCollected } = require('./files.js');
const native = require('./native.js');

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
// The first name of each number: SIGABRT, not SIGIOT.
const SIGNALS = new Map(
  Object.entries(os.constants.signals)
    .reverse()
    .map(([name, number]) => [number, name]),
);

/** What submit is told of a call, as bits: see src/addon_submit.c. */
const FLAGS = { process: 1, check: 2, stdout: 4, stderr: 8, collect: 16 };

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
    // Spread: an array of this realm, which the addon's own is not in a test runner's context.
    layers: Object.freeze([...addon.layers].filter((_, bit) => (bits >>> bit) & 1)),
    missing: Object.freeze(missing),
  };
}

// Node's own way to name its signals; a real-time one has only a number.
const signalName = (number) => (number === 0 ? null : (SIGNALS.get(number) ?? `SIG${number}`));

/** What an answer says of its place, by its text, which is the same again and again. @type {Map<string, any>} */
const remotePlaces = new Map();
const UNVERIFIED = Object.freeze({
  isolation: 'unverified',
  runtime: null,
  start: null,
  layers: Object.freeze([]),
  missing: Object.freeze([]),
});

/** @param {string} text JSON, whose types the engine has checked */
function remotePlaceOf(text) {
  let place = remotePlaces.get(text);
  if (place !== undefined) return place;
  const { isolation, runtime = null, start = null, layers, missing } = JSON.parse(text);
  place = {
    isolation,
    runtime,
    start,
    layers: Object.freeze(layers),
    missing: Object.freeze(missing.map(({ layer, reason }) => Object.freeze({ layer, reason }))),
  };
  if (remotePlaces.size >= 64) remotePlaces.clear(); // a peer may say something new each time
  remotePlaces.set(text, place);
  return place;
}

const inMs = (us) => (us < 0 ? null : us / 1000);

/**
 * The callback from C: a status under 0 is a part of what a run writes, in
 * resultText. Argument for argument value_outcome in src/addon_value.c.
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
  jailText,
  filesText,
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
  if (status < 0) {
    call.output.give(-status, resultText);
    return;
  }
  calls.delete(ticket);
  if (failure !== undefined) {
    call.fail(toError(failure, call.backend));
    return;
  }
  if (status === undefined) {
    call.settle(undefined);
    return;
  }
  const isLocal = call.backend === 'local';
  const place = isLocal ? placeOf(placeNumber, layers) : jailText === undefined ? UNVERIFIED : remotePlaceOf(jailText);
  const result = {
    id: call.id,
    ok: status === 0,
    status: STATUSES[status],
    result: null,
    stdout: stdout ?? '',
    stderr: stderr ?? '',
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
      queueMs: inMs(queueUs),
      startMs: inMs(startUs),
      runMs: inMs(runUs),
      cpuMs: cpuNs < 0 ? null : cpuNs / 1e6,
      peakMemoryBytes: peakBytes < 0 ? null : peakBytes,
    },
    jail: {
      backend: call.backend,
      isolation: place.isolation,
      layers: place.layers,
      missing: place.missing,
      runtime: place.runtime,
      start: isLocal ? STARTS[start] : place.start,
    },
  };
  if (call.collect !== null && !addCollected(result, filesText, call.collect, call.filesAsText)) {
    call.fail(
      new JailError('ERR_JAIL_PROTOCOL', 'the answer has files that nobody asked for', { backend: call.backend }),
    );
    return;
  }
  if (status === 0 && !result.ok) resultText = undefined; // of a guest that forged its files
  if (call.output !== null) call.output.end(result);
  if (call.asText) /** @type {any} */ (result).resultText = resultText ?? null;
  else if (resultText !== undefined) {
    try {
      result.result = JSON.parse(resultText); // checked by the engine
    } catch (error) {
      call.fail(new JailError('ERR_JAIL_PROTOCOL', 'the result is not JSON', { backend: call.backend, cause: error }));
      return;
    }
  }
  if (call.counts !== null) call.counts.onRun(result.status, result.jail.start);
  call.settle(result);
}

/**
 * @param {{ code: string, message: string, retryable: boolean, retryAfterMs: number, httpStatus: number }} failure
 * @param {string} backend
 */
function toError({ code, message, retryable, retryAfterMs, httpStatus }, backend) {
  // The language has passed our own check.
  const isOlder = code === 'ERR_JAIL_INVALID_REQUEST' && /^language must be one of/.test(message);
  const remedy = isOlder ? ': the service or jailer that said so is older than this package, update it' : '';
  return new JailError(code, message + remedy, {
    retryable,
    backend,
    retryAfterMs: retryAfterMs || null,
    httpStatus: httpStatus || null,
  });
}

// ---- calls ----

/** What became of a jail's runs and checks so far. */
class Counts {
  constructor() {
    const zeroes = (names) => Object.fromEntries(names.map((name) => [name, 0]));
    this.outcomes = { ...zeroes(STATUSES), rejected: 0, aborted: 0 };
    this.starts = zeroes(STARTS);
  }

  /** @param {string} status @param {string | null} start a peer may tell none, or one that we do not know */
  onRun(status, start) {
    this.outcomes[status]++;
    if (Object.hasOwn(this.starts, String(start))) this.starts[String(start)]++;
  }

  read() {
    return { outcomes: { ...this.outcomes }, starts: { ...this.starts } };
  }
}

/** One call under way; also the listener of its AbortSignal. */
class Call {
  /** @param {import('./output.js').Hearer | null} output @param {Counts | null} counts */
  constructor(backend, handle, resolve, reject, id, asText, output, counts) {
    this.backend = backend;
    this.handle = handle;
    this.resolve = resolve;
    this.reject = reject;
    this.id = id;
    this.asText = asText;
    this.output = output;
    this.counts = counts;
    /** @type {string[] | null} the files that were asked for */
    this.collect = null;
    this.filesAsText = false;
    this.ticket = nextTicket();
    /** @type {AbortSignal | null} */
    this.signal = null;
  }

  /** @param {unknown} value */
  settle(value) {
    this.resolve(value);
    if (this.signal !== null) letGo(this.signal, this);
  }

  /** @param {unknown} error */
  fail(error) {
    if (this.counts !== null) this.counts.outcomes.rejected++;
    this.reject(error);
    if (this.signal !== null) letGo(this.signal, this);
  }

  /** The signal has fired: reject now, and let the engine kill behind it. */
  handleEvent() {
    if (calls.get(this.ticket) !== this) return; // it has settled; the signal did not let go
    calls.delete(this.ticket);
    if (this.counts !== null) this.counts.outcomes.aborted++;
    this.reject(reasonOf(/** @type {AbortSignal} */ (this.signal)));
    native.load().cancel(this.handle, this.ticket);
  }
}

// A signal may be the caller's own object: what it throws is nobody's failure,
// and least of all the process's.

/** @param {AbortSignal} signal @param {any} listener */
function letGo(signal, listener) {
  try {
    signal.removeEventListener('abort', listener);
  } catch {}
}

/** @param {AbortSignal} signal @returns {unknown} */
function reasonOf(signal) {
  try {
    return signal.reason;
  } catch (error) {
    return error;
  }
}

/**
 * Hands a request over. The call is under way, or this throws why it is not.
 *
 * @param {Call} call @param {import('./options.js').Request} request
 * @param {AbortSignal | null} signal not aborted
 * @param {number} flags beside those that the request has
 * @param {number} minIsolation that the peer has to prove: 1 + its index, 0 for none
 * @param {string | null} id for the peer @param {string | null} headers as C takes them
 */
function submit(call, request, signal, flags, minIsolation, id, headers) {
  call.collect = request.collect;
  call.filesAsText = request.filesAsText;
  const failure = native
    .load()
    .submit(
      call.handle,
      call.ticket,
      request.language,
      request.code,
      request.input,
      request.env,
      request.files,
      request.tenant,
      request.timeoutMs,
      request.memoryMb,
      request.maxOutputBytes,
      request.maxResultBytes,
      request.maxResultNodes,
      flags | flagsOf(request),
      minIsolation,
      id,
      headers,
    );
  if (failure !== undefined) {
    if (call.counts !== null) call.counts.outcomes.rejected++;
    throw toError(failure, call.backend);
  }
  calls.set(call.ticket, call);
  if (signal !== null) {
    call.signal = signal;
    try {
      signal.addEventListener('abort', call, { once: true });
    } catch (error) {
      calls.delete(call.ticket);
      native.load().cancel(call.handle, call.ticket);
      throw invalid('signal cannot be listened to: its addEventListener throws', error);
    }
  }
}

/**
 * A call that is no run. `begin` gets its ticket, and may throw.
 * @param {string} backend @param {any} handle @param {(ticket: number) => void} begin
 * @returns {Promise<void>}
 */
function ask(backend, handle, begin) {
  return new Promise((resolve, reject) => {
    const call = new Call(backend, handle, resolve, reject, '', false, null, null);
    begin(call.ticket);
    calls.set(call.ticket, call);
  });
}

/** @param {import('./options.js').Request} request */
const flagsOf = ({ isCheck, output, collect }) =>
  (isCheck ? FLAGS.check : 0) | (output === null ? 0 : output.flags) | (collect === null ? 0 : FLAGS.collect);

/** @type {any} */
let client = null;

function connect() {
  client ??= native.load().connect(onOutcome);
  return client;
}

module.exports = { FLAGS, STARTS, STATUSES, Call, Counts, connect, submit, ask, letGo, reasonOf };
