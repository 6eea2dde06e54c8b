'use strict';
// `npm run bench [-- --quick] [--json] [--no-peers] [--readme]`: what a run costs, beside
// other ways to do the same, in one run on this machine. Prints the target of
// each figure with it; nothing here fails for being slow.

const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { parseArgs } = require('node:util');
const { hostileKills } = require('./kills.js');
const { kills, latencies, parkedMemory, starts, throughputs } = require('./local.js');
const { measurePeers } = require('./peers.js');
const { digits, table } = require('./stats.js');

const { values: options } = parseArgs({
  options: {
    quick: { type: 'boolean' },
    json: { type: 'boolean' },
    'no-peers': { type: 'boolean' },
    readme: { type: 'boolean' },
  },
});
const RUNS = options.quick ? 40 : 400;

function inChild(...args) {
  const node = ['--max-old-space-size=4096', path.join(__dirname, 'host.js'), ...args.map(String)];
  return JSON.parse(execFileSync(process.execPath, node, { encoding: 'utf8', maxBuffer: 1 << 26 }));
}

function progress(text) {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${text}`);
}

async function measure() {
  const before = machine(); // its load is that of others, not yet ours
  progress('latency …');
  const latency = await latencies(RUNS);
  progress('throughput …');
  const perSecond = await throughputs(options.quick ? 200 : 4000);
  progress('kills …');
  const kill = { small: await kills(options.quick ? 3 : 20, 96), gigabyte: await kills(options.quick ? 1 : 5, 1024) };
  const hostile = await hostileKills(options.quick ? 2 : 25);
  progress('memory …');
  const pss = await parkedMemory();
  progress('JS thread …');
  const call = { small: inChild('call', 50, RUNS), large: inChild('call', options.quick ? 300 : 1500, RUNS) };
  progress('event loop …');
  const delay = inChild('delay', options.quick ? 1000 : 4000);
  progress('peers …');
  const peers = options['no-peers'] ? [] : await measurePeers(options.quick ? 5 : 60);
  progress('');
  return { machine: before, starts, latency, perSecond, kill, hostile, pss, call, delay, peers };
}

function machine() {
  const [cpu] = os.cpus();
  return {
    cpu: cpu?.model.trim(),
    cores: os.cpus().length,
    kernel: os.release(),
    node: process.version,
    load: os.loadavg()[0],
  };
}

// Each figure with its target: [what, value, unit, target].
function figures({ latency, perSecond, kill, hostile, pss, call, delay }) {
  const rows = [];
  const add = (what, value, unit, target, atLeast = false) => rows.push({ what, value, unit, target, atLeast });
  for (const language of ['javascript', 'python']) {
    const { parked, backToBack, fork, cold } = latency[language];
    add(`${language}, a parked cell ready, p50`, parked.p50, 'ms', 0.5);
    add(`${language}, a parked cell ready, p99`, parked.p99, 'ms', 1.5);
    add(`${language}, back to back, p50`, backToBack.p50, 'ms');
    add(`${language}, none parked (fork), p50`, fork.p50, 'ms', 2.5);
    add(`${language}, fresh interpreter (cold), p50`, cold.p50, 'ms');
    add(`${language}, 32 in flight`, perSecond[language], 'runs/s', language === 'python' ? 600 : 800, true);
    add(`${language}, a parked cell's memory (PSS)`, pss[language]?.p50, 'MB', 6);
  }
  add(
    'typescript, with types, a parked cell ready, p50',
    latency.typescript.parked.p50,
    'ms',
    3 * latency.javascript.parked.p50,
  );
  for (const [name, one] of [
    ['50 MB', call.small],
    [`${(call.large.rssMb / 1000).toFixed(1)} GB`, call.large],
  ]) {
    add(`the call returns, host of ${name}, p50`, one.callUs.p50, 'µs', 30);
    add(`the call returns, host of ${name}, p99`, one.callUs.p99, 'µs', 200);
    add(`JS thread per run in all, host of ${name}`, one.cpuUsPerRun, 'µs');
    add(`  beside it: execFile blocks, p50`, one.execFileUs.p50, 'µs');
  }
  add('event-loop delay p99, idle', delay.idle.p99, 'ms');
  add('event-loop delay p99, 32 in flight', delay.busy.p99, 'ms', delay.idle.p99 + 1);
  add('event-loop delay p99, beside 8 hostile cells', delay.hostile.p99, 'ms', 20);
  add('abort to process gone, 96 MiB held, p50', kill.small.p50, 'ms', 50);
  add('abort to process gone, 1 GiB held, p50', kill.gigabyte.p50, 'ms', 50);
  for (const [way, name] of [
    ['abort', 'abort'],
    ['deadline', 'deadline (and 20 ms for its start)'],
  ])
    for (const at of ['p50', 'p99', 'max'])
      add(`${name} to gone, ${hostile[way].n} hostile ones, ${at}`, hostile[way][at], 'ms', 50);
  return rows;
}

function verdict({ value, target, atLeast }) {
  if (target === undefined || value === undefined || value === null) return '';
  return (atLeast ? value >= target : value <= target) ? 'met' : 'missed';
}

function describe({ cpu, cores, kernel, node, load }) {
  return `${cpu}, ${cores} cores (load ${load.toFixed(1)} before), Linux ${kernel}, Node ${node}`;
}

// The README's tables, between its two markers.
function writeReadme(seen) {
  const file = path.join(__dirname, '..', 'README.md');
  const ours = figures(seen).map(
    (row) =>
      `| ${row.what.trim()} | ${digits(row.value)} ${row.unit} | ${row.target === undefined ? '' : `${row.atLeast ? '≥' : '≤'} ${digits(row.target)}`} |`,
  );
  const peers = seen.peers.map(
    (peer) =>
      `| ${peer.name} | ${peer.failure ?? `${digits(peer.p50)} ms`} | ${peer.failure ? '' : `${digits(peer.p99)} ms`} |`,
  );
  const text = [
    '<!-- bench: written by `npm run bench -- --readme` -->',
    `\`npm run bench\`, one run: ${describe(seen.machine)}.`,
    '',
    '| code-jail, local jail, all walls | measured | target |',
    '|---|---|---|',
    ...ours,
    '',
    '| beside it: `1 + 1`, a fresh context each | p50 | p99 |',
    '|---|---|---|',
    ...peers,
    '<!-- /bench -->',
  ].join('\n');
  const old = fs.readFileSync(file, 'utf8');
  fs.writeFileSync(
    file,
    old.replace(/<!-- bench[\s\S]*<!-- \/bench -->/, () => text),
  );
}

function print(seen) {
  console.log(`${describe(seen.machine)}\n`);
  const rows = figures(seen).map((row) => [
    row.what,
    `${digits(row.value)} ${row.unit}`,
    row.target === undefined ? '' : `${row.atLeast ? '≥' : '≤'} ${digits(row.target)}`,
    verdict(row),
  ]);
  console.log(table([['code-jail, local jail', 'measured', 'target', ''], ...rows]));
  const began = Object.entries(seen.starts).map(([what, { parked, fork, cold }]) => [what, parked, fork, cold]);
  console.log(`\n${table([['the runs above began', 'parked', 'fork', 'cold'], ...began])}`);
  if (seen.peers.length === 0) return;
  const ours = (language) => seen.latency[language].parked.p50;
  const peers = seen.peers.map((peer) => [
    peer.name,
    peer.failure ? '–' : `${digits(peer.p50)} ms`,
    peer.failure ? '–' : `${digits(peer.p99)} ms`,
    peer.failure ?? `${digits(peer.p50 / ours(peer.language))} ×`,
  ]);
  console.log(
    `\n${table([['beside it: 1 + 1, a fresh context each', 'p50', 'p99', 'of code-jail\u2019s p50'], ...peers])}`,
  );
}

measure().then((seen) => {
  if (options.readme) writeReadme(seen);
  if (options.json) console.log(JSON.stringify({ ...seen, figures: figures(seen) }, null, 2));
  else print(seen);
});
