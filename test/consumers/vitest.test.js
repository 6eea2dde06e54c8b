'use strict';
// vitest, in each of its pools.

const assert = require('node:assert/strict');
const path = require('node:path');
const { before, describe, it } = require('node:test');
const { project } = require('./helpers/package.js');
const { runs } = require('./helpers/program.js');

const VITEST = path.join('node_modules', 'vitest', 'vitest.mjs');

describe('vitest', () => {
  let folder = '';
  before(() => {
    folder = project('vitest');
  });

  for (const pool of ['forks', 'threads', 'vmForks', 'vmThreads'])
    it(pool, async () => {
      const output = await runs(folder, [process.execPath, VITEST, 'run', `--pool=${pool}`], {
        env: { NO_COLOR: '1' },
      });
      assert.match(output, /Test Files {2}2 passed \(2\)/);
      assert.match(output, /Tests {2}7 passed \(7\)/);
      assert.doesNotMatch(output, /hanging|something prevents|unhandled/i);
    });
});
