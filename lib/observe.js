'use strict';
// What others may watch of runs: events on diagnostics channels, and spans of
// OpenTelemetry where the program has @opentelemetry/api. Ids, times, sizes and
// outcomes: never code, input, output, an error's message, env or tenant.
// Where nobody watches, a run pays for three looks and no more.

const crypto = require('node:crypto');
const { channel } = require('node:diagnostics_channel');
const { isJailError } = require('./errors.js');
const { LANGUAGES } = require('./options.js');

const START = channel('code-jail.run.start');
const END = channel('code-jail.run.end');
const ERROR = channel('code-jail.run.error');

// Where @opentelemetry/api, of version 1, keeps what was registered with it: as
// long as nothing was, it is not even loaded.
const REGISTERED = Symbol.for('opentelemetry.js.api.1');

/** The program's own OpenTelemetry; null where it has none, undefined before the first look. @type {any} */
let telemetry;

function openTelemetry() {
  if (telemetry === undefined && globalThis[REGISTERED] !== undefined) {
    try {
      telemetry = require('@opentelemetry/api');
    } catch {
      telemetry = null; // an optional peer, which is not to be found from here
    }
  }
  return telemetry ?? null;
}

/** A span that somebody records; null where nobody does. @param {string} backend @param {string} language */
function startSpan(backend, language) {
  const api = openTelemetry();
  if (api === null) return null;
  try {
    const span = api.trace.getTracer('code-jail', require('../package.json').version).startSpan('code-jail.run', {
      kind: backend === 'local' ? api.SpanKind.INTERNAL : api.SpanKind.CLIENT,
      attributes: { 'code_jail.backend': backend, 'code_jail.language': language },
    });
    return span.isRecording() ? span : null;
  } catch {
    return null; // a fault there is none of the run's
  }
}

/** @param {any} span @param {Record<string, unknown>} facts @param {string | null} failure */
function endSpan(span, facts, failure) {
  try {
    for (const [name, value] of Object.entries(facts))
      if (value !== null && value !== undefined) span.setAttribute(name, value);
    if (failure !== null) span.setStatus({ code: openTelemetry().SpanStatusCode.ERROR, message: failure });
    span.end();
  } catch {
    // likewise
  }
}

/** @param {any} run */
function runFacts({ status, exitCode, signal, usage, jail }) {
  return { status, exitCode, signal, usage, isolation: jail.isolation, runtime: jail.runtime, start: jail.start };
}

/** @param {ReturnType<typeof runFacts>} facts */
function runAttributes({ status, exitCode, isolation, runtime, start, usage }) {
  return {
    'code_jail.status': status,
    'code_jail.exit_code': exitCode,
    'code_jail.isolation': isolation,
    'code_jail.runtime': runtime,
    'code_jail.start': start,
    'code_jail.queue_ms': usage.queueMs,
    'code_jail.start_ms': usage.startMs,
    'code_jail.run_ms': usage.runMs,
    'code_jail.cpu_ms': usage.cpuMs,
    'code_jail.peak_memory_bytes': usage.peakMemoryBytes,
  };
}

/**
 * Begins to tell of a run, where somebody watches.
 *
 * @param {string} backend
 * @param {import('./options.js').Request} request gets an id, if it has none
 * @param {(run: any) => void} resolve
 * @param {(error: any) => void} reject
 * @returns {{ resolve: (run: any) => void, reject: (error: any) => void } | null} to settle with instead; null: as before
 */
function observe(backend, request, resolve, reject) {
  const language = LANGUAGES[request.language];
  const span = startSpan(backend, language);
  if (span === null && !START.hasSubscribers && !END.hasSubscribers && !ERROR.hasSubscribers) return null;
  if (request.id === '') request.id = crypto.randomUUID();
  const { id, timeoutMs, memoryMb } = request;
  const about = { id, language, backend };
  const began = performance.now();
  START.publish({ ...about, timeoutMs, memoryMb });
  return {
    resolve(run) {
      const facts = runFacts(run);
      if (span !== null) endSpan(span, runAttributes(facts), null);
      END.publish({ ...about, ...facts, durationMs: performance.now() - began });
      resolve(run);
    },
    reject(error) {
      const isOurs = isJailError(error); // otherwise it is the reason of an abort
      const code = isOurs ? error.code : null;
      const failure = code ?? 'aborted';
      if (span !== null) endSpan(span, { 'error.type': failure }, failure);
      const retryable = isOurs && error.retryable;
      ERROR.publish({ ...about, code, aborted: !isOurs, retryable, durationMs: performance.now() - began });
      reject(error);
    },
  };
}

module.exports = { observe };
