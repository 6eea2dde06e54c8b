'use strict';
// Our own client against our own service, as a dashboard and its sandbox are.

const assert = require('node:assert/strict');
const { after, before, describe, it } = require('node:test');
const { createJail } = require('../../lib/index.js');
const { js, py, startService, waitFor, TOKEN } = require('../helpers/service.js');

let service;
let jail;
const open = (config) => createJail({ url: service.base, token: TOKEN, ...config });
before(async () => {
  service = await startService({ env: { CODE_SANDBOX_CONCURRENCY: '2', CODE_SANDBOX_MAX_QUEUE: '2' } });
  jail = open();
});
after(async () => {
  await jail.close();
  await service.stop();
});

const failure = (promise) =>
  promise.then(
    (run) => assert.fail(JSON.stringify(run)),
    (error) => error,
  );

describe('code-jail and its sandbox service', () => {
  it('both languages, every part of a result', async () => {
    const one = await jail.runCode({
      ...js('console.log("out"); console.error("err"); return input'),
      input: { a: ['é', null] },
      id: 'mine',
    });
    assert.deepEqual(
      [one.id, one.ok, one.result, one.stdout, one.stderr],
      ['mine', true, { a: ['é', null] }, 'out\n', 'err\n'],
    );
    assert.deepEqual([one.jail.backend, one.jail.isolation], ['http', 'process']);
    assert.ok(one.jail.layers.includes('seccomp') && one.usage.runMs > 0);
    const two = await jail.runCode(py('def main(input):\n    raise ValueError("no")'));
    assert.deepEqual([two.status, two.error.name, two.error.message, two.error.line], ['error', 'ValueError', 'no', 2]);
    const three = await jail.runCode({ ...js('return [1, 2]'), resultAs: 'text' });
    assert.equal(three.resultText, '[1,2]');
    const four = await jail.runCode(js('return "x".repeat(3000000)'));
    assert.equal(four.result.length, 3000000);
  });

  it('limits are kept over there', async () => {
    const late = await jail.runCode(js('\nfor (;;) {}', { timeoutMs: 1500 }));
    assert.deepEqual([late.status, late.error.line, late.error.sourceLine], ['timeout', 2, 'for (;;) {}']);
    assert.match(late.error.stack, /at code\.js:2:\d+$/);
    assert.equal(
      (await jail.runCode(py('a = []\nwhile True: a.append(bytearray(1 << 20))', { memoryMb: 64 }))).status,
      'out_of_memory',
    );
  });

  it('what the service refuses is an error with a code', async () => {
    const cap = await failure(jail.runCode(js('1', { timeoutMs: 20000 })));
    assert.equal(cap.code, 'ERR_JAIL_INVALID_REQUEST');
    assert.match(cap.message, /timeoutMs is 20000; the limit is 10000 ms, set by this host/);
    assert.equal((await failure(jail.runCode(js('1', { minIsolation: 'gvisor' })))).code, 'ERR_JAIL_ISOLATION');
    const other = open({ token: 'another-token-0123456789abcdef' });
    assert.equal((await failure(other.runCode(js('1')))).code, 'ERR_JAIL_UNAUTHORIZED');
    await other.close();
  });

  it('more than there is room for is overloaded, or comes later', async () => {
    const runs = Array.from({ length: 12 }, () =>
      jail.runCode(py('import time\ntime.sleep(0.4)\nresult = 1')).then(
        (run) => run.result,
        (error) => `${error.code} ${error.retryable} ${error.retryAfterMs > 0}`,
      ),
    );
    const seen = await Promise.all(runs);
    assert.ok(seen.filter((one) => one === 1).length >= 4, seen.join());
    assert.ok(
      seen.every((one) => one === 1 || one === 'ERR_JAIL_OVERLOADED true true'),
      seen.join(),
    );
  });

  it('an abort ends the run over there', async () => {
    const controller = new AbortController();
    const run = failure(jail.runCode(py('import time\ntime.sleep(9)'), { signal: controller.signal }));
    await waitFor(async () => (await service.metric('code_jail_slots_used')) === 1);
    controller.abort(new Error('enough'));
    assert.equal((await run).message, 'enough');
    await waitFor(async () => (await service.metric('code_jail_slots_used')) === 0);
  });

  it('while the service goes down: told to come again, never run twice', async () => {
    const leaving = await startService();
    const other = open({ url: leaving.base });
    const running = other.runCode(py('import time\ntime.sleep(1)\nresult = "done"'));
    await waitFor(async () => (await leaving.metric('code_jail_slots_used')) === 1);
    leaving.child.kill('SIGTERM');
    await waitFor(async () => (await leaving.get('/readyz')).status === 503);
    const late = await failure(other.runCode(js('return 1')));
    assert.equal(late.code, 'ERR_JAIL_UNAVAILABLE');
    assert.equal(late.retryable, true);
    assert.equal((await running).result, 'done');
    await other.close();
    await leaving.exited;
  });
});
