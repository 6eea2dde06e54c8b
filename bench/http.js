'use strict';
// `node bench/http.js [--runs N]`: what the HTTP backend adds to a service's own
// time, beside undici's fetch (Node's own) sending the same bytes to the same
// server, in one run. The server is a process of its own and answers at once.
//
// Added: the time of a call less the time that a raw socket needs for the same
// bytes. JS thread: the event loop's active time per call.

const { spawn } = require('node:child_process');
const net = require('node:net');
const { performance } = require('node:perf_hooks');
const { parseArgs } = require('node:util');
const { createJail } = require('..');
const { digits, summarize, table } = require('./stats.js');

const TOKEN = 'bench-token';
const ANSWER = {
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
  usage: { queueMs: 0.1, startMs: 0.05, runMs: 0.2, cpuMs: 0.2, peakMemoryBytes: 4096 },
  jail: {
    backend: 'local',
    isolation: 'gvisor',
    layers: ['own-root', 'no-capabilities', 'no-new-privs', 'seccomp', 'rlimits', 'separate-uid'],
    missing: [{ layer: 'landlock', reason: 'not in this kernel' }],
    runtime: 'node 22.23.5',
    start: 'parked',
  },
};

// The server: bytes in, bytes out, no parser that would cost more than the client.
function serve() {
  const server = net.createServer((socket) => {
    let text = '';
    socket.setNoDelay(true);
    socket.on('error', () => {});
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1');
      const end = text.indexOf('\r\n\r\n');
      const length = end < 0 ? 0 : Number(/content-length: (\d+)/i.exec(text)[1]);
      if (end < 0 || text.length < end + 4 + length) return;
      const id = /"id":"([^"]+)"/.exec(text)?.[1];
      text = '';
      const body = JSON.stringify({ id, ...ANSWER });
      socket.write(
        `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
      );
    });
  });
  server.listen(0, '127.0.0.1', () => process.send?.(server.address().port));
  process.on('disconnect', () => process.exit());
}

/** Calls one after the other: times in ms, and the loop's active µs per call. */
async function measure(call, runs) {
  for (let i = 0; i < 300; i++) await call(i);
  const times = new Array(runs);
  const before = performance.eventLoopUtilization();
  for (let i = 0; i < runs; i++) {
    const from = performance.now();
    await call(i);
    times[i] = performance.now() - from;
  }
  const { active } = performance.eventLoopUtilization(before);
  return { times, jsUs: (active / runs) * 1000 };
}

async function throughput(call, inFlight, runs) {
  let left = runs;
  const from = performance.now();
  const before = performance.eventLoopUtilization();
  await Promise.all(
    Array.from({ length: inFlight }, async () => {
      while (left-- > 0) await call(left);
    }),
  );
  const { active } = performance.eventLoopUtilization(before);
  return { perSecond: runs / ((performance.now() - from) / 1000), jsUs: (active / runs) * 1000 };
}

/** The least that this machine needs: a kept socket, the same bytes. */
function rawCaller(port) {
  const socket = net.connect(port, '127.0.0.1').setNoDelay(true);
  let resolveNext = () => {};
  socket.on('data', () => resolveNext());
  const body = '{"language":"javascript","id":"3f1c5a44-0c33-4e51-9a50-000000000000","code":"return 1+1"}';
  const bytes =
    `POST /internal/sandbox/exec HTTP/1.1\r\nhost: x\r\ncontent-length: ${body.length}\r\n` +
    `content-type: application/json\r\nauthorization: Bearer ${TOKEN}\r\n\r\n${body}`;
  const call = () =>
    new Promise((resolve) => {
      resolveNext = resolve;
      socket.write(bytes);
    });
  return { call, close: () => socket.destroy() };
}

function fetchCaller(port) {
  const headers = {
    authorization: `Bearer ${TOKEN}`,
    'content-type': 'application/json',
    'code-jail-protocol': '1',
    'x-code-jail-wait-ms': '45000',
  };
  return async (i) => {
    const body = JSON.stringify({ language: 'javascript', id: `3f1c5a44-0c33-4e51-9a50-${i}`, code: 'return 1+1' });
    const response = await fetch(`http://127.0.0.1:${port}/internal/sandbox/exec`, { method: 'POST', headers, body });
    return (await response.json()).result;
  };
}

async function main() {
  const { values } = parseArgs({ options: { runs: { type: 'string', default: '3000' }, json: { type: 'boolean' } } });
  const runs = Number(values.runs);
  const server = spawn(process.execPath, [__filename, '--serve'], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  const port = await new Promise((resolve) => server.once('message', resolve));
  const jail = createJail({ url: `http://127.0.0.1:${port}`, token: TOKEN });
  const raw = rawCaller(port);
  const callers = [
    ['raw socket', raw.call],
    ['code-jail', () => jail.runCode({ language: 'javascript', code: 'return 1+1' })],
    ['fetch (undici)', fetchCaller(port)],
  ];
  // Twice around, the second time counts: everything is warm then.
  let rows = [];
  for (let round = 0; round < 2; round++) {
    rows = [];
    for (const [name, call] of callers) rows.push({ name, ...(await measure(call, runs)) });
  }
  const at32 = {};
  for (const [name, call] of callers.slice(1)) at32[name] = await throughput(call, 32, runs * 2);
  raw.close();
  await jail.close();
  server.disconnect();
  const base = summarize(rows[0].times).p50;
  const figures = rows.map(({ name, times, jsUs }) => {
    const { p50, p99 } = summarize(times);
    return { name, p50, p99, added: p50 - base, jsUs, perSecond: at32[name]?.perSecond, jsUsAt32: at32[name]?.jsUs };
  });
  if (values.json) console.log(JSON.stringify(figures));
  else print(figures);
}

function print(figures) {
  const cell = (value, unit) => (value === undefined ? '' : `${digits(value)} ${unit}`);
  console.log(
    table([
      ['', 'p50', 'p99', 'added', 'JS thread', '32 in flight', 'JS thread'],
      ...figures.map((one) => [
        one.name,
        cell(one.p50, 'ms'),
        cell(one.p99, 'ms'),
        cell(one.added, 'ms'),
        cell(one.jsUs, 'µs'),
        cell(one.perSecond, '/s'),
        cell(one.jsUsAt32, 'µs'),
      ]),
    ]),
  );
  console.log('Targets: added ≤ 0.3 ms, JS thread ≤ 50 µs per call.');
}

if (process.argv.includes('--serve')) serve();
else main();
