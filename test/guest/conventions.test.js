'use strict';
// Runs the table of conventions.js over the local jail.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { after, describe, it } = require('node:test');
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

describe('a preload that cannot be loaded is the configuration\u2019s fault', () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'preload-test-'));
  fs.chmodSync(folder, 0o755); // the jail's uid reads it
  after(() => fs.rmSync(folder, { recursive: true }));
  fs.mkdirSync(path.join(folder, 'broken'));
  fs.writeFileSync(path.join(folder, 'broken', 'index.js'), 'require("./part");');
  const fails = {
    'javascript, not there': [
      'javascript',
      { preload: ['not-there'], modules: folder },
      /not-there.*\{ node: \{ modules \} \}/,
    ],
    'javascript, broken': ['javascript', { preload: ['broken'], modules: folder }, /preload broken: .*part/],
    'python, not there': ['python', { preload: ['not_there'] }, /not_there.*\{ python: \{ path \} \}/],
  };
  for (const [name, [language, config, pattern]] of Object.entries(fails))
    it(name, async () => {
      const own = openJail({ [language === 'python' ? 'python' : 'node']: config });
      await assert.rejects(own.runCode({ language, code: '' }), (error) => {
        assert.equal(error.code, 'ERR_JAIL_CONFIG', error.message);
        assert.equal(error.retryable, false);
        assert.match(error.message, pattern);
        assert.doesNotMatch(error.message, /\/rt\/|\n/);
        return true;
      });
    });
});
