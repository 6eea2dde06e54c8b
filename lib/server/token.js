'use strict';
// Who may ask. Digests of equal length are compared in constant time, each
// accepted token always, so that neither length nor content can be measured.

const crypto = require('node:crypto');

/** @param {string} text */
const digest = (text) => crypto.createHash('sha256').update(text, 'latin1').digest();

/**
 * @param {string[]} tokens
 * @returns {(request: import('node:http').IncomingMessage) => boolean}
 */
function tokenCheck(tokens) {
  const accepted = tokens.map(digest);
  return (request) => {
    // Node keeps the first of several in `headers`; two that differ are nobody's.
    const given = /** @type {any} */ (request).headersDistinct.authorization ?? [];
    const match = given.length === 1 ? /^Bearer ([!-~]+)$/.exec(given[0]) : null;
    const token = digest(match ? match[1] : '');
    let found = false;
    for (const one of accepted) found = crypto.timingSafeEqual(one, token) || found;
    return found && match !== null;
  };
}

module.exports = { tokenCheck };
