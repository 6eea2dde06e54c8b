'use strict';
// A request as an engine gets it. See Job in engines.js.

const { EventReader } = require('../server/events.js');
const { LANGUAGES, NUMBER_NAMES } = require('../options.js');

const ENVELOPE_BYTES = 1024 * 1024;
const FILES_BYTES = 12 * 1024 * 1024; // PROTOCOL_FILES_MAX

/** @param {import('../options.js').Request} request @returns {Buffer} */
function lineOf(request) {
  const env = Object.fromEntries(
    request.env
      .split('\0')
      .filter(Boolean)
      .map((pair) => [pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1)]),
  );
  const numbers = Object.fromEntries(NUMBER_NAMES.map((name) => [name, request[name]]));
  const stream = request.output !== null ? { stream: true } : {};
  const head = {
    id: request.id,
    language: LANGUAGES[request.language],
    code: request.code,
    ...numbers,
    env,
    ...stream,
  };
  // Its input is JSON text already; a line end in it is white space.
  const input = request.input.replace(/[\r\n]/g, ' ');
  const files = request.files === '' ? '' : `,${request.files}`;
  return Buffer.from(`${JSON.stringify(head).slice(0, -1)},"input":${input}${files}}\n`);
}

// Whoever reads it refuses a field that means nothing to a check.
function checkLineOf({ id, language, code, timeoutMs, memoryMb }) {
  return Buffer.from(`${JSON.stringify({ id, language: LANGUAGES[language], check: code, timeoutMs, memoryMb })}\n`);
}

/** @param {import('../options.js').Request} request @returns {import('./engines.js').Job} */
function jobOf(request) {
  return {
    request,
    events: request.output && new EventReader(request.output, request.maxOutputBytes),
    get line() {
      return request.isCheck ? checkLineOf(request) : lineOf(request);
    },
    // A byte of output may come as six.
    maxAnswerBytes:
      request.maxResultBytes + 12 * request.maxOutputBytes + (request.collect ? FILES_BYTES : 0) + ENVELOPE_BYTES,
  };
}

module.exports = { jobOf };
