'use strict';
// Runs the table of conventions.js over the local jail.

const { describe, it } = require('node:test');
const conventions = require('./conventions.js');
const { matches, openJail } = require('../helpers/run.js');

const jail = openJail();

for (const language of ['javascript', 'python']) {
  describe(`conventions of ${language}`, () => {
    for (const one of conventions.filter((entry) => entry.language === language)) {
      it(one.name, async () => {
        const { code, input = null, options, expect } = one;
        const result = await jail.runCode({ language, code, input, ...options });
        try {
          matches(result, expect);
        } catch (error) {
          error.message += `\nthe run: ${JSON.stringify(result).slice(0, 2000)}`;
          throw error;
        }
      });
    }
  });
}
