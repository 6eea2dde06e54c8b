'use strict';
// Runs the table of cases.js over the local jail.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const { after, describe, it } = require('node:test');
const { setTimeout: sleep } = require('node:timers/promises');
const cases = require('./cases.js');
const { descendants, measure, survivors, timerLag, until } = require('./helpers/baseline.js');
const { matches, openJail } = require('./helpers/run.js');

const jail = openJail();

async function once(one, input = one.input ?? null) {
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
  assert.ok(one.parallel || tookMs <= maxMs, `took ${tookMs} ms, at most ${maxMs} expected`);
  return result;
}

async function many(one) {
  const start = performance.now();
  const runs = Array.from({ length: one.parallel }, async (_, i) => [i, await once(one, { i })]);
  for (const [i, result] of await Promise.all(runs)) assert.equal(result.result, i);
  assert.ok(performance.now() - start <= one.maxTotalMs, 'the whole took too long');
}

async function perform(one) {
  if (one.parallel) {
    // Beside them the host reads a file without delay: its thread pool is free.
    const [, readMs] = await Promise.all([
      many(one),
      sleep(600).then(async () => {
        const start = performance.now();
        await fs.promises.readFile(__filename);
        return performance.now() - start;
      }),
    ]);
    assert.ok(readMs < 500, `a file was read in ${readMs} ms beside the runs`);
    return;
  }
  await once(one);
  if (!one.repeat) return;
  const before = measure();
  for (let i = 1; i < one.repeat; i++) await once(one);
  const settled = () => measure().fds <= before.fds;
  assert.ok(await until(settled), `descriptors: ${before.fds} before, ${measure().fds} after`);
}

describe('cases from the field, over the local jail', () => {
  const saved = { ...process.env };
  after(() => {
    process.env = saved;
  });
  for (const one of cases) {
    it(`${one.id} ${one.language}: ${one.name}`, async () => {
      Object.assign(process.env, one.hostEnv);
      if (one.hostLagMs) {
        const { worst } = await timerLag(() => perform(one), 50);
        assert.ok(worst() < one.hostLagMs, `a 50 ms timer was late by ${worst()} ms`);
      } else {
        await perform(one);
      }
      if (one.destructive) {
        const next = await jail.runCode({
          language: one.language,
          code: one.language === 'python' ? 'result = 1' : 'return 1',
        });
        assert.equal(next.result, 1, 'the next run works');
      }
    });
  }

  it('leaves no process behind once the jail is closed', async () => {
    const seen = descendants();
    assert.ok(seen.length > 0, 'while it is open there are some');
    await jail.close();
    assert.deepEqual(await until(() => survivors(seen).length === 0 && [], 3000), []);
  });
});
