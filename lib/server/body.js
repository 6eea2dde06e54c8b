'use strict';
// A request's body: counted as it comes, never held beyond its cap, and given
// up when it stalls.

/** @param {number} status @param {string} message @param {string} [code] */
function refusal(status, message, code = 'ERR_JAIL_INVALID_REQUEST') {
  return Object.assign(new Error(message), { status, code });
}

/**
 * @param {import('node:http').IncomingMessage} request
 * @param {{ maxBodyBytes: number, idleBodyMs: number }} settings
 * @param {(bytes: number) => boolean} reserve asks for room; false: there is none
 * @returns {Promise<Buffer>} rejects with { status, code, message }
 */
function readBody(request, { maxBodyBytes, idleBodyMs }, reserve) {
  return new Promise((resolve, reject) => {
    /** @type {Buffer[]} */
    const parts = [];
    let size = 0;
    const end = (action, value) => {
      clearTimeout(idle);
      request.off('data', onData).off('end', onEnd).off('close', onClose);
      action(value);
    };
    const onData = (/** @type {Buffer} */ part) => {
      idle.refresh();
      size += part.length;
      if (size > maxBodyBytes) end(reject, tooLarge(maxBodyBytes));
      else if (!reserve(part.length))
        end(reject, refusal(429, 'the service holds too much already', 'ERR_JAIL_OVERLOADED'));
      else parts.push(part);
    };
    const onEnd = () => end(resolve, parts.length === 1 ? parts[0] : Buffer.concat(parts, size));
    const onClose = () => end(reject, refusal(400, 'the connection ended within the body'));
    const idle = setTimeout(() => end(reject, refusal(408, 'the body did not come in time')), idleBodyMs);
    request.on('data', onData).on('end', onEnd).on('close', onClose);
  });
}

/** @param {number} maxBodyBytes */
function tooLarge(maxBodyBytes) {
  return refusal(413, `the body is over ${maxBodyBytes} bytes`);
}

const utf8 = new TextDecoder('utf-8', { fatal: true });

/** @param {Buffer} body @returns {any} */
function parseBody(body) {
  let text;
  try {
    text = utf8.decode(body);
  } catch {
    throw refusal(400, 'the body is not UTF-8');
  }
  try {
    return JSON.parse(text);
  } catch (error) {
    // V8's message may quote the text; its place does not.
    const at = /at position (\d+)/.exec(error.message);
    throw refusal(400, `the body is not JSON${at ? ` (at character ${at[1]})` : ''}`);
  }
}

module.exports = { readBody, parseBody, refusal, tooLarge };
