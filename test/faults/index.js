'use strict';
// `npm run test:faults [-- --language python --start cold --most 4 --only TEXT --lanes 2]`:
// every call of a keeper and of all that it starts fails once, with each error
// it can give. Prints what is wrong; of a call that one process makes over and
// over, `most` are tried. --only: those whose description contains the text.

const { fork } = require('node:child_process');
const { parseArgs } = require('node:util');
const { Lab, describeFault, faultsOf } = require('./lab.js');

const { values: options } = parseArgs({
  options: {
    language: { type: 'string', multiple: true, default: ['javascript', 'python'] },
    start: { type: 'string' },
    most: { type: 'string', default: '6' },
    only: { type: 'string', default: '' },
    lanes: { type: 'string', default: '2' },
    lane: { type: 'string' },
    verbose: { type: 'boolean' },
  },
});
const lanes = Number(options.lanes);

/** One lane's share, in this process; tells the parent what it saw. */
async function work(lane) {
  for (const language of options.language) {
    const lab = new Lab(language, options.start ? { start: options.start } : {});
    const faults = faultsOf(await lab.record(), Number(options.most)).filter((fault) =>
      describeFault(fault).includes(options.only),
    );
    for (const [i, fault] of faults.entries()) {
      if (i % lanes !== lane) continue;
      const seen = await lab.inject(fault);
      process.send({ name: `${language}, ${describeFault(fault)}`, role: fault.role, ...seen });
    }
    lab.close();
  }
  process.disconnect();
}

function main() {
  const started = performance.now();
  const all = [];
  const onSeen = (seen) => {
    all.push(seen);
    if (seen.wrong.length > 0)
      console.log(`${seen.name}\n    ${seen.wrong.join('\n    ')}\n    outcome: ${seen.outcome}`);
    else if (options.verbose)
      console.log(`${seen.name}: ${seen.hit ? seen.outcome : 'not reached'} (${Math.round(seen.took)} ms)`);
  };
  let running = lanes;
  for (let lane = 0; lane < lanes; lane++) {
    const child = fork(__filename, [...process.argv.slice(2), '--lane', String(lane)]);
    child.on('message', onSeen);
    child.on('exit', (code) => {
      if (code) all.push({ name: `lane ${lane}`, wrong: [`it ended with ${code}`], outcome: '' });
      if (--running === 0) summarize(all, (performance.now() - started) / 1000);
    });
  }
}

function summarize(all, seconds) {
  const count = (test) => all.filter(test).length;
  const bad = count((one) => one.wrong.length > 0);
  console.log(
    `${all.length} faults in ${Math.round(seconds)} s: ${count((one) => one.hit)} reached, ` +
      `${count((one) => one.outcome === 'ok')} runs were none the worse` +
      ` (${count((one) => one.lacks?.length > 0)} of them with a layer less, and it said so), ${bad} wrong`,
  );
  process.exitCode = bad > 0 ? 1 : 0;
}

if (options.lane === undefined) main();
else work(Number(options.lane));
