// Two workers of a cluster, of which one is killed in mid-run.

const assert = require('node:assert/strict');
const cluster = require('node:cluster');
const { once } = require('node:events');
const { runCode } = require('code-jail');
const { below, count, endless, until } = require('./shared.js');

async function inWorker() {
  const { on } = endless(runCode, 'javascript', `of-${process.pid}`);
  await on;
  process.send('running');
  process.on('message', async (input) => {
    const { result } = await runCode({ language: 'python', code: 'result = input * 2', input });
    process.send(result, () => process.exit(0));
  });
}

async function main() {
  const [first, second] = [cluster.fork(), cluster.fork()];
  await Promise.all([first, second].map((worker) => once(worker, 'message')));
  const { pid } = first.process;
  assert.ok(below(pid).length > 0);
  assert.equal(count(`of-${pid}`), 1);
  first.process.kill('SIGKILL');
  const [, signal] = await once(first, 'exit');
  assert.equal(signal, 'SIGKILL');
  // All that was below it has gone, wherever it was handed to.
  await until(() => count(`of-${pid}`, process.ppid) === 0, 'the end of its cell');
  assert.equal(count(`of-${second.process.pid}`), 1, 'the other one’s run goes on');
  second.send(21);
  assert.deepEqual((await once(second, 'message'))[0], 42);
  await once(second, 'exit');
  console.log('done');
}

if (cluster.isPrimary) main();
else inWorker();
