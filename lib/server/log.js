'use strict';
// Structured logs, one JSON line each, to stdout. What goes in is chosen here
// field by field: never code, input, output, error messages, env or tenant.

const { optional } = require('./optional.js');

/** @param {string} level */
function createLog(level) {
  const pino = optional('pino');
  const destination = pino.destination({ fd: 1, sync: false });
  const log = pino(
    {
      level,
      base: undefined,
      messageKey: 'message',
      timestamp: () => `,"time":"${new Date().toISOString()}"`,
      // The names that Cloud Logging and most others know.
      formatters: { level: (label) => ({ severity: label.toUpperCase() }) },
    },
    destination,
  );
  return {
    info: (facts, message) => log.info(facts, message),
    warn: (facts, message) => log.warn(facts, message),
    error: (facts, message) => log.error(facts, message),
    flush() {
      try {
        destination.flushSync();
      } catch {
        // not open yet: nothing has been written
      }
    },
  };
}

// An id is the client's, and may be any text.
const ID = /^[\w.:@/+=-]{1,128}$/;

/** What is said of one request. @param {any} facts */
function requestFacts({ status, code, id, language, run, queuedMs, tookMs, bytes }) {
  return {
    event: 'request',
    status,
    ...(code && { code }),
    ...(typeof id === 'string' && ID.test(id) && { id }),
    ...(language && { language }),
    bytes,
    tookMs: Math.round(tookMs * 10) / 10,
    ...(run && {
      outcome: run.status,
      exitCode: run.exitCode,
      usage: { ...run.usage, queueMs: run.usage.queueMs + queuedMs },
      start: run.jail.start,
      runtime: run.jail.runtime,
    }),
  };
}

module.exports = { createLog, requestFacts };
