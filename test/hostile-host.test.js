'use strict';
// The host's side of every end: killed, terminated, aborted, crowded, starved.
// Whatever happens, each promise settles once and nothing is left behind.

const assert = require('node:assert/strict');
const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { after, describe, it } = require('node:test');
const { setTimeout: sleep } = require('node:timers/promises');
const { createJail, JailError, runCode } = require('../lib/index.js');
const { descendants, slack, survivors, until } = require('./helpers/baseline.js');
const { startHost } = require('./helpers/host.js');
const { matches, openJail } = require('./helpers/run.js');

// A folder for temporary files that nobody else writes to, so that what is left can be counted.
process.env.TMPDIR = fs.mkdtempSync(path.join(os.tmpdir(), 'host-test-'));
after(() => fs.rmSync(process.env.TMPDIR, { recursive: true }));

const jail = openJail();
const js = (code, options, more) => jail.runCode({ language: 'javascript', code, ...options }, more);
const py = (code, options, more) => jail.runCode({ language: 'python', code, ...options }, more);
const isGone = (processes, ms = 3000) => until(() => survivors(processes).length === 0, ms);

async function goneWith(host, end) {
  await host.line(/^busy/);
  const seen = descendants(host.child.pid);
  assert.ok(seen.length >= 5, `keeper, init, zygotes and cells are there: ${seen.map((one) => one.comm)}`);
  await end(seen);
  assert.ok(await isGone(seen), `left behind: ${JSON.stringify(survivors(seen))}`);
}

describe('the end of a host with runs in flight', () => {
  it('kill -9 takes every process along', async () => {
    const host = startHost('busy');
    await goneWith(host, () => host.child.kill('SIGKILL'));
  });

  it('SIGTERM likewise', async () => {
    const host = startHost('busy');
    await goneWith(host, () => host.child.kill('SIGTERM'));
  });

  it('process.exit likewise, and quickly', async () => {
    const host = startHost('busy', ['exit']);
    await goneWith(host, async () => {
      const start = performance.now();
      assert.equal((await host.exited).code, 5);
      assert.ok(performance.now() - start < 3000 * slack());
    });
  });

  it('an uncaught exception likewise', async () => {
    const host = startHost('busy', ['throw']);
    await goneWith(host, async () => assert.equal((await host.exited).code, 1));
  });

  it('close() settles every run as ERR_JAIL_CLOSED, and the process ends by itself', async () => {
    const host = startHost('busy', ['close']);
    await goneWith(host, async () => {
      const { code, stdout } = await host.exited;
      assert.equal(code, 0);
      assert.equal(stdout.match(/^rejected ERR_JAIL_CLOSED$/gm)?.length, 3, stdout);
      assert.match(stdout, /^closed$/m);
    });
  });

  it('a terminated worker takes its own runs along, and the engine goes on', async () => {
    const host = startHost('busy', ['worker']);
    await host.line(/^busy|^after/);
    const { code, signal, stdout, stderr } = await host.exited;
    assert.equal(code, 0, `${signal} ${stdout} ${stderr}`);
    assert.match(stdout, /^after 2$/m);
  });

  for (const name of ['code-jail-keepe', 'keeper']) {
    it(`a killed ${name === 'keeper' ? 'child of the keeper (init)' : 'keeper'} takes every cell along; the host hears of it`, async () => {
      const host = startHost('busy');
      await goneWith(host, async (seen) => {
        const keepers = seen.filter((one) => one.ppid === host.child.pid);
        const victims =
          name === 'keeper' ? seen.filter((one) => keepers.some((keeper) => keeper.pid === one.ppid)) : keepers;
        assert.ok(victims.length > 0);
        for (const one of victims) process.kill(one.pid, 'SIGKILL');
        await until(() => host.child.exitCode !== null, 1000);
        const cells = seen.filter((one) => !keepers.includes(one));
        assert.ok(await isGone(cells), `${JSON.stringify(survivors(cells))}`);
        host.child.kill('SIGKILL');
        const { stdout } = await host.exited;
        assert.equal(stdout.match(/^(settled|rejected) /gm)?.length, 3, `each run settled once: ${stdout}`);
      });
    });
  }
});

describe('the death of a helper', () => {
  it('every process below, killed one at a time: runs settle and the next one works', async () => {
    const own = createJail({});
    try {
      await own.runCode({ language: 'python', code: 'result = 1' });
      const rounds = descendants().length;
      for (let i = 0; i < Math.min(rounds, 8); i++) {
        const run = own.runCode({ language: 'python', code: 'import time\ntime.sleep(0.3)\nresult = 1' });
        await sleep(60);
        const victims = descendants();
        const victim = victims[i % victims.length];
        try {
          process.kill(victim.pid, 'SIGKILL');
        } catch {}
        const outcome = await run.then(
          (result) => result.status,
          (error) => error.code,
        );
        assert.match(outcome, /^(ok|killed|ERR_JAIL_UNAVAILABLE)$/, `${victim.comm}: ${outcome}`);
        // The run may have settled before the last of the processes below is gone:
        // one more may meet that end, and says so.
        const again = () => own.runCode({ language: 'python', code: 'result = 2' });
        const next = await again().catch((error) => {
          assert.equal(error.code, 'ERR_JAIL_UNAVAILABLE');
          return again();
        });
        assert.equal(next.result, 2, `after the death of ${victim.comm}`);
      }
    } finally {
      await own.close();
    }
  });
});

describe('AbortSignal', () => {
  const reason = new Error('changed my mind');

  it('aborted before the call: rejects with its reason, nothing starts', async () => {
    await assert.rejects(js('return 1', {}, { signal: AbortSignal.abort(reason) }), (error) => error === reason);
  });

  it('aborted while it runs: rejects at once, and the cell is gone within 50 ms', async () => {
    await py('result = 1');
    for (const delay of [0, 1, 5, 50, 200]) {
      const controller = new AbortController();
      const before = new Set(descendants().map((one) => one.pid));
      const run = py('while True: pass', { timeoutMs: 20000 }, { signal: controller.signal });
      const settled = assert.rejects(run, (error) => error === reason);
      await sleep(delay);
      const start = performance.now();
      controller.abort(reason);
      await settled;
      assert.ok(performance.now() - start < 50 * slack(), `it took ${performance.now() - start} ms to reject`);
      assert.ok(before.size > 0);
    }
    const busy = () =>
      descendants().filter((one) => {
        const [user] = cpuOf(one.pid);
        return user > 100;
      });
    assert.ok(await until(() => busy().length === 0, 1000), 'no busy cell is left');
  });

  it('aborted while it waits: it never runs', async () => {
    const narrow = createJail({ maxConcurrent: 1 });
    try {
      const first = narrow.runCode({ language: 'python', code: 'import time\ntime.sleep(0.3)\nresult = 1' });
      const controller = new AbortController();
      const second = narrow.runCode({ language: 'python', code: 'result = 2' }, { signal: controller.signal });
      setTimeout(() => controller.abort(reason), 50);
      await assert.rejects(second, (error) => error === reason);
      assert.equal((await first).result, 1);
      assert.equal((await narrow.runCode({ language: 'python', code: 'result = 3' })).result, 3);
    } finally {
      await narrow.close();
    }
  });

  it('aborted after the end, and twice: nothing more happens', async () => {
    const controller = new AbortController();
    const result = await js('return 1', {}, { signal: controller.signal });
    controller.abort(reason);
    controller.abort(new Error('again'));
    assert.equal(result.result, 1);
    assert.equal((await js('return 2')).result, 2);
  });

  it('aborted at random moments, a hundred times: each settles once', async () => {
    const outcomes = await Promise.all(
      Array.from({ length: 100 }, async (_, i) => {
        const controller = new AbortController();
        const run = js('return 1', {}, { signal: controller.signal });
        setTimeout(() => controller.abort(reason), (i * 7) % 40);
        return run.then(
          (result) => result.result,
          (error) => (error === reason ? 'aborted' : error),
        );
      }),
    );
    for (const outcome of outcomes) assert.ok(outcome === 1 || outcome === 'aborted', String(outcome));
  });
});

function cpuOf(pid) {
  try {
    const text = fs.readFileSync(`/proc/${pid}/stat`, 'utf8');
    const rest = text.slice(text.lastIndexOf(')') + 2).split(' ');
    return [Number(rest[11]), Number(rest[12])];
  } catch {
    return [0, 0];
  }
}

describe('crowds and queues', () => {
  it('200 at once each get their own answer', async () => {
    const runs = Array.from({ length: 200 }, (_, i) =>
      i % 2 ? py('result = input', { input: i }) : js('return input', { input: i }),
    );
    const results = await Promise.all(runs);
    assert.deepEqual(
      results.map((one) => one.result),
      results.map((_, i) => i),
    );
    assert.equal(new Set(results.map((one) => one.id)).size, 200);
  });

  it('a full queue and a wait too long have codes of their own', async () => {
    const narrow = createJail({ maxConcurrent: 1, maxQueue: 1, queueTimeoutMs: 150 });
    try {
      await narrow.runCode({ language: 'python', code: 'result = 0' });
      const slow = narrow.runCode({ language: 'python', code: 'import time\ntime.sleep(0.6)\nresult = 1' });
      await sleep(20);
      const waiting = narrow.runCode({ language: 'python', code: 'result = 2' });
      const refused = narrow.runCode({ language: 'python', code: 'result = 3' });
      await assert.rejects(refused, { code: 'ERR_JAIL_OVERLOADED', retryable: true });
      await assert.rejects(waiting, { code: 'ERR_JAIL_QUEUE_TIMEOUT' });
      assert.equal((await slow).result, 1);
    } finally {
      await narrow.close();
    }
  });

  it('waiting is queueMs, not runMs', async () => {
    const narrow = createJail({ maxConcurrent: 1 });
    try {
      await narrow.runCode({ language: 'python', code: 'result = 0' });
      const slow = narrow.runCode({ language: 'python', code: 'import time\ntime.sleep(0.3)' });
      const next = await narrow.runCode({ language: 'python', code: 'result = 2' });
      await slow;
      assert.ok(next.usage.queueMs >= 200, `queueMs ${next.usage.queueMs}`);
      assert.ok(next.usage.runMs < 200 * slack(), `runMs ${next.usage.runMs}`);
    } finally {
      await narrow.close();
    }
  });
});

describe('starved hosts', () => {
  const env = { ...process.env };

  it('with SIGCHLD ignored all is the same', async () => {
    const host = startHost('simple', [3], { shell: "trap '' CHLD", env });
    assert.equal(await host.line(/^results/), 'results 42');
    assert.equal((await host.exited).code, 0);
  });

  it('with few descriptors it works or says so, and ends', async () => {
    for (const limit of [32, 40, 64]) {
      const host = startHost('simple', [20], { shell: `ulimit -n ${limit}`, env });
      const line = await host.line(/^results/);
      for (const outcome of line.slice('results '.length).split(', ')) {
        assert.match(
          outcome,
          /^(42|JailError ERR_JAIL_(UNAVAILABLE|OVERLOADED|QUEUE_TIMEOUT))$/,
          `at ${limit}: ${line}`,
        );
      }
      assert.equal((await host.exited).code, 0);
    }
  });

  it('stopped and continued between two requests and within one, each is answered', async () => {
    const host = startHost('serve', [], { stdio: ['pipe', 'pipe', 'pipe'] });
    const ask = async (name, code) => {
      host.child.stdin.write(`${JSON.stringify({ name, language: 'python', code })}\n`);
      return host.line(new RegExp(`^${name} `));
    };
    const pause = async () => {
      host.child.kill('SIGSTOP');
      await sleep(400);
      host.child.kill('SIGCONT');
    };
    assert.equal(await ask('first', 'result = 1'), 'first ok 1');
    await pause();
    assert.equal(await ask('second', 'result = 2'), 'second ok 2');
    const third = ask('third', 'import time\ntime.sleep(0.3)\nresult = 3');
    await sleep(100);
    await pause();
    assert.equal(await third, 'third ok 3');
    host.child.stdin.end();
    assert.equal((await host.exited).code, 0);
  });

  it('without a place to write, and with a strange umask and folder, it works', async () => {
    const host = startHost('simple', [], { shell: 'umask 777; cd /', env: { ...env, TMPDIR: '/nonexistent' } });
    assert.equal(await host.line(/^results/), 'results 42');
    await host.exited;
  });

  it('at a lower priority than cells have, it works, and behind the same walls', async () => {
    const host = startHost('simple', [], { shell: 'renice -n 19 $$ >/dev/null', env });
    assert.equal(await host.line(/^results/), 'results 42');
    await host.exited;
    const layers = (prefix) => {
      const code =
        "require('./lib').runCode({ language: 'python', code: '' }).then((run) => console.log(JSON.stringify(run.jail.layers)))";
      const [program, ...args] = [...prefix, process.execPath, '-e', code];
      return JSON.parse(execFileSync(program, args, { cwd: path.join(__dirname, '..'), encoding: 'utf8', env }));
    };
    assert.deepEqual(layers(['nice', '-n', '19']), layers([]));
  });
});

describe('requests that are none', () => {
  const refused = {
    'no request': undefined,
    null: null,
    'a number': 5,
    'no language': { code: '' },
    'language constructor': { language: 'constructor', code: '' },
    'language __proto__': { language: '__proto__', code: '' },
    'code null': { language: 'python', code: null },
    'code a number': { language: 'python', code: 5 },
    'code a Buffer': { language: 'python', code: Buffer.from('1') },
    'code of 64 MB': { language: 'python', code: 'x'.repeat(64 << 20) },
    'an unknown field': { language: 'python', code: '', typo: 1 },
    'a function as input': { language: 'python', code: '', input: { a: [() => 1] } },
    'a BigInt as input': { language: 'python', code: '', input: 1n },
    'timeoutMs 0': { language: 'python', code: '', timeoutMs: 0 },
    'timeoutMs 60001': { language: 'python', code: '', timeoutMs: 60001 },
    'timeoutMs 1.5': { language: 'python', code: '', timeoutMs: 1.5 },
    'timeoutMs text': { language: 'python', code: '', timeoutMs: '5' },
    'memoryMb 15': { language: 'python', code: '', memoryMb: 15 },
    'memoryMb NaN': { language: 'python', code: '', memoryMb: Number.NaN },
    'an env key with =': { language: 'python', code: '', env: { 'a=b': '1' } },
    'an env value with NUL': { language: 'python', code: '', env: { a: '\0' } },
    '65 env keys': {
      language: 'python',
      code: '',
      env: Object.fromEntries(Array.from({ length: 65 }, (_, i) => [`k${i}`, ''])),
    },
    'an id of 129 characters': { language: 'python', code: '', id: 'x'.repeat(129) },
  };
  for (const [name, request] of Object.entries(refused)) {
    it(`${name} is refused before anything starts`, async () => {
      await assert.rejects(
        async () => jail.runCode(request),
        (error) => error instanceof JailError && error.code === 'ERR_JAIL_INVALID_REQUEST' && error.message.length > 10,
      );
    });
  }

  it('getters that throw, circular and deep input do not crash', async () => {
    const circular = {};
    circular.self = circular;
    const throwing = {
      get a() {
        throw new Error('no');
      },
    };
    let deep = [];
    for (let i = 0; i < 200000; i++) deep = [deep];
    for (const input of [circular, throwing, deep]) {
      await assert.rejects(async () => js('return 1', { input }));
    }
    matches(await js('return input', { input: { s: '\ud83d', n: 'a\0b' } }), {
      status: 'ok',
      result: { s: '\ud83d', n: 'a\0b' },
    });
  });
});

describe('loading', () => {
  it('required again a hundred times, and in eight workers at once', async () => {
    const main = require.resolve('../lib/index.js');
    const library = path.join(__dirname, '..', 'lib');
    for (let i = 0; i < 100; i++) {
      for (const name of Object.keys(require.cache)) if (name.startsWith(library)) delete require.cache[name];
      const again = require(main);
      if (i % 25 === 0) assert.equal((await again.runCode({ language: 'javascript', code: 'return 1' })).result, 1);
    }
    const { Worker } = require('node:worker_threads');
    const code = `
      const { runCode } = require(${JSON.stringify(main)});
      runCode({ language: 'javascript', code: 'return input', input: 7 })
        .then((r) => require('node:worker_threads').parentPort.postMessage(r.result));`;
    const answers = await Promise.all(
      Array.from(
        { length: 8 },
        () =>
          new Promise((resolve, reject) => {
            const worker = new Worker(code, { eval: true });
            worker.once('message', resolve);
            worker.once('error', reject);
          }),
      ),
    );
    assert.deepEqual(answers, Array(8).fill(7));
  });

  it('the result tells the layers that were verified, and why others are missing', async () => {
    for (const result of [await js('return 1'), await py('result = 1')]) {
      const { layers, missing, backend, runtime, start } = result.jail;
      const known = [
        'user-namespace',
        'pid-namespace',
        'mount-namespace',
        'network-namespace',
        'ipc-namespace',
        'uts-namespace',
        'own-root',
        'no-capabilities',
        'no-new-privs',
        'landlock',
        'seccomp',
        'rlimits',
        'cgroup',
        'separate-uid',
      ];
      assert.equal(backend, 'local');
      assert.match(runtime, /^(node|python) \d+\.\d+/);
      const guest = process.env.CODE_JAIL_TEST_NODE;
      if (guest && runtime.startsWith('node')) {
        const version = execFileSync(guest, ['-p', 'process.versions.node'], { encoding: 'utf8' }).trim();
        assert.equal(runtime, `node ${version}`, 'the guest that CI asked for');
      }
      assert.match(start, /^(parked|fork|cold)$/);
      assert.deepEqual([...layers, ...missing.map((one) => one.layer)].sort(), [...known].sort());
      for (const { reason } of missing) assert.ok(reason.length > 5, 'each missing layer has its reason');
    }
  });
});

describe('an idle jail', () => {
  it('does not keep the host alive', async () => {
    assert.equal(typeof runCode, 'function');
    const start = performance.now();
    const host = startHost('simple');
    assert.equal(await host.line(/^results/), 'results 42');
    assert.equal((await host.exited).code, 0);
    assert.ok(performance.now() - start < 10000 * slack());
  });
});
