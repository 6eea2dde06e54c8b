'use strict';
// A request's body: counted as it comes, never held beyond its cap, and given
// up when it stalls.

const { invalid } = require('../errors.js');
const { FILES, fromWire } = require('../files.js');
const native = require('../native.js');
const { NUMBERS, SIZES } = require('../options.js');

const DEPTH = 512;
const NUL = Buffer.alloc(1);

/** @param {number} status @param {string} message @param {string} [code] */
function refusal(status, message, code = 'ERR_JAIL_INVALID_REQUEST') {
  return Object.assign(new Error(message), { status, code });
}

/**
 * @param {import('node:http').IncomingMessage} request
 * @param {{ maxBodyBytes: number, idleBodyMs: number }} settings
 * @param {(bytes: number) => boolean} reserve asks for room; false: there is none
 * @returns {Promise<Buffer>} with a NUL behind it; rejects with { status, code, message }
 */
function readBody(request, { maxBodyBytes, idleBodyMs }, reserve) {
  return new Promise((resolve, reject) => {
    /** @type {Buffer[]} */
    const parts = [];
    let size = 0;
    const end = (action, value) => {
      clearTimeout(idle);
      request.off('data', onData).off('end', onEnd).off('close', onClose);
      action(value);
    };
    const onData = (/** @type {Buffer} */ part) => {
      idle.refresh();
      size += part.length;
      if (size > maxBodyBytes) end(reject, tooLarge(maxBodyBytes));
      else if (!reserve(part.length))
        end(reject, refusal(429, 'the service holds too much already', 'ERR_JAIL_OVERLOADED'));
      else parts.push(part);
    };
    const onEnd = () => end(resolve, Buffer.concat([...parts, NUL], size + 1));
    const onClose = () => end(reject, refusal(400, 'the connection ended within the body'));
    const idle = setTimeout(() => end(reject, refusal(408, 'the body did not come in time')), idleBodyMs);
    request.on('data', onData).on('end', onEnd).on('close', onClose);
  });
}

/** @param {number} maxBodyBytes */
function tooLarge(maxBodyBytes) {
  return refusal(413, `the body is over ${maxBodyBytes} bytes`);
}

// ---- its parts ----

const SLICE = 1 << 20; // checked at a time: some milliseconds
// What a field may take, escapes included. Only `input` may be large and have structure.
const CODE_BYTES = 6 * SIZES.codeBytes + 2;
const FIELD_BYTES = {
  __proto__: null,
  code: CODE_BYTES,
  check: CODE_BYTES,
  env: 8 * SIZES.envBytes,
  collect: FILES.names * (6 * FILES.pathBytes + 3) + 2,
};
const MEMBERS = 32;
const OTHER_BYTES = 4096;
const FAULTS = ['', 'is not JSON', 'is not UTF-8', `is more than ${DEPTH} levels deep`, 'has too many values'];

/**
 * Whether it is JSON. Gives way to other work between two slices, so that a large
 * body holds nobody up.
 *
 * @param {Buffer} body @param {string} what it is, for the error's message
 */
async function checkBody(body, what) {
  const { scanBody } = native.load();
  const state = Buffer.alloc(256);
  for (let size = 0; ; ) {
    size = Math.min(size + SLICE, body.length);
    const fault = scanBody(state, body, size);
    if (fault !== 0) throw refusal(400, `${what} ${FAULTS[fault]}`);
    if (size === body.length) return;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/**
 * Where the members of an object are, in text that is JSON: see splitBody in src/addon_body.c.
 *
 * @param {Buffer} body with a NUL behind it @param {string} what it is
 * @returns {Promise<number[] | null | undefined>}
 */
async function splitMembers(body, what) {
  await checkBody(body.subarray(0, -1), what);
  return native.load().splitBody(body, MEMBERS);
}

/**
 * The request that a body holds. Its `input` stays the text that it is: it is
 * for the cell to parse, and a hostile one would take this thread seconds.
 *
 * @param {Buffer} body with a NUL behind it @param {string} [what] it is
 * @returns {Promise<{ fields: any, input: string | null }>} input: null where there is none
 */
async function parseBody(body, what = 'the body') {
  const text = body.subarray(0, -1);
  const marks = await splitMembers(body, what);
  if (marks === undefined) return { fields: text.length < OTHER_BYTES ? JSON.parse(text.toString()) : [], input: null };
  if (marks === null) throw refusal(400, 'the request has too many fields');
  const fields = Object.create(null);
  let input = null;
  for (let i = 0; i < marks.length; i += 4) {
    const [from, behind, at, end] = marks.slice(i, i + 4);
    const name = behind - from <= OTHER_BYTES ? JSON.parse(body.toString('utf8', from, behind)) : 'a name';
    if (name in fields || (name === 'input' && input !== null))
      throw refusal(400, `${JSON.stringify(name)} is there twice`);
    if (name === 'input') input = body.toString('utf8', at, end);
    else if (name === 'files') fields.files = readFiles(body.subarray(at, end));
    else fields[name] = readField(name, body.subarray(at, end));
  }
  return { fields, input };
}

const FILE_START = Buffer.from('{"base64":"');
// What all of base64 may take, its objects included; more is not looked at.
const FILES_BYTES = (FILES.bytes / 3) * 4 + FILES.count * OTHER_BYTES;

// Each value is a string, or an object around one, and no other structure: parsed whole, a
// hostile one would take this thread seconds.
/** @param {Buffer} text @returns {any} */
function readFiles(text) {
  const marks = native.load().splitBody(Buffer.concat([text, NUL]), FILES.count);
  if (marks === undefined) return null;
  if (marks === null) throw invalid(`files has too many entries; the limit is ${FILES.count}`);
  const files = [];
  let bytes = 0;
  for (let i = 0; i < marks.length; i += 4) {
    const [from, behind, at, end] = marks.slice(i, i + 4);
    const path =
      behind - from <= 6 * FILES.pathBytes + 2 ? JSON.parse(text.toString('utf8', from, behind)) : 'x'.repeat(999);
    if (text[at] === 123) bytes += end - at;
    if (bytes > FILES_BYTES) throw invalid(`files are over ${FILES.bytes} bytes in all; that is the limit`);
    files.push([path, readFile(text.subarray(at, end))]);
  }
  const names = new Set(files.map(([path]) => path));
  if (names.size < files.length) throw invalid('files has a path twice');
  return fromWire(Object.fromEntries(files));
}

/** @param {Buffer} value */
function readFile(value) {
  if (value[0] === 34) return JSON.parse(value.toString());
  if (value[0] !== 123) return null;
  // As this package writes it; or some spaces more, where it is small.
  if (value.length <= OTHER_BYTES) return JSON.parse(value.toString());
  if (!value.subarray(0, FILE_START.length).equals(FILE_START) || value.at(-1) !== 125 || value.at(-2) !== 34)
    return [];
  return { base64: value.toString('latin1', FILE_START.length, value.length - 2) };
}

/** @param {string} name @param {Buffer} text */
function readField(name, text) {
  const most = FIELD_BYTES[name] ?? OTHER_BYTES;
  if (text.length <= most) return JSON.parse(text.toString());
  if (name in FIELD_BYTES) throw refusal(400, `${name} is too long: ${text.length} bytes of JSON`);
  // Whatever it is, it is not what its field takes: one that is short says the same.
  return name in NUMBERS || text[0] !== 34 ? [] : 'x'.repeat(OTHER_BYTES);
}

module.exports = { readBody, parseBody, splitMembers, refusal, tooLarge };
