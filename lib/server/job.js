'use strict';
// A request as it came in a body or a line, read and judged.

const { JailError } = require('../errors.js');
const { ISOLATIONS, LANGUAGES, readCheck, readRequest } = require('../options.js');
const { refusal } = require('./body.js');

// A check's text is under a name of its own, so that who does not know checks has nothing to run.
function readFields(fields, limits) {
  const isCheck = fields !== null && typeof fields === 'object' && Object.hasOwn(fields, 'check');
  if (!isCheck) return readRequest(fields, limits);
  if (Object.hasOwn(fields, 'code')) throw refusal(400, 'code and check exclude each other');
  const { check, ...rest } = fields;
  return readCheck({ ...rest, code: check }, limits);
}

/**
 * @param {{ fields: any, input: string | null }} parsed see body.js
 * @param {import('../options.js').Limits} limits
 * @param {string | null} isolation what is proven around whatever runs here; null: only cells' own
 * @param {any} facts for the log: gets id and language
 * @returns {import('../options.js').Request}
 */
function readJob({ fields, input }, limits, isolation, facts) {
  if (fields !== null && typeof fields === 'object') facts.id = fields.id;
  const job = readFields(fields, limits);
  if (input !== null && job.isCheck) throw refusal(400, 'input is not a field of a check, which runs nothing');
  if (input !== null) {
    const bytes = Buffer.byteLength(input);
    const most = limits.caps.inputBytes;
    if (bytes > most) throw refusal(400, `input is ${bytes} bytes as JSON; the limit is ${most}`);
    job.input = input;
  }
  job.filesAsText = true; // they pass through, as the result does
  facts.id = job.id;
  facts.language = LANGUAGES[job.language];
  // What is around everything is proven already; of the cells' own walls only they themselves know.
  const proven = isolation === null ? -1 : ISOLATIONS.indexOf(isolation);
  if (job.minIsolation > Math.max(proven, 0))
    throw new JailError(
      'ERR_JAIL_ISOLATION',
      `minIsolation is "${ISOLATIONS[job.minIsolation]}"; this service can prove "${isolation ?? 'process'}"`,
    );
  if (job.minIsolation <= proven) job.minIsolation = -1;
  return job;
}

module.exports = { readJob };
