'use strict';
// What the service answers, request by request: who may ask (probe 87), what is
// refused and how, what a result looks like, and peers of other versions.

const assert = require('node:assert/strict');
const net = require('node:net');
const { after, before, describe, it } = require('node:test');
const { slack } = require('../helpers/baseline.js');
const { bearer, js, py, startService, PREVIOUS, TOKEN } = require('../helpers/service.js');

let service;
before(async () => {
  service = await startService();
});
after(() => service.stop());

const ok = js('return 1');
const errorOf = (answer) => {
  assert.match(answer.headers['content-type'], /^application\/json/);
  assert.deepEqual(Object.keys(answer.json), ['error']);
  assert.equal(typeof answer.json.error.message, 'string');
  return answer.json.error;
};

/** Bytes as they are, for what no HTTP library sends. */
function raw(text) {
  const { hostname, port } = new URL(service.base);
  return new Promise((resolve, reject) => {
    let seen = '';
    const socket = net.connect(Number(port), hostname, () => socket.write(text));
    socket.on('data', (part) => {
      seen += part;
    });
    socket.on('error', reject);
    socket.on('close', () => resolve(seen));
    setTimeout(() => socket.destroy(), 4000).unref();
  });
}

describe('who may ask', () => {
  it('the current token, and the previous one while it is being rotated', async () => {
    for (const token of [TOKEN, PREVIOUS])
      assert.equal((await service.post(ok, { headers: bearer(token) })).json.result, 1);
  });

  const wrong = {
    none: {},
    empty: { authorization: '' },
    'the scheme alone': { authorization: 'Bearer ' },
    short: bearer('x'),
    'a prefix of it': bearer(TOKEN.slice(0, -1)),
    'it and one more': bearer(`${TOKEN}x`),
    'both tokens': bearer(`${TOKEN},${PREVIOUS}`),
    'another case': bearer(TOKEN.toUpperCase()),
    'lower-case scheme': { authorization: `bearer ${TOKEN}` },
    'two spaces': { authorization: `Bearer  ${TOKEN}` },
    'a tab': { authorization: `Bearer\t${TOKEN}` },
    'no scheme': { authorization: TOKEN },
    basic: { authorization: `Basic ${Buffer.from(`x:${TOKEN}`).toString('base64')}` },
    'another header': { 'x-authorization': `Bearer ${TOKEN}`, 'proxy-authorization': `Bearer ${TOKEN}` },
    'a cookie': { cookie: `token=${TOKEN}` },
  };
  for (const [name, headers] of Object.entries(wrong)) {
    it(`401: ${name}`, async () => {
      const answer = await service.post(ok, { headers });
      assert.equal(answer.status, 401);
      assert.equal(errorOf(answer).code, 'ERR_JAIL_UNAUTHORIZED');
      assert.equal(answer.headers['www-authenticate'], 'Bearer');
      assert.ok(!answer.text.includes(TOKEN.slice(0, 8)));
    });
  }

  it('401: twice, although one is right', async () => {
    const body = JSON.stringify(ok);
    const head = `POST /internal/sandbox/exec HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\nConnection: close\r\n`;
    assert.match(await raw(`${head}Authorization: Bearer ${TOKEN}\r\n\r\n${body}`), /^HTTP\/1.1 200/);
    for (const other of [TOKEN, 'nobody'])
      assert.match(
        await raw(`${head}Authorization: Bearer ${TOKEN}\r\nauthorization: Bearer ${other}\r\n\r\n${body}`),
        /^HTTP\/1.1 401/,
      );
  });

  it('401: in the query', async () => {
    const answer = await service.get(`/capabilities?token=${TOKEN}&authorization=Bearer%20${TOKEN}`);
    assert.equal(answer.status, 401);
  });

  it('401 comes before a byte of the body', async () => {
    const began = performance.now();
    const head = 'POST /internal/sandbox/exec HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n';
    assert.match(await raw(`${head}\r\n`), /^HTTP\/1.1 401/);
    assert.match(await raw(`${head}Expect: 100-continue\r\n\r\n`), /^HTTP\/1.1 401/);
    assert.ok(performance.now() - began < 8000, 'it did not wait for the body');
  });

  it('with the token a client that expects 100-continue gets it', async () => {
    const body = JSON.stringify(ok);
    const head = `POST /internal/sandbox/exec HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\nConnection: close\r\n`;
    const seen = await raw(`${head}Expect: 100-continue\r\nAuthorization: Bearer ${TOKEN}\r\n\r\n${body}`);
    assert.match(seen, /^HTTP\/1.1 100 Continue\r\n\r\nHTTP\/1.1 200 OK/);
  });
});

describe('what there is', () => {
  it('health and readiness, without a token and without bodies', async () => {
    for (const where of ['/livez', '/readyz']) {
      const answer = await service.get(where);
      assert.equal(answer.status, 200, where);
      assert.equal(answer.text, '');
    }
  });

  it('capabilities and metrics behind the token', async () => {
    for (const where of ['/capabilities', '/metrics']) assert.equal((await service.get(where)).status, 401, where);
    const { json } = await service.get('/capabilities', bearer());
    assert.deepEqual(json.languages, ['javascript', 'python', 'typescript']);
    assert.deepEqual(json.features, ['check', 'stream', 'files']);
    assert.deepEqual([json.protocol, json.isolation, json.maxTimeoutMs], [1, 'process', 10000]);
    assert.ok(json.maxMemoryMb >= 16);
    await service.post(ok);
    const { text } = await service.get('/metrics', bearer());
    for (const name of ['slots_used', 'slots_total', 'queue_length', 'queue_wait_seconds_count', 'ready'])
      assert.match(text, new RegExp(`^code_jail_${name} \\d`, 'm'));
    assert.match(text, /^code_jail_runs_total\{language="javascript",status="ok"\} \d/m);
  });

  it('404 elsewhere, 405 for another method', async () => {
    for (const where of ['/', '/internal/sandbox', '/internal/sandbox/exec/', '/internal/../livez/x', '/healthz'])
      assert.equal((await service.get(where, bearer())).status, 404, where);
    const answer = await service.get('/internal/sandbox/exec', bearer());
    assert.equal(answer.status, 405);
    assert.equal(answer.headers.allow, 'POST');
    assert.equal((await service.post(ok, { headers: {} })).status, 401);
  });
});

describe('what is refused', () => {
  const invalid = {
    'no JSON': ['{', /not JSON/],
    'two values': ['{}{}', /not JSON/],
    'a field twice': ['{"language":"python","code":"1","code":"2"}', /"code" is there twice/],
    'the input twice': ['{"language":"python","code":"1","input":1,"in\\u0070ut":2}', /"input" is there twice/],
    'too many fields': [Object.fromEntries(Array.from({ length: 40 }, (_, i) => [`f${i}`, i])), /too many fields/],
    'too deep': [
      `{"language":"python","code":"1","input":${'['.repeat(513)}${']'.repeat(513)}}`,
      /more than 512 levels deep/,
    ],
    'too much input': [
      py('1', { input: 'x'.repeat((16 << 20) + 1) }),
      /input is 16777219 bytes as JSON; the limit is 16777216/,
    ],
    'structure where there is none': [`{"language":"python","code":[${'[],'.repeat(3000000)}1]}`, /code is too long/],
    'a number of a million digits': [
      `{"language":"python","code":"1","timeoutMs":${'1'.repeat(1000000)}}`,
      /timeoutMs must be an integer/,
    ],
    'a long id': [js('1', { id: 'x'.repeat(10000) }), /id has 4096 characters; the limit is 128/],
    nothing: ['', /not JSON/],
    'a number': ['1', /the request must be an object/],
    null: ['null', /the request must be an object/],
    'no language': [{ code: '1' }, /language is missing/],
    'an unknown language': [{ language: 'constructor', code: '1' }, /language must be one of/],
    'no code': [{ language: 'python' }, /code is missing/],
    'code of another type': [py(3), /code must be a string, not 3/],
    'code too long': [py('#'.repeat((1 << 20) + 1)), /the limit is 1048576/],
    'an unknown field': [js('1', { timeout: 5 }), /"timeout" is not a field/],
    'a prototype': ['{"language":"python","code":"1","__proto__":{}}', /"__proto__" is not a field/],
    'a time-out over the service’s cap': [
      js('1', { timeoutMs: 10001 }),
      /timeoutMs is 10001; the limit is 10000 ms, set by this host/,
    ],
    'a fraction': [js('1', { timeoutMs: 1.5 }), /timeoutMs must be an integer/],
    'too much memory': [js('1', { memoryMb: 1 << 20 }), /memoryMb is 1048576; the limit is/],
    'an environment of another type': [js('1', { env: { A: 1 } }), /env\.A must be a string/],
    'more isolation than it can prove': [js('1', { minIsolation: 'gvisor' }), /can prove "process"/],
  };
  for (const [name, [job, message]] of Object.entries(invalid)) {
    it(`400: ${name}`, async () => {
      const answer = await service.post(job);
      assert.equal(answer.status, 400, answer.text);
      const error = errorOf(answer);
      assert.match(error.message, message);
      assert.equal(error.code, name.startsWith('more isolation') ? 'ERR_JAIL_ISOLATION' : 'ERR_JAIL_INVALID_REQUEST');
    });
  }

  it('400: text that is not UTF-8', async () => {
    const body = Buffer.from('{"language":"python","code":"# \xff"}', 'latin1');
    const answer = await service.post(body.toString('latin1'), { body });
    assert.equal(answer.status, 400);
    assert.match(errorOf(answer).message, /not UTF-8/);
  });

  it('413: over 32 MiB, said or not', async () => {
    const size = (32 << 20) + 1;
    const said = await raw(
      `POST /internal/sandbox/exec HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${TOKEN}\r\nContent-Length: ${size}\r\n\r\n`,
    );
    assert.match(said, /^HTTP\/1.1 413/);
    const unsaid = await service
      .post(Buffer.alloc(0).toString(), {
        headers: { ...bearer(), 'transfer-encoding': 'chunked' },
        body: Buffer.alloc(size, 32),
      })
      .catch((error) => ({ status: error.code }));
    assert.ok(
      unsaid.status === 413 || unsaid.status === 'EPIPE' || unsaid.status === 'ECONNRESET',
      String(unsaid.status),
    );
    assert.equal(
      (await service.post(js('return input.length', { input: 'x'.repeat(15 << 20) }))).json.result,
      15 << 20,
    );
  });

  it('what is not HTTP', async () => {
    assert.match(await raw('\x16\x03\x01 hello\r\n\r\n'), /^HTTP\/1.1 400/);
    assert.match(await raw(`GET /livez HTTP/1.1\r\nHost: x\r\nX: ${'x'.repeat(20000)}\r\n\r\n`), /^HTTP\/1.1 431/);
    assert.match(
      await raw(
        `POST /internal/sandbox/exec HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
      ),
      /^HTTP\/1.1 400/,
    );
  });
});

describe('what comes back', () => {
  it('every outcome of the code is a 200', async () => {
    const outcomes = [
      [js('return { a: [1, "x", null] }'), { status: 'ok', ok: true, result: { a: [1, 'x', null] }, error: null }],
      [py('1/0'), { status: 'error', exitCode: 1, result: null }],
      [js('process.exit(3)'), { status: 'error', exitCode: 3 }],
      [js('for (;;) {}', { timeoutMs: 100 }), { status: 'timeout', timedOut: true, signal: 'SIGKILL' }],
      [py('result = b"x"'), { status: 'not_serializable' }],
      [js('return "x".repeat(100)', { maxResultBytes: 10 }), { status: 'result_too_large' }],
      [py('a = []\nwhile True: a.append(bytearray(1 << 20))', { memoryMb: 64 }), { status: 'out_of_memory' }],
    ];
    for (const [job, expected] of outcomes) {
      const { status, json, headers } = await service.post({ ...job, id: 'mine' });
      assert.equal(status, 200);
      assert.equal(headers['code-jail-protocol'], '1');
      assert.equal(json.id, 'mine');
      for (const [key, value] of Object.entries(expected))
        assert.deepEqual(json[key], value, `${expected.status}: ${key}`);
      assert.equal(json.jail.isolation, 'process');
      assert.ok(!('resultText' in json));
    }
  });

  it('a result arrives as the code made it, large ones and odd ones', async () => {
    const odd = ['\u2028', '\ud800', '</script>', '\0', 'é', '🎅', '"\\'];
    assert.deepEqual((await service.post(js('return input', { input: odd }))).json.result, odd);
    const { json } = await service.post(js('return "é".repeat(1500000)'));
    assert.equal(json.result, 'é'.repeat(1500000));
  });

  it('a hostile input is the cell’s to parse: health answers meanwhile', async () => {
    const input = `[${'[],'.repeat(5 << 20)}1]`;
    const running = service.post(`{"input":${input},"language":"python","code":"result = len(input)","memoryMb":2048}`);
    let worst = 0;
    let over = false;
    running.then(() => {
      over = true;
    });
    for (let last = performance.now(); !over; last = performance.now()) {
      assert.equal((await service.get('/livez')).status, 200);
      worst = Math.max(worst, performance.now() - last);
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    assert.equal((await running).json.result, (5 << 20) + 1);
    assert.ok(worst < 400 * slack(), `${worst} ms`);
  });

  it('an input’s numbers are what was sent', async () => {
    const { json } = await service.post(
      '{"language":"python","code":"result = str(input)","input":12345678901234567890}',
    );
    assert.equal(json.result, '12345678901234567890');
  });

  it('as text where that was asked for', async () => {
    const { json } = await service.post(py('result = [1, "x"]', { resultAs: 'text' }));
    assert.deepEqual([json.result, json.resultText], [null, '[1,"x"]']);
    const failed = await service.post(py('1/0', { resultAs: 'text' }));
    assert.deepEqual([failed.json.result, failed.json.resultText], [null, null]);
  });

  it('the log tells of a request, and nothing that was in it', async () => {
    const secret = 'seCret';
    await service.post({
      ...py(`import sys\nprint("${secret}")\nprint("${secret}", file=sys.stderr)\nraise ValueError("${secret}")`),
      id: 'logged',
      input: secret,
      env: { [secret]: secret },
      tenant: secret,
    });
    await service.post({ ...js(`return "${secret}"`), unknown: secret });
    await new Promise((resolve) => setTimeout(resolve, 200));
    const line = service.lines.find((one) => one.id === 'logged');
    assert.equal(line.status, 200);
    assert.equal(line.outcome, 'error');
    assert.ok(line.usage.runMs > 0);
    assert.ok(!service.seen.out.includes(secret));
    assert.ok(!service.seen.out.includes(TOKEN));
  });
});

describe('peers of other versions', () => {
  it('the required fields alone are enough', async () => {
    assert.equal((await service.post({ language: 'python', code: 'result = 2' })).json.result, 2);
  });

  it('no protocol header is an older client; another value is refused clearly', async () => {
    assert.equal((await service.post(ok, { headers: { ...bearer(), 'code-jail-protocol': '1' } })).status, 200);
    for (const value of ['2', '', 'x', '1.0']) {
      const answer = await service.post(ok, { headers: { ...bearer(), 'code-jail-protocol': value } });
      assert.equal(answer.status, 400, value);
      assert.match(errorOf(answer).message, /code-jail-protocol is .*; this service speaks 1/);
      assert.equal(errorOf(answer).code, 'ERR_JAIL_PROTOCOL');
    }
  });

  it('what cannot end while its client waits is not started', async () => {
    const wait = (ms) => ({ headers: { ...bearer(), 'x-code-jail-wait-ms': String(ms) } });
    const runs = await service.metric('code_jail_run_seconds_count');
    const answer = await service.post({ ...ok, timeoutMs: 2000 }, wait(1500));
    assert.equal(answer.status, 400);
    assert.equal(errorOf(answer).code, 'ERR_JAIL_DEADLINE');
    assert.equal((await service.post(ok, wait('soon'))).status, 400);
    assert.equal(await service.metric('code_jail_run_seconds_count'), runs);
    assert.equal((await service.post({ ...ok, timeoutMs: 2000 }, wait(5000))).json.result, 1);
  });
});
