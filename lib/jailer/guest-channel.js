'use strict';
// From the host to the agent in a VM (src/agent/agent.c): how a connection is made,
// and one job over it.

const crypto = require('node:crypto');
const net = require('node:net');
const { setTimeout: sleep } = require('node:timers/promises');
const { failed } = require('./warden.js');

const AGENT_PORT = 52;
const SEED_BYTES = 32;
// A lost reply must not hold the job: another try finds the agent.
const REPLY_MS = 1000;
const REPLY_BYTES = 32;
const PAUSE_MS = { first: 2, most: 100 };

/** @param {string} where a Unix socket @param {AbortSignal} signal @returns {Promise<net.Socket>} */
function connectUnix(where, signal) {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    const socket = net.connect(where);
    const onAbort = () => socket.destroy(signal.reason);
    signal.addEventListener('abort', onAbort, { once: true });
    socket.on('error', reject); // stays: a late one must not be uncaught
    socket.once('connect', () => {
      signal.removeEventListener('abort', onAbort);
      resolve(socket);
    });
    socket.once('close', () => signal.removeEventListener('abort', onAbort));
  });
}

/** One try at Firecracker's handshake. @param {net.Socket} socket @param {AbortSignal} signal @returns {Promise<string>} its reply */
function handshake(socket, signal) {
  return new Promise((resolve, reject) => {
    let reply = Buffer.alloc(0);
    const done = (action, value) => {
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
      socket.off('data', onData).off('close', onClose);
      action(value);
    };
    const onAbort = () => done(reject, signal.reason);
    const onClose = () => done(reject, new Error('the connection was closed: nobody listens in the guest'));
    const onData = (/** @type {Buffer} */ part) => {
      reply = Buffer.concat([reply, part]);
      const end = reply.indexOf(10);
      if (end < 0 && reply.length <= REPLY_BYTES) return;
      socket.pause();
      if (end >= 0 && end + 1 < reply.length) socket.unshift(reply.subarray(end + 1));
      done(resolve, reply.toString('latin1', 0, end < 0 ? REPLY_BYTES : end));
    };
    const timer = setTimeout(() => done(reject, new Error(`no OK within ${REPLY_MS} ms`)), REPLY_MS);
    signal.addEventListener('abort', onAbort, { once: true });
    socket.on('data', onData).on('close', onClose);
    socket.write(`CONNECT ${AGENT_PORT}\n`);
  });
}

/**
 * A stream to the agent over Firecracker's vsock. Asks again until it listens.
 * @param {string} where the VM's uds_path, as we see it
 * @param {{ signal: AbortSignal, timeoutMs: number, over: () => boolean }} how over: the VM has ended
 * @returns {Promise<net.Socket>} paused
 */
async function connectVsock(where, { signal, timeoutMs, over }) {
  const end = performance.now() + timeoutMs;
  for (let pause = PAUSE_MS.first; ; pause = Math.min(2 * pause, PAUSE_MS.most)) {
    /** @type {net.Socket | undefined} */
    let socket;
    let why;
    try {
      socket = await connectUnix(where, signal);
      const reply = await handshake(socket, signal);
      if (/^OK \d{1,10}$/.test(reply)) return socket;
      why = failed('vsock', `it answered ${JSON.stringify(reply)} to CONNECT`, { code: 'ERR_JAIL_PROTOCOL' });
    } catch (error) {
      why = error;
    }
    socket?.destroy();
    signal.throwIfAborted();
    if (why.code === 'ERR_JAIL_PROTOCOL') throw why;
    if (over()) throw failed('vsock', 'the VM has ended', { retryable: true });
    if (performance.now() > end)
      throw failed('vsock', `no agent within ${timeoutMs} ms: ${why.message}`, { retryable: true });
    await sleep(pause);
  }
}

/** The agent's own line: the time, and fresh bytes for the kernel's generator. */
function head() {
  const nanoseconds = BigInt(Date.now()) * 1000000n;
  return `job 1 ${nanoseconds} ${crypto.randomBytes(SEED_BYTES).toString('hex')}\n`;
}

/**
 * Sends the job, and reads the one line that is the answer; before it events, where somebody
 * listens. The VM may be killed after it.
 * @param {net.Socket} socket ours from here on
 * @param {{ line: Buffer, maxAnswerBytes: number, events?: import('../server/events.js').EventReader | null }} job
 * @param {AbortSignal} signal
 * @returns {Promise<Buffer>}
 */
function exchange(socket, { line, maxAnswerBytes, events = null }, signal) {
  return new Promise((resolve, reject) => {
    /** @type {Buffer[]} */
    let parts = [];
    let size = 0;
    const done = (action, value) => {
      signal.removeEventListener('abort', onAbort);
      socket.off('data', onData).off('close', onClose);
      socket.destroy();
      action(value);
    };
    const protocol = (why) => done(reject, failed('answer', why, { code: 'ERR_JAIL_PROTOCOL' }));
    const onAbort = () => done(reject, signal.reason);
    const onClose = () => done(reject, failed('answer', `the VM ended after ${size} bytes of its answer`));
    const takeAll = (/** @type {Buffer} */ part) => {
      for (let rest = part; rest.length > 0; ) {
        const end = rest.indexOf(10);
        size += end < 0 ? rest.length : end;
        if (size > maxAnswerBytes) return protocol(`it is over ${maxAnswerBytes} bytes`);
        parts.push(end < 0 ? rest : rest.subarray(0, end));
        if (end < 0) return;
        const whole = Buffer.concat(parts);
        rest = rest.subarray(end + 1);
        if (!events?.take(whole))
          return rest.length > 0 ? protocol('something follows its line') : done(resolve, whole);
        parts = [];
        size = 0;
      }
    };
    const onData = (/** @type {Buffer} */ part) => {
      try {
        takeAll(part);
      } catch (error) {
        protocol(error.message);
      }
    };
    if (signal.aborted) return onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
    socket
      .on('error', () => {})
      .on('close', onClose)
      .on('data', onData);
    if (socket.destroyed) return onClose();
    socket.write(head());
    socket.write(line);
    socket.resume();
  });
}

module.exports = { connectUnix, connectVsock, exchange };
