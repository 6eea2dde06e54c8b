'use strict';
// A reporter for node:test, a line per test: `pass`, `fail` or `skip`, a tab, its name, a
// tab, why it failed or was skipped, a tab, its file. CI adds these up over all its runs
// (ci-summary.js), and test.js reads there which files failed.

const path = require('node:path');

const ROOT = path.join(__dirname, '..');
const oneLine = (text) => String(text).replace(/\s+/g, ' ').slice(0, 500);
const fileOf = (data) => path.relative(ROOT, data.file ?? path.resolve(data.name));

module.exports = async function* report(events) {
  for await (const { type, data } of events) {
    if (type !== 'test:pass' && type !== 'test:fail') continue;
    if (data.details?.type === 'suite' && data.skip === undefined) continue;
    let kind = type.slice(5);
    let why = data.details?.error?.cause ?? data.details?.error ?? '';
    if (data.skip !== undefined) {
      kind = 'skip';
      why = data.skip === true ? 'no reason given' : data.skip;
    }
    yield `${kind}\t${oneLine(data.name)}\t${oneLine(why)}\t${fileOf(data)}\n`;
  }
};
