'use strict';
// checkCode: the table of checks.js over every jail there is, that nothing is run
// by it, and that it agrees with what a run says.

const assert = require('node:assert/strict');
const { after, before, describe, it } = require('node:test');
const { checkCode, createJail, JailError } = require('..');
const checks = require('./checks.js');
const { slack } = require('./helpers/baseline.js');
const { answerTo, errorOf, send, startPeer, TOKEN: PEER_TOKEN } = require('./helpers/peer.js');
const { matches, openJail } = require('./helpers/run.js');
const { post, startService, TOKEN } = require('./helpers/service.js');

const CHECKED = ['name', 'message', 'line', 'column', 'sourceLine'];
const FIELDS = ['language', 'code', 'timeoutMs', 'memoryMb', 'minIsolation', 'id', 'tenant'];

let service;
const jails = { parked: openJail(), cold: openJail({ start: 'cold' }), http: null };
before(async () => {
  service = await startService();
  jails.http = createJail({ url: service.base, token: TOKEN });
});
after(async () => {
  await jails.http?.close();
  await service?.stop();
});

for (const name of Object.keys(jails)) {
  describe(`checkCode, ${name}`, () => {
    // A fresh interpreter each is slow, and compiles by the same code: of what is well, a few will do.
    const rows = name === 'cold' ? checks.filter((one, i) => one.errors.length > 0 || i % 5 === 0) : checks;
    for (const { name: what, language, code, errors } of rows) {
      it(`${language}: ${what}`, async () => {
        const check = await jails[name].checkCode({ language, code });
        assert.deepEqual(Object.keys(check), ['ok', 'errors']);
        assert.equal(check.errors.length, errors.length, JSON.stringify(check));
        for (const [i, want] of errors.entries()) matches(check.errors[i], want, `errors[${i}]`);
        assert.equal(check.ok, errors.length === 0);
        for (const error of check.errors) assert.deepEqual(Object.keys(error), CHECKED);
      });
    }

    it('a run says the same of what it cannot compile', async () => {
      const jail = jails[name];
      for (const { language, code, errors } of checks.filter((one) => one.errors.length > 0)) {
        const [check, run] = await Promise.all([jail.checkCode({ language, code }), jail.runCode({ language, code })]);
        assert.equal(run.status, 'error', code);
        for (const key of CHECKED) assert.equal(check.errors[0][key], run.error[key], `${errors[0].message}: ${key}`);
      }
    });

    it('a text that is too much for its compiler is an error of the text', async () => {
      const deep = { language: 'python', code: `x = ${'-'.repeat(400000)}1\n` };
      const check = await jails[name].checkCode(deep);
      assert.deepEqual([check.ok, check.errors.length, typeof check.errors[0].message], [false, 1, 'string']);
      const slow = { language: 'python', code: `x = [${'a+1,'.repeat(250000)}]\n`, timeoutMs: 1, memoryMb: 16 };
      const { errors } = await jails[name].checkCode(slow);
      assert.match(errors[0].name, /^(MemoryError|OutOfMemoryError|TimeoutError)$/);
      assert.equal(errors[0].line, null);
    });
  });
}

describe('checkCode', () => {
  it('is there without a jail of one’s own', async () => {
    assert.deepEqual(await checkCode({ language: 'javascript', code: 'return 1' }), { ok: true, errors: [] });
  });

  it('refuses the fields of a run, and runCode those of a check', async () => {
    for (const more of [{ input: 1 }, { env: {} }, { maxOutputBytes: 1 }, { resultAs: 'text' }, { check: 'x' }]) {
      const error = await errorOf(jails.parked.checkCode({ language: 'python', code: '1', ...more }));
      assert.equal(error.code, 'ERR_JAIL_INVALID_REQUEST');
      for (const field of [Object.keys(more)[0], ...FIELDS]) assert.ok(error.message.includes(field), error.message);
    }
    const whole = {
      language: 'python',
      code: '1',
      timeoutMs: 5000,
      memoryMb: 64,
      id: 'x',
      tenant: 'y',
      input: undefined,
    };
    assert.equal((await jails.parked.checkCode({ ...whole, minIsolation: 'process' })).ok, true);
    const other = await errorOf(jails.parked.runCode({ language: 'python', code: '1', check: '1' }));
    assert.match(other.message, /"check" is not a field of a request/);
    for (const bad of [null, 7, {}, { language: 'python' }, { language: 'ruby', code: '' }])
      assert.equal((await errorOf(jails.parked.checkCode(bad))).code, 'ERR_JAIL_INVALID_REQUEST');
  });

  it('is not changed by the defaults of a jail’s runs', async () => {
    const defaults = { maxResultBytes: 0, maxResultNodes: 0, maxOutputBytes: 0, resultAs: 'text', env: { A: '1' } };
    const jail = createJail({ defaults, caps: { maxResultBytes: 1 } });
    const { errors } = await jail.checkCode({ language: 'javascript', code: 'return +' });
    assert.equal(errors.length, 1);
    await jail.close();
  });

  it('an abort rejects with its reason', async () => {
    const reason = new Error('enough');
    const request = { language: 'python', code: `x = [${'a+1,'.repeat(100000)}]\n` };
    assert.equal(await errorOf(jails.parked.checkCode(request, { signal: AbortSignal.abort(reason) })), reason);
    const later = new AbortController();
    const check = errorOf(jails.parked.checkCode(request, { signal: later.signal }));
    later.abort(reason);
    assert.equal(await check, reason);
  });

  it('is quick: an editor asks at each pause', async () => {
    const request = { language: 'python', code: 'def main(input):\n    return input\n' };
    await jails.parked.checkCode(request);
    const began = performance.now();
    for (let i = 0; i < 20; i++) await jails.parked.checkCode(request);
    const each = (performance.now() - began) / 20;
    assert.ok(each < 250 * slack(), `${each} ms each`);
  });
});

describe('a check over HTTP', () => {
  it('the service takes `check` in the place of `code`, and not beside it', async () => {
    const check = await service.post({ language: 'python', check: 'x = = 1', id: 'a' });
    assert.equal(check.status, 200);
    assert.deepEqual([check.json.status, check.json.result[0].line, check.json.result[0].column], ['ok', 1, 5]);
    for (const more of [{ code: '1' }, { input: 1 }, { env: {} }, { maxResultBytes: 9 }]) {
      const answer = await service.post({ language: 'python', check: '1', ...more });
      assert.deepEqual([answer.status, answer.json.error.code], [400, 'ERR_JAIL_INVALID_REQUEST']);
    }
    assert.equal((await post(service.base, { language: 'python', check: 1 })).status, 400);
  });

  describe('and a peer that does not know it', () => {
    let peer;
    let jail;
    let reply;
    let seen;
    before(async () => {
      peer = await startPeer((call) => {
        seen.push(call.job);
        reply(call);
      });
      jail = createJail({ url: peer.url, token: PEER_TOKEN });
    });
    after(async () => {
      await jail.close();
      await peer.close();
    });
    const ask = (how) => {
      seen = [];
      reply = how;
      return errorOf(jail.checkCode({ language: 'javascript', code: 'return 1' }));
    };

    it('has nothing to run', async () => {
      await ask(({ job, response }) => send(response, 200, answerTo(job)));
      assert.equal(seen.length, 1);
      assert.deepEqual(Object.keys(seen[0]).sort(), ['check', 'id', 'language']);
    });

    it('an older service of ours refuses the field', async () => {
      const error = { code: 'ERR_JAIL_INVALID_REQUEST', message: '"check" is not a field of a request' };
      const got = await ask(({ response }) => send(response, 400, { error }));
      assert.ok(got instanceof JailError);
      assert.equal(got.code, 'ERR_JAIL_INVALID_REQUEST');
      assert.match(got.message, /"check" is not a field/);
    });

    it('a stranger’s answer, as of a run, is no check', async () => {
      const answers = [
        { result: null },
        { result: [{ name: 'SyntaxError', message: 'x', line: 0, column: 1, sourceLine: null }] },
        { result: [null] },
        { ok: false, status: 'error', exitCode: 1, error: { name: 'Error', message: 'no code' } },
      ];
      for (const over of answers) {
        const got = await ask(({ job, response }) => send(response, 200, answerTo(job, over)));
        assert.equal(got.code, 'ERR_JAIL_PROTOCOL', JSON.stringify(over));
        assert.match(got.message, /does not know checks/);
      }
      const old = { stdout: '', stderr: '', exitCode: 0, timedOut: false, durationMs: 1 };
      assert.equal((await ask(({ response }) => send(response, 200, old))).code, 'ERR_JAIL_PROTOCOL');
    });

    it('one that knows it is believed', async () => {
      const result = [{ name: 'SyntaxError', message: 'no', line: 1, column: null, sourceLine: null, extra: 1 }];
      seen = [];
      reply = ({ job, response }) => send(response, 200, answerTo(job, { result }));
      const check = await jail.checkCode({ language: 'javascript', code: 'x' });
      const { extra, ...error } = result[0];
      assert.deepEqual(check, { ok: false, errors: [error] });
    });
  });
});
