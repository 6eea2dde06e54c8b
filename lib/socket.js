'use strict';
// The jail that is a jailer on a Unix socket. Everything that takes time happens
// in C; here the configuration is read and the call handed over.

const path = require('node:path');
const { misconfigured } = require('./errors.js');
const { Remote } = require('./remote.js');

const PATH_BYTES = 107; // of a Unix socket's address, on Linux

/** @param {string} name @param {string} given @returns {string} absolute */
function readPath(name, given) {
  if (given.includes('\0')) throw misconfigured(`${name} holds a NUL, which no path can`);
  const file = path.resolve(given);
  const bytes = Buffer.byteLength(file);
  if (bytes > PATH_BYTES)
    throw misconfigured(`${name} is ${bytes} bytes long; a socket's path may have ${PATH_BYTES}: choose a shorter one`);
  return file;
}

class Socket extends Remote {
  /**
   * @param {import('./config.js').Config} config
   * @param {{ shared?: boolean, names?: { socket: string } }} [how] shared: one for the whole process
   */
  constructor(config, { shared = false, names = { socket: 'socket' } } = {}) {
    const { numbers, socketOwner } = config;
    const file = readPath(names.socket, /** @type {string} */ (config.socket));
    super('socket', (addon, client) =>
      addon.openSocket(
        client,
        shared ? `socket:${JSON.stringify([file, socketOwner, numbers])}` : null,
        numbers.maxConnections,
        numbers.maxQueue,
        numbers.queueTimeoutMs,
        file,
        socketOwner,
      ),
    );
  }
}

module.exports = { Socket };
