'use strict';
// Which jail a call goes to, the promise around it, and the queue: with cells
// that are not walled, so that each case takes milliseconds.

const assert = require('node:assert/strict');
const { execFileSync, spawnSync } = require('node:child_process');
const path = require('node:path');
const { describe, it } = require('node:test');
const { setTimeout: sleep } = require('node:timers/promises');
const codeJail = require('../lib/index.js');
const { fakeJail, job } = require('./helpers/fake.js');
const { until } = require('./helpers/baseline.js');

const { runCode } = codeJail;
const main = path.join(__dirname, '..', 'lib', 'index.js');

describe('the choice of the jail', () => {
  const withEnv = async (env, work) => {
    const names = ['FIRECRACKER_SOCKET', 'CODE_SANDBOX_URL', 'CODE_SANDBOX_TOKEN'];
    const before = names.map((name) => process.env[name]);
    for (const name of names) {
      delete process.env[name];
      if (env[name] !== undefined) process.env[name] = env[name];
    }
    try {
      return await work();
    } finally {
      names.forEach((name, i) => {
        if (before[i] === undefined) delete process.env[name];
        else process.env[name] = before[i];
      });
    }
  };
  const request = { language: 'javascript', code: 'return 1' };

  it('reads the environment at each call; empty is not set', async () => {
    await withEnv({ CODE_SANDBOX_URL: 'https://x' }, () => assert.rejects(runCode(request)));
    await withEnv({ FIRECRACKER_SOCKET: '', CODE_SANDBOX_URL: '' }, async () =>
      assert.equal((await runCode(request)).jail.backend, 'local'),
    );
  });

  it("createJail's own configuration is not changed by the environment", async () => {
    await withEnv({ CODE_SANDBOX_URL: 'https://x' }, async () => {
      assert.equal((await fakeJail().runCode(job('ok'))).status, 'ok');
    });
  });
});

describe('runCode', () => {
  it('rejects, and never throws', async () => {
    for (const args of [
      [],
      [null],
      [{}],
      [{ language: 'javascript', code: '' }, 5],
      [{ language: 'javascript', code: '' }, { signl: 1 }],
    ]) {
      let promise;
      assert.doesNotThrow(() => {
        promise = runCode(...args);
      });
      await assert.rejects(promise, { code: 'ERR_JAIL_INVALID_REQUEST' });
    }
  });

  it('says what options a call has', async () => {
    const jail = fakeJail();
    await assert.rejects(jail.runCode(job('ok'), { onProgress() {} }), /no option "onProgress"/);
    await assert.rejects(jail.runCode(job('ok'), { signal: {} }), /must be an AbortSignal/);
    await assert.rejects(jail.runCode(job('ok'), null), /options of a call/);
    assert.equal((await jail.runCode(job('ok'), { signal: undefined })).status, 'ok');
  });

  it('needs no this, and a jail can be disposed of', async () => {
    const {
      runCode: detached,
      close,
      [Symbol.asyncDispose ?? Symbol.for('nodejs.asyncDispose')]: dispose,
    } = fakeJail();
    assert.equal((await detached(job('ok'))).status, 'ok');
    await close();
    await dispose();
  });

  it('echoes the id, and makes one', async () => {
    const jail = fakeJail();
    assert.equal((await jail.runCode(job('ok', { id: 'mine' }))).id, 'mine');
    assert.notEqual((await jail.runCode(job('ok'))).id, (await jail.runCode(job('ok'))).id);
  });

  it('carries 16 MiB of input and its like back, and 1 MiB of code', async () => {
    const input = 'é€😀x'.repeat(1 << 19).slice(0, (4 << 20) - 100);
    const { result } = await fakeJail().runCode(job('ok', { input, maxResultBytes: 64 << 20 }));
    assert.ok(result === input);
    const code = `ok${' '.repeat((1 << 20) - 2)}`;
    assert.equal((await fakeJail().runCode(job(code))).status, 'ok');
  });

  it('gives results a shape of their own each time, but for the frozen lists', async () => {
    const jail = fakeJail();
    const [a, b] = [await jail.runCode(job('ok')), await jail.runCode(job('ok'))];
    assert.notEqual(a.jail, b.jail);
    assert.ok(Object.isFrozen(a.jail.layers) && Object.isFrozen(a.jail.missing) && Object.isFrozen(a.jail.missing[0]));
    assert.equal(structuredClone(a).jail.layers.length, 11);
  });
});

describe('the queue', () => {
  it('serves tenants in turn', async () => {
    const jail = fakeJail('ok', { maxConcurrent: 1 });
    await jail.warm(['javascript']);
    const order = [];
    const blocker = jail.runCode(job('sleep', { timeoutMs: 100 })); // so that all are in the queue first
    const run = (tenant, n) =>
      Array.from({ length: n }, () => jail.runCode(job('ok', { tenant })).then(() => order.push(tenant)));
    await Promise.all([blocker, ...run('a', 6), ...run('b', 3), ...run('c', 1)]);
    assert.equal(order.join(''), 'abcababaaa');
  });

  it('leaves the last slot to others than one named tenant', async () => {
    const jail = fakeJail('ok', { maxConcurrent: 3 });
    await jail.warm(['javascript']);
    const controller = new AbortController();
    const greedy = Array.from({ length: 5 }, () =>
      jail.runCode(job('sleep', { tenant: 'greedy', timeoutMs: 20000 }), controller).catch(() => {}),
    );
    assert.ok(await until(() => jail.stats().running === 2, 1000));
    assert.equal((await jail.runCode(job('ok', { tenant: 'other' }))).status, 'ok');
    assert.equal((await jail.runCode(job('ok'))).status, 'ok');
    assert.equal(jail.stats().running, 2);
    controller.abort();
    await Promise.all(greedy);
  });

  it('without tenants every slot is used', async () => {
    const jail = fakeJail('ok', { maxConcurrent: 3 });
    const controller = new AbortController();
    const runs = Array.from({ length: 4 }, () => jail.runCode(job('sleep'), controller).catch(() => {}));
    assert.ok(await until(() => jail.stats().running === 3, 1000));
    controller.abort();
    await Promise.all(runs);
  });

  it('admits by memory, in order: a large run is not overtaken for ever', async () => {
    const jail = fakeJail('ok', { maxConcurrent: 8, maxTotalMemoryMb: 256 });
    await jail.warm(['javascript']);
    const order = [];
    const run = (code, memoryMb, name) =>
      jail.runCode(job(code, { memoryMb, timeoutMs: 200 })).then(() => order.push(name));
    const first = run('sleep', 200, 'first');
    const large = run('ok', 256, 'large');
    const small = Array.from({ length: 3 }, () => run('ok', 16, 'small'));
    await sleep(50);
    assert.equal(jail.stats().running, 1);
    assert.equal(jail.stats().runningMemoryMb, 200);
    await Promise.all([first, large, ...small]);
    assert.deepEqual(order.slice(0, 2), ['first', 'large']);
  });

  it('is bounded: OVERLOADED with a time to come back, QUEUE_TIMEOUT after the wait', async () => {
    const jail = fakeJail('ok', { maxConcurrent: 1, maxQueue: 2, queueTimeoutMs: 100 });
    const slow = jail.runCode(job('sleep', { timeoutMs: 400 }));
    const waiting = [1, 2].map(() =>
      assert.rejects(jail.runCode(job('ok')), { code: 'ERR_JAIL_QUEUE_TIMEOUT', retryable: true }),
    );
    await assert.rejects(jail.runCode(job('ok')), (error) => {
      assert.equal(error.code, 'ERR_JAIL_OVERLOADED');
      assert.ok(error.retryable && error.retryAfterMs >= 10);
      return true;
    });
    await Promise.all(waiting);
    assert.equal((await slow).status, 'timeout');
    assert.deepEqual([jail.stats().queued, jail.stats().running, jail.stats().refused], [0, 0, 3]);
  });

  it('maxQueue 0: what cannot start at once is refused', async () => {
    const jail = fakeJail('ok', { maxConcurrent: 1, maxQueue: 0 });
    assert.equal((await jail.runCode(job('ok'))).status, 'ok');
    const slow = jail.runCode(job('sleep', { timeoutMs: 100 }));
    await assert.rejects(jail.runCode(job('ok')), { code: 'ERR_JAIL_OVERLOADED' });
    await slow;
  });

  it('256 MiB of waiting jobs are the most', async () => {
    const jail = fakeJail('ok', { maxConcurrent: 1 });
    const controller = new AbortController();
    const input = 'x'.repeat(15 << 20);
    const slow = jail.runCode(job('sleep', { timeoutMs: 20000 }), controller).catch(() => {});
    await until(() => jail.stats().running === 1);
    const outcomes = [];
    const runs = Array.from({ length: 20 }, () =>
      jail.runCode(job('ok', { input }), controller).catch((error) => outcomes.push(error.code ?? 'aborted')),
    );
    await until(() => outcomes.length >= 3, 5000);
    assert.deepEqual(outcomes, ['ERR_JAIL_OVERLOADED', 'ERR_JAIL_OVERLOADED', 'ERR_JAIL_OVERLOADED']);
    controller.abort();
    await Promise.all([slow, ...runs]);
    assert.ok(await until(() => jail.stats().queuedBytes === 0, 2000));
  });
});

describe('AbortSignal', () => {
  it('is let go of when the run has settled', async () => {
    const jail = fakeJail();
    const { signal } = new AbortController();
    let listeners = 0;
    const { addEventListener, removeEventListener } = signal;
    signal.addEventListener = (...args) => {
      listeners++;
      addEventListener.apply(signal, args);
    };
    signal.removeEventListener = (...args) => {
      listeners--;
      removeEventListener.apply(signal, args);
    };
    for (let i = 0; i < 20; i++) await jail.runCode(job('ok'), { signal });
    assert.equal(listeners, 0);
  });

  it('is refused where it lacks what one has, and cannot hurt the host', async () => {
    const jail = fakeJail();
    const like = (more) => ({ aborted: false, addEventListener() {}, removeEventListener() {}, ...more });
    const bad = { code: 'ERR_JAIL_INVALID_REQUEST' };
    await assert.rejects(jail.runCode(job('ok'), { signal: { aborted: false, addEventListener() {} } }), bad);
    await assert.rejects(jail.runCode(job('ok'), { signal: like({ aborted: 0 }) }), bad);
    const { proxy, revoke } = Proxy.revocable({}, {});
    revoke();
    await assert.rejects(jail.runCode(job('ok'), { signal: proxy }), bad);
    await assert.rejects(jail.runCode(job('ok'), proxy), bad);
    const thrower = () => {
      throw new Error('no');
    };
    const run = jail.runCode(job('sleep', { timeoutMs: 20000 }), { signal: like({ addEventListener: thrower }) });
    await assert.rejects(run, bad);
    assert.ok(await until(() => jail.stats().running === 0, 1000), 'the run has been cancelled');
    const signal = like({ removeEventListener: thrower });
    assert.equal((await jail.runCode(job('ok'), { signal })).status, 'ok');
  });

  it('that fires while the request is read is not lost', async () => {
    const jail = fakeJail();
    const controller = new AbortController();
    const input = { toJSON: () => controller.abort('early') };
    await assert.rejects(jail.runCode(job('ok', { input }), controller), (error) => error === 'early');
    assert.equal(jail.stats().settled, 0);
  });

  it('rejects with its reason at once: before, while it waits, boots, runs', async () => {
    const jail = fakeJail('ok', { maxConcurrent: 2 });
    for (const ms of [0, 0, 1, 5, 50]) {
      const reason = { ms };
      const controller = new AbortController();
      const runs = Array.from({ length: 5 }, () =>
        jail.runCode(job('sleep', { timeoutMs: 20000 }), { signal: controller.signal }).then(
          () => assert.fail('it settled'),
          (error) => assert.equal(error, reason),
        ),
      );
      if (ms) await sleep(ms);
      controller.abort(reason);
      await Promise.all(runs);
    }
    assert.ok(await until(() => jail.stats().running === 0 && jail.stats().queued === 0, 1000));
    assert.equal((await jail.runCode(job('ok'))).status, 'ok');
    assert.ok(await until(() => jail.stats().cells.javascript <= 2, 1000), 'the cells are gone');
  });
});

describe('loading', () => {
  it('by require and by import is the same', async () => {
    const { default: whole, runCode: named } = await import('../lib/index.mjs');
    assert.equal(whole, codeJail);
    assert.equal(named, runCode);
  });

  it('is offered where it runs, and nowhere else', () => {
    const { os, cpu } = require('../package.json');
    assert.deepEqual([os, cpu], [['linux'], ['x64']]);
  });

  it('a missing build is an error with a code that names the command', () => {
    const script = `
      require('node:module')._load = ((load) => (name, ...rest) => {
        if (name === 'node-gyp-build') return () => { throw new Error('No native build was found'); };
        return load(name, ...rest);
      })(require('node:module')._load);
      require(${JSON.stringify(main)}).runCode({ language: 'javascript', code: '' })
        .catch((e) => console.log(e.name, e.code, /npm run setup/.test(e.message), e.cause.message));`;
    const out = execFileSync(process.execPath, ['-e', script], { encoding: 'utf8' });
    assert.equal(out, 'JailError ERR_JAIL_CONFIG true No native build was found\n');
  });

  it('keeps no process alive, whether it ran or not', () => {
    for (const line of [
      '',
      'runCode({ language: "javascript", code: "return 1" }).then((r) => console.log(r.result))',
    ]) {
      const script = `const { runCode } = require(${JSON.stringify(main)}); ${line}`;
      const { status, stdout } = spawnSync(process.execPath, ['-e', script], { encoding: 'utf8', timeout: 20000 });
      assert.equal(status, 0);
      assert.equal(stdout, line ? '1\n' : '');
    }
  });

  it('its one handle says whether it is held: for whoever looks for open ones', () => {
    const script = `
      const resources = [];
      const init = (id, type, trigger, resource) => { if (type === 'code-jail') resources.push(resource); };
      require('node:async_hooks').createHook({ init }).enable();
      const run = require(${JSON.stringify(main)}).runCode({ language: 'javascript', code: '' });
      const held = () => console.log(resources.length, resources[0].hasRef());
      held();
      run.then(held);`;
    const { stdout, stderr } = spawnSync(process.execPath, ['-e', script], { encoding: 'utf8', timeout: 30000 });
    assert.equal(stdout, '1 true\n1 false\n', stderr);
  });

  it('a jail that nobody holds ends with its processes', () => {
    const script = `
      const { createJail } = require(${JSON.stringify(main)});
      const { descendants, until } = require(${JSON.stringify(path.join(__dirname, 'helpers', 'baseline.js'))});
      (async () => {
        await createJail().runCode({ language: 'javascript', code: '' });
        const gone = await until(() => { gc(); return descendants().length === 0; }, 5000);
        console.log(gone);
      })();`;
    const { stdout, stderr } = spawnSync(process.execPath, ['--expose-gc', '-e', script], {
      encoding: 'utf8',
      timeout: 30000,
    });
    assert.equal(stdout, 'true\n', stderr);
  });
});
