'use strict';
// Which jail is chosen, and what is refused before anything is sent.

const assert = require('node:assert/strict');
const { inspect } = require('node:util');
const { after, before, beforeEach, describe, it } = require('node:test');
const { createJail, runCode } = require('../..');
const { TOKEN, answerTo, errorOf, send, startPeer } = require('../helpers/peer.js');
const { until } = require('../helpers/baseline.js');

const JOB = { language: 'javascript', code: 'return 1 + 1' };
const url = 'https://sandbox.example';

function refusalOf(config) {
  try {
    createJail(config);
  } catch (error) {
    return error;
  }
  throw new Error(`accepted: ${inspect(config)}`);
}

describe('the URL', () => {
  const table = {
    'http: beyond loopback': 'http://sandbox.example',
    'http: to a private address': 'http://10.0.0.1',
    'http: to what only begins like loopback': 'http://127.0.0.1.example',
    'http: to localhost of somebody': 'http://localhost.example',
    'http: to 0.0.0.0': 'http://0.0.0.0:1',
    'a user': 'https://user@sandbox.example',
    'a password': 'https://user:hunter2@sandbox.example',
    'an empty user': 'https://@sandbox.example',
    'a fragment': 'https://sandbox.example/#x',
    'an empty fragment': 'https://sandbox.example#',
    'a query': 'https://sandbox.example/?x=1',
    'file:': 'file:///etc/passwd',
    'unix:': 'unix:/run/x.sock',
    'ftp:': 'ftp://sandbox.example',
    'javascript:': 'javascript:1',
    'no scheme': 'sandbox.example',
    'a scheme without slashes': 'https:sandbox.example',
    'one slash': 'https:/sandbox.example',
    'a zone': 'https://[fe80::1%25eth0]',
    'CR LF': 'https://sandbox.example/\r\nx: y',
    'a tab': 'https://sand\tbox.example',
    NUL: 'https://a\0.example',
    'a backslash': 'https://sandbox.example\\@evil.example',
    'a space': 'https://sandbox.example/a b',
    'beyond ASCII': 'https://sändbox.example',
    'no host': 'https://',
    'a bad port': 'https://sandbox.example:99999',
  };
  for (const [name, bad] of Object.entries(table)) {
    it(`refused: ${name}`, () => {
      const error = refusalOf({ url: bad, token: TOKEN });
      assert.equal(error.code, 'ERR_JAIL_CONFIG', error.message);
      assert.match(error.message, /^url /);
      assert.ok(!error.message.includes('hunter2'));
    });
  }
  for (const fine of [
    url,
    'http://127.0.0.1:1',
    'http://127.9.9.9',
    'http://localhost:1/p/',
    'http://[::1]:1',
    'HTTPS://SANDBOX.example/x',
  ])
    it(`accepted: ${fine}`, () => createJail({ url: fine, token: TOKEN }).close());
});

describe('the token', () => {
  const table = {
    missing: undefined,
    empty: '',
    'a line break at its end': `${TOKEN}\n`,
    'CR LF inside': 'abc\r\nx: y',
    NUL: 'abc\0def',
    'a space': 'abc def',
    'beyond ASCII': 'abcdéf',
    '64 KB': 'x'.repeat(65536),
    quotes: '"abcdef"',
  };
  for (const [name, token] of Object.entries(table)) {
    it(`refused: ${name}`, () => {
      const error = refusalOf({ url, token });
      assert.equal(error.code, 'ERR_JAIL_CONFIG');
      if (token) {
        const all = inspect(error, { depth: 9, showHidden: true });
        assert.ok(!all.includes('abc') && !all.includes('xxxx') && !all.includes(TOKEN), all);
      }
    });
  }
  it('is in nothing that can be looked at', async () => {
    const jail = createJail({ url, token: TOKEN });
    assert.ok(!inspect(jail, { depth: 9, showHidden: true }).includes(TOKEN));
    assert.ok(!JSON.stringify(jail.stats()).includes(TOKEN));
    await jail.close();
  });
});

describe('headers', () => {
  const refused = {
    'of ours: authorization': { Authorization: 'Bearer x' },
    host: { Host: 'x' },
    'content-length': { 'Content-Length': '3' },
    'transfer-encoding': { 'transfer-encoding': 'chunked' },
    'ours to say': { 'x-code-jail-wait-ms': '1' },
    'proxy-authorization': { 'Proxy-Authorization': 'Basic x' },
    'a line break': { 'x-a': 'b\r\nx-c: d' },
    NUL: { 'x-a': 'b\0' },
    'beyond ASCII': { 'x-a': 'é' },
    'a name that is none': { 'x a': 'b' },
    'a colon in the name': { 'x:a': 'b' },
    'an empty name': { '': 'b' },
    'a number': { 'x-a': 1 },
    'too many': Object.fromEntries(Array.from({ length: 33 }, (_, i) => [`x-${i}`, 'y'])),
    'too large': { 'x-a': 'y'.repeat(20000) },
  };
  for (const [name, headers] of Object.entries(refused)) {
    it(`refused: ${name}`, () => {
      const error = refusalOf({ url, token: TOKEN, headers });
      assert.equal(error.code, 'ERR_JAIL_CONFIG');
      assert.ok(!/Bearer x|Basic x|yyyy/.test(error.message));
    });
  }

  let peer;
  before(async () => {
    peer = await startPeer();
  });
  after(() => peer.close());
  const withHeaders = (headers) => createJail({ url: peer.url, token: TOKEN, headers });

  it('are sent, as an object', async () => {
    const jail = withHeaders({ 'X-Serverless-Authorization': 'Bearer id', 'x-b': 'c' });
    await jail.runCode(JOB);
    const { headers } = peer.requests.at(-1);
    assert.equal(headers['x-serverless-authorization'], 'Bearer id');
    assert.equal(headers['x-b'], 'c');
    assert.equal(headers.authorization, `Bearer ${TOKEN}`);
    await jail.close();
  });

  it('are asked for per call, as a function, async or not', async () => {
    let n = 0;
    for (const one of [() => ({ 'x-n': `${++n}` }), async () => ({ 'x-n': `${++n}` })]) {
      const jail = withHeaders(one);
      await jail.runCode(JOB);
      await jail.runCode(JOB);
      assert.equal(peer.requests.at(-1).headers['x-n'], `${n}`);
      await jail.close();
    }
    assert.equal(n, 4);
  });

  it('a function that fails or gives nonsense sends nothing', async () => {
    const from = peer.requests.length;
    for (const [fails, code] of [
      [() => Promise.reject(new Error('no metadata server')), 'ERR_JAIL_UNAVAILABLE'],
      [
        () => {
          throw new Error('x');
        },
        'ERR_JAIL_UNAVAILABLE',
      ],
      [() => 'Bearer x', 'ERR_JAIL_CONFIG'],
      [async () => ({ Authorization: 'x' }), 'ERR_JAIL_CONFIG'],
    ]) {
      const jail = withHeaders(fails);
      assert.equal((await errorOf(jail.runCode(JOB))).code, code);
      await jail.close();
    }
    assert.equal(peer.requests.length, from);
  });

  it('an abort does not wait for the function', async () => {
    const jail = withHeaders(() => new Promise(() => {}));
    const error = await errorOf(jail.runCode(JOB, { signal: AbortSignal.timeout(50) }));
    assert.equal(error.name, 'TimeoutError');
    await jail.close();
  });
});

describe('other settings', () => {
  for (const [name, config] of Object.entries({
    'a ca without a certificate': { url, token: TOKEN, ca: 'hello' },
    'a proxy for loopback in clear': { url: 'http://127.0.0.1:1', token: TOKEN, proxy: 'http://127.0.0.1:2' },
    'a socks proxy': { url, token: TOKEN, proxy: 'socks5://127.0.0.1:2' },
    'a proxy with a path': { url, token: TOKEN, proxy: 'http://127.0.0.1:2/x' },
    'no connections': { url, token: TOKEN, maxConnections: 0 },
    'headers of a wrong type': { url, token: TOKEN, headers: 'x' },
  }))
    it(`refused: ${name}`, () => assert.equal(refusalOf(config).code, 'ERR_JAIL_CONFIG'));
});

describe('the choice', () => {
  const NAMES = ['FIRECRACKER_SOCKET', 'CODE_SANDBOX_URL', 'CODE_SANDBOX_TOKEN'];
  const kept = Object.fromEntries(NAMES.map((name) => [name, process.env[name]]));
  let peer;
  let reply;
  before(async () => {
    peer = await startPeer((call) => reply(call));
  });
  after(async () => {
    await peer.close();
    for (const name of NAMES) {
      if (kept[name] === undefined) delete process.env[name];
      else process.env[name] = kept[name];
    }
  });
  beforeEach(() => {
    for (const name of NAMES) delete process.env[name];
    reply = ({ job, response }) => send(response, 200, answerTo(job));
  });

  it('is read from the environment at each call', async () => {
    process.env.CODE_SANDBOX_URL = peer.url;
    process.env.CODE_SANDBOX_TOKEN = TOKEN;
    assert.equal((await runCode(JOB)).jail.backend, 'http');
    process.env.CODE_SANDBOX_TOKEN = 'another-token';
    await runCode(JOB);
    assert.equal(peer.requests.at(-1).headers.authorization, 'Bearer another-token');
    delete process.env.CODE_SANDBOX_URL;
    delete process.env.CODE_SANDBOX_TOKEN;
    assert.equal((await runCode(JOB)).jail.backend, 'local');
  });

  it('a URL without a token is a mistake, not a reason to run here', async () => {
    process.env.CODE_SANDBOX_URL = peer.url;
    const error = await errorOf(runCode(JOB));
    assert.equal(error.code, 'ERR_JAIL_CONFIG');
    assert.match(error.message, /CODE_SANDBOX_URL.*CODE_SANDBOX_TOKEN/);
    process.env.CODE_SANDBOX_TOKEN = `${TOKEN}\n`;
    assert.match((await errorOf(runCode(JOB))).message, /^CODE_SANDBOX_TOKEN .*line break/);
  });

  it('a jail that fails is an error, never the local one', async () => {
    process.env.CODE_SANDBOX_TOKEN = TOKEN;
    process.env.CODE_SANDBOX_URL = 'http://127.0.0.1:1';
    assert.equal((await errorOf(runCode(JOB))).code, 'ERR_JAIL_UNAVAILABLE');
    process.env.CODE_SANDBOX_URL = peer.url;
    reply = ({ response }) => send(response, 401, '');
    assert.equal((await errorOf(runCode(JOB))).code, 'ERR_JAIL_UNAUTHORIZED');
    process.env.CODE_SANDBOX_URL = 'http://sandbox.example';
    assert.equal((await errorOf(runCode(JOB))).code, 'ERR_JAIL_CONFIG');
  });

  it('O50: proxies of the environment are not used', async () => {
    const before = { ...process.env };
    Object.assign(process.env, {
      HTTP_PROXY: 'http://127.0.0.1:9',
      http_proxy: 'http://127.0.0.1:9',
      ALL_PROXY: 'http://127.0.0.1:9',
    });
    process.env.CODE_SANDBOX_URL = peer.url;
    process.env.CODE_SANDBOX_TOKEN = TOKEN;
    try {
      reply = ({ job, response }) => send(response, 200, answerTo(job, { result: 'local' }));
      assert.equal((await runCode(JOB)).result, 'local');
    } finally {
      for (const name of ['HTTP_PROXY', 'http_proxy', 'ALL_PROXY']) {
        if (before[name] === undefined) delete process.env[name];
        else process.env[name] = before[name];
      }
    }
  });

  it('the request itself is checked before anything is sent', async () => {
    const from = peer.requests.length;
    const jail = createJail({ url: peer.url, token: TOKEN, caps: { timeoutMs: 10000 } });
    assert.match((await errorOf(jail.runCode({ ...JOB, timeoutMs: 20000 }))).message, /timeoutMs/);
    assert.match((await errorOf(jail.runCode({ ...JOB, nonsense: 1 }))).message, /nonsense/);
    assert.equal(peer.requests.length, from);
    // Memory is the peer's: this machine's own is no limit.
    assert.equal((await jail.runCode({ ...JOB, memoryMb: 4096 })).result, 2);
    await jail.close();
  });

  it('a configuration that is replaced ends its connections in time', async () => {
    process.env.CODE_SANDBOX_URL = peer.url;
    process.env.CODE_SANDBOX_TOKEN = TOKEN;
    await runCode(JOB);
    process.env.CODE_SANDBOX_TOKEN = 'yet-another';
    await runCode(JOB);
    if (!global.gc) return;
    const collected = () => {
      global.gc();
      return peer.sockets.size <= 1;
    };
    assert.ok(await until(collected, 5000), `${peer.sockets.size} connections`);
  });
});
