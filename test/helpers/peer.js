'use strict';
// A sandbox service that does as it is told: answers well, badly, slowly, or in
// raw bytes. On loopback only; everything it opened is closed by close().

const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const http = require('node:http');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');

const TOKEN = 'a-token-that-nobody-must-see-0123456789';

/** What a service of ours answers to `job`. */
function answerTo(job, over = {}) {
  return {
    id: job.id,
    ok: true,
    status: 'ok',
    result: 2,
    stdout: '',
    stderr: '',
    stdoutDropped: 0,
    stderrDropped: 0,
    error: null,
    exitCode: 0,
    signal: null,
    timedOut: false,
    usage: { queueMs: 0.25, startMs: 0.5, runMs: 1.5, cpuMs: 1, peakMemoryBytes: 4096 },
    jail: {
      backend: 'local',
      isolation: 'gvisor',
      layers: ['own-root', 'seccomp'],
      missing: [{ layer: 'landlock', reason: 'not in this kernel' }],
      runtime: 'node 22.23.5',
      start: 'parked',
    },
    ...over,
  };
}

function send(response, status, body, headers = {}) {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(text);
}

function tracked(server, secure) {
  const sockets = new Set();
  let connections = 0;
  server.on(secure ? 'secureConnection' : 'connection', (socket) => {
    connections++;
    socket.on('error', () => {});
  });
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
  });
  server.on('tlsClientError', () => {});
  return { sockets, connections: () => connections };
}

async function listen(server, { host = '127.0.0.1', secure = false, name = '' } = {}) {
  const { sockets, connections } = tracked(server, secure);
  await new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, host, resolve);
  });
  const { port } = server.address();
  const shown = name || (host.includes(':') ? `[${host}]` : host);
  return {
    server,
    port,
    sockets,
    connections,
    url: `${secure ? 'https' : 'http'}://${shown}:${port}`,
    close() {
      for (const socket of sockets) socket.destroy();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}

/** The body of a request as text. */
async function readBody(request) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

function collecting(handler, requests) {
  return async (request, response) => {
    try {
      const text = await readBody(request);
      const job = text ? JSON.parse(text) : null;
      requests.push({ method: request.method, url: request.url, headers: request.headers, job });
      await handler({ job, request, response, count: requests.length });
    } catch {
      response.destroy?.();
    }
  };
}

const good = ({ job, response }) => (job ? send(response, 200, answerTo(job)) : send(response, 200, ''));

/**
 * An HTTP server. handler({ job, request, response, count }) answers; left out, it answers well.
 */
async function startPeer(handler = good, { server, ...options } = {}) {
  const requests = [];
  const made = server ? server(collecting(handler, requests)) : http.createServer(collecting(handler, requests));
  const peer = await listen(made, options);
  return Object.assign(peer, { requests });
}

/**
 * A server that speaks bytes: onRequest(socket, text, count) is called once a whole
 * request has come over a connection; a string that it returns is written.
 */
async function startRawPeer(onRequest, { onConnection, ...options } = {}) {
  let count = 0;
  const server = net.createServer((socket) => {
    let text = '';
    onConnection?.(socket);
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1');
      const end = text.indexOf('\r\n\r\n');
      if (end < 0) return;
      const length = Number(/content-length: (\d+)/i.exec(text.slice(0, end))?.[1] ?? 0);
      if (text.length < end + 4 + length) return;
      const whole = text;
      text = '';
      const reply = onRequest?.(socket, whole, ++count);
      if (typeof reply === 'string') socket.write(reply, 'latin1');
    });
  });
  const peer = await listen(server, options);
  return Object.assign(peer, { count: () => count });
}

const jobOf = (text) => JSON.parse(Buffer.from(text.slice(text.indexOf('\r\n\r\n') + 4), 'latin1').toString());

/** A whole answer as bytes. */
function rawAnswer(body, { status = '200 OK', headers = [], type = 'application/json' } = {}) {
  const bytes = Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
  const lines = [`HTTP/1.1 ${status}`, `content-type: ${type}`, `content-length: ${bytes.length}`, ...headers];
  return `${lines.join('\r\n')}\r\n\r\n${bytes.toString('latin1')}`;
}

/** Rejects when the promise resolves; gives the error. */
async function errorOf(promise) {
  try {
    const value = await promise;
    throw Object.assign(new Error(`resolved: ${JSON.stringify(value)?.slice(0, 300)}`), { resolved: true });
  } catch (error) {
    if (error.resolved) throw error;
    return error;
  }
}

// ---- certificates ----

function openssl(dir, ...args) {
  execFileSync('openssl', args, { cwd: dir, stdio: ['ignore', 'pipe', 'pipe'] });
}

/** Whether tests can make certificates here. */
function hasOpenssl() {
  try {
    execFileSync('openssl', ['version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

/**
 * A certificate authority in a folder of its own. issue() gives { key, cert } that
 * it has signed, for these names.
 */
function makeAuthority() {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'jail-test-ca-'));
  const read = (name) => fs.readFileSync(path.join(dir, name), 'utf8');
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
  openssl(dir, 'req', '-x509', ...key, '-keyout', 'ca.key', '-out', 'ca.pem', '-days', '2', '-subj', '/CN=test root');
  let serial = 1;
  return {
    dir,
    ca: read('ca.pem'),
    caFile: path.join(dir, 'ca.pem'),
    issue(names = 'DNS:localhost,IP:127.0.0.1', { expired = false } = {}) {
      const n = String(serial++);
      openssl(dir, 'req', '-new', ...key, '-keyout', `${n}.key`, '-out', `${n}.csr`, '-subj', '/CN=test peer');
      fs.writeFileSync(path.join(dir, `${n}.ext`), `subjectAltName=${names}\n`);
      const dates = expired ? ['-not_before', '20200101000000Z', '-not_after', '20200102000000Z'] : ['-days', '1'];
      if (expired) caSign(dir, n);
      else
        openssl(
          dir,
          'x509',
          '-req',
          '-in',
          `${n}.csr`,
          '-CA',
          'ca.pem',
          '-CAkey',
          'ca.key',
          '-set_serial',
          `10${n}`,
          '-extfile',
          `${n}.ext`,
          '-out',
          `${n}.pem`,
          ...dates,
        );
      return { key: read(`${n}.key`), cert: read(`${n}.pem`) };
    },
    remove: () => fs.rmSync(dir, { recursive: true, force: true }),
  };
}

// `openssl x509` of OpenSSL 3.0 cannot date back; `openssl ca` can.
function caSign(dir, n) {
  fs.writeFileSync(path.join(dir, 'index.txt'), '');
  fs.writeFileSync(path.join(dir, 'serial'), `20${n}`.padStart(4, '0'));
  fs.writeFileSync(
    path.join(dir, 'ca.cnf'),
    '[ca]\ndefault_ca=d\n[d]\ndatabase=index.txt\nserial=serial\nnew_certs_dir=.\ndefault_md=sha256\npolicy=p\n[p]\ncommonName=supplied\n',
  );
  openssl(
    dir,
    'ca',
    '-batch',
    '-config',
    'ca.cnf',
    '-cert',
    'ca.pem',
    '-keyfile',
    'ca.key',
    '-in',
    `${n}.csr`,
    '-out',
    `${n}.pem`,
    '-notext',
    '-extfile',
    `${n}.ext`,
    '-startdate',
    '20200101000000Z',
    '-enddate',
    '20200102000000Z',
  );
}

module.exports = {
  TOKEN,
  answerTo,
  send,
  good,
  startPeer,
  startRawPeer,
  jobOf,
  rawAnswer,
  errorOf,
  makeAuthority,
  hasOpenssl,
  listen,
};
