// A worker leaves by process.exit() with runs in flight, then another one that has
// nothing more to do but wait for its runs, then the main thread itself.

const assert = require('node:assert/strict');
const { once } = require('node:events');
const { Worker, isMainThread, parentPort, workerData } = require('node:worker_threads');
const { runCode } = require('code-jail');
const { count, endless, until } = require('./shared.js');

const WORKERS = {
  async exits() {
    const { on } = endless(runCode, 'javascript', 'doomed');
    await on;
    process.exit(3);
  },
  async throws() {
    const { on } = endless(runCode, 'javascript', 'doomed');
    await on;
    throw new Error('on purpose');
  },
  // A run under way keeps its thread, as a request would.
  waits() {
    runCode({ language: 'javascript', code: 'return new Promise((r) => setTimeout(r, 200, "late"))' }).then((run) =>
      parentPort.postMessage(run.result),
    );
  },
};

async function end(name) {
  const worker = new Worker(__filename, { workerData: name });
  const heard = [];
  worker.on('message', (message) => heard.push(message));
  worker.on('error', (error) => heard.push(error.message));
  const code = await new Promise((resolve) => worker.on('exit', resolve)); // once() would reject for its error
  return [code, ...heard];
}

async function main() {
  assert.deepEqual(await end('exits'), [3]);
  assert.deepEqual(await end('throws'), [1, 'on purpose']);
  assert.deepEqual(await end('waits'), [0, 'late']);
  await until(() => count('doomed') === 0, 'the end of the cells of workers that left');
  const { on } = endless(runCode, 'javascript', 'doomed');
  await on;
  const worker = new Worker(__filename, { workerData: 'waits' });
  await once(worker, 'online');
  console.log('done');
  process.exit(0);
}

if (isMainThread) main();
else WORKERS[workerData]();
