'use strict';
// What a peer may answer, and what each answer becomes: a result only where it
// is exactly one; never the user's fault where a gateway spoke.

const assert = require('node:assert/strict');
const { after, before, describe, it } = require('node:test');
const { createJail, JailError } = require('../..');
const { TOKEN, answerTo, errorOf, send, startPeer } = require('../helpers/peer.js');

const JOB = { language: 'javascript', code: 'return 1 + 1' };

describe('answers', () => {
  let peer;
  let jail;
  let reply;
  before(async () => {
    peer = await startPeer((call) => reply(call));
    jail = createJail({ url: peer.url, token: TOKEN });
  });
  after(async () => {
    await jail?.close();
    await peer?.close();
  });

  const run = (with_, job = JOB) => {
    reply = with_;
    return jail.runCode(job);
  };
  const answering =
    (over) =>
    ({ job, response }) =>
      send(response, 200, answerTo(job, over));
  const raw =
    (status, body, headers) =>
    ({ response }) =>
      send(response, status, body, headers);

  describe('a good one', () => {
    it('gives every field, with the path taken as the backend', async () => {
      const result = await run(
        answering({ result: { v: [1, 2.5, null, 'é'] }, stdout: 'a\u0000é😀\ud800', stderr: 'e' }),
      );
      assert.deepEqual(result, {
        id: result.id,
        ok: true,
        status: 'ok',
        result: { v: [1, 2.5, null, 'é'] },
        stdout: 'a\u0000é😀\ud800',
        stderr: 'e',
        stdoutDropped: 0,
        stderrDropped: 0,
        error: null,
        exitCode: 0,
        signal: null,
        timedOut: false,
        usage: { ...result.usage, startMs: 0.5, runMs: 1.5, cpuMs: 1, peakMemoryBytes: 4096 },
        jail: {
          backend: 'http',
          isolation: 'gvisor',
          layers: ['own-root', 'seccomp'],
          missing: [{ layer: 'landlock', reason: 'not in this kernel' }],
          runtime: 'node 22.23.5',
          start: 'parked',
        },
      });
      assert.ok(result.usage.queueMs >= 0.25);
      assert.match(result.id, /^[0-9a-f-]{36}$/);
    });

    it('echoes the id, and sends only what differs from the defaults', async () => {
      const result = await run(answering(), { ...JOB, id: 'mine "\u00e9"' });
      const sent = peer.requests.at(-1);
      assert.equal(result.id, 'mine "\u00e9"');
      assert.deepEqual(sent.job, { language: 'javascript', id: 'mine "\u00e9"', code: 'return 1 + 1' });
      assert.equal(sent.method, 'POST');
      assert.equal(sent.url, '/internal/sandbox/exec');
      assert.equal(sent.headers['code-jail-protocol'], '1');
      assert.equal(sent.headers.authorization, `Bearer ${TOKEN}`);
      assert.equal(sent.headers['content-type'], 'application/json');
      assert.equal(sent.headers['accept-encoding'], undefined);
      const wait = Number(sent.headers['x-code-jail-wait-ms']);
      assert.ok(wait > 44000 && wait <= 45000, `waits ${wait} ms: the run, the queue and the grace`);
    });

    it('sends everything that is set', async () => {
      const job = {
        language: 'python',
        code: 'é"\\\n\t\u0001\u2028</script>',
        input: { a: [1, '"'] },
        timeoutMs: 5,
        memoryMb: 64,
        maxOutputBytes: 0,
        maxResultBytes: 1000,
        maxResultNodes: 7,
        env: { A: 'x=y', B: '', C: 'é\n' },
        minIsolation: 'gvisor',
        id: 'i',
        tenant: 't',
      };
      await run(answering(), job);
      assert.deepEqual(peer.requests.at(-1).job, job);
    });

    it('asks for text: the JSON is handed over as the peer wrote it', async () => {
      const result = await run(answering({ result: { a: 1 } }), { ...JOB, resultAs: 'text' });
      assert.equal(result.resultText, '{"a":1}');
      assert.equal(result.result, null);
    });

    it('__proto__ in a result is a key like any other', async () => {
      const text = JSON.stringify(answerTo({ id: 'p' })).replace('"result":2', '"result":{"__proto__":{"x":1}}');
      const result = await run(raw(200, text), { ...JOB, id: 'p' });
      assert.equal({}.x, undefined);
      assert.ok(Object.hasOwn(result.result, '__proto__'));
    });

    it('a result of 512 levels passes, one of 600 does not', async () => {
      const nest = (levels) => '['.repeat(levels) + ']'.repeat(levels);
      const text = (levels) => JSON.stringify(answerTo({ id: 'n' })).replace('"result":2', `"result":${nest(levels)}`);
      const result = await run(raw(200, text(512)), { ...JOB, id: 'n', resultAs: 'text' });
      assert.equal(result.resultText.length, 1024);
      const error = await errorOf(run(raw(200, text(600)), { ...JOB, id: 'n' }));
      assert.equal(error.code, 'ERR_JAIL_PROTOCOL');
    });

    it('the user code’s error, exit and kill are results', async () => {
      const error = { name: 'TypeError', message: 'x', line: 3, column: 7, sourceLine: 'é()', stack: 's', path: null };
      const failed = await run(answering({ ok: false, status: 'error', error, exitCode: 1, result: null }));
      assert.deepEqual(failed.error, error);
      assert.equal(failed.exitCode, 1);
      const late = await run(
        answering({ ok: false, status: 'timeout', timedOut: true, exitCode: null, signal: 'SIGKILL', result: null }),
      );
      assert.deepEqual([late.status, late.timedOut, late.exitCode, late.signal], ['timeout', true, null, 'SIGKILL']);
    });

    it('newer peers may say more than we know', async () => {
      const result = await run(({ job, response }) =>
        send(response, 200, { ...answerTo(job), novelty: { deep: [1] }, jail: { ...answerTo(job).jail, also: 1 } }),
      );
      assert.equal(result.result, 2);
      assert.equal('also' in result.jail, false);
    });
  });

  describe('an older peer', () => {
    const old = { stdout: 'out', stderr: 'err', exitCode: 0, timedOut: false, durationMs: 12.5 };
    it('is understood; what it does not say is null', async () => {
      const result = await run(raw(200, old));
      assert.equal(result.status, 'ok');
      assert.deepEqual([result.stdout, result.stderr, result.exitCode, result.result], ['out', 'err', 0, null]);
      assert.deepEqual(result.usage, { queueMs: null, startMs: null, runMs: 12.5, cpuMs: null, peakMemoryBytes: null });
      assert.deepEqual(result.jail, {
        backend: 'http',
        isolation: 'unverified',
        layers: [],
        missing: [],
        runtime: null,
        start: null,
      });
    });
    it('failure and time-out', async () => {
      assert.equal((await run(raw(200, { ...old, exitCode: 3 }))).status, 'error');
      const late = await run(raw(200, { ...old, exitCode: null, timedOut: true }));
      assert.deepEqual([late.status, late.timedOut, late.exitCode], ['timeout', true, null]);
    });
    it('output alone is no result, and no failure of the code', async () => {
      const { exitCode: _, ...rest } = old;
      assert.equal((await errorOf(run(raw(200, rest)))).code, 'ERR_JAIL_PROTOCOL');
    });
    it('does not pass where isolation is asked for', async () => {
      const error = await errorOf(run(raw(200, old), { ...JOB, minIsolation: 'process' }));
      assert.equal(error.code, 'ERR_JAIL_ISOLATION');
    });
  });

  describe('minIsolation', () => {
    const at =
      (isolation) =>
      ({ job, response }) =>
        send(response, 200, answerTo(job, { jail: { ...answerTo(job).jail, isolation } }));
    for (const [asked, got, passes] of [
      ['process', 'process', true],
      ['process', 'microvm', true],
      ['gvisor', 'gvisor', true],
      ['gvisor', 'microvm', true],
      ['gvisor', 'process', false],
      ['microvm', 'gvisor', false],
      ['process', 'unverified', false],
    ]) {
      it(`${asked} against ${got}: ${passes ? 'used' : 'refused'}`, async () => {
        const call = run(at(got), { ...JOB, minIsolation: asked });
        if (passes) assert.equal((await call).jail.isolation, got);
        else assert.match((await errorOf(call)).message, /minIsolation/);
      });
    }
  });

  describe('no result: ERR_JAIL_PROTOCOL', () => {
    const without =
      (key) =>
      ({ job, response }) => {
        const answer = answerTo(job);
        delete answer[key];
        send(response, 200, answer);
      };
    const text =
      (change) =>
      ({ job, response }) =>
        send(response, 200, change(JSON.stringify(answerTo(job))));
    const table = {
      'a wrong id': answering({ id: 'other' }),
      'no id': without('id'),
      'a duplicate key': text((json) => json.replace('{', '{"status":"ok",')),
      'a key hidden by an escape': text((json) => json.replace('{', '{"\\u0073tatus":"killed",')),
      'ok against its status': answering({ ok: false }),
      'timedOut against its status': answering({ timedOut: true }),
      'an unknown status': answering({ status: 'splendid', ok: false }),
      'status of a wrong type': answering({ status: 1 }),
      'stdout of a wrong type': answering({ stdout: [] }),
      'exitCode as text': answering({ exitCode: '0' }),
      'a negative exitCode': answering({ exitCode: -1 }),
      'a broken exitCode': answering({ exitCode: 1.5 }),
      'an unknown signal': answering({ signal: 'SIGWINCH; rm' }),
      'usage of a wrong type': answering({ usage: 3 }),
      'negative usage': answering({ usage: { runMs: -1 } }),
      'error of a wrong type': answering({ error: 'x' }),
      'error.line of a wrong type': answering({ error: { name: 'E', line: 'x' } }),
      'jail of a wrong type': answering({ jail: 'gvisor' }),
      'jail.isolation unknown': answering({ jail: { ...answerTo({}).jail, isolation: 'tee' } }),
      'jail.layers of a wrong type': answering({ jail: { ...answerTo({}).jail, layers: [1] } }),
      'jail.missing of a wrong type': answering({ jail: { ...answerTo({}).jail, missing: ['x'] } }),
      'a huge jail': answering({ jail: { ...answerTo({}).jail, layers: Array(65).fill('x') } }),
      'an array': raw(200, '[]'),
      'a number': raw(200, '1'),
      'an empty object': raw(200, '{}'),
      'two values': text((json) => `${json}{}`),
      'a trailing comma': text((json) => json.replace(/}$/, ',}')),
      'a value missing': raw(200, '{"a"}'),
      'colons and commas': raw(200, ':,:{},:,'),
      'a bare NaN': text((json) => json.replace('"result":2', '"result":NaN')),
      'a raw control character': text((json) => json.replace('"stdout":""', '"stdout":"\u0001"')),
      'half a surrogate escape cut off': text((json) => json.replace('"stdout":""', '"stdout":"\\ud8"')),
      'bad UTF-8': ({ job, response }) => {
        const bytes = Buffer.from(JSON.stringify(answerTo(job, { stdout: 'X' })));
        bytes[bytes.indexOf('"X"') + 1] = 0xff;
        response.writeHead(200, { 'content-type': 'application/json' });
        response.end(bytes);
      },
      'an empty body': raw(200, ''),
      'status 204': ({ response }) => response.writeHead(204).end(),
      'status 206': ({ job, response }) => send(response, 206, answerTo(job)),
      'status 201': ({ job, response }) => send(response, 201, answerTo(job)),
      'HTML with 200': raw(200, '<html><title>Welcome</title></html>', { 'content-type': 'text/html' }),
      'compressed although not asked for': ({ job, response }) =>
        send(
          response,
          200,
          require('node:zlib')
            .gzipSync(JSON.stringify(answerTo(job)))
            .toString('latin1'),
          {
            'content-encoding': 'gzip',
          },
        ),
    };
    for (const [name, handler] of Object.entries(table)) {
      it(name, async () => {
        const error = await errorOf(run(handler));
        assert.ok(error instanceof JailError, String(error));
        assert.equal(error.code, 'ERR_JAIL_PROTOCOL', error.message);
        assert.equal(error.backend, 'http');
        assert.equal(error.retryable, false);
        assert.ok(!/Unexpected token/.test(error.message));
        assert.ok(error.httpStatus >= 200 && error.httpStatus < 300);
      });
    }

    it('too many values', async () => {
      const many = answering({ result: Array(5000).fill(0) });
      const error = await errorOf(run(many, { ...JOB, maxResultNodes: 1000 }));
      assert.equal(error.code, 'ERR_JAIL_PROTOCOL');
      assert.match(error.message, /too many values/);
    });

    it('a result over maxResultBytes', async () => {
      const error = await errorOf(run(answering({ result: 'x'.repeat(2000) }), { ...JOB, maxResultBytes: 1000 }));
      assert.match(error.message, /`result` is wrong/);
    });

    it('shows no part of what may be a result', async () => {
      const error = await errorOf(run(answering({ stdout: 'private words', exitCode: '0' })));
      assert.match(error.message, /`exitCode` is wrong/);
      assert.ok(!error.message.includes('private'));
    });
  });

  describe('refusals', () => {
    const ours = (status, code, message, headers, more) => raw(status, { error: { code, message, ...more } }, headers);
    const html = { 'content-type': 'text/html; charset=utf-8' };
    const table = [
      // name, answer, code, retryable, message
      [
        '400 with the peer’s message',
        ours(400, 'ERR_JAIL_INVALID_REQUEST', 'timeoutMs is 20000; the limit is 10000 ms'),
        'ERR_JAIL_INVALID_REQUEST',
        false,
        /^timeoutMs is 20000; the limit is 10000 ms$/,
      ],
      [
        '400 of somebody else',
        raw(400, 'Bad Request', { 'content-type': 'text/plain' }),
        'ERR_JAIL_INVALID_REQUEST',
        false,
        /answered 400 \(text\/plain\): "Bad Request"/,
      ],
      ['401', ours(401, 'ERR_JAIL_UNAUTHORIZED', 'no'), 'ERR_JAIL_UNAUTHORIZED', false, /401.*token/],
      [
        '403 of Cloud Run’s front',
        raw(403, '<html><title>403 Forbidden</title></html>', html),
        'ERR_JAIL_UNAUTHORIZED',
        false,
        /403 \(text\/html/,
      ],
      ['404', raw(404, 'not here'), 'ERR_JAIL_CONFIG', false, /404.*is the URL/],
      ['405', raw(405, ''), 'ERR_JAIL_CONFIG', false, /405/],
      ['409', raw(409, ''), 'ERR_JAIL_PROTOCOL', false, /409/],
      [
        '413',
        ours(413, 'ERR_JAIL_INVALID_REQUEST', 'the body is too large'),
        'ERR_JAIL_INVALID_REQUEST',
        false,
        /too large/,
      ],
      ['418', raw(418, 'teapot'), 'ERR_JAIL_PROTOCOL', false, /418/],
      [
        'minIsolation refused by the peer',
        ours(400, 'ERR_JAIL_ISOLATION', 'this service is process'),
        'ERR_JAIL_ISOLATION',
        false,
        /process/,
      ],
      [
        '429 without a time',
        raw(429, 'Rate exceeded.', { 'content-type': 'text/plain' }),
        'ERR_JAIL_OVERLOADED',
        true,
        /429.*Rate exceeded/,
      ],
      [
        '429, too far ahead',
        ours(429, 'ERR_JAIL_OVERLOADED', 'full', { 'retry-after': '3600' }),
        'ERR_JAIL_OVERLOADED',
        true,
        /full/,
      ],
      [
        '429, absurdly far ahead',
        ours(429, 'ERR_JAIL_OVERLOADED', 'full', { 'retry-after': '99999999999999' }),
        'ERR_JAIL_OVERLOADED',
        true,
        /full/,
      ],
      [
        '429 from the queue',
        ours(429, 'ERR_JAIL_QUEUE_TIMEOUT', 'waited', { 'retry-after': '3600' }),
        'ERR_JAIL_QUEUE_TIMEOUT',
        true,
        /waited/,
      ],
      ['500', raw(500, 'oops'), 'ERR_JAIL_UNAVAILABLE', false, /500/],
      ['500 of ours', ours(500, 'ERR_JAIL_DEADLINE', 'late'), 'ERR_JAIL_DEADLINE', false, /late/],
      [
        '502 with HTML (O47)',
        raw(502, '<html><head><title>502 Bad Gateway</title></head><body>gw</body></html>', html),
        'ERR_JAIL_UNAVAILABLE',
        false,
        /502 \(text\/html.*Bad Gateway gw/,
      ],
      [
        '503 of a gateway: the instance may have died of this run',
        raw(503, 'Service Unavailable', { 'content-type': 'text/plain' }),
        'ERR_JAIL_UNAVAILABLE',
        false,
        /503/,
      ],
      [
        '503 draining',
        ours(503, 'ERR_JAIL_UNAVAILABLE', 'draining', { 'retry-after': '3600' }),
        'ERR_JAIL_UNAVAILABLE',
        true,
        /draining/,
      ],
      [
        '504 with HTML (O47)',
        raw(504, '<html>gateway</html>', html),
        'ERR_JAIL_UNAVAILABLE',
        false,
        /504.*not repeated/,
      ],
      [
        'a code that is not the peer’s to give',
        ours(500, 'ERR_JAIL_CLOSED', 'x'),
        'ERR_JAIL_UNAVAILABLE',
        false,
        /500/,
      ],
    ]; // prettier-ignore
    for (const [name, handler, code, retryable, message] of table) {
      it(name, async () => {
        const from = peer.requests.length;
        const error = await errorOf(run(handler));
        assert.ok(error instanceof JailError, String(error));
        assert.equal(error.code, code, error.message);
        assert.equal(error.retryable, retryable);
        assert.match(error.message, message);
        assert.equal(error.backend, 'http');
        assert.ok(!/timed out|Unexpected token/.test(error.message));
        assert.equal(peer.requests.length, from + 1, 'sent once');
      });
    }

    it('Retry-After is told: seconds, milliseconds, a date', async () => {
      const at = async (...args) =>
        (await errorOf(run(ours(429, 'ERR_JAIL_OVERLOADED', 'full', ...args)))).retryAfterMs;
      assert.equal(await at({ 'retry-after': '3600' }), 3600000);
      assert.equal(await at({}, { retryAfterMs: 3600001 }), 3600001);
      const ms = await at({ 'retry-after': new Date(Date.now() + 3600000).toUTCString() });
      assert.ok(ms > 3590000 && ms <= 3601000, `${ms}`);
    });

    it('says nothing of what a peer echoes of the token or the headers', async () => {
      const secret = createJail({
        url: peer.url,
        token: TOKEN,
        headers: { 'X-Serverless-Authorization': 'Bearer abc.def.ghi' },
      });
      const echoes = [
        raw(500, `you sent ${TOKEN} and Bearer abc.def.ghi`),
        raw(400, { error: { code: 'ERR_JAIL_INVALID_REQUEST', message: `bad token ${TOKEN}, abc.def.ghi` } }),
        raw(200, `${'x'.repeat(150)} ${TOKEN}`),
        raw(500, `a${TOKEN.replace(/-/g, '\\-')}`),
        raw(302, '', { location: `/${TOKEN}` }),
        raw(401, 'x', { 'content-type': `text/${TOKEN}` }),
      ];
      for (const one of echoes) {
        reply = one;
        const error = await errorOf(secret.runCode(JOB));
        const all = `${error.message} ${error.stack} ${JSON.stringify(error)} ${require('node:util').inspect(error)}`;
        for (let from = 0; from + 12 <= TOKEN.length; from++)
          assert.ok(!all.includes(TOKEN.slice(from, from + 12)), error.message);
        assert.ok(!all.includes('abc.def'), error.message);
      }
      await secret.close();
    });

    it('has no control characters or terminal codes in a message', async () => {
      const error = await errorOf(run(raw(500, '\u001b[31mred\u0007\u0000é\u202e')));
      // biome-ignore lint/suspicious/noControlCharactersInRegex: that is the point
      assert.ok(!/[\u0000-\u001f\u007f-\uffff]/.test(error.message), error.message);
    });
  });
});
