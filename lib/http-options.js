'use strict';
// What leads to a sandbox service: its URL, the token, more headers, whom to
// trust, a proxy. Checked whole before anything is sent. A token's text is in no
// message, and neither is a header's value.

const fs = require('node:fs');
const tls = require('node:tls');
const { misconfigured } = require('./errors.js');

const EXEC_PATH = '/internal/sandbox/exec';
const MAX_TOKEN = 4096;
const MAX_HEADERS = 32;
const MAX_HEADER_BYTES = 16 * 1024;

/** Hosts that plain http: may go to: what never leaves this machine. @param {string} host */
function isLoopback(host) {
  return host === 'localhost' || host === '[::1]' || /^127\.\d+\.\d+\.\d+$/.test(host);
}

/** @param {string} name @param {string} text */
function parseUrl(name, text) {
  // URL would drop tabs and line breaks, and take a backslash for a slash.
  if (/[^!-~]|\\/.test(text))
    throw misconfigured(`${name} holds a space, a control character, a backslash or something beyond ASCII`);
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null) throw misconfigured(`${name} is not a URL; it looks like https://sandbox.example`);
  return url;
}

/**
 * @param {string} name
 * @param {string} text the service's base, with or without a prefix and a slash at its end
 * @returns {string} where runs are posted to
 */
function readUrl(name, text) {
  const url = parseUrl(name, text);
  if (url.protocol !== 'https:' && url.protocol !== 'http:')
    throw misconfigured(`${name} must begin with https://, not ${url.protocol}`);
  if (!/^https?:\/\//i.test(text)) throw misconfigured(`${name} must begin with https://`);
  if (text.includes('@'))
    throw misconfigured(`${name} holds a user or password; the token goes into CODE_SANDBOX_TOKEN or \`token\``);
  if (/[?#]/.test(text)) throw misconfigured(`${name} must be the service's base: no ? and no #`);
  if (url.protocol === 'http:' && !isLoopback(url.hostname))
    throw misconfigured(
      `${name} is http:, which would send the token in clear; use https: (http: is for loopback only)`,
    );
  const base = url.pathname.replace(/\/+$/, '');
  return `${url.origin}${base.endsWith(EXEC_PATH) ? base : base + EXEC_PATH}`;
}

/** @param {string} name @param {unknown} token @returns {string} */
function readToken(name, token) {
  if (typeof token !== 'string' || token === '') throw misconfigured(`${name} is missing or empty`);
  if (token.length > MAX_TOKEN)
    throw misconfigured(`${name} has ${token.length} characters; the limit is ${MAX_TOKEN}`);
  if (/^\s|\s$/.test(token)) throw misconfigured(`${name} begins or ends with white space, perhaps a line break`);
  if (/[^!-~]|["&'<>\\]/.test(token))
    throw misconfigured(`${name} holds a character that no token has (allowed is visible ASCII without "&'<>\\)`);
  return token;
}

// Those that are ours to say, or that would change what is sent.
const OURS =
  /^(authorization|host|content-length|content-type|content-encoding|transfer-encoding|te|trailer|connection|keep-alive|upgrade|expect|accept|accept-encoding|proxy-.*|code-jail-.*|x-code-jail-.*)$/i;

/**
 * @param {unknown} headers
 * @returns {string | null} as C takes them: "Name: value\n" ...
 */
function headerText(headers) {
  if (headers === undefined || headers === null) return null;
  if (typeof headers !== 'object' || Array.isArray(headers))
    throw misconfigured('headers must be an object of strings, or a function that gives one');
  const names = Object.keys(headers);
  if (names.length > MAX_HEADERS) throw misconfigured(`headers has ${names.length} names; the limit is ${MAX_HEADERS}`);
  let text = '';
  for (const name of names) {
    const value = headers[name];
    if (!/^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/.test(name)) throw misconfigured('headers has a name that is none of HTTP’s');
    if (OURS.test(name)) throw misconfigured(`headers must not set ${name}: code-jail does`);
    if (typeof value !== 'string' || /[^ -~]|^ | $/.test(value) || value === '')
      throw misconfigured(`headers.${name} must be a string of printable ASCII, not empty, without spaces around it`);
    text += `${name}: ${value}\n`;
  }
  if (text.length > MAX_HEADER_BYTES)
    throw misconfigured(`headers are ${text.length} bytes in all; the limit is ${MAX_HEADER_BYTES}`);
  return text || null;
}

/** @param {string} text @returns {string} */
function readProxy(text) {
  const url = parseUrl('proxy', text);
  if (url.protocol !== 'http:') throw misconfigured(`proxy must begin with http://, not ${url.protocol}`);
  if (url.pathname !== '/' || url.search || url.hash) throw misconfigured('proxy must be http://host:port alone');
  return url.href;
}

/** @type {string | null} */
let defaults = null;

// What Node itself trusts: its own roots and NODE_EXTRA_CA_CERTS.
function defaultRoots() {
  if (defaults !== null) return defaults;
  const given = /** @type {any} */ (tls).getCACertificates?.('default');
  if (given) {
    defaults = given.join('\n');
  } else {
    let extra = '';
    try {
      if (process.env.NODE_EXTRA_CA_CERTS) extra = fs.readFileSync(process.env.NODE_EXTRA_CA_CERTS, 'latin1');
    } catch {
      // Node has warned of it at its start
    }
    defaults = `${tls.rootCertificates.join('\n')}\n${extra}`;
  }
  return /** @type {string} */ (defaults);
}

/** @param {string | undefined} ca PEM, trusted as well @returns {string} */
function roots(ca) {
  if (ca === undefined) return defaultRoots();
  if (!ca.includes('-----BEGIN CERTIFICATE-----') || ca.includes('\0'))
    throw misconfigured('ca holds no certificate; it must be text that begins with -----BEGIN CERTIFICATE-----');
  return `${defaultRoots()}\n${ca}\n`;
}

module.exports = { readUrl, readToken, readProxy, headerText, roots, isLoopback, EXEC_PATH };
