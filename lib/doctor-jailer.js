'use strict';
// What a jailer says of itself, for `code-jail doctor`; one that does not tell is as good.

const net = require('node:net');

const ASK_MS = 5000;
const MOST_BYTES = 64 * 1024;

/** One line there, one back; '' where nothing comes. @param {string} file @param {string} line @returns {Promise<string>} */
function askLine(file, line) {
  return new Promise((resolve) => {
    let text = '';
    const socket = net.connect(file, () => socket.write(line));
    const timer = setTimeout(() => socket.destroy(), ASK_MS);
    socket.setEncoding('utf8').on('data', (part) => {
      text += part;
      if (text.length > MOST_BYTES || text.includes('\n')) socket.destroy();
    });
    socket.on('error', () => {}); // the runs tell
    socket.on('close', () => {
      clearTimeout(timer);
      resolve(text);
    });
  });
}

/** @param {string} file @returns {Promise<any>} null: an older jailer, another make, or none */
async function askJailer(file) {
  try {
    const said = JSON.parse(await askLine(file, '{"capabilities":true}\n'));
    if (!Array.isArray(said.languages) || said.protocol === undefined) return null;
    const { protocol, version, isolation, languages, features = [], maxTimeoutMs, maxMemoryMb } = said;
    return { socket: file, protocol, version, isolation, languages, features, maxTimeoutMs, maxMemoryMb };
  } catch {
    return null;
  }
}

module.exports = { askJailer };
