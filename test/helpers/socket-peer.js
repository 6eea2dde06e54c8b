'use strict';
// A jailer on a Unix socket that does as it is told. Everything that it opened is
// closed by close().

const fs = require('node:fs');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');
const { answerTo } = require('./peer.js');

/** @type {(() => void)[]} */
const removals = [];
// Also where a test has failed, or killed whoever listened there.
process.on('exit', () => {
  for (const remove of removals) remove();
});

/** A socket's path in a new folder of ours. */
function socketPath(name = 's.sock') {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cj-'));
  const remove = () => fs.rmSync(folder, { recursive: true, force: true });
  removals.push(remove);
  return { file: path.join(folder, name), remove };
}

const good = ({ job, socket }) => socket.end(`${JSON.stringify(answerTo(job))}\n`);

/**
 * handler({ job, line, socket, count }) is called once a whole line has come.
 * @param {(call: any) => void} handler
 * @param {{ backlog?: number, onConnection?: (socket: net.Socket) => void }} [options]
 */
async function startSocketPeer(handler = good, { backlog, onConnection } = {}) {
  const { file, remove } = socketPath();
  const sockets = new Set();
  const lines = [];
  let connections = 0;
  const server = net.createServer({ allowHalfOpen: true }, (socket) => {
    const parts = [];
    connections++;
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
    if (onConnection) return onConnection(socket);
    socket.on('data', (part) => {
      parts.push(part);
      if (!part.includes(10)) return;
      const line = Buffer.concat(parts).toString();
      lines.push(line);
      handler({ job: JSON.parse(line), line, socket, count: lines.length });
    });
  });
  await new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen({ path: file, backlog }, () => resolve(undefined));
  });
  return {
    file,
    lines,
    sockets,
    server,
    connections: () => connections,
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
      remove();
    },
  };
}

module.exports = { startSocketPeer, socketPath, good };
