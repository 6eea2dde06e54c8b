'use strict';
// Several threads of one process use the engine at once, in every call it has,
// and are ended while they do. What it is for is to be run under a thread sanitizer
// (scripts/ci-sanitized.js thread); without one it shows that every call is answered.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { Worker } = require('node:worker_threads');
const { createJail } = require('../lib/index.js');

const THREADS = 4;
const RUNS = 12;

// In a worker. Its jail is one of its own, or shared with all whose configuration is alike.
const code = `
  const { parentPort, workerData } = require('node:worker_threads');
  const { createJail } = require(workerData.library);
  const REQUESTS = [
    { language: 'javascript', code: 'console.log(input); return input', input: 1 },
    { language: 'javascript', code: 'for (;;) {}', timeoutMs: 50 },
    { language: 'python', code: 'result = input', input: 1 },
  ];
  async function once(jail, i) {
    const signal = i % 4 === 0 ? AbortSignal.timeout(i) : undefined;
    const run = jail.runCode(REQUESTS[i % REQUESTS.length], { signal, onStdout() {} });
    jail.stats();
    return run.then((result) => result.status, (error) => (error.name === 'JailError' ? error.code : error.name));
  }
  async function main() {
    const jails = [createJail({ parked: 1 }), createJail({ parked: 1, maxConcurrent: 2 + workerData.number })];
    const warm = jails[0].warm(['javascript']).catch(() => {});
    const outcomes = [];
    for (const jail of jails)
      outcomes.push(...Array.from({ length: workerData.runs }, (_, i) => once(jail, i)));
    parentPort.postMessage('busy');
    if (workerData.stays) await Promise.all([warm, ...outcomes]);
    const closed = jails.map((jail) => jail.close());
    parentPort.postMessage(await Promise.all(outcomes));
    await Promise.all(closed);
  }
  main();
`;

function start(number, stays) {
  const workerData = { library: require.resolve('../lib/index.js'), number, stays, runs: RUNS };
  const worker = new Worker(code, { eval: true, workerData });
  const heard = [];
  worker.on('message', (message) => heard.push(message));
  const busy = new Promise((resolve, reject) => worker.once('message', resolve).once('error', reject));
  const ended = new Promise((resolve, reject) => worker.once('exit', resolve).once('error', reject));
  return { worker, heard, busy, ended };
}

describe('several threads at once', () => {
  it('every run of each is answered, whether its jail is closed before or not', async () => {
    const threads = Array.from({ length: THREADS }, (_, i) => start(i, i % 2 === 0));
    await Promise.all(threads.map((thread) => thread.ended));
    threads.forEach(({ heard }, i) => {
      const outcomes = heard[1];
      assert.equal(outcomes.length, 2 * RUNS);
      const expected = i % 2 === 0 ? /^(ok|timeout|TimeoutError)$/ : /^(ok|timeout|TimeoutError|ERR_JAIL_CLOSED)$/;
      for (const outcome of outcomes) assert.match(String(outcome), expected);
    });
    const seen = new Set(threads.flatMap(({ heard }) => heard[1]));
    for (const each of ['ok', 'timeout', 'ERR_JAIL_CLOSED']) assert.ok(seen.has(each), `${each}: ${[...seen]}`);
  });

  it('threads that are ended in the middle take nothing from the others', async () => {
    const own = createJail({ parked: 1 });
    const threads = Array.from({ length: THREADS }, (_, i) => start(i, true));
    const ends = threads.map(async ({ worker, busy }) => {
      await busy;
      await worker.terminate();
    });
    for (let i = 0; i < RUNS; i++) {
      const run = await own.runCode({ language: 'javascript', code: 'return input', input: i });
      assert.equal(run.result, i);
    }
    await Promise.all(ends);
    await own.close();
  });
});
