'use strict';
// Numbers of a measurement, and how they are shown.

/** @param {number[]} values */
function summarize(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (q) => sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))];
  return { n: sorted.length, p50: at(0.5), p99: at(0.99), min: sorted[0], max: sorted.at(-1) };
}

/** Times `work` n times, one after another, `gapMs` apart. */
async function time(n, work, { warmUp = 3, gapMs = 0 } = {}) {
  const values = [];
  for (let i = -warmUp; i < n; i++) {
    const start = performance.now();
    await work(i);
    const took = performance.now() - start;
    if (i >= 0) values.push(took);
    if (gapMs) await new Promise((resolve) => setTimeout(resolve, gapMs));
  }
  return summarize(values);
}

/** Runs per second with `inFlight` at once. */
async function throughput(total, inFlight, work) {
  let started = 0;
  const start = performance.now();
  const lane = async () => {
    while (started < total) {
      started++;
      await work();
    }
  };
  await Promise.all(Array.from({ length: inFlight }, lane));
  return total / ((performance.now() - start) / 1000);
}

const digits = (value) =>
  value === null || value === undefined
    ? '–'
    : value >= 100
      ? value.toFixed(0)
      : value >= 10
        ? value.toFixed(1)
        : value.toFixed(2);

/** @param {string[][]} rows the first is the head */
function table(rows) {
  const widths = rows[0].map((_, i) => Math.max(...rows.map((row) => [...String(row[i])].length)));
  const line = (row) =>
    row.map((cell, i) => (i === 0 ? String(cell).padEnd(widths[i]) : String(cell).padStart(widths[i]))).join('  ');
  return [line(rows[0]), widths.map((width) => '─'.repeat(width)).join('  '), ...rows.slice(1).map(line)].join('\n');
}

module.exports = { summarize, time, throughput, digits, table };
