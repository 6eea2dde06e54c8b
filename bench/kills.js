'use strict';
// How long code that does not want to end lives on: from abort, or from its
// deadline, until the last of its processes is gone, not even a zombie.

const fs = require('node:fs');
const { setTimeout: sleep } = require('node:timers/promises');
const { createJail } = require('../lib/index.js');
const { descendants } = require('../test/helpers/baseline.js');
const { summarize } = require('./stats.js');

const HOSTILE = {
  'blocks signals': {
    language: 'python',
    code: 'import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nwhile True: pass',
  },
  forks: {
    language: 'python',
    code: 'import os\nwhile True:\n    try: os.fork()\n    except OSError: pass',
  },
  'spins in threads': {
    language: 'python',
    code: 'import threading, hashlib\nb = bytes(1 << 20)\ndef f():\n    while True: hashlib.sha256(b).digest()\nfor _ in range(12): threading.Thread(target=f, daemon=True).start()\nf()',
  },
  floods: {
    language: 'javascript',
    // in pieces so small that its deadline comes before its 64 MiB are full
    code: 'const b = Buffer.alloc(1 << 9, 97); for (;;) require("fs").writeSync(1, b)',
  },
};
const TIMEOUT_MS = 50;

/** What lives below the zygotes: cells, and whatever they have made. */
function cells() {
  let parents = new Set([process.pid]);
  const all = descendants();
  for (let level = 0; level < 3; level++)
    parents = new Set(all.filter((one) => parents.has(one.ppid)).map((one) => one.pid));
  const found = [];
  for (let more = [...parents]; more.length > 0; ) {
    const next = all.filter((one) => more.includes(one.ppid)).map((one) => one.pid);
    found.push(...next);
    more = next;
  }
  return found;
}

async function gone(pids) {
  const start = performance.now();
  while (pids.some((pid) => fs.existsSync(`/proc/${pid}`)) && performance.now() - start < 10000) await sleep(0.5);
  return performance.now();
}

/** The cell, once it is there. */
async function found() {
  for (const end = performance.now() + 30000; performance.now() < end; await sleep(1)) {
    const pids = cells();
    if (pids.length > 0) return pids;
  }
  throw new Error('no cell was made within 30 s');
}

async function byAbort(jail, request) {
  const controller = new AbortController();
  const settled = jail.runCode({ ...request, timeoutMs: 60000 }, { signal: controller.signal }).catch(() => {});
  await found();
  await sleep(30); // by now it is at it
  const pids = cells();
  const start = performance.now();
  controller.abort();
  const took = (await gone(pids)) - start;
  await settled;
  return pids.length > 0 ? took : null;
}

// The deadline is when its time is over, without what is allowed on top for
// reading the job (20 ms for a short one), which so is part of the figure.
async function byDeadline(jail, request) {
  const start = performance.now();
  const settled = jail.runCode({ ...request, timeoutMs: TIMEOUT_MS });
  const pids = await found();
  const { status, usage } = await settled;
  const end = await gone(pids);
  return status === 'timeout' ? end - (start + usage.queueMs + usage.startMs + TIMEOUT_MS) : null;
}

/** @param {number} each kills of each kind by each way @returns p50, p99, max by way, in ms */
async function hostileKills(each) {
  const jail = createJail({ parked: 0 });
  const seen = { abort: [], deadline: [] };
  await jail.warm();
  for (const request of Object.values(HOSTILE))
    for (let i = 0; i < each; i++)
      for (const [way, kill] of Object.entries({ abort: byAbort, deadline: byDeadline })) {
        const late = await kill(jail, request);
        if (late !== null) seen[way].push(late); // else its output had ended it before
      }
  await jail.close();
  return { abort: summarize(seen.abort), deadline: summarize(seen.deadline) };
}

module.exports = { hostileKills };
