'use strict';
// Firecracker's API: JSON over HTTP on a Unix socket, one call at a time.

const http = require('node:http');
const { setTimeout: sleep } = require('node:timers/promises');
const { failed } = require('./warden.js');

const ANSWER_BYTES = 65536;
const LOOK_MS = 3;

/**
 * One call. @param {string} where the socket @param {string} method @param {string} path
 * @param {object | null} body @param {{ signal: AbortSignal, timeoutMs: number }} how
 * @returns {Promise<{ status: number, text: string }>}
 */
function request(where, method, path, body, { signal, timeoutMs }) {
  return new Promise((resolve, reject) => {
    const text = body === null ? undefined : JSON.stringify(body);
    const call = http.request(
      { socketPath: where, method, path, agent: false, signal, headers: { accept: 'application/json' } },
      (response) => {
        let answer = '';
        response.setEncoding('utf8');
        response.on('data', (part) => {
          answer += part;
          if (answer.length > ANSWER_BYTES) call.destroy(new Error(`the answer is over ${ANSWER_BYTES} bytes`));
        });
        response.on('error', reject);
        response.on('end', () => resolve({ status: response.statusCode ?? 0, text: answer }));
      },
    );
    // Of the whole call: a peer that dribbles is late as well.
    const timer = setTimeout(() => call.destroy(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
    call.on('close', () => clearTimeout(timer));
    call.on('error', reject);
    if (text !== undefined) {
      call.setHeader('content-type', 'application/json');
      call.setHeader('content-length', Buffer.byteLength(text));
    }
    call.end(text);
  });
}

// Their words, for a message: short, and nothing a terminal would obey.
function fault(text) {
  try {
    return String(JSON.parse(text).fault_message ?? text);
  } catch {
    return text;
  }
}
const printable = (text) => text.replace(/[^\x20-\x7e]+/g, ' ').slice(0, 400);

class Api {
  /** @param {string} where @param {{ signal: AbortSignal, timeoutMs: number }} how */
  constructor(where, how) {
    this.where = where;
    this.how = how;
  }

  async call(method, path, body = null) {
    let answer;
    try {
      answer = await request(this.where, method, path, body, this.how);
    } catch (error) {
      this.how.signal.throwIfAborted();
      throw failed(`${method} ${path}`, printable(error.message), { retryable: true, cause: error });
    }
    if (answer.status >= 200 && answer.status < 300) return answer.text;
    throw failed(`${method} ${path}`, `${answer.status}: ${printable(fault(answer.text))}`, { retryable: true });
  }

  put = (path, body) => this.call('PUT', path, body);
  patch = (path, body) => this.call('PATCH', path, body);

  /** What runs there, once it answers. @param {() => boolean} over it never will */
  async info(over) {
    const end = performance.now() + this.how.timeoutMs;
    for (;;) {
      try {
        return JSON.parse(await this.call('GET', '/'));
      } catch (error) {
        this.how.signal.throwIfAborted();
        const early = /^(ENOENT|ECONNREFUSED)$/.test(error.cause?.code);
        if (over()) throw failed('API socket', 'the process has ended', { retryable: true });
        if (!early || performance.now() > end)
          throw error instanceof SyntaxError ? failed('GET /', 'the answer is no JSON', { retryable: true }) : error;
      }
      await sleep(LOOK_MS);
    }
  }
}

module.exports = { Api };
