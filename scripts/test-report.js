'use strict';
// A reporter for node:test: `pass`, `fail` or `skip`, a tab, the test's name and, where it
// was skipped, the reason. CI adds these up over all its runs (ci-summary.js).

const oneLine = (text) => String(text).replace(/\s+/g, ' ');

module.exports = async function* report(events) {
  for await (const { type, data } of events) {
    if (type !== 'test:pass' && type !== 'test:fail') continue;
    if (data.details?.type === 'suite' && data.skip === undefined) continue;
    if (data.skip !== undefined) {
      yield `skip\t${oneLine(data.name)}\t${data.skip === true ? 'no reason given' : oneLine(data.skip)}\n`;
    } else {
      yield `${type.slice(5)}\t${oneLine(data.name)}\n`;
    }
  }
};
