'use strict';
// The sandbox service: code-jail over HTTP. Only POST /internal/sandbox/exec
// runs code; beside it are health, readiness, capabilities and metrics.
//
// node:http and no framework: the token is checked before a byte of the body is
// read, answers are written in pieces that no serialiser has seen, and every
// phase of a connection has a limit. All of that would be done past a framework.

const http = require('node:http');
const { whatWeRunOn } = require('./isolation.js');
const { Connections } = require('./connections.js');
const { capabilities } = require('./capabilities.js');
const { Exec, openLocal, sendError, PROTOCOL } = require('./exec.js');
const { WARMED } = require('../options.js');
const { createLog } = require('./log.js');
const { createMetrics } = require('./metrics.js');
const { Queue } = require('./queue.js');
const { tokenCheck } = require('./token.js');

const EXEC = '/internal/sandbox/exec';
const DISCARD_BYTES = 1 << 20; // of a refused request's body, so that its client reads our answer
const DISCARD_MS = 2000;
const WARM_AGAIN_MS = 1000;

/** @param {number} status @param {string} code @param {string} message */
const plain = (status, code, message) => ({ status, code, message, retryAfterMs: null });
const UNAUTHORIZED = plain(401, 'ERR_JAIL_UNAUTHORIZED', 'the bearer token is missing or wrong');

class Service {
  /**
   * @param {any} settings see settings.js
   * @param {string[]} tokens accepted ones
   * @param {{ keeper?: string, log?: any, runsOn?: ReturnType<typeof whatWeRunOn> }} [how]
   *   keeper: "@FD", a launcher's socket; the rest is for tests
   */
  constructor(settings, tokens, { keeper, log = createLog(settings.logLevel), runsOn = whatWeRunOn() } = {}) {
    this.settings = settings;
    this.log = log;
    this.runsOn = runsOn;
    this.isAllowed = tokenCheck(tokens);
    const parts = { ...require('../native.js').parts(), ...(keeper && { keeper }) };
    const { local, limits, numbers } = openLocal(settings, runsOn.isolation, { parts });
    this.local = local;
    this.limits = limits;
    this.queue = new Queue({
      slots: numbers.maxConcurrent,
      totalMemoryMb: numbers.maxTotalMemoryMb,
      maxQueue: settings.maxQueue,
    });
    this.connections = new Connections(settings.maxConnections);
    this.warm = false;
    /** @type {Promise<void> | null} */
    this.closing = null;
    /** Settles once both runtimes are warm, or never will be. @type {Promise<void>} */
    this.warming = Promise.resolve();
    const metrics = createMetrics({
      queue: this.queue,
      stats: () => (this.local.closed ? null : this.local.stats()),
      held: () => this.exec.heldBytes,
      connections: () => this.connections.all.size,
      ready: () => this.ready,
    });
    this.metrics = metrics;
    this.exec = new Exec({ settings, local, limits, isolation: runsOn.isolation, queue: this.queue, metrics, log });
    this.server = this.createServer();
  }

  get ready() {
    return this.warm && !this.exec.draining;
  }

  createServer() {
    const { headersMs, bodyMs, keepAliveMs } = this.settings;
    const server = http.createServer({
      headersTimeout: headersMs,
      requestTimeout: headersMs + bodyMs,
      keepAliveTimeout: keepAliveMs,
      connectionsCheckingInterval: 1000,
      maxHeaderSize: 16384,
      keepAlive: true, // of TCP: a peer that vanished is noticed
      keepAliveInitialDelay: 30000,
      noDelay: true,
    });
    server.maxHeadersCount = 100;
    server.on('connection', (socket) => this.connections.add(socket));
    const onRequest = (request, response) => this.onRequest(request, response);
    server.on('request', onRequest);
    server.on('checkContinue', onRequest);
    server.on('clientError', (error, socket) => onBroken(error, socket));
    // Of a connection that cannot be accepted, for want of memory, say: the next one may be.
    server.on('error', (/** @type {any} */ { code }) => this.log.warn({ event: 'listener', code }, 'listener'));
    server.on('connect', (_, socket) => socket.destroy());
    server.on('upgrade', (_, socket) => socket.destroy());
    return server;
  }

  onRequest(request, response) {
    request.on('error', () => {}); // told by the response's close
    response.on('error', () => {});
    const end = () => this.onFinish(request, response);
    response.on('finish', end);
    response.on('close', () => this.connections.rest(request.socket));
    const path = request.url.split('?', 1)[0];
    const route = this.route(path);
    if (!route) return sendError(request, response, plain(404, 'ERR_JAIL_CONFIG', 'there is nothing here'));
    const { methods, open, serve } = route;
    if (!open && !this.isAllowed(request))
      return sendError(request, response, UNAUTHORIZED, { 'www-authenticate': 'Bearer' });
    if (!methods.includes(request.method)) {
      const allow = methods.join(', ');
      return sendError(request, response, plain(405, 'ERR_JAIL_CONFIG', `this is for ${allow}`), { allow });
    }
    if (!open) this.connections.busy(request.socket);
    serve(request, response);
  }

  route(path) {
    switch (path) {
      case EXEC:
        return {
          methods: ['POST'],
          open: false,
          serve: (request, response) => void this.exec.handle(request, response),
        };
      case '/livez':
        return { methods: ['GET', 'HEAD'], open: true, serve: (_, response) => empty(response, 200) };
      case '/readyz':
        return {
          methods: ['GET', 'HEAD'],
          open: true,
          serve: (_, response) => empty(response, this.ready ? 200 : 503),
        };
      case '/capabilities':
        return { methods: ['GET'], open: false, serve: (_, response) => json(response, this.capabilities()) };
      case '/metrics':
        return { methods: ['GET'], open: false, serve: (_, response) => void this.sendMetrics(response) };
      default:
        return null;
    }
  }

  capabilities() {
    return capabilities({
      isolation: this.runsOn.isolation ?? 'process',
      maxTimeoutMs: this.limits.caps.timeoutMs,
      maxMemoryMb: Math.min(this.limits.caps.memoryMb, this.limits.caps.totalMemoryMb),
    });
  }

  async sendMetrics(response) {
    const text = await this.metrics.text();
    response.writeHead(200, { 'content-type': this.metrics.type });
    response.end(text);
  }

  // The answer is with the kernel. Its client must take it, and a body that was
  // not read is thrown away, up to a limit: with unread bytes in it, closing the
  // connection would take the answer along.
  onFinish(request, response) {
    const { socket } = request;
    if (request.complete || socket.destroyed) return;
    let left = DISCARD_BYTES;
    const timer = setTimeout(() => socket.destroy(), DISCARD_MS);
    socket.on('close', () => clearTimeout(timer));
    request.on('data', (part) => {
      left -= part.length;
      if (left < 0) socket.destroy();
    });
    request.resume();
    request.on('end', () => socket.end());
    response.on('close', () => clearTimeout(timer));
  }

  /** Listens, and warms both runtimes. Resolves when it listens. @param {string | { port: number, host: string }} where */
  async listen(where) {
    const path = typeof where === 'string' ? where : null;
    await new Promise((resolve, reject) => {
      this.server.once('error', reject);
      const done = () => resolve(undefined);
      if (path) this.server.listen(path, done);
      else this.server.listen(/** @type {any} */ (where), done);
    });
    if (path) require('node:fs').chmodSync(path, 0o600);
    this.warming = this.warmUp();
    return this.server.address();
  }

  // Until it works. What will not pass by itself is thrown to whoever waits for `warming`.
  async warmUp() {
    while (!this.closing) {
      try {
        await this.local.warm(WARMED);
        this.warm = true;
        this.log.info(
          { event: 'ready', isolation: this.runsOn.isolation ?? 'process', slots: this.queue.slots },
          'ready',
        );
        return;
      } catch (error) {
        if (this.closing) return;
        // Our own words about our own runtimes: no request has come near them.
        this.log.error({ event: 'boot', code: error.code }, error.message);
        if (error.code === 'ERR_JAIL_CONFIG' || error.code === 'ERR_JAIL_ISOLATION') throw error;
        await new Promise((resolve) => setTimeout(resolve, WARM_AGAIN_MS));
      }
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
    this.exec.drain();
    while (this.exec.active.size > 0 && performance.now() - began < drainMs)
      await new Promise((resolve) => setTimeout(resolve, 20));
    this.exec.cut();
    await new Promise((resolve) => setTimeout(resolve, 50)); // their answers
    const closed = new Promise((resolve) => this.server.close(resolve));
    this.connections.destroyIdle();
    await Promise.race([closed, new Promise((resolve) => setTimeout(resolve, 300))]);
    this.connections.destroyAll();
    await this.local.close();
    this.log.info({ event: 'end', tookMs: Math.round(performance.now() - began) }, 'end');
  }
}

function empty(response, status) {
  response.writeHead(status, { 'content-length': 0, 'cache-control': 'no-store' });
  response.end();
}

function json(response, value) {
  response.writeHead(200, { 'content-type': 'application/json', 'code-jail-protocol': PROTOCOL });
  response.end(JSON.stringify(value));
}

const BROKEN = {
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'Request Timeout', 'the request did not come in time'],
  HPE_HEADER_OVERFLOW: [431, 'Request Header Fields Too Large', 'the headers are too large'],
};

// No request was understood, or not in time.
function onBroken(error, socket) {
  if (!socket.writable || socket.bytesWritten > 0) {
    socket.destroy(); // in the midst of an answer, or after one
    return;
  }
  const [status, reason, message] = BROKEN[error.code] ?? [400, 'Bad Request', 'this is not HTTP'];
  const body = JSON.stringify({ error: { code: 'ERR_JAIL_INVALID_REQUEST', message } });
  socket.end(
    `HTTP/1.1 ${status} ${reason}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\nconnection: close\r\n\r\n${body}`,
  );
  setTimeout(() => socket.destroy(), 1000).unref();
}

module.exports = { Service, EXEC };
