'use strict';
// `npm run soak [-- --runs 10000]`: many runs in a row, of every language and end,
// with a picture of what the host holds meanwhile in .cache/soak.svg.

const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { parseArgs } = require('node:util');
const { createJail } = require('../../lib/index.js');
const { digits } = require('../../bench/stats.js');
const { growth, plot, soak } = require('./soak.js');

const { values } = parseArgs({ options: { runs: { type: 'string', default: '10000' } } });
const FILE = path.join(__dirname, '..', '..', '.cache', 'soak.svg');

async function main() {
  process.env.TMPDIR = fs.mkdtempSync(path.join(os.tmpdir(), 'soak-'));
  const jail = createJail({ parked: 1 });
  const start = performance.now();
  const onSample = (one) => {
    const line = `${one.runs} runs, RSS ${one.rss >> 20} MiB, ${one.fds} descriptors, p50 ${digits(one.p50)} ms, p99 ${digits(one.p99)} ms`;
    if (process.stdout.isTTY || one.runs % (Number(values.runs) / 10) === 0) console.log(line);
  };
  const samples = await soak(jail, Number(values.runs), { onSample });
  await jail.close();
  fs.mkdirSync(path.dirname(FILE), { recursive: true });
  plot(samples, FILE);
  fs.rmSync(process.env.TMPDIR, { recursive: true });
  const grown = growth(samples, 2);
  console.log(
    `${Math.round((performance.now() - start) / 1000)} s; ${path.relative(process.cwd(), FILE)}; grown: ${grown || 'nothing'}`,
  );
  process.exitCode = grown ? 1 : 0;
}

main();
