'use strict';
// `npm run demo`: one JavaScript and one Python code node in the jail that the
// environment selects (here: the local one, unless FIRECRACKER_SOCKET or CODE_SANDBOX_URL is set).

const fs = require('node:fs');
const path = require('node:path');
const { runCode } = require('../lib/index.js');
const { bytes, milliseconds, paint, wrap } = require('../lib/terminal.js');

const colour = paint(process.stdout);
const say = (text = '') => process.stdout.write(`${text}\n`);
const row = (name, text) => say(`  ${colour.dim(name.padEnd(9))} ${text}`);

const { orders: ORDERS } = require('./orders.json');

const NODES = [
  { title: 'JavaScript: totals by country', language: 'javascript', file: 'totals.js', input: { orders: ORDERS } },
  {
    title: 'Python: statistics of the same orders',
    language: 'python',
    file: 'statistics.py',
    input: { orders: ORDERS },
  },
];

function showLayers({ layers, missing, isolation, backend }) {
  row('jail', `${backend}, isolation verified: ${colour.bold(isolation)}`);
  const lines = wrap(layers, 66);
  lines.forEach((line, i) => {
    row(i === 0 ? 'layers' : '', colour.green(line));
  });
  missing.forEach(({ layer, reason }, i) => {
    row(i === 0 ? 'missing' : '', `${colour.yellow(layer)}: ${reason}`);
  });
}

/** The same a hundred times more, some milliseconds apart, as workflows do. */
async function repeat(request) {
  const times = [];
  for (let i = 0; i < 100; i++) {
    const start = performance.now();
    await runCode(request);
    times.push(performance.now() - start);
    await new Promise((resolve) => setTimeout(resolve, 4));
  }
  times.sort((a, b) => a - b);
  return `100 more calls, each in a new process: median ${colour.bold(milliseconds(times[50]))}, 99th ${milliseconds(times[98])}`;
}

async function show({ title, language, file, input }) {
  const code = fs.readFileSync(path.join(__dirname, file), 'utf8');
  await runCode({ language, code: '' }); // the first run boots the runtime; show what every later one costs
  const { result, stdout, stderr, error, status, usage, jail } = await runCode({ language, code, input });
  say(colour.bold(title));
  row('status', status === 'ok' ? colour.green(status) : colour.red(`${status} ${error?.message ?? ''}`));
  row('result', JSON.stringify(result));
  for (const line of stdout.trimEnd().split('\n')) row('stdout', line);
  if (stderr) row('stderr', stderr.trimEnd());
  const { queueMs, startMs, runMs, cpuMs, peakMemoryBytes } = usage;
  row(
    'time',
    `queue ${milliseconds(queueMs)}, start ${milliseconds(startMs)}, run ${colour.bold(milliseconds(runMs))}, cpu ${milliseconds(cpuMs)}`,
  );
  row('again', await repeat({ language, code, input }));
  row('memory', `${bytes(peakMemoryBytes)} above a parked cell`);
  row('runtime', `${jail.runtime}, ${jail.start} start`);
  showLayers(jail);
  say();
  return status === 'ok';
}

async function main() {
  say();
  let good = true;
  for (const node of NODES) good = (await show(node)) && good;
  say(
    colour.dim('The same from the command line:  npx code-jail run examples/totals.js --input @examples/orders.json'),
  );
  say(colour.dim('What stands on this host:        npx code-jail doctor'));
  process.exitCode = good ? 0 : 1;
}

main().catch((error) => {
  process.stderr.write(`${colour.red(error.code ?? error.name)}: ${error.message}\n`);
  process.stderr.write('`npx code-jail doctor` tells what stands on this host, and what helps.\n');
  process.exitCode = 1;
});
