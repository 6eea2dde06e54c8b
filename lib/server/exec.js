'use strict';
// One request to run code: who asks, what, a slot, the run, the answer. Every
// outcome of the code is a 200; all else is an error with a code of its own.

const { Local } = require('../local.js');
const { JailError } = require('../errors.js');
const { readConfig } = require('../config.js');
const { LANGUAGES } = require('../options.js');
const { describe, errorText, resultParts } = require('./answer.js');
const { Events, TYPE, onOneLine, wantsEvents } = require('./events.js');
const { parseBody, readBody, refusal, tooLarge } = require('./body.js');
const { readJob } = require('./job.js');
const { requestFacts } = require('./log.js');
const { overloaded } = require('./queue.js');

const PROTOCOL = '1';
const HEADERS = { 'code-jail-protocol': PROTOCOL, 'cache-control': 'no-store' };
// What lies between a run's end and its last byte at the client.
const ANSWER_MS = 100;

/** The jail behind the service, and the limits that its requests have. */
function openLocal(settings, isolation, how) {
  const config = readConfig({
    caps: { timeoutMs: settings.maxTimeoutMs, ...(settings.maxMemoryMb && { memoryMb: settings.maxMemoryMb }) },
    ...(settings.slots && { maxConcurrent: settings.slots }),
    ...(settings.parked !== undefined && { parked: settings.parked }),
    ...(settings.totalMemoryMb && { maxTotalMemoryMb: settings.totalMemoryMb }),
    ...(settings.node && { node: settings.node }),
    ...(settings.python && { python: settings.python }),
    queueTimeoutMs: 3600000, // its queue is not used: ours has let in what fits
    idleMs: 86400000,
    // Behind gVisor's wall the cells' own may be weaker; what they are is told.
    allowWeak: settings.allowWeak || isolation !== null,
  });
  return { local: new Local(config, how), limits: config.limits, numbers: config.numbers };
}

class Exec {
  /**
   * @param {{ settings: any, local: Local, limits: any, isolation: 'gvisor' | null, queue: import('./queue.js').Queue,
   *   metrics: any, log: any }} parts
   */
  constructor(parts) {
    Object.assign(this, parts);
    this.settings = parts.settings;
    this.local = parts.local;
    this.limits = parts.limits;
    this.isolation = parts.isolation;
    this.queue = parts.queue;
    this.metrics = parts.metrics;
    this.log = parts.log;
    this.heldBytes = 0;
    this.draining = false;
    /** Under way, to be cancelled when draining takes too long. @type {Set<AbortController>} */
    this.active = new Set();
  }

  /**
   * @param {import('node:http').IncomingMessage} request whose token has been checked
   * @param {import('node:http').ServerResponse} response
   */
  async handle(request, response) {
    const began = performance.now();
    const gone = new AbortController();
    /** @type {any} */
    const facts = { bytes: 0, queuedMs: 0 };
    const onClose = () => gone.abort(clientGone());
    response.on('close', onClose);
    this.active.add(gone);
    try {
      await this.answer(request, response, gone.signal, facts);
    } catch (error) {
      this.refuse(request, response, error, facts);
    } finally {
      this.active.delete(gone);
      this.heldBytes -= facts.bytes;
      response.off('close', onClose);
      this.metrics.onAnswer(facts.status);
      this.log.info(requestFacts({ ...facts, tookMs: performance.now() - began }), 'request');
    }
  }

  async answer(request, response, signal, facts) {
    this.checkHead(request);
    if (request.headers.expect) response.writeContinue();
    const body = await readBody(request, this.settings, (bytes) => this.reserve(bytes, facts));
    const { run: job, asText } = this.read(await parseBody(body), facts);
    const waitMs = this.waitOf(request, job);
    const queued = performance.now();
    const release = await this.queue.enter({ tenant: job.tenant, memoryMb: job.memoryMb, waitMs, signal });
    let run;
    try {
      facts.queuedMs = performance.now() - queued;
      signal.throwIfAborted();
      if (wantsEvents(request) && !job.isCheck) job.output = new Events((line) => sendEvent(response, line));
      run = await new Promise((resolve, reject) => this.local.run(job, signal, resolve, reject));
    } finally {
      release();
    }
    facts.run = run;
    facts.status = 200;
    this.metrics.onRun(LANGUAGES[job.language], run, facts.queuedMs);
    send(response, resultParts(run, { isolation: this.isolation, asText, queuedMs: facts.queuedMs }));
  }

  // All that can be said before a byte of the body is read.
  checkHead(request) {
    const { headers } = request;
    const protocol = headers['code-jail-protocol'];
    if (protocol !== undefined && protocol !== PROTOCOL)
      throw refusal(
        400,
        `code-jail-protocol is ${JSON.stringify(protocol.slice(0, 20))}; this service speaks ${PROTOCOL}`,
        'ERR_JAIL_PROTOCOL',
      );
    if (headers['content-encoding'] && headers['content-encoding'] !== 'identity')
      throw refusal(400, 'content-encoding: the body must come as it is');
    if (Number(headers['content-length'] ?? 0) > this.settings.maxBodyBytes) throw tooLarge(this.settings.maxBodyBytes);
    if (this.draining) throw leaving();
    if (this.queue.full) throw overloaded();
  }

  reserve(bytes, facts) {
    if (this.heldBytes + bytes > this.settings.maxHeldBytes) return false;
    this.heldBytes += bytes;
    facts.bytes += bytes;
    return true;
  }

  read(parsed, facts) {
    const job = readJob(parsed, this.limits, this.isolation, facts);
    const { asText } = job;
    job.asText = true;
    return { run: job, asText };
  }

  // How long it may wait and still be answered while its client waits.
  waitOf(request, run) {
    const given = request.headers['x-code-jail-wait-ms'];
    if (given === undefined) return this.settings.queueTimeoutMs;
    if (!/^\d{1,9}$/.test(given)) throw refusal(400, 'x-code-jail-wait-ms must be a whole number of milliseconds');
    const left = Number(given) - run.timeoutMs - ANSWER_MS;
    if (left <= 0)
      throw refusal(
        400,
        `x-code-jail-wait-ms is ${given}: a run of timeoutMs ${run.timeoutMs} could not be answered in it, and was not started`,
        'ERR_JAIL_DEADLINE',
      );
    return Math.min(left, this.settings.queueTimeoutMs);
  }

  /** @param {any} error */
  refuse(request, response, error, facts) {
    if (error?.clientGone || response.destroyed) {
      facts.status = 499;
      return;
    }
    const what = describe(error);
    if (what.status === 500)
      this.log.error(
        { event: 'failure', code: error?.code ?? error?.name, stack: error?.code ? undefined : frames(error) },
        'failure',
      );
    facts.status = what.status;
    facts.code = what.code;
    if (response.headersSent)
      response.destroy(); // in the midst of events: an answer that is cut off is no answer
    else sendError(request, response, what);
  }

  /** Nothing new; what waits goes elsewhere. */
  drain() {
    this.draining = true;
    this.queue.clear(leaving);
  }

  /** What still runs is over. */
  cut() {
    for (const one of this.active)
      one.abort(new JailError('ERR_JAIL_UNAVAILABLE', 'the service is going down; the run was stopped'));
  }
}

// Of an error of our own making: where, without the message.
function frames(error) {
  return String(error?.stack ?? '')
    .split('\n')
    .filter((line) => line.startsWith('    at '))
    .join('\n');
}

function clientGone() {
  return Object.assign(new Error('the client has gone'), { clientGone: true });
}

function leaving() {
  return new JailError('ERR_JAIL_UNAVAILABLE', 'the service is going down', { retryable: true, retryAfterMs: 1000 });
}

/** @param {import('node:http').ServerResponse} response @param {string} line */
function sendEvent(response, line) {
  if (response.destroyed) return;
  if (!response.headersSent) response.writeHead(200, { ...HEADERS, 'content-type': TYPE });
  response.write(line);
}

/** @param {import('node:http').ServerResponse} response @param {string[]} parts */
function send(response, parts) {
  const last = parts.length - 1;
  const asLine = response.headersSent; // behind events
  if (!asLine) response.writeHead(200, { ...HEADERS, 'content-type': 'application/json' });
  parts.forEach((part, i) => {
    const text = asLine ? onOneLine(part) : part;
    if (i < last) response.write(text);
    else response.end(asLine ? `${text}\n` : text);
  });
}

/**
 * @param {import('node:http').IncomingMessage} request
 * @param {import('node:http').ServerResponse} response
 * @param {ReturnType<typeof describe>} what
 */
function sendError(request, response, what, headers = {}) {
  const text = errorText(what);
  // A body that nobody will read: the connection cannot serve another request.
  const unread = !request.complete;
  /** @type {import('node:http').OutgoingHttpHeaders} */
  const all = {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(text),
    'code-jail-protocol': PROTOCOL,
    'cache-control': 'no-store',
    ...(what.retryAfterMs !== null && { 'retry-after': String(Math.max(1, Math.ceil(what.retryAfterMs / 1000))) }),
    ...(unread && { connection: 'close' }),
    ...headers,
  };
  response.writeHead(what.status, all);
  response.end(text);
}

module.exports = { Exec, openLocal, sendError, PROTOCOL };
