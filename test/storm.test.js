'use strict';
// The short storm of `npm run test:storm`, and hosts that make it hard for
// themselves: few descriptors, somebody else who reaps, a clock that leaps,
// workers and modules that come and go.

const assert = require('node:assert/strict');
const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { describe, it } = require('node:test');
const { Worker } = require('node:worker_threads');
const { descendants, measure, slack, until } = require('./helpers/baseline.js');
const { startHost } = require('./helpers/host.js');
const { whyNot } = require('./helpers/tiers.js');
const { PLACES, storm } = require('./storm/storm.js');

const ROOT = path.join(__dirname, '..');

describe('processes killed and stopped at random moments', { skip: whyNot() }, () => {
  const seed = Number(process.env.CODE_JAIL_TEST_SEED ?? Date.now() % 1e6);
  for (const place of Object.keys(PLACES))
    it(`${place}: what is lost comes back, nothing is left`, async (t) => {
      t.diagnostic(`seed ${seed}`);
      await storm(place, 5, seed);
    });
});

/** A library to preload, compiled once. @param {string} name */
function preload(name) {
  const source = path.join(__dirname, 'fixtures', `${name}.c`);
  const library = path.join(ROOT, '.cache', 'fixtures', `${name}-${Math.round(fs.statSync(source).mtimeMs)}.so`);
  if (!fs.existsSync(library)) {
    fs.mkdirSync(path.dirname(library), { recursive: true });
    const flags = ['-std=gnu11', '-D_GNU_SOURCE', '-O1', '-shared', '-fPIC', '-pthread'];
    execFileSync(process.env.CC || 'cc', [...flags, source, '-o', library]);
  }
  return { ...process.env, LD_PRELOAD: library };
}

const told = async (host, word) =>
  JSON.parse((await host.line(new RegExp(`^${word} `), 120000)).slice(word.length + 1));

describe('few descriptors', () => {
  for (const [limit, runs, crowd] of [
    [64, 150, 200],
    [128, 150, 200],
  ])
    it(`of ${limit}: ${runs} runs in a row and ${crowd} at once, each answered or refused, and all descriptors come back`, async () => {
      const host = startHost('crowd', [runs, crowd], { shell: `ulimit -n ${limit}`, env: process.env });
      const { counts, before, after } = await told(host, 'counts');
      const known = /^(ok|ERR_JAIL_(UNAVAILABLE|OVERLOADED|QUEUE_TIMEOUT))$/;
      assert.deepEqual(
        Object.keys(counts).filter((name) => !known.test(name)),
        [],
        JSON.stringify(counts),
      );
      assert.ok(counts.ok >= runs, JSON.stringify(counts));
      assert.ok(after <= before, `descriptors ${before} → ${after}`);
      assert.equal((await host.exited).code, 0);
    });
});

describe('a host of a special kind', () => {
  it('that waits for any child takes nothing away', async () => {
    const host = startHost('busy', ['close'], { env: preload('reaper') });
    const { code, stdout } = await host.exited;
    assert.equal(code, 0, stdout);
    assert.equal(stdout.match(/^rejected ERR_JAIL_CLOSED$/gm)?.length, 3, stdout);
    const simple = startHost('simple', [20], { env: preload('reaper') });
    assert.equal(await simple.line(/^results/), 'results 42');
    assert.equal((await simple.exited).code, 0);
  });

  it('whose wall clock leaps keeps every deadline', async () => {
    const { deadline, queued, whole, leaps } = await told(
      startHost('timed', [], { env: preload('jumpy-clock') }),
      'timed',
    );
    assert.ok(leaps, 'the clock of the host does leap');
    assert.equal(deadline.outcome, 'timeout');
    assert.ok(deadline.ms >= 600 && deadline.ms < 3000 * slack(), `a deadline of 600 ms came after ${deadline.ms}`);
    assert.equal(queued.outcome, 'ERR_JAIL_QUEUE_TIMEOUT');
    assert.ok(queued.ms >= 300 && queued.ms < 3000 * slack(), `300 ms in the queue were ${queued.ms}`);
    assert.equal(whole.outcome, 'ok');
  });

  it('nothing in the core or the keeper asks the wall clock', () => {
    const files = fs.readdirSync(path.join(ROOT, 'src'), { recursive: true }).map(String);
    const wall = /\b(CLOCK_REALTIME|gettimeofday\(|time\((NULL|0)\)|pthread_cond_timedwait\(|sem_timedwait\()/;
    assert.match('if (time(NULL) > end)', wall);
    // The agent is pid 1 of a machine of its own, whose clock it sets.
    const sources = files.filter((name) => name.endsWith('.c') && name !== 'agent/agent.c');
    assert.ok(sources.length > 50);
    assert.deepEqual(
      sources.filter((name) => wall.test(fs.readFileSync(path.join(ROOT, 'src', name), 'utf8'))),
      [],
    );
  });
});

// Once the next cells are parked, each a descriptor and a process: nothing comes or goes any more.
async function atRest() {
  const same = (one, other) => ['fds', 'processes', 'threads'].every((what) => one[what] === other[what]);
  let last = measure();
  for (let since = Date.now(); Date.now() - since < 500 * slack(); ) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    const now = measure();
    if (!same(now, last)) since = Date.now();
    last = now;
  }
  return last;
}

describe('loading, over and over', () => {
  const main = require.resolve('../lib/index.js');

  it('eight workers at once load, run and are terminated at any moment', async () => {
    const { runCode, createJail } = require(main);
    await runCode({ language: 'javascript', code: 'return 1' });
    const code = `
      const { createJail } = require(${JSON.stringify(main)});
      const jail = createJail({ parked: 1 });
      require('node:worker_threads').parentPort.postMessage('loaded');
      for (let i = 0; i < 4; i++) jail.runCode({ language: 'javascript', code: 'for (;;) {}', timeoutMs: 20000 }).catch(() => {});`;
    const before = await atRest();
    for (let round = 0; round < 2; round++)
      await Promise.all(
        Array.from({ length: 8 }, async (_, i) => {
          const worker = new Worker(code, { eval: true });
          await new Promise((resolve, reject) => worker.once('message', resolve).once('error', reject));
          await new Promise((resolve) => setTimeout(resolve, i * 20));
          await worker.terminate();
        }),
      );
    const grown = () => ['fds', 'processes', 'threads'].filter((what) => measure()[what] > before[what]);
    assert.ok(await until(() => grown().length === 0, 10000 * slack(), 100), `left: ${grown()}`);
    const jail = createJail({});
    assert.equal((await jail.runCode({ language: 'javascript', code: 'return 2' })).result, 2);
    await jail.close();
  });

  it('a module registry that is reset for each of 200 files, as Jest does', async () => {
    const library = path.join(ROOT, 'lib');
    const again = () => {
      for (const name of Object.keys(require.cache)) if (name.startsWith(library)) delete require.cache[name];
      return require(main);
    };
    assert.equal((await again().runCode({ language: 'javascript', code: 'return 1' })).result, 1);
    const before = await atRest();
    for (let i = 0; i < 200; i++) {
      const { runCode, createJail, JailError } = again();
      assert.equal((await runCode({ language: 'javascript', code: 'return input', input: i })).result, i);
      if (i % 20) continue;
      const jail = createJail({ parked: 0 });
      await assert.rejects(jail.runCode({ language: 'none', code: '' }), JailError);
      assert.equal((await jail.runCode({ language: 'javascript', code: 'return 1' })).result, 1);
      await jail.close();
    }
    const grown = () => ['fds', 'threads'].filter((what) => measure()[what] > before[what]);
    assert.ok(await until(() => grown().length === 0, 5000 * slack(), 50), `left: ${grown()}`);
    assert.ok(descendants().filter((one) => one.state === 'Z').length === 0, 'no zombies');
  });
});
