'use strict';
// The local jail: latency by kind of start, throughput, kills, memory per cell.

const fs = require('node:fs');
const { setTimeout: sleep } = require('node:timers/promises');
const { createJail } = require('../lib/index.js');
const { descendants } = require('../test/helpers/baseline.js');
const { summarize, throughput, time } = require('./stats.js');

const ONE_PLUS_ONE = {
  javascript: { language: 'javascript', code: 'return 1 + 1' },
  python: { language: 'python', code: 'result = 1 + 1' },
};
// Types of several kinds, since each kind is another part of what erases them.
const TYPED = {
  language: 'typescript',
  code: `interface Of<T> { readonly of: T | null; note?: string }
    class Box<T extends number> implements Of<T> { constructor(of: T) { this.of = of; } declare private note?: string; of: T }
    const add = (one: Of<number>, ...more: Array<Of<number>>): number => one.of! + (more[0]?.of as number);
    return add(new Box<number>(1), { of: 1 } satisfies Of<number>)`,
};

async function withJail(config, work) {
  const jail = createJail(config);
  try {
    return await work(jail);
  } finally {
    await jail.close();
  }
}

// How many runs began in each way: a parked cell is not always ready in time.
const starts = {};

async function good(jail, request, kind) {
  const result = await jail.runCode(request);
  if (!result.ok) throw new Error(`${result.status}: ${result.error?.message}`);
  if (kind) {
    starts[kind] ??= { parked: 0, fork: 0, cold: 0 };
    starts[kind][result.jail.start]++;
  }
  return result;
}

async function latencies(runs) {
  const seen = {};
  for (const [language, request] of Object.entries(ONE_PLUS_ONE)) {
    seen[language] = await withJail({}, async (jail) => ({
      parked: await time(runs, () => good(jail, request, `${language} 5 ms apart`), { warmUp: 20, gapMs: 5 }),
      backToBack: await time(runs, () => good(jail, request, `${language} back to back`), { warmUp: 20 }),
    }));
    seen[language].fork = await withJail({ parked: 0 }, (jail) =>
      time(runs, () => good(jail, request, `${language} parked: 0`), { warmUp: 5 }),
    );
    seen[language].cold = await withJail({ start: 'cold', parked: 0 }, (jail) =>
      time(Math.ceil(runs / 10), () => good(jail, request, `${language} cold`), { warmUp: 2 }),
    );
  }
  seen.typescript = await withJail({}, async (jail) => ({
    parked: await time(runs, () => good(jail, TYPED, 'typescript 5 ms apart'), { warmUp: 20, gapMs: 5 }),
  }));
  return seen;
}

async function throughputs(runs) {
  const seen = {};
  for (const [language, request] of Object.entries(ONE_PLUS_ONE)) {
    seen[language] = await withJail({}, async (jail) => {
      await throughput(Math.ceil(runs / 5), 32, () => good(jail, request));
      return throughput(runs, 32, () => good(jail, request));
    });
  }
  return seen;
}

const exists = (pid) => fs.existsSync(`/proc/${pid}`);
const rss = (pid) => {
  try {
    return Number(/VmRSS:\s+(\d+)/.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0);
  } catch {
    return 0;
  }
};

/** The process below that holds the memory, once it does. */
async function fullCell(kilobytes) {
  for (;;) {
    const [largest] = descendants().sort((a, b) => rss(b.pid) - rss(a.pid));
    if (largest && rss(largest.pid) > kilobytes) return largest;
    await sleep(20);
  }
}

/** From abort to the cell's process being gone, while it holds `mb` MiB. */
async function kills(times, mb) {
  return withJail({ maxTotalMemoryMb: 4096 }, async (jail) => {
    const values = [];
    for (let i = 0; i < times; i++) {
      const controller = new AbortController();
      const code = `b = bytearray(${mb} << 20)\nfor i in range(0, len(b), 4096): b[i] = 1\nwhile True: pass`;
      const request = { language: 'python', code, timeoutMs: 60000, memoryMb: mb + 256 };
      const settled = jail.runCode(request, { signal: controller.signal }).catch(() => {});
      const cell = await fullCell(mb * 1024);
      const start = performance.now();
      controller.abort();
      while (exists(cell.pid) && performance.now() - start < 5000) await sleep(0.5);
      values.push(performance.now() - start);
      await settled;
      await sleep(20);
    }
    return summarize(values);
  });
}

/** Proportional set size of each parked cell, in MB. */
async function parkedMemory() {
  const seen = {};
  for (const [language, request] of Object.entries(ONE_PLUS_ONE)) {
    seen[language] = await withJail({ parked: 4 }, async (jail) => {
      await good(jail, request);
      await sleep(500);
      const all = descendants();
      // Cells are the leaves of the tree whose parent (the zygote) has several.
      const children = (pid) => all.filter((one) => one.ppid === pid).length;
      const cells = all.filter((one) => children(one.pid) === 0 && children(one.ppid) >= 3);
      const pss = cells.map((one) => {
        const text = fs.readFileSync(`/proc/${one.pid}/smaps_rollup`, 'utf8');
        return Number(/^Pss:\s+(\d+)/m.exec(text)?.[1]) / 1000;
      });
      return pss.length > 0 ? summarize(pss) : null;
    });
  }
  return seen;
}

module.exports = { starts, latencies, throughputs, kills, parkedMemory, ONE_PLUS_ONE, withJail, good };
