'use strict';
// `npm run test:storm [-- --times 200 --seed N --place NAME]`: the storm of
// storm.js at its full length, for a host with all rights and with fewer.

const { parseArgs } = require('node:util');
const { PLACES, storm } = require('./storm.js');

const { values } = parseArgs({
  options: {
    times: { type: 'string', default: '200' },
    seed: { type: 'string', default: String(Date.now() % 1e6) },
    place: { type: 'string', multiple: true, default: Object.keys(PLACES) },
  },
});

async function main() {
  console.log(`seed ${values.seed}`);
  for (const place of values.place) {
    const start = performance.now();
    const { longestMs, counts, outcomes } = await storm(place, Number(values.times), Number(values.seed));
    console.log(
      `${place}: ${values.times} rounds in ${Math.round((performance.now() - start) / 1000)} s, back after ${longestMs} ms at most`,
    );
    console.log(`  ${JSON.stringify(counts)}\n  the last host's runs: ${JSON.stringify(outcomes)}`);
  }
}

main().catch((error) => {
  console.error(error.message);
  process.exit(1);
});
