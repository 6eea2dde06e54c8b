'use strict';
// The jailer daemon: in a process of its own, as an operator starts it, or in
// this one around a fake engine; and one line each way.

const { spawn } = require('node:child_process');
const fs = require('node:fs');
const net = require('node:net');
const path = require('node:path');
const { after } = require('node:test');
const { socketPath } = require('./socket-peer.js');
const { waitFor } = require('./service.js');

const MAIN = path.join(__dirname, '..', '..', 'bin', 'code-jail.js');

const started = new Set();
after(() => {
  for (const child of started) child.kill('SIGKILL');
});

/** Sends text over a connection of its own; what came back, once it has ended. */
function ask(file, text, { half = false } = {}) {
  return new Promise((resolve, reject) => {
    const socket = net.connect({ path: file, allowHalfOpen: true });
    const parts = [];
    socket.on('error', reject);
    socket.on('data', (part) => parts.push(part));
    socket.on('end', () => {
      socket.destroy();
      resolve(Buffer.concat(parts).toString());
    });
    if (half) socket.end(text);
    else socket.write(text);
  });
}

/** One job, one answer. @param {string} file @param {object} job */
const post = async (file, job, how) => JSON.parse(await ask(file, `${JSON.stringify(job)}\n`, how));

/** @param {{ engine?: string, env?: Record<string, string>, args?: string[] }} [options] */
async function startJailer({ engine = 'local', env = {}, args = [] } = {}) {
  const { file, remove } = socketPath('jailer.sock');
  const child = spawn(process.execPath, [MAIN, 'jailer', '--socket', file, '--engine', engine, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env.PATH, ...env },
  });
  started.add(child);
  const seen = { out: '', err: '' };
  child.stdout.on('data', (part) => {
    seen.out += part;
  });
  child.stderr.on('data', (part) => {
    seen.err += part;
  });
  const exited = new Promise((resolve) => child.on('close', (code, signal) => resolve({ code, signal, ...seen })));
  try {
    await waitFor(() => /"event":"listen"/.test(seen.out) || child.exitCode !== null, 120000);
    if (child.exitCode !== null) throw new Error('it has ended');
  } catch (error) {
    child.kill('SIGKILL');
    throw new Error(`the jailer did not start: ${error.message}\n${seen.err}${seen.out}`);
  }
  return {
    file,
    child,
    seen,
    exited,
    post: (job, how) => post(file, job, how),
    async stop() {
      child.kill('SIGTERM');
      const end = await exited;
      started.delete(child);
      const left = fs.existsSync(file);
      remove();
      return { ...end, left };
    },
  };
}

module.exports = { startJailer, ask, post };
