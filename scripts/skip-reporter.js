'use strict';
// A reporter for node:test: one line `name: reason` for each skipped test.

module.exports = async function* skips(events) {
  for await (const { type, data } of events) {
    if ((type === 'test:pass' || type === 'test:fail') && data.skip !== undefined) {
      yield `${data.name}: ${data.skip === true ? 'no reason given' : data.skip}\n`;
    }
  }
};
