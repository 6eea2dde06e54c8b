'use strict';
// Many runs in both languages that end in every way, and what the host holds
// meanwhile: samples of memory, descriptors, threads, processes and latency.

const fs = require('node:fs');
const assert = require('node:assert/strict');
const { measure, until } = require('../helpers/baseline.js');
const { summarize } = require('../../bench/stats.js');

const abort = (jail, request) => {
  const controller = new AbortController();
  setTimeout(() => controller.abort(), 2);
  return jail.runCode({ ...request, timeoutMs: 5000 }, { signal: controller.signal });
};

// [what it is to come to, language, code, more]; the rare ones once in a while.
const ENDS = [
  ['ok', 'javascript', 'console.log(input); return input'],
  ['ok', 'python', 'print(input)\nresult = input'],
  ['error', 'javascript', 'throw new TypeError("on purpose")'],
  ['error', 'python', 'raise KeyError("on purpose")'],
  ['error', 'javascript', 'process.exit(3)'],
  ['error', 'python', 'import sys\nsys.exit(3)'],
  ['not_serializable', 'javascript', 'return () => 1'],
  ['not_serializable', 'python', 'result = b"1"'],
  ['ok', 'javascript', 'const s = "x".repeat(1000); for (let i = 0; i < 300; i++) console.log(s); return input'],
  ['ok', 'python', 'result = list(range(2000))'],
  ['killed', 'javascript', 'process.abort()'],
  ['killed', 'python', 'import os\nos.abort()'],
];
const RARE = [
  ['timeout', 'javascript', 'for (;;) {}', { timeoutMs: 5 }],
  ['timeout', 'python', 'while True: pass', { timeoutMs: 5 }],
  ['out_of_memory', 'javascript', 'const a = []; for (;;) a.push(Buffer.alloc(1 << 20, 1))', { memoryMb: 32 }],
  ['out_of_memory', 'python', 'a = []\nwhile True: a.append(bytearray(1 << 20))', { memoryMb: 32 }],
  ['result_too_large', 'python', 'result = "x" * 2000', { maxResultBytes: 1000 }],
  ['AbortError', 'javascript', 'for (;;) {}'],
  ['AbortError', 'python', 'while True: pass'],
];

async function one(jail, i) {
  const rare = i % 10 === 9;
  const [want, language, code, more] = rare ? RARE[Math.floor(i / 10) % RARE.length] : ENDS[i % ENDS.length];
  const request = { language, code, input: i, ...more };
  const start = performance.now();
  const running = want === 'AbortError' ? abort(jail, request) : jail.runCode(request);
  const came = await running.then(
    (result) => result.status,
    (error) => error.name,
  );
  assert.equal(came, want, `run ${i}: ${language}: ${code}`);
  return { ms: performance.now() - start, plain: !rare };
}

/**
 * @param {{ runCode: Function, stats: Function }} jail with `parked: 1` @param {number} runs @param {{ samples?: number, onSample?: (sample: any) => void }} [options]
 * @returns {Promise<any[]>} a sample for each part of the runs, the first after a warm-up
 */
async function soak(jail, runs, { samples = 50, onSample } = {}) {
  const seen = [];
  const take = async (latencies, done) => {
    // What was is over, and the next cells are ready: each holds some descriptors.
    await until(() => {
      const { cells, parked } = jail.stats();
      return [cells, parked].every((of) => of.javascript === 1 && of.python === 1);
    }, 10000);
    global.gc?.();
    const { p50, p99 } = summarize(latencies);
    seen.push({ runs: done, p50, p99, ...measure() });
    onSample?.(seen.at(-1));
  };
  const part = async (from, to) => {
    const latencies = [];
    for (let i = from; i < to; i++) {
      const { ms, plain } = await one(jail, i);
      if (plain) latencies.push(ms);
    }
    return latencies;
  };
  const warmUp = 280;
  await take(await part(0, warmUp), 0);
  const step = Math.ceil(runs / samples);
  for (let done = 0; done < runs; done += step) {
    const to = Math.min(runs, done + step);
    await take(await part(warmUp + done, warmUp + to), to);
  }
  return seen;
}

/** What has grown over a soak, by more than it may; "" for nothing. @param {any[]} samples @param {number} rssMb */
function growth(samples, rssMb) {
  const last = samples.at(-1);
  // By quarters: a cell that is just being made or ending is no growth.
  const part = Math.ceil(samples.length / 4);
  const was = (what) => Math.max(...samples.slice(0, part).map((one) => one[what]));
  const is = (what) => Math.min(...samples.slice(-part).map((one) => one[what]));
  const grown = ['fds', 'threads', 'processes', 'tmp'].filter((what) => is(what) > was(what));
  const lines = grown.map((what) => `${what} ${was(what)} → ${is(what)}`);
  // Memory after the first tenth: until then the heap still finds its size.
  const settled = samples[Math.ceil(samples.length / 10)];
  if (last.rss - settled.rss > rssMb << 20) lines.push(`RSS ${settled.rss >> 20} → ${last.rss >> 20} MiB`);
  return lines.join(', ');
}

// ---- the picture ----

const WIDTH = 800;
const HEIGHT = 160;

function curve(samples, field, colour, top) {
  const most = samples.at(-1).runs || 1;
  const points = samples.map((one) => {
    const x = (one.runs / most) * WIDTH;
    const y = HEIGHT - (one[field] / top) * (HEIGHT - 20);
    return `${x.toFixed(1)},${y.toFixed(1)}`;
  });
  return `<polyline fill="none" stroke="${colour}" stroke-width="1.5" points="${points.join(' ')}"/>`;
}

function panel(samples, row, title, unit, fields) {
  const top = Math.max(...fields.flatMap(([field]) => samples.map((one) => one[field]))) || 1;
  const names = fields.map(([field, colour]) => `<tspan fill="${colour}">${field}</tspan>`).join(' ');
  return `<g transform="translate(60 ${30 + row * (HEIGHT + 40)})">
<text y="-8">${title}: ${names}</text>
<rect width="${WIDTH}" height="${HEIGHT}" fill="none" stroke="#ccc"/>
<text x="-8" y="24" text-anchor="end">${top >= 100 ? Math.round(top) : top.toFixed(1)} ${unit}</text>
<text x="-8" y="${HEIGHT}" text-anchor="end">0</text>
${fields.map(([field, colour]) => curve(samples, field, colour, top)).join('\n')}
</g>`;
}

/** Memory, what is held, and latency over the runs. @param {any[]} samples @param {string} file */
function plot(samples, file) {
  const rows = samples.map((one) => ({ ...one, rss: one.rss / (1 << 20) }));
  const panels = [
    panel(rows, 0, 'memory of the host', 'MiB', [['rss', '#1565c0']]),
    panel(rows, 1, 'held by the host', '', [
      ['fds', '#c62828'],
      ['threads', '#2e7d32'],
      ['processes', '#6a1b9a'],
    ]),
    panel(rows, 2, `latency over ${rows.at(-1).runs} runs`, 'ms', [
      ['p50', '#00838f'],
      ['p99', '#ef6c00'],
    ]),
  ];
  const height = 40 + panels.length * (HEIGHT + 40);
  fs.writeFileSync(
    file,
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH + 80}" height="${height}" font-family="sans-serif" font-size="12">
<rect width="100%" height="100%" fill="white"/>
${panels.join('\n')}
</svg>\n`,
  );
}

module.exports = { soak, growth, plot };
