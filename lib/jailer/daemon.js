'use strict';
// The jailer daemon: who may ask, one line, a slot, the engine, one line back.
// What a connection gets is always a line: a result, or { "error": … }; before it
// what the run writes, for a client that asked for it (`stream`).

const net = require('node:net');
const { JailError } = require('../errors.js');
const { readConfig } = require('../config.js');
const { LANGUAGES } = require('../options.js');
const { describe, errorText } = require('../server/answer.js');
const { parseBody, refusal } = require('../server/body.js');
const { Events, takeStream } = require('../server/events.js');
const { asksCapabilities, capabilities } = require('../server/capabilities.js');
const { Connections } = require('../server/connections.js');
const { readJob } = require('../server/job.js');
const { requestFacts } = require('../server/log.js');
const { createMetrics } = require('../server/metrics.js');
const { Queue } = require('../server/queue.js');
const { stamp } = require('./answer.js');
const { peerUid, readLine, watchClient } = require('./connection.js');
const { jobOf } = require('./job.js');

class Jailer {
  /**
   * @param {any} settings see settings.js
   * @param {import('./engines.js').Engine} engine
   * @param {any} log
   */
  constructor(settings, engine, log) {
    this.settings = settings;
    this.engine = engine;
    this.log = log;
    this.limits = readConfig({
      caps: { timeoutMs: settings.maxTimeoutMs, memoryMb: settings.maxMemoryMb },
      url: 'elsewhere', // the memory is the engine's to give
    }).limits;
    this.queue = new Queue({
      slots: settings.slots,
      totalMemoryMb: Number.MAX_SAFE_INTEGER,
      maxQueue: settings.maxQueue,
    });
    this.connections = new Connections(settings.maxConnections);
    this.heldBytes = 0;
    this.draining = false;
    /** Under way. @type {Set<AbortController>} */
    this.active = new Set();
    /** @type {Promise<void> | null} */
    this.closing = null;
    this.metrics = createMetrics({
      queue: this.queue,
      stats: () => null,
      held: () => this.heldBytes,
      connections: () => this.connections.all.size,
      ready: () => this.ready,
      engine: () => engine.stats(),
    });
    this.server = net.createServer({ allowHalfOpen: true }, (socket) => this.onConnection(socket));
    this.server.on('error', (/** @type {any} */ { code }) => log.warn({ event: 'listener', code }, 'listener'));
  }

  get ready() {
    return !this.draining && this.engine.stats().ready === 1;
  }

  /** @param {net.Socket} socket */
  onConnection(socket) {
    this.connections.add(socket);
    socket.on('error', () => {}); // told by its close
    const uid = peerUid(socket);
    if (this.settings.uids.has(uid)) void this.serve(socket);
    else {
      this.log.warn({ event: 'refused', uid }, 'refused');
      const who = refusal(401, `uid ${uid} may not use this jailer (--uid)`, 'ERR_JAIL_UNAUTHORIZED');
      this.end(socket, [Buffer.from(`${errorText(describe(who))}\n`)]);
    }
  }

  /** @param {net.Socket} socket */
  async serve(socket) {
    const began = performance.now();
    const gone = new AbortController();
    /** @type {any} */
    const facts = { bytes: 0, queuedMs: 0 };
    this.active.add(gone);
    let stop = () => {};
    try {
      const line = await readLine(socket, this.settings, (bytes) => this.reserve(bytes, facts));
      if (line === null) return socket.destroy(); // somebody looked whether we listen, or has gone
      this.connections.busy(socket);
      stop = watchClient(socket, () => gone.abort(clientGone()));
      this.end(socket, await this.answer(line, socket, gone.signal, facts));
    } catch (error) {
      this.refuse(socket, error, facts);
    } finally {
      stop();
      this.active.delete(gone);
      this.heldBytes -= facts.bytes;
      if (facts.status) {
        this.metrics.onAnswer(facts.status);
        this.log.info(requestFacts({ ...facts, tookMs: performance.now() - began }), 'request');
      }
    }
  }

  reserve(bytes, facts) {
    if (this.heldBytes + bytes > this.settings.maxHeldBytes) return false;
    this.heldBytes += bytes;
    facts.bytes += bytes;
    return true;
  }

  /** @param {Buffer} line @param {net.Socket} socket @param {AbortSignal} signal @param {any} facts @returns {Promise<Buffer[]>} */
  async answer(line, socket, signal, facts) {
    const { isolation } = this.engine;
    const parsed = await parseBody(line, 'the line');
    if (asksCapabilities(parsed.fields)) {
      const { maxTimeoutMs, maxMemoryMb } = this.settings;
      return [Buffer.from(`${JSON.stringify(capabilities({ isolation, maxTimeoutMs, maxMemoryMb }))}\n`)];
    }
    const streams = takeStream(parsed.fields);
    const request = readJob(parsed, this.limits, isolation === 'process' ? null : isolation, facts);
    if (streams && !request.isCheck) request.output = new Events((event) => socket.writable && socket.write(event));
    if (this.draining) throw leaving();
    const { asText } = request;
    request.asText = true;
    const queued = performance.now();
    const { tenant, memoryMb } = request;
    const release = await this.queue.enter({ tenant, memoryMb, waitMs: this.settings.queueTimeoutMs, signal });
    try {
      facts.queuedMs = performance.now() - queued;
      const came = await this.run(request, signal);
      const { run, parts } = await stamp(came, { id: request.id, asText, queuedMs: facts.queuedMs });
      facts.status = 200;
      facts.run = { ...run, usage: { ...run.usage, queueMs: run.usage.queueMs - facts.queuedMs } };
      this.metrics.onRun(LANGUAGES[request.language], run, facts.queuedMs);
      return parts;
    } finally {
      release();
    }
  }

  // The engine's run, which is told when its time is over.
  async run(request, signal) {
    signal.throwIfAborted();
    const deadlineMs = request.timeoutMs + (this.engine.startMs ?? this.settings.startMs);
    const end = new AbortController();
    const onGone = () => end.abort(signal.reason);
    const late = () => end.abort(new JailError('ERR_JAIL_DEADLINE', `the engine did not answer in ${deadlineMs} ms`));
    const timer = setTimeout(late, deadlineMs);
    signal.addEventListener('abort', onGone, { once: true });
    try {
      return await this.engine.run(jobOf(request), { signal: end.signal, deadlineMs });
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', onGone);
    }
  }

  /** @param {net.Socket} socket @param {any} error @param {any} facts */
  refuse(socket, error, facts) {
    if (error?.clientGone) {
      facts.status = 499;
      socket.destroy();
      return;
    }
    const what = describe(error);
    if (what.status === 500) this.log.error({ event: 'failure', code: error?.code ?? error?.name }, 'failure');
    facts.status = what.status;
    facts.code = what.code;
    this.end(socket, [Buffer.from(`${errorText(what)}\n`)]);
  }

  /** Writes, closes, and does not wait for ever. @param {net.Socket} socket @param {Buffer[]} parts */
  end(socket, parts) {
    const timer = setTimeout(() => socket.destroy(), this.settings.answerMs);
    socket.on('close', () => clearTimeout(timer));
    socket.cork();
    for (const part of parts) socket.write(part);
    socket.end(() => socket.destroy());
    socket.uncork();
  }

  /** @param {string | { fd: number }} where */
  async listen(where) {
    const before = process.umask(0o177); // 0600 from its first moment on
    try {
      await new Promise((resolve, reject) => {
        this.server.once('error', reject);
        this.server.listen(/** @type {any} */ (where), () => resolve(undefined));
      });
    } finally {
      process.umask(before);
    }
  }

  /** Lets what runs end, for at most drainMs; then everything goes. */
  close() {
    this.closing ??= this.drain();
    return this.closing;
  }

  async drain() {
    const { drainMs } = this.settings;
    const began = performance.now();
    this.log.info({ event: 'drain', running: this.queue.used, waiting: this.queue.waiting }, 'drain');
    this.draining = true;
    const closed = new Promise((resolve) => this.server.close(resolve));
    this.connections.destroyIdle();
    this.queue.clear(leaving);
    while (this.active.size > 0 && performance.now() - began < drainMs) await sleep(20);
    for (const one of this.active)
      one.abort(new JailError('ERR_JAIL_UNAVAILABLE', 'the jailer is going down; the run was stopped'));
    await sleep(50); // their answers
    await Promise.race([closed, sleep(300)]);
    this.connections.destroyAll();
    await this.engine.close();
    this.log.info({ event: 'end', tookMs: Math.round(performance.now() - began) }, 'end');
  }
}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function clientGone() {
  return Object.assign(new Error('the client has gone'), { clientGone: true });
}

function leaving() {
  return new JailError('ERR_JAIL_UNAVAILABLE', 'the jailer is going down', { retryable: true, retryAfterMs: 1000 });
}

module.exports = { Jailer };
