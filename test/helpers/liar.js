'use strict';
// A sandbox service that can lie. As it comes it is honest: it checks its token
// and runs everything in a real jail. `lies` makes it open in one respect, so
// that a test sees whether that one is noticed.

const { spawn } = require('node:child_process');
const dgram = require('node:dgram');
const net = require('node:net');
const { answerTo, send, startPeer, TOKEN } = require('./peer.js');

// The same text as in a cell, in a process without any wall.
const RUNNERS = {
  javascript: [
    process.execPath,
    '-e',
    `const { code, input } = JSON.parse(require('node:fs').readFileSync(0));
     const { constructor: AsyncFunction } = async () => {};
     new AsyncFunction('input', 'require', code)(input, require).then((value) => {
       process.stdout.write(JSON.stringify(value) ?? 'null', () => process.exit());
     });`,
  ],
  python: [
    'python3',
    '-c',
    `import json, sys
job = json.load(sys.stdin)
scope = {'input': job['input']}
exec(job['code'], scope)
json.dump(scope.get('result'), sys.stdout)`,
  ],
};

/** @returns {Promise<object>} what differs from a good answer */
function runOpenly({ language, code, input = null, timeoutMs = 10000 }) {
  const [file, ...args] = RUNNERS[language];
  const child = spawn(file, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  child.stdin.end(JSON.stringify({ code, input }));
  let out = '';
  child.stdout.on('data', (part) => {
    out += part;
  });
  const timer = setTimeout(() => child.kill('SIGKILL'), timeoutMs);
  return new Promise((resolve) =>
    child.on('close', (exitCode) => {
      clearTimeout(timer);
      if (exitCode === 0) resolve({ result: JSON.parse(out) });
      else resolve({ ok: false, status: 'timeout', timedOut: true, result: null, exitCode: null, signal: 'SIGKILL' });
    }),
  );
}

const isLoop = ({ code }) => /for \(;;\)|while True/.test(code);

/**
 * @param {any} jail the real one
 * @param {{ openly?: boolean, anyToken?: boolean, isolation?: string, capabilities?: string, loops?: 'kept' | 'ok',
 *   canned?: object, id?: string, refuses?: boolean, iam?: boolean }} [lies] iam: only with an identity token
 */
async function startLiar(jail, lies = {}) {
  const truth = 'process';
  const answer = async (job) => {
    if (lies.loops === 'ok' && isLoop(job)) return answerTo(job);
    if (lies.canned) return answerTo(job, { result: lies.canned });
    if (lies.openly) return answerTo(job, await runOpenly(job));
    return jail.runCode(job);
  };
  return startPeer(async ({ job, request, response }) => {
    const isRight = request.headers.authorization === `Bearer ${TOKEN}` && !lies.refuses;
    if (lies.iam && request.headers['x-serverless-authorization'] !== 'Bearer a.b.c')
      return send(response, 403, '<html>Forbidden</html>');
    if (!isRight && !lies.anyToken) return send(response, 401, { error: { code: 'ERR_JAIL_UNAUTHORIZED' } });
    if (request.url === '/capabilities') return send(response, 200, { isolation: lies.capabilities ?? truth });
    if (lies.loops === 'kept' && isLoop(job)) return; // nobody ever hears of it again
    const run = await answer(job);
    const id = lies.id ?? run.id;
    send(response, 200, { ...run, id, jail: { ...run.jail, isolation: lies.isolation ?? truth } });
  });
}

/** What an open sandbox reaches: somebody who listens, answers, or keeps silent. */
async function startTargets() {
  const tcp = net.createServer((socket) => socket.destroy());
  const udp = dgram.createSocket('udp4');
  const silent = dgram.createSocket('udp4');
  udp.on('message', (message, from) => udp.send(message, from.port, from.address));
  await new Promise((resolve) => tcp.listen(0, '127.0.0.1', resolve));
  for (const one of [udp, silent]) await new Promise((resolve) => one.bind(0, '127.0.0.1', resolve));
  return {
    tcp: tcp.address().port,
    udp: udp.address().port,
    silent: silent.address().port,
    close: () => [tcp, udp, silent].map((one) => one.close()),
  };
}

module.exports = { startLiar, startTargets, TOKEN };
