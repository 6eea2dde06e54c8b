'use strict';
// `code-jail jailer`: the engine up, the socket open, and down again in good order.

const fs = require('node:fs');
const http = require('node:http');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');
const { misconfigured } = require('../errors.js');
const { createLog } = require('../server/log.js');
const { Jailer } = require('./daemon.js');
const { openEngine } = require('./engines.js');
const { NO_SOCKET, isHandedOver, readSettings } = require('./settings.js');

const FORCE_MS = 14000;

/** The listening socket that systemd hands over, if it does. @param {NodeJS.ProcessEnv} env */
function handedOver(env) {
  if (!isHandedOver(env)) return null;
  if (env.LISTEN_FDS !== '1') throw misconfigured(`LISTEN_FDS is ${env.LISTEN_FDS}: the unit must have one socket`);
  return { fd: 3 };
}

/** Whether somebody answers there. @param {string} file @returns {Promise<boolean>} */
function isAlive(file) {
  return new Promise((resolve) => {
    const socket = net.connect(file, () => {
      socket.destroy();
      resolve(true);
    });
    // Any other error, EAGAIN of a full backlog among them, does not say that nobody is there.
    socket.on('error', (/** @type {any} */ { code }) => resolve(code !== 'ECONNREFUSED' && code !== 'ENOENT'));
  });
}

/** Makes way for a socket: what a killed daemon left there goes, anything else stays. @param {string} file */
async function makeWay(file) {
  const stat = fs.lstatSync(file, { throwIfNoEntry: false });
  if (!stat) return;
  if (!stat.isSocket()) throw misconfigured(`${file} is there already, and is no socket`);
  if (await isAlive(file)) throw misconfigured(`somebody listens at ${file} already`);
  fs.unlinkSync(file);
}

/** GET /metrics and /readyz, on a port of loopback or a Unix socket. @param {Jailer} jailer @param {string} where */
async function openMetrics(jailer, where) {
  const server = http.createServer(async (request, response) => {
    if (request.method === 'GET' && request.url === '/metrics')
      return response.setHeader('content-type', jailer.metrics.type).end(await jailer.metrics.text());
    response.writeHead(request.url === '/readyz' ? (jailer.ready ? 200 : 503) : 404).end();
  });
  server.on('error', () => {}); // of one connection; of listen() below
  const isPort = /^\d{1,5}$/.test(where);
  if (!isPort) await makeWay(path.resolve(where));
  const before = process.umask(0o177);
  await new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(/** @type {any} */ (isPort ? { port: Number(where), host: '127.0.0.1' } : path.resolve(where)), () =>
      resolve(0),
    );
  });
  process.umask(before);
  server.unref();
  return server;
}

/**
 * Serves until it is told to end.
 *
 * @param {{ socket?: string, engine?: string, metrics?: string, uids?: string[] }} given
 * @returns {Promise<number>} the exit code
 */
async function serveJailer(given) {
  const settings = readSettings(process.env, given);
  const where = handedOver(process.env) ?? settings.socket;
  if (where === null) throw misconfigured(NO_SOCKET);
  if (typeof where === 'string') await makeWay(where);
  const log = createLog(settings.logLevel);
  const stopped = new Promise((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT']) process.once(signal, () => resolve(signal));
  });
  // Cells need none, and nobody would remove it for a daemon that is killed.
  const needsFolder = settings.engine !== 'local';
  const folder = needsFolder ? fs.mkdtempSync(path.join(os.tmpdir(), `code-jail-jailer-${process.pid}-`)) : '';
  try {
    const engine = await openEngine(settings.engine, { ...settings, folder, log });
    const jailer = new Jailer(settings, engine, log);
    let metrics = null;
    try {
      if (settings.metrics !== null) metrics = await openMetrics(jailer, settings.metrics);
      await jailer.listen(where);
      const at = typeof where === 'string' ? where : 'systemd';
      const { isolation } = engine;
      log.info({ event: 'listen', at, engine: settings.engine, isolation, uids: [...settings.uids] }, 'listen');
      await stopped;
      setTimeout(() => process.exit(1), settings.drainMs + FORCE_MS).unref();
    } finally {
      await jailer.close();
      metrics?.close();
    }
    return 0;
  } finally {
    if (needsFolder) fs.rmSync(folder, { recursive: true, force: true });
    log.flush();
  }
}

module.exports = { serveJailer };
