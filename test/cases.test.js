'use strict';
// Runs the table of cases.js over the local jail.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const { after, describe, it } = require('node:test');
const { setTimeout: sleep } = require('node:timers/promises');
const cases = require('./cases.js');
const { descendants, measure, slack, survivors, timerLag, until } = require('./helpers/baseline.js');
const { matches, openJail } = require('./helpers/run.js');

// Both ways to start; fresh interpreters go through the same guest code.
const JAILS = { parked: openJail(), cold: openJail({ start: 'cold' }) };

async function once(jail, one, input = one.input ?? null) {
  const { maxMs = 15000, ...expect } = one.expect;
  const start = performance.now();
  const result = await jail.runCode({ language: one.language, code: one.code, input, ...one.options });
  const tookMs = performance.now() - start;
  try {
    matches(result, expect);
  } catch (error) {
    const { stdout, stderr, ...rest } = result;
    const seen = { ...rest, stdout: stdout.slice(0, 300), stderr: stderr.slice(0, 300) };
    error.message += `\nthe run: ${JSON.stringify(seen).slice(0, 2000)}`;
    throw error;
  }
  assert.ok(one.parallel || tookMs <= maxMs * slack(), `took ${tookMs} ms, at most ${maxMs} expected`);
  return result;
}

async function many(jail, one) {
  const start = performance.now();
  const runs = Array.from({ length: one.parallel }, async (_, i) => [i, await once(jail, one, { i })]);
  for (const [i, result] of await Promise.all(runs)) assert.equal(result.result, i);
  assert.ok(performance.now() - start <= one.maxTotalMs * slack(), 'the whole took too long');
}

async function perform(jail, one) {
  if (one.parallel) {
    // Beside them the host reads a file without delay: its thread pool is free.
    const [, readMs] = await Promise.all([
      many(jail, one),
      sleep(600).then(async () => {
        const start = performance.now();
        await fs.promises.readFile(__filename);
        return performance.now() - start;
      }),
    ]);
    assert.ok(readMs < 500 * slack(), `a file was read in ${readMs} ms beside the runs`);
    return;
  }
  await once(jail, one);
  if (!one.repeat) return;
  const before = measure();
  for (let i = 1; i < one.repeat; i++) await once(jail, one);
  const settled = () => measure().fds <= before.fds;
  assert.ok(await until(settled), `descriptors: ${before.fds} before, ${measure().fds} after`);
}

for (const [start, jail] of Object.entries(JAILS)) {
  describe(`cases from the field, over the local jail, ${start} start`, () => {
    const saved = { ...process.env };
    after(() => {
      process.env = saved;
    });
    // Many at once, or again and again, is about the host: once is enough.
    for (const one of cases.filter((each) => start === 'parked' || !(each.parallel || each.repeat))) {
      it(`${one.id} ${one.language}: ${one.name}`, async () => {
        Object.assign(process.env, one.hostEnv);
        if (one.hostLagMs) {
          const { worst } = await timerLag(() => perform(jail, one), 50);
          assert.ok(worst() < one.hostLagMs * slack(), `a 50 ms timer was late by ${worst()} ms`);
        } else {
          await perform(jail, one);
        }
        if (one.destructive) {
          const code = one.language === 'python' ? 'result = 1' : 'return 1';
          const next = await jail.runCode({ language: one.language, code });
          assert.equal(next.result, 1, 'the next run works');
          if (start === 'cold') assert.equal(next.jail.start, 'cold');
        }
      });
    }
  });
}

describe('afterwards', () => {
  it('no process is left once the jails are closed', async () => {
    const seen = descendants();
    assert.ok(seen.length > 0, 'while they are open there are some');
    for (const jail of Object.values(JAILS)) await jail.close();
    assert.deepEqual(await until(() => survivors(seen).length === 0 && [], 3000), []);
  });
});
