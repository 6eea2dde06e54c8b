'use strict';
// One connection to the daemon: a capped line in, within its time; then whether
// the client is still there.

const native = require('../native.js');
const { refusal, tooLarge } = require('../server/body.js');

const NUL = Buffer.alloc(1);
const LOOK_MS = 50;

/** The uid at the other end; undefined where the kernel does not say. @param {import('node:net').Socket} socket */
const peerUid = (socket) => native.load().peerUid(/** @type {any} */ (socket)._handle?.fd ?? -1);

/**
 * The first line, or all there is where the client closes its half without a line end.
 *
 * @param {import('node:net').Socket} socket
 * @param {{ maxLineBytes: number, lineMs: number }} settings
 * @param {(bytes: number) => boolean} reserve asks for room; false: there is none
 * @returns {Promise<Buffer | null>} with a NUL behind it; null: nothing was asked
 */
function readLine(socket, { maxLineBytes, lineMs }, reserve) {
  return new Promise((resolve, reject) => {
    /** @type {Buffer[]} */
    const parts = [];
    let size = 0;
    const end = (action, value) => {
      clearTimeout(timer);
      socket.off('data', onData).off('end', onEnd).off('close', onClose);
      action(value);
    };
    const whole = () => Buffer.concat([...parts, NUL]);
    const onData = (/** @type {Buffer} */ part) => {
      const at = part.indexOf(10);
      const mine = at < 0 ? part : part.subarray(0, at);
      size += mine.length;
      if (size > maxLineBytes) return end(reject, tooLarge(maxLineBytes));
      if (!reserve(mine.length))
        return end(reject, refusal(429, 'the jailer holds too much already', 'ERR_JAIL_OVERLOADED'));
      parts.push(mine);
      if (at >= 0) end(resolve, whole());
    };
    const onEnd = () => end(resolve, size > 0 ? whole() : null);
    const onClose = () => end(resolve, null);
    const timer = setTimeout(() => end(reject, refusal(408, 'the line did not come in time')), lineMs);
    socket.on('data', onData).on('end', onEnd).on('close', onClose);
  });
}

/**
 * Calls onGone once the client has gone away. Closing its own half is not that: it
 * still waits for the answer. Whatever it sends behind its line is thrown away.
 *
 * @param {import('node:net').Socket} socket
 * @param {() => void} onGone
 * @returns {() => void} stops looking
 */
function watchClient(socket, onGone) {
  /** @type {NodeJS.Timeout | undefined} */
  let timer;
  const look = () => {
    const fd = /** @type {any} */ (socket)._handle?.fd;
    if (fd === undefined || native.load().peerGone(fd)) onGone();
  };
  const onEnd = () => {
    look();
    timer = setInterval(look, LOOK_MS);
  };
  socket.on('end', onEnd).on('close', onGone);
  if (socket.readableEnded) onEnd();
  else socket.resume();
  return () => {
    clearInterval(timer);
    socket.off('end', onEnd).off('close', onGone);
  };
}

module.exports = { peerUid, readLine, watchClient };
