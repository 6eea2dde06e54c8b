'use strict';
// What goes back, as text. The result was checked as JSON by the engine and is
// spliced in as it is: parsing and writing it anew would be for nothing.

const STATUS = {
  ERR_JAIL_INVALID_REQUEST: 400,
  ERR_JAIL_ISOLATION: 400,
  ERR_JAIL_UNAUTHORIZED: 401,
  ERR_JAIL_OVERLOADED: 429,
  ERR_JAIL_QUEUE_TIMEOUT: 429,
  ERR_JAIL_UNAVAILABLE: 503,
  ERR_JAIL_CLOSED: 503,
};

/**
 * @param {any} error a JailError, or what body.js refuses with
 * @returns {{ status: number, code: string, message: string, retryAfterMs: number | null }}
 */
function describe(error) {
  const known = typeof error?.code === 'string' && error.code.startsWith('ERR_JAIL_');
  if (!known)
    return { status: 500, code: 'ERR_JAIL_UNAVAILABLE', message: 'the service has failed', retryAfterMs: null };
  const { code, message } = error;
  let status = error.status ?? STATUS[code] ?? 500;
  let retryAfterMs = error.retryAfterMs ?? null;
  // Without a Retry-After a 503 says nothing about whether the code has run.
  if (status === 503 && !error.retryable && code !== 'ERR_JAIL_CLOSED') status = 500;
  else if (status === 429 || status === 503) retryAfterMs ??= 1000;
  return { status, code, message, retryAfterMs };
}

/** @param {{ code: string, message: string, retryAfterMs: number | null }} what */
function errorText({ code, message, retryAfterMs }) {
  return JSON.stringify({ error: { code, message, ...(retryAfterMs !== null && { retryAfterMs }) } });
}

/**
 * An IsolatedRunResult as pieces of JSON text, to be written one after another.
 *
 * @param {any} run as code-jail gives it with resultAs: 'text'
 * @param {{ isolation: string | null, asText: boolean, queuedMs: number }} how isolation: null, as the run's own
 * @returns {string[]}
 */
function resultParts(run, { isolation, asText, queuedMs }) {
  const { result: _, resultText, filesText, files: _files, filesMissing: _missing, usage, jail, ...told } = run;
  const { id, ok, status, ...rest } = told;
  // What was collected is spliced in likewise.
  const files = filesText === undefined ? '' : `,${filesText.slice(1, -1)}`;
  const head = JSON.stringify({ id, ok, status }).slice(0, -1) + files;
  const tail = JSON.stringify({
    ...rest,
    usage: { ...usage, queueMs: usage.queueMs + queuedMs },
    jail: isolation === null ? jail : { ...jail, isolation },
  }).slice(1);
  if (asText) return [`${head},"result":null,"resultText":${JSON.stringify(resultText ?? null)},${tail}`];
  // Large enough to be worth a piece of its own, or one write for all.
  if (resultText === null || resultText === undefined) return [`${head},"result":null,${tail}`];
  if (resultText.length < 65536) return [`${head},"result":${resultText},${tail}`];
  return [`${head},"result":`, resultText, `,${tail}`];
}

module.exports = { describe, errorText, resultParts };
