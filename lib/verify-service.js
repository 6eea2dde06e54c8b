'use strict';
// What `code-jail verify` asks a sandbox service from outside: who gets in, and
// whether what it says of itself is what its runs say.

const crypto = require('node:crypto');
const { serviceClient } = require('./doctor-service.js');
const { EXEC_PATH } = require('./http-options.js');
const { HEADER } = require('./identity.js');

/** A token that is wrong, and looks like the right one. @param {string} token */
function wrongToken(token) {
  const other = crypto.createHash('sha256').update(`not ${token}`).digest('hex');
  return other.repeat(Math.ceil(token.length / other.length)).slice(0, token.length);
}

/**
 * @param {any} config with url and token
 * @param {{ add: (group: string, name: string, ok: boolean, detail: string) => void, isolations: Set<string> }} verification
 */
async function askService(config, verification) {
  const { token } = config;
  const { further, at } = await serviceClient(config);
  const id = `verify-${crypto.randomUUID()}`;
  const body = JSON.stringify({ language: 'javascript', code: 'return 6 * 7', id });
  const post = (bearer, without) => at(EXEC_PATH, bearer, { body, without });
  const get = (bearer) => at('/capabilities', bearer);

  const right = await post(token);
  const ran = right.status === 200 && right.json?.result === 42;
  verification.add('token', 'the right one is let in', ran, statusOf(right));
  const echoed = right.json?.id === id;
  verification.add('answers', "a request's id comes back", echoed, echoed ? 'the same' : 'another, or none');
  for (const [name, bearer] of [
    ['none is refused', null],
    ['a wrong one is refused', wrongToken(token)],
    ['a part of it is refused', token.slice(0, -1)],
  ]) {
    const [run, told] = [await post(bearer), await get(bearer)];
    const refused = run.status === 401 && told.status === 401;
    verification.add('token', name, refused, `exec ${statusOf(run)}, capabilities ${statusOf(told)}`);
  }

  if (HEADER in further) {
    const run = await post(token, HEADER);
    const refused = run.status === 401 || run.status === 403;
    verification.add('token', 'without an identity token it is refused', refused, statusOf(run));
  }

  const told = await get(token);
  const runs = [...verification.isolations].join(', ');
  const says = told.status === 200 ? String(told.json?.isolation) : statusOf(told);
  verification.add('isolation', 'the service says what its runs say', says === runs, `service: ${says}, runs: ${runs}`);
}

/** @param {{ status: number, failure?: string }} answer */
function statusOf({ status, failure }) {
  return failure ?? String(status);
}

module.exports = { askService, wrongToken };
