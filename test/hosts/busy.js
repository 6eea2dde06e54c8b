'use strict';
// Starts busy runs and says so; then lives until it is ended from outside, or
// by itself: `exit` after 100 ms with runs in flight, `worker` terminates one.
const { Worker, isMainThread } = require('node:worker_threads');
const { createJail } = require('../../lib/index.js');
const how = process.argv[2] ?? 'wait';

async function busy() {
  const jail = createJail({});
  await Promise.all([
    jail.runCode({ language: 'javascript', code: 'return 1' }),
    jail.runCode({ language: 'python', code: 'result = 1' }),
  ]);
  const endless = { timeoutMs: 60000 };
  const runs = [
    jail.runCode({ language: 'javascript', code: 'for (;;) {}', ...endless }),
    jail.runCode({ language: 'python', code: 'while True: pass', ...endless }),
    jail.runCode({ language: 'python', code: 'import time\ntime.sleep(60)', ...endless }),
  ];
  for (const run of runs) {
    run.then(
      (result) => console.log('settled', result.status),
      (error) => console.log('rejected', error.code),
    );
  }
  await new Promise((resolve) => setTimeout(resolve, 150));
  return jail;
}

async function main() {
  if (how === 'worker' && isMainThread) {
    for (let i = 0; i < 3; i++) {
      const worker = new Worker(__filename, { argv: ['worker'] });
      await new Promise((resolve, reject) => {
        worker.once('message', resolve);
        worker.once('error', reject);
      });
      await worker.terminate();
    }
    const jail = createJail({});
    const after = await jail.runCode({ language: 'javascript', code: 'return 2' });
    console.log('after', after.result);
    await jail.close();
    return;
  }
  const jail = await busy();
  if (!isMainThread) {
    require('node:worker_threads').parentPort.postMessage('busy');
    return;
  }
  console.log('busy');
  if (how === 'exit') setTimeout(() => process.exit(5), 100);
  if (how === 'throw') {
    setTimeout(() => {
      throw new Error('on purpose');
    }, 100);
  }
  if (how === 'close') {
    await new Promise((resolve) => setTimeout(resolve, 500)); // for the test to count what is there
    await jail.close();
    console.log('closed');
  }
}

main();
