'use strict';
// What the jail costs its host, measured in a process of its own, since heap
// and load of the measuring one would count:
//   node bench/host.js call MEGABYTES RUNS    JS-thread time per call beside execFile's
//   node bench/host.js delay                  event-loop delay idle, busy, beside hostile cells

const { execFile } = require('node:child_process');
const fs = require('node:fs');
const { monitorEventLoopDelay } = require('node:perf_hooks');
const { setTimeout: sleep } = require('node:timers/promises');
const { ONE_PLUS_ONE, good, withJail } = require('./local.js');
const { summarize } = require('./stats.js');

/** CPU time of the JS thread so far, in µs. */
function threadTime() {
  return Number(fs.readFileSync('/proc/thread-self/schedstat', 'utf8').split(' ')[0]) / 1000;
}

/** Fills heap and buffers: a third objects, the rest buffers. */
function fill(megabytes) {
  const kept = [];
  for (let i = 0; i < (megabytes - 40) / 3; i++) {
    // about 1 MB of objects
    kept.push(Array.from({ length: 12000 }, (_, n) => ({ n, text: `item ${n}`, next: null })));
  }
  for (let i = 0; i < ((megabytes - 40) / 3) * 2; i++) kept.push(Buffer.alloc(1 << 20, 1));
  return kept;
}

async function call(megabytes, runs) {
  const kept = fill(megabytes);
  const rssMb = process.memoryUsage.rss() / 1e6;
  const ours = await withJail({}, async (jail) => {
    for (let i = 0; i < 30; i++) await good(jail, ONE_PLUS_ONE.javascript);
    const calls = [];
    const before = threadTime();
    for (let i = 0; i < runs; i++) {
      const start = performance.now();
      const running = jail.runCode(ONE_PLUS_ONE.javascript);
      calls.push((performance.now() - start) * 1000);
      await running;
    }
    return { callUs: summarize(calls), cpuUsPerRun: (threadTime() - before) / runs };
  });
  const spawns = [];
  for (let i = 0; i < Math.min(20, runs); i++) {
    const start = performance.now();
    const done = new Promise((resolve) => execFile('/bin/true', resolve));
    spawns.push((performance.now() - start) * 1000);
    await done;
  }
  return { rssMb, kept: kept.length, ...ours, execFileUs: summarize(spawns) };
}

async function delayWhile(ms, start) {
  const stop = await start();
  await sleep(50);
  const histogram = monitorEventLoopDelay({ resolution: 1 });
  histogram.enable();
  await sleep(ms);
  histogram.disable();
  await stop();
  return { p50: histogram.percentile(50) / 1e6, p99: histogram.percentile(99) / 1e6, max: histogram.max / 1e6 };
}

const SPIN =
  'import threading\ndef f():\n    while True: pass\nfor _ in range(12): threading.Thread(target=f, daemon=True).start()\nf()';
const HASH =
  'import threading, hashlib\nb = bytes(1 << 20)\ndef f():\n    while True: hashlib.sha256(b).digest()\nfor _ in range(12): threading.Thread(target=f, daemon=True).start()\nf()';
const FLOOD = 'const b = Buffer.alloc(1 << 16, 97); for (;;) require("fs").writeSync(1, b)';
const HOSTILE = [
  { language: 'python', code: HASH },
  { language: 'python', code: HASH },
  { language: 'python', code: SPIN },
  { language: 'javascript', code: 'for (;;) {}' },
  { language: 'javascript', code: 'for (;;) {}' },
  { language: 'javascript', code: FLOOD },
  { language: 'javascript', code: FLOOD },
  { language: 'python', code: 'while True: print("x" * 1000)' },
];

async function delay(ms) {
  const idle = await delayWhile(ms, async () => async () => {});
  const busy = await withJail({ maxConcurrent: 32 }, (jail) =>
    delayWhile(ms, async () => {
      let going = true;
      const lane = async (request) => {
        while (going) await good(jail, request);
      };
      await good(jail, ONE_PLUS_ONE.javascript);
      await good(jail, ONE_PLUS_ONE.python);
      const lanes = Array.from({ length: 32 }, (_, i) => lane(Object.values(ONE_PLUS_ONE)[i % 2]));
      return async () => {
        going = false;
        await Promise.all(lanes);
      };
    }),
  );
  const hostile = await withJail({ maxConcurrent: 16 }, (jail) =>
    delayWhile(ms, async () => {
      await good(jail, ONE_PLUS_ONE.javascript);
      await good(jail, ONE_PLUS_ONE.python);
      let going = true;
      const controller = new AbortController();
      const lane = async (request) => {
        while (going)
          await jail.runCode({ ...request, timeoutMs: 60000 }, { signal: controller.signal }).catch(() => {});
      };
      const lanes = HOSTILE.map(lane);
      await sleep(200);
      return async () => {
        going = false;
        controller.abort();
        await Promise.all(lanes);
      };
    }),
  );
  return { idle, busy, hostile };
}

async function main() {
  const [what, a, b] = process.argv.slice(2);
  const seen = what === 'call' ? await call(Number(a), Number(b)) : await delay(Number(a ?? 2000));
  process.stdout.write(JSON.stringify(seen));
}

main();
