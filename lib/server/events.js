'use strict';
// What a run writes, as it comes, for a client that asked for it: one JSON
// object a line, { "stdout": text } or { "stderr": text }, and the answer last. A
// run that writes nothing in time is answered as ever. Over HTTP the client asks by
// its Accept header, over a socket by the field `stream`.

const { FLAGS } = require('../calls.js');
const { JailError } = require('../errors.js');
const { refusal } = require('./body.js');

const TYPE = 'application/x-ndjson';
const NAMES = ['', 'stdout', 'stderr'];
// A byte that is no UTF-8 comes as U+FFFD, which has three.
const BYTES_PER_BYTE = 3;

/** @param {import('node:http').IncomingMessage} request */
const wantsEvents = ({ headers }) => (headers.accept ?? '').includes(TYPE);

/** Takes `stream` out of a request's fields. @param {any} fields @returns {boolean} */
function takeStream(fields) {
  if (fields === null || typeof fields !== 'object' || !Object.hasOwn(fields, 'stream')) return false;
  const { stream } = fields;
  if (typeof stream !== 'boolean') throw refusal(400, 'stream must be true or false');
  delete fields.stream;
  return stream;
}

// What a run's call tells, as lines: a Hearer of ../output.js.
class Events {
  /** @param {(line: string) => void} write what its client is slow to take lies there: the cap of each stream at most */
  constructor(write) {
    this.write = write;
    this.flags = FLAGS.stdout | FLAGS.stderr;
  }

  /** @param {number} stream @param {string} text */
  give(stream, text) {
    if (text !== '') this.write(`${JSON.stringify({ [NAMES[stream]]: text })}\n`);
  }

  end() {}
}

/** Reads such lines of an agent, which may have been taken over. */
class EventReader {
  /** @param {import('../output.js').Hearer} hearer @param {number} maxOutputBytes */
  constructor(hearer, maxOutputBytes) {
    this.hearer = hearer;
    this.left = [0, maxOutputBytes * BYTES_PER_BYTE, maxOutputBytes * BYTES_PER_BYTE];
  }

  /** @param {Buffer} line @returns {boolean} whether it is an event; then it has been told */
  take(line) {
    const stream = NAMES.findIndex((name, i) => i > 0 && line.subarray(0, 11).equals(Buffer.from(`{"${name}":"`)));
    if (stream < 0) return false;
    let event;
    try {
      event = JSON.parse(line.toString());
    } catch {
      return false;
    }
    const text = event[NAMES[stream]];
    if (Object.keys(event).length !== 1 || typeof text !== 'string') return false;
    this.left[stream] -= Buffer.byteLength(text);
    if (text === '' || this.left[stream] < 0)
      throw new JailError('ERR_JAIL_PROTOCOL', 'its events are more than its output may be');
    this.hearer.give(stream, text);
    return true;
  }
}

// A line break between two values means nothing to JSON, and all to a reader of
// lines; within a string there is none.
/** @param {string} part */
const onOneLine = (part) => (/[\r\n]/.test(part) ? part.replace(/[\r\n]/g, ' ') : part);

module.exports = { Events, EventReader, TYPE, takeStream, wantsEvents, onOneLine };
