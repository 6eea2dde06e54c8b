// Runs in several workers and in the main thread, and all end by themselves.

const assert = require('node:assert/strict');
const { Worker, isMainThread, parentPort } = require('node:worker_threads');
const { runCode, createJail } = require('code-jail');

const RUNS = 4;

async function runs() {
  const results = [];
  for (let i = 0; i < RUNS; i++) {
    const { result } = await runCode({ language: 'javascript', code: 'return input + 1', input: i });
    const { result: more } = await runCode({ language: 'python', code: 'result = input + 1', input: result });
    results.push(more);
  }
  const own = createJail({ parked: 1 }); // never closed
  results.push((await own.runCode({ language: 'javascript', code: 'return "own"' })).result);
  return results;
}

async function main() {
  const workers = Array.from({ length: 3 }, () => new Worker(__filename));
  const answers = await Promise.all([
    runs(),
    ...workers.map((worker) => new Promise((resolve, reject) => worker.on('message', resolve).on('error', reject))),
  ]);
  for (const answer of answers) assert.deepEqual(answer, [2, 3, 4, 5, 'own']);
  console.log('done');
}

if (isMainThread) main();
else runs().then((results) => parentPort.postMessage(results));
