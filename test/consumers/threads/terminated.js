// A worker is terminated in mid-run: its cells end at once, the main thread's runs go on.

const assert = require('node:assert/strict');
const { Worker, isMainThread, parentPort } = require('node:worker_threads');
const { createJail, runCode } = require('code-jail');
const { count, endless, until } = require('./shared.js');

/** In the worker: runs of the jail that is everybody's, and of one of its own. */
async function inWorker() {
  const own = createJail({ parked: 1 });
  const started = [
    endless(runCode, 'javascript', 'doomed'),
    endless(runCode, 'python'),
    endless(own.runCode, 'javascript', 'doomed'),
  ];
  for (const { on } of started) await on;
  parentPort.postMessage('running');
  await Promise.all(started.map(({ run }) => run));
}

async function main() {
  for (let round = 0; round < 3; round++) {
    const controller = new AbortController();
    const mine = endless(runCode, 'javascript', 'mine', controller.signal);
    await mine.on;
    const worker = new Worker(__filename);
    await new Promise((resolve, reject) => worker.once('message', resolve).once('error', reject));
    assert.equal(count('doomed'), 2);
    const during = runCode({ language: 'python', code: 'import time\ntime.sleep(0.2)\nresult = input', input: round });
    await worker.terminate();
    await until(() => count('doomed') === 0, 'the end of the worker’s cells');
    assert.equal(count('mine'), 1, 'the main thread’s run goes on');
    assert.equal((await during).result, round);
    controller.abort();
    await assert.rejects(mine.run, { name: 'AbortError' });
  }
  console.log('done');
}

if (isMainThread) main();
else inWorker();
