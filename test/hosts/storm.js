'use strict';
// Keeps runs of every kind in flight, whatever happens below it. Lines in:
//   check   one run of each language must succeed, however often it takes; then `checked {...}`
//   end     waits for what is in flight, closes, then `ended {...}`: what became of the runs, what is still held
const fs = require('node:fs');
const { createInterface } = require('node:readline');
const { setTimeout: sleep } = require('node:timers/promises');
const { createJail } = require('../../lib/index.js');
const { python, lanes = 4 } = JSON.parse(process.argv[2] ?? '{}');

const BUSY = [
  { language: 'javascript', code: 'const end = Date.now() + 40; while (Date.now() < end); return 1' },
  { language: 'python', code: 'import time\ntime.sleep(0.03)\nresult = 1' },
  { language: 'javascript', code: 'for (;;) {}', timeoutMs: 60 },
  { language: 'python', code: 'while True: print("x" * 1000)', timeoutMs: 50 },
];
const FINE = [
  { language: 'javascript', code: 'return 1' },
  { language: 'python', code: 'result = 1' },
];

const jail = createJail({ parked: 1, maxConcurrent: 8, ...(python && { python: { path: python } }) });
const outcomes = {};
let going = true;
let inFlight = 0;

async function once(request) {
  inFlight++;
  const outcome = await jail.runCode(request).then(
    (result) => result.status,
    (error) => error.code ?? String(error),
  );
  inFlight--;
  outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
  return outcome;
}

async function lane(i) {
  while (going) if ((await once(BUSY[i % BUSY.length])) !== 'ok') await sleep(5);
}

/** Milliseconds until it worked. */
async function works(request) {
  const start = performance.now();
  for (;;) {
    const seen = await jail.runCode(request).catch((error) => error);
    if (seen.status === 'ok') return Math.round(performance.now() - start);
    await sleep(Math.max(20, seen.retryAfterMs ?? 0));
  }
}

const held = () => ({
  descriptors: fs.readdirSync('/proc/self/fd').length,
  threads: fs.readdirSync('/proc/self/task').length,
  rss: process.memoryUsage.rss(),
});

async function main() {
  await Promise.all(FINE.map(works));
  const running = Array.from({ length: lanes }, (_, i) => lane(i));
  console.log(`busy ${JSON.stringify(held())}`);
  let number = 0;
  for await (const line of createInterface({ input: process.stdin })) {
    if (line === 'check') {
      const [javascript, ofPython] = await Promise.all(FINE.map(works));
      console.log(`checked ${++number} ${JSON.stringify({ javascript, python: ofPython })}`);
    }
    if (line !== 'end') continue;
    going = false;
    await Promise.all(running);
    await jail.close();
    console.log(`ended ${JSON.stringify({ outcomes, inFlight, ...held() })}`);
    process.exit(0);
  }
}

main();
