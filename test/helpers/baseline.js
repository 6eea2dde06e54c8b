'use strict';
// Counts what a run could leave behind in this process and below it.

const fs = require('node:fs');
const os = require('node:os');
const { setTimeout: sleep } = require('node:timers/promises');

function readStat(pid) {
  try {
    const text = fs.readFileSync(`/proc/${pid}/stat`, 'utf8');
    const end = text.lastIndexOf(')');
    const rest = text.slice(end + 2).split(' ');
    const comm = text.slice(text.indexOf('(') + 1, end);
    return { pid: Number(pid), comm, state: rest[0], ppid: Number(rest[1]), startTime: rest[19] };
  } catch {
    return null; // it ended while we looked
  }
}

/** Every process below `root`, zombies too. */
function descendants(root = process.pid) {
  const all = fs
    .readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(readStat)
    .filter(Boolean);
  const below = new Set([root]);
  for (let grown = true; grown; ) {
    grown = false;
    for (const one of all) {
      if (below.has(one.ppid) && !below.has(one.pid)) grown = !!below.add(one.pid);
    }
  }
  return all.filter((one) => one.pid !== root && below.has(one.pid));
}

/** Those of `processes` (as descendants gave them) that still exist. */
function survivors(processes) {
  return processes.filter((one) => {
    const now = readStat(one.pid);
    return now && now.startTime === one.startTime && now.state !== 'Z';
  });
}

function measure() {
  return {
    fds: fs.readdirSync('/proc/self/fd').length,
    threads: fs.readdirSync('/proc/self/task').length,
    processes: descendants().length,
    tmp: fs.readdirSync(os.tmpdir()).length,
    rss: process.memoryUsage.rss(),
  };
}

/** Waits until `check` gives a true value; its last value otherwise. */
async function until(check, timeoutMs = 2000, stepMs = 10) {
  const end = Date.now() + timeoutMs;
  for (;;) {
    const value = await check();
    if (value || Date.now() > end) return value;
    await sleep(stepMs);
  }
}

/** The longest time by which a timer of `stepMs` was late while `work` ran. */
async function timerLag(work, stepMs = 10) {
  let worst = 0;
  let last = performance.now();
  const timer = setInterval(() => {
    const now = performance.now();
    worst = Math.max(worst, now - last - stepMs);
    last = now;
  }, stepMs);
  try {
    return { value: await work(), worst: () => worst };
  } finally {
    clearInterval(timer);
  }
}

/** By how much a bound on time is stretched: a machine with more to do than cores is not at fault. */
function slack() {
  return Math.max(1, (2 * os.loadavg()[0]) / os.availableParallelism());
}

module.exports = { slack, descendants, survivors, measure, until, timerLag, readStat };
