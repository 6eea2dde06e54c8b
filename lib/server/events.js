'use strict';
// What a run writes, as it comes, for a client that asked for it: one JSON
// object a line, { "stdout": text } or { "stderr": text }, and the answer last. A
// run that writes nothing in time is answered as ever.

const { FLAGS } = require('../calls.js');

const TYPE = 'application/x-ndjson';
const NAMES = ['', 'stdout', 'stderr'];

/** @param {import('node:http').IncomingMessage} request */
const wantsEvents = ({ headers }) => (headers.accept ?? '').includes(TYPE);

class Events {
  /** @param {import('node:http').ServerResponse} response @param {Record<string, string>} headers */
  constructor(response, headers) {
    this.response = response;
    this.headers = headers;
    this.flags = FLAGS.stdout | FLAGS.stderr;
  }

  // What its client is slow to take lies here meanwhile: the cap of each stream at most.
  /** @param {number} stream @param {string} text */
  give(stream, text) {
    const { response } = this;
    if (response.destroyed || text === '') return;
    if (!response.headersSent) response.writeHead(200, { ...this.headers, 'content-type': TYPE });
    response.write(`${JSON.stringify({ [NAMES[stream]]: text })}\n`);
  }

  end() {}
}

// A line break between two values means nothing to JSON, and all to a reader of
// lines; within a string there is none.
/** @param {string} part */
const onOneLine = (part) => (/[\r\n]/.test(part) ? part.replace(/[\r\n]/g, ' ') : part);

module.exports = { Events, wantsEvents, onOneLine };
