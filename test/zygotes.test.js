'use strict';
// Keepers that fail, die, hang or lie: which error each is, that runs which had
// not begun survive, and that nothing is left behind.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { describe, it } = require('node:test');
const { setTimeout: sleep } = require('node:timers/promises');
const { descendants, until } = require('./helpers/baseline.js');
const { fakeJail, job } = require('./helpers/fake.js');
const { matches } = require('./helpers/run.js');

function tryKill(pid) {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {} // it has ended by itself
}

const fails = (promise, want) =>
  assert.rejects(promise, (error) => {
    matches(error, { name: 'JailError', backend: 'local', ...want }, 'error');
    return true;
  });

describe('a boot that fails', () => {
  const boots = {
    'isolation: no user namespaces here': {
      code: 'ERR_JAIL_ISOLATION',
      retryable: false,
      message: /no user namespaces here/,
    },
    'config: no such runtime': { code: 'ERR_JAIL_CONFIG', retryable: false, message: /no such runtime/ },
    'boot: out of luck': { code: 'ERR_JAIL_UNAVAILABLE', retryable: true, message: /out of luck/ },
  };
  for (const [text, want] of Object.entries(boots))
    it(`with "${text}" is ${want.code}`, async () => {
      const jail = fakeJail(`boot:${text}`);
      await fails(jail.runCode(job('ok')), want);
      await fails(jail.runCode(job('ok')), want);
      await fails(jail.warm(), want);
    });

  it('is tried again, with pauses, before runs hear of it', async () => {
    const jail = fakeJail('boot:x: y');
    const start = performance.now();
    await fails(jail.runCode(job('ok')), { code: 'ERR_JAIL_UNAVAILABLE' });
    assert.ok(performance.now() - start >= 250, 'two pauses');
    assert.equal(jail.stats().zygoteStarts, 3);
    await fails(jail.runCode(job('ok')), { retryAfterMs: (ms) => ms > 0 && ms <= 5000 });
    assert.equal(jail.stats().zygoteStarts, 3, 'not tried within the pause');
  });

  it('for want of a program names the remedy', async () => {
    const { makeJail } = require('../lib/run-code.js');
    const parts = { keeper: '/nonexistent/keeper', guestNode: '/x', guestPython: '/x', guestDir: '/x' };
    const jail = makeJail({}, { parts });
    await fails(jail.runCode(job('ok')), { code: 'ERR_JAIL_CONFIG', message: /npm run build/ });
    await jail.close();
  });

  it('for want of its mode names the file and the remedy', async () => {
    const { makeJail } = require('../lib/run-code.js');
    const parts = { keeper: __filename, guestNode: '/x', guestPython: '/x', guestDir: '/x' };
    const jail = makeJail({}, { parts });
    await fails(jail.runCode(job('ok')), { code: 'ERR_JAIL_CONFIG', message: /zygotes\.test\.js .*chmod \+x/ });
    await jail.close();
  });

  it('for want of a right to read names what only root can', async (t) => {
    if (process.getuid?.() !== 0) return t.skip('only root’s cells have a uid of their own');
    const { makeJail } = require('../lib/run-code.js');
    const own = require('../lib/native.js').parts();
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'code-jail-barred-'));
    fs.chmodSync(folder, 0o755);
    const guestDir = path.join(folder, 'guest');
    fs.cpSync(own.guestDir, guestDir, { recursive: true });
    const run = async (mode) => {
      fs.chmodSync(guestDir, mode);
      const jail = makeJail({ parked: 1 }, { parts: { ...own, guestDir } });
      return jail.runCode(job('')).finally(() => jail.close());
    };
    await fails(run(0o700), { code: 'ERR_JAIL_CONFIG', retryable: false, message: /only root may read \S+\/guest, / });
    assert.equal((await run(0o755)).status, 'ok');
    fs.rmSync(folder, { recursive: true });
  });

  it('in one language leaves the other alone', async () => {
    const jail = fakeJail('ok', { python: { path: '/fake/boot:config: broken' } });
    await fails(jail.runCode({ language: 'python', code: 'ok' }), { code: 'ERR_JAIL_CONFIG' });
    assert.equal((await jail.runCode(job('ok'))).status, 'ok');
  });
});

describe('a keeper that dies', () => {
  it('with a run under way: ERR_JAIL_UNAVAILABLE, not to be repeated blindly; the next run works', async () => {
    const jail = fakeJail();
    await fails(jail.runCode(job('kill-keeper')), { code: 'ERR_JAIL_UNAVAILABLE', retryable: false });
    assert.equal((await jail.runCode(job('ok'))).status, 'ok');
    assert.equal(jail.stats().zygoteStarts, 2);
  });

  it('keeps the runs that only wait', async () => {
    const jail = fakeJail('ok', { maxConcurrent: 1 });
    const first = jail.runCode(job('kill-keeper'));
    const rest = Array.from({ length: 5 }, (_, i) => jail.runCode(job('ok', { input: i })));
    await fails(first, { code: 'ERR_JAIL_UNAVAILABLE' });
    assert.deepEqual(
      (await Promise.all(rest)).map((one) => one.result),
      [0, 1, 2, 3, 4],
    );
  });

  it('right after READY, again and again: an error, not a storm', async () => {
    const jail = fakeJail('quit');
    await fails(jail.runCode(job('ok')), { code: 'ERR_JAIL_UNAVAILABLE' });
    assert.ok(jail.stats().zygoteStarts <= 4, `${jail.stats().zygoteStarts} starts`);
  });
});

describe('cells that are not to be had', () => {
  it('every fork fails: an error that says so', async () => {
    const jail = fakeJail('no-fork');
    await fails(jail.runCode(job('ok')), { code: 'ERR_JAIL_UNAVAILABLE', message: /on purpose/ });
  });

  it('they die before they have a job: an error, or a new one', async () => {
    const jail = fakeJail('die-parked');
    await fails(jail.runCode(job('ok')), { code: 'ERR_JAIL_UNAVAILABLE' });
  });

  it('a parked one that was killed is replaced, and no run notices', async () => {
    const jail = fakeJail('ok', { parked: 2 });
    await jail.warm(['javascript']);
    const keeper = descendants().find((one) => one.ppid === process.pid && /keeper/.test(one.comm));
    for (let i = 0; i < 10; i++) {
      for (const one of descendants()) if (keeper && one.ppid === keeper.pid) tryKill(one.pid);
      assert.equal((await jail.runCode(job('ok'))).status, 'ok');
    }
  });
});

describe('a keeper that does not listen', () => {
  it('the engine keeps the deadline itself, and ends the keeper', async () => {
    const jail = fakeJail('deaf');
    const result = await jail.runCode(job('sleep', { timeoutMs: 50 }));
    matches(result, { status: 'timeout', signal: 'SIGKILL' });
    assert.ok(await until(() => jail.stats().zygotes === 0 || jail.stats().zygoteStarts > 1, 4000));
    assert.equal((await jail.runCode(job('ok'))).status, 'ok');
  });

  it('never ready: close() ends it all the same', async () => {
    const jail = fakeJail('silent');
    const run = fails(jail.runCode(job('ok')), { code: 'ERR_JAIL_CLOSED' });
    await sleep(50);
    await jail.close();
    await run;
  });
});

describe('isolation that is not proven', () => {
  it('is told in each result', async () => {
    const jail = fakeJail('weak', { allowWeak: true });
    matches(await jail.runCode(job('ok')), { jail: { isolation: 'unverified', missing: [], runtime: 'fake 1.0' } });
    matches(await fakeJail().runCode(job('ok')), {
      jail: { isolation: 'process', missing: [{ layer: 'landlock', reason: 'none here' }] },
    });
  });

  it("is refused by minIsolation 'process'", async () => {
    const jail = fakeJail('weak', { allowWeak: true });
    await fails(jail.runCode(job('ok', { minIsolation: 'process' })), { code: 'ERR_JAIL_ISOLATION' });
    assert.equal((await jail.runCode(job('ok'))).status, 'ok');
  });

  it('more than the local jail can prove is refused before anything starts', async () => {
    const jail = fakeJail();
    for (const minIsolation of ['gvisor', 'microvm'])
      await fails(jail.runCode(job('ok', { minIsolation })), { code: 'ERR_JAIL_ISOLATION' });
    assert.equal(jail.stats().zygoteStarts, 0);
  });
});

describe('idle and close', () => {
  it('an idle runtime ends after idleMs, and comes back on demand', async () => {
    const jail = fakeJail('ok', { idleMs: 100 });
    await jail.runCode(job('ok'));
    assert.ok(await until(() => jail.stats().zygotes === 0, 3000));
    assert.equal(jail.stats().cells.javascript, 0);
    const { status, usage } = await jail.runCode(job('ok'));
    assert.equal(status, 'ok');
    assert.ok(usage.startMs < 90, `no pause as after a failure: ${usage.startMs} ms`);
    await jail.warm(['python']);
    assert.ok(await until(() => jail.stats().zygotes === 0, 3000), 'one that was only warmed too');
  });

  it('close() settles everything once, twice is the same, and nothing is left', async () => {
    const before = descendants().length;
    const jail = fakeJail('ok', { maxConcurrent: 2 });
    const runs = Array.from({ length: 6 }, () => fails(jail.runCode(job('sleep')), { code: 'ERR_JAIL_CLOSED' }));
    await sleep(30);
    await Promise.all([jail.close(), jail.close(), ...runs]);
    assert.equal(descendants().length, before);
    await fails(jail.runCode(job('ok')), { code: 'ERR_JAIL_CLOSED' });
    await fails(jail.warm(), { code: 'ERR_JAIL_CLOSED' });
    assert.throws(() => jail.stats(), { code: 'ERR_JAIL_CLOSED' });
  });

  it('of a jail that never ran is at once', async () => {
    const jail = fakeJail();
    await jail.close();
  });
});

describe('renewal', () => {
  it('another takes over after so many cells, and no run notices', async () => {
    const jail = fakeJail('ok', { parked: 2 }, { renewal: { cells: 20, ms: 3600000 } });
    for (let i = 0; i < 60; i++) assert.equal((await jail.runCode(job('ok', { input: i }))).result, i);
    assert.ok(await until(() => jail.stats().zygotes === 1, 2000), 'the old one ends');
    assert.equal(jail.stats().zygoteStarts, 2, 'at most one a minute');
    assert.ok(await until(() => descendants().filter((one) => /keeper/.test(one.comm)).length >= 1));
    assert.equal((await jail.runCode(job('ok'))).jail.start, 'parked');
  });

  it('or so long; what the old one still runs ends in peace', async () => {
    const jail = fakeJail('ok', { parked: 1, maxConcurrent: 4 }, { renewal: { cells: 1000, ms: 50 } });
    await jail.runCode(job('ok'));
    const long = jail.runCode(job('sleep', { timeoutMs: 300 }));
    await sleep(100);
    assert.equal((await jail.runCode(job('ok'))).status, 'ok');
    assert.ok(await until(() => jail.stats().zygoteStarts === 2, 1000));
    assert.equal((await jail.runCode(job('ok'))).status, 'ok');
    assert.equal((await long).status, 'timeout');
    assert.ok(await until(() => jail.stats().zygotes === 1, 2000));
  });
});
