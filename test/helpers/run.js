'use strict';
// One jail for a test file, and the short ways to ask it something.

const assert = require('node:assert/strict');
const { after } = require('node:test');
const { createJail } = require('../../lib/index.js');

/** A jail that is closed when the file's tests have ended. */
function openJail(config = {}) {
  const jail = createJail({ ...guestNode(), ...config });
  after(() => jail.close());
  return jail;
}

// CI runs the suite with one Node as host and another as guest.
function guestNode() {
  const path = process.env.CODE_JAIL_TEST_NODE;
  return path ? { node: { path } } : {};
}

/** The statements of a function, as a code node's text. */
function body(fn) {
  const text = String(fn);
  return text.slice(text.indexOf('{') + 1, text.lastIndexOf('}'));
}

/** Runs code that is expected to succeed, and gives its result. */
async function probe(jail, language, code, input = null, options = {}) {
  const run = await jail.runCode({ language, code, input, ...options });
  assert.equal(run.status, 'ok', `${run.status}: ${JSON.stringify(run.error)} ${run.stderr}`);
  return run.result;
}

/**
 * Compares the fields of `actual` that `expected` names. A RegExp matches text,
 * a function is asked, an object under `error`, `usage` or `jail` is compared field by field,
 * everything else must be deeply equal.
 */
function matches(actual, expected, at = 'result') {
  for (const [key, want] of Object.entries(expected)) {
    const here = `${at}.${key}`;
    const have = actual?.[key];
    if (want instanceof RegExp) assert.match(String(have), want, here);
    else if (typeof want === 'function') assert.ok(want(have), `${here}: ${JSON.stringify(have)}`);
    else if (isPlain(want) && /^(error|usage|jail)$/.test(key)) matches(have, want, here);
    else assert.deepEqual(have, want, here);
  }
}

function isPlain(value) {
  return value !== null && typeof value === 'object' && !Array.isArray(value);
}

/** The errno names a refused operation may give, whichever wall it met first. */
const DENIED =
  /^(EPERM|EACCES|ENOENT|ESRCH|ENOSYS|EROFS|ENOTDIR|EAFNOSUPPORT|EPROTONOSUPPORT|ENETUNREACH|ENETDOWN|EAI_AGAIN|ENOTFOUND|ECONNREFUSED|ERR_ACCESS_DENIED)$/;

const inBase64 = (files) =>
  Object.fromEntries(
    Object.entries(files).map(([name, bytes]) => [
      name,
      typeof bytes === 'string' ? bytes : { base64: Buffer.from(bytes).toString('base64') },
    ]),
  );

/** A case's options, or what it expects, as a body or a line has them: bytes are text. */
const asWire = (fields = {}) => (fields.files ? { ...fields, files: inBase64(fields.files) } : fields);

module.exports = { openJail, body, probe, matches, asWire, DENIED };
