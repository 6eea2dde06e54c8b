'use strict';
// Identity tokens from a metadata server, which here is one on loopback: asked as
// Google's is, kept, fetched anew in time, one request at a time; and where there
// is no token, nothing is sent to the service.

const assert = require('node:assert/strict');
const { after, afterEach, before, describe, it } = require('node:test');
const { createJail, runCode } = require('../lib/index.js');
const { until } = require('./helpers/baseline.js');
const { errorOf, send, startPeer, TOKEN } = require('./helpers/peer.js');

const job = { language: 'javascript', code: 'return 2' };
const encode = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');
/** @param {string} aud @param {number} seconds from now */
const identityFor = (aud, seconds, n = 0) =>
  `${encode({ alg: 'RS256' })}.${encode({ aud, exp: Math.floor(Date.now() / 1000) + seconds, n })}.c2lnbmF0dXJl`;
const GOOGLE = { 'metadata-flavor': 'Google', 'content-type': 'text/html' };

let service;
let metadata;
let answer;
const audienceOf = (request) => new URL(request.url, 'http://x').searchParams.get('audience');
const sent = () => service.requests.filter((one) => one.job).map((one) => one.headers['x-serverless-authorization']);

before(async () => {
  service = await startPeer();
  metadata = await startPeer((exchange) => answer(exchange));
  process.env.GCE_METADATA_HOST = `127.0.0.1:${metadata.port}`;
});
after(() => Promise.all([service.close(), metadata.close()]));
afterEach(() => {
  service.requests.length = 0;
  metadata.requests.length = 0;
});

// Each its own audience: what is kept for one is not another's.
let count = 0;
async function withJail(work, config = {}) {
  const audience = `https://audience-${count++}.test`;
  const jail = createJail({ url: service.url, token: TOKEN, identity: 'metadata', audience, ...config });
  try {
    return await work(jail, audience);
  } finally {
    await jail.close();
  }
}

describe('an identity token', () => {
  it('is asked for as Google has it, sent beside the token, and kept', async () => {
    answer = ({ request, response }) => send(response, 200, identityFor(audienceOf(request), 3600), GOOGLE);
    await withJail(async (jail, audience) => {
      for (let i = 0; i < 3; i++) assert.equal((await jail.runCode(job)).result, 2);
      assert.equal(metadata.requests.length, 1);
      const [{ method, url, headers }] = metadata.requests;
      assert.equal(method, 'GET');
      assert.equal(
        url,
        `/computeMetadata/v1/instance/service-accounts/default/identity?audience=${encodeURIComponent(audience)}`,
      );
      assert.equal(headers['metadata-flavor'], 'Google');
      assert.equal(headers.authorization, undefined);
      for (const one of sent()) assert.match(one, /^Bearer [\w-]+\.[\w-]+\.[\w-]+$/);
      assert.equal(sent().length, 3);
      assert.equal(service.requests.find((one) => one.job).headers.authorization, `Bearer ${TOKEN}`);
    });
  });

  it('is for the service’s origin unless told otherwise, and goes with other headers', async () => {
    answer = ({ request, response }) => send(response, 200, identityFor(audienceOf(request), 3600), GOOGLE);
    await withJail((jail) => jail.runCode(job), { audience: undefined, headers: { 'X-Other': 'as well' } });
    assert.equal(audienceOf(metadata.requests[0]), service.url);
    assert.equal(service.requests.at(-1).headers['x-other'], 'as well');
    assert.equal(sent().length, 1);
  });

  it('is fetched once for many that ask at a time', async () => {
    answer = ({ request, response }) =>
      setTimeout(() => send(response, 200, identityFor(audienceOf(request), 3600), GOOGLE), 100);
    await withJail(async (jail) => {
      await Promise.all(Array.from({ length: 20 }, () => jail.runCode(job)));
      assert.equal(metadata.requests.length, 1);
      assert.equal(new Set(sent()).size, 1);
    });
  });

  it('is fetched anew behind the scenes when it ends soon, and the old one sent meanwhile', async () => {
    let release;
    answer = ({ request, response, count: n }) => {
      const reply = () => send(response, 200, identityFor(audienceOf(request), n === 1 ? 200 : 3600, n), GOOGLE);
      if (n === 1) reply();
      else release = reply;
    };
    const numberOf = (header) => JSON.parse(Buffer.from(header.split('.')[1], 'base64url')).n;
    await withJail(async (jail) => {
      for (let i = 0; i < 3; i++) await jail.runCode(job); // the second request stays without an answer
      assert.ok(await until(() => metadata.requests.length === 2));
      assert.deepEqual(sent().map(numberOf), [1, 1, 1]);
      release();
      const renewed = await until(async () => {
        await jail.runCode(job);
        return numberOf(sent().at(-1)) === 2;
      }, 5000);
      assert.ok(renewed);
      assert.equal(metadata.requests.length, 2);
    });
  });

  it('that has ended is not sent', async () => {
    // Good for less than a second beyond the half minute that a token must have left.
    answer = ({ request, response, count: n }) =>
      send(response, 200, identityFor(audienceOf(request), n === 1 ? 32 : 3600, n), GOOGLE);
    await withJail(async (jail) => {
      await jail.runCode(job);
      await new Promise((resolve) => setTimeout(resolve, 2100));
      await jail.runCode(job);
      assert.equal(new Set(sent()).size, 2);
    });
  });

  it('is there at the second try', async () => {
    answer = ({ request, response, count: n }) =>
      n === 1
        ? send(response, 503, 'later', GOOGLE)
        : send(response, 200, identityFor(audienceOf(request), 60), GOOGLE);
    await withJail(async (jail) => assert.equal((await jail.runCode(job)).result, 2));
    assert.equal(metadata.requests.length, 2);
  });
});

describe('without one nothing is sent', () => {
  const token = 'c2VjcmV0.c2VjcmV0.c2VjcmV0';
  const broken = {
    'no service account': [404, '', GOOGLE, 'ERR_JAIL_CONFIG', /status 404/],
    'somebody else': [200, token, {}, 'ERR_JAIL_CONFIG', /what answers there is none/],
    'a page': [200, '<html>hello</html>', GOOGLE, 'ERR_JAIL_UNAVAILABLE', /something else/],
    'no JSON within': [200, token, GOOGLE, 'ERR_JAIL_UNAVAILABLE', /something else/],
    'another audience': [
      200,
      identityFor('https://other.test', 3600),
      GOOGLE,
      'ERR_JAIL_UNAVAILABLE',
      /another audience/,
    ],
    'a huge one': [200, `a.${'b'.repeat(9000)}.c`, GOOGLE, 'ERR_JAIL_UNAVAILABLE', /something else/],
    'a broken server': [500, 'oh', GOOGLE, 'ERR_JAIL_UNAVAILABLE', /status 500/],
  };
  for (const [name, [status, text, headers, code, says]] of Object.entries(broken))
    it(name, async () => {
      answer = ({ response }) => send(response, status, text, headers);
      const error = await withJail((jail) => errorOf(jail.runCode(job)));
      assert.equal(error.code, code);
      assert.equal(error.backend, 'http');
      assert.equal(error.retryable, code === 'ERR_JAIL_UNAVAILABLE');
      assert.match(error.message, says);
      assert.match(error.message, /nothing was sent/);
      if (text) assert.ok(!error.message.includes(text), 'no token in it');
      assert.deepEqual(sent(), []);
    });

  it('one that has ended, or without an end', async () => {
    for (const [seconds, says] of [
      [-1, /has ended/],
      [Number.NaN, /without an end/],
    ]) {
      answer = ({ request, response }) => send(response, 200, identityFor(audienceOf(request), seconds), GOOGLE);
      const error = await withJail((jail) => errorOf(jail.runCode(job)));
      assert.match(error.message, says);
      assert.deepEqual(sent(), []);
    }
  });

  it('nobody there; and afterwards it works again', async () => {
    const host = process.env.GCE_METADATA_HOST;
    const gone = await startPeer();
    await gone.close();
    process.env.GCE_METADATA_HOST = `127.0.0.1:${gone.port}`;
    const error = await withJail((jail) => errorOf(jail.runCode(job)));
    assert.equal(error.code, 'ERR_JAIL_UNAVAILABLE');
    assert.match(error.message, /ECONNREFUSED/);
    process.env.GCE_METADATA_HOST = 'no host/at all';
    assert.match((await withJail((jail) => errorOf(jail.runCode(job)))).message, /GCE_METADATA_HOST/);
    process.env.GCE_METADATA_HOST = host;
    answer = ({ request, response }) => send(response, 200, identityFor(audienceOf(request), 3600), GOOGLE);
    assert.equal((await withJail((jail) => jail.runCode(job))).result, 2);
    assert.equal(sent().length, 1);
  });

  it('an abort does not wait for it', async () => {
    answer = () => {}; // never
    const controller = new AbortController();
    const run = withJail((jail) => errorOf(jail.runCode(job, { signal: controller.signal })));
    assert.ok(await until(() => metadata.requests.length === 1));
    controller.abort(new Error('enough'));
    assert.equal((await run).message, 'enough');
    for (const socket of metadata.sockets) socket.destroy();
  });
});

describe('from the environment', () => {
  const names = ['CODE_SANDBOX_URL', 'CODE_SANDBOX_TOKEN', 'CODE_SANDBOX_IDENTITY', 'CODE_SANDBOX_AUDIENCE'];
  const set = (values) =>
    Object.assign(process.env, { CODE_SANDBOX_URL: service.url, CODE_SANDBOX_TOKEN: TOKEN }, values);
  afterEach(() => {
    for (const name of [...names, 'CODE_SANDBOX_IDENTITY_TOKEN']) delete process.env[name];
  });

  it('of the metadata server, or as it is given; none by default', async () => {
    answer = ({ request, response }) => send(response, 200, identityFor(audienceOf(request), 3600), GOOGLE);
    set({ CODE_SANDBOX_IDENTITY: 'metadata', CODE_SANDBOX_AUDIENCE: 'https://by-environment.test' });
    await runCode(job);
    assert.equal(audienceOf(metadata.requests[0]), 'https://by-environment.test');
    delete process.env.CODE_SANDBOX_IDENTITY;
    process.env.CODE_SANDBOX_IDENTITY_TOKEN = 'a.b.c';
    await runCode(job);
    delete process.env.CODE_SANDBOX_IDENTITY_TOKEN;
    await runCode(job);
    assert.match(sent()[0], /^Bearer [\w-]+\./);
    assert.deepEqual(sent().slice(1), ['Bearer a.b.c', undefined]);
  });

  it('what is wrong there is named', async () => {
    set({ CODE_SANDBOX_IDENTITY: 'gcloud' });
    assert.match((await errorOf(runCode(job))).message, /CODE_SANDBOX_IDENTITY must be "metadata"/);
    set({ CODE_SANDBOX_IDENTITY: 'metadata', CODE_SANDBOX_IDENTITY_TOKEN: 'a.b.c' });
    assert.match((await errorOf(runCode(job))).message, /one of them, not both/);
    assert.throws(() => createJail({ url: service.url, token: TOKEN, identity: true }), /identity must be "metadata"/);
    assert.deepEqual(sent(), []);
  });
});
