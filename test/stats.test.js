'use strict';
// What jail.stats() counts: each call once, by what became of it.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { createJail } = require('..');
const { answerTo, errorOf } = require('./helpers/peer.js');
const { openJail } = require('./helpers/run.js');
const { startSocketPeer } = require('./helpers/socket-peer.js');

const py = (code, more) => ({ language: 'python', code, ...more });
const js = (code, more) => ({ language: 'javascript', code, ...more });
const counted = (numbers) => Object.fromEntries(Object.entries(numbers).filter(([, count]) => count > 0));

describe('jail.stats()', () => {
  it('counts runs and checks by status, and how they began', async () => {
    const jail = openJail();
    const none = jail.stats();
    assert.deepEqual([counted(none.outcomes), counted(none.starts)], [{}, {}]);
    await jail.runCode(js('return 1'));
    await jail.runCode(py('result = 1'));
    await jail.checkCode(py('('));
    await jail.runCode(js('throw new Error("x")'));
    await jail.runCode(py('while True: pass', { timeoutMs: 200 }));
    await jail.runCode(py('import os\nos.abort()'));
    await jail.runCode(py('result = b""'));
    await jail.runCode(js('return "x".repeat(100)', { maxResultBytes: 10 }));
    const { outcomes, starts } = jail.stats();
    const expected = { ok: 3, error: 1, timeout: 1, killed: 1, not_serializable: 1, result_too_large: 1 };
    assert.deepEqual(counted(outcomes), expected);
    assert.equal(starts.parked + starts.fork, 8);
    assert.equal(starts.cold, 0);
    assert.equal(none.outcomes.ok, 0, 'what was given stays as it was');
  });

  it('counts an abort, a failure and a refusal for want of room, and no request of a wrong form', async () => {
    const jail = openJail({ maxConcurrent: 1, maxQueue: 0 });
    const stop = new AbortController();
    const slow = errorOf(jail.runCode(py('import time\ntime.sleep(60)'), { signal: stop.signal }));
    assert.equal((await errorOf(jail.runCode(js('return 1')))).code, 'ERR_JAIL_OVERLOADED');
    assert.equal((await errorOf(jail.runCode(js(1)))).code, 'ERR_JAIL_INVALID_REQUEST');
    stop.abort(new Error('enough'));
    await slow;
    assert.deepEqual(counted(jail.stats().outcomes), { rejected: 1, aborted: 1 });
  });

  it('counts cold starts, and each jail its own', async () => {
    const [cold, other] = [openJail({ start: 'cold' }), openJail()];
    await cold.runCode(js('return 1'));
    assert.deepEqual([counted(cold.stats().outcomes), counted(cold.stats().starts)], [{ ok: 1 }, { cold: 1 }]);
    assert.deepEqual(counted(other.stats().outcomes), {});
  });

  it('counts what peers answer', async () => {
    const peer = await startSocketPeer(({ job, socket }) =>
      socket.end(
        job.code === 'bad'
          ? 'nonsense'
          : job.code === 'old'
            ? '{"stdout":"","stderr":"","exitCode":0,"timedOut":false,"durationMs":1}'
            : JSON.stringify(answerTo(job)),
      ),
    );
    const jail = createJail({ socket: peer.file });
    await jail.runCode(js('good'));
    await jail.runCode(js('old'));
    assert.equal((await errorOf(jail.runCode(js('bad')))).code, 'ERR_JAIL_PROTOCOL');
    const { outcomes, starts } = jail.stats();
    assert.deepEqual(Object.keys(jail.stats().parked), ['javascript', 'python', 'typescript']);
    assert.deepEqual(counted(outcomes), { ok: 2, rejected: 1 });
    assert.equal(starts.parked + starts.fork + starts.cold, 1);
    await jail.close();
    await peer.close();
  });
});
