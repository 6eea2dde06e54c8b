'use strict';
// Environment by layer, as measured here: `npm run test:environments`. With
// --write, the table in SECURITY.md is renewed; test/environments.test.js checks it.

const fs = require('node:fs');
const path = require('node:path');
const { ENVIRONMENTS, look, whyNot, whyNotThis } = require('./environments.js');
const { LAYERS, untrue } = require('./probes.js');

const FILE = path.join(__dirname, '..', '..', 'SECURITY.md');
const MARKS = ['<!-- environments: npm run test:environments -- --write -->\n', '<!-- /environments -->\n'];

/** @param {Record<string, { layers: string[] }>} rows @returns {string} as Markdown */
function render(rows) {
  const line = (cells) => `| ${cells.join(' | ')} |\n`;
  const names = Object.keys(rows);
  const marks = (layer) => names.map((name) => (rows[name].layers.includes(layer) ? '●' : '–'));
  return [
    line(['', ...names]),
    `|---|${names.map(() => ':-:|').join('')}\n`,
    ...LAYERS.map((layer) => line([`\`${layer}\``, ...marks(layer)])),
  ].join('');
}

/** The table in SECURITY.md; with a text, replaced by it. @param {string} [text] */
function published(text) {
  const all = fs.readFileSync(FILE, 'utf8');
  const [from, to] = [all.indexOf(MARKS[0]) + MARKS[0].length, all.indexOf(MARKS[1])];
  if (text) fs.writeFileSync(FILE, all.slice(0, from) + text + all.slice(to));
  return all.slice(from, to);
}

async function main() {
  const why = whyNot();
  if (why) throw new Error(why);
  const rows = {};
  for (const [name, environment] of Object.entries(ENVIRONMENTS)) {
    const cannot = whyNotThis(environment);
    if (cannot) throw new Error(`${name}: ${cannot}`);
    const seen = await look(environment, { allowWeak: environment.weak });
    const wrong = seen.layers ? untrue(seen, environment) : [seen.message];
    rows[name] = { layers: seen.layers ?? [], missing: seen.missing ?? [], isolation: seen.isolation, wrong };
    process.stderr.write(`${name}: ${wrong.length === 0 ? 'as reported' : wrong.join('; ')}\n`);
  }
  console.log(render(rows));
  for (const [name, { isolation, missing, wrong }] of Object.entries(rows)) {
    console.log(`${name}: ${isolation}${isolation === 'unverified' ? ', refused without allowWeak' : ''}`);
    for (const reason of new Set(missing.map((one) => one.reason)))
      console.log(
        `  ${missing
          .filter((one) => one.reason === reason)
          .map((one) => one.layer)
          .join(', ')}: ${reason}`,
      );
    for (const one of wrong) console.log(`  UNTRUE ${one}`);
  }
  const drifted = published(process.argv.includes('--write') ? render(rows) : undefined) !== render(rows);
  if (drifted && !process.argv.includes('--write')) console.log('SECURITY.md says otherwise: -- --write renews it.');
  process.exitCode = Object.values(rows).some((row) => row.wrong.length > 0) || drifted ? 1 : 0;
}

module.exports = { render, published };
if (require.main === module)
  main().catch((error) => {
    console.error(error.message);
    process.exitCode = 1;
  });
