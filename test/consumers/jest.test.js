'use strict';
// Jest: registries that are thrown away, fake timers, ES modules, TypeScript; nothing is left open.

const assert = require('node:assert/strict');
const path = require('node:path');
const { before, describe, it } = require('node:test');
const { project } = require('./helpers/package.js');
const { runs } = require('./helpers/program.js');

const JEST = path.join('node_modules', 'jest', 'bin', 'jest.js');
const ESM = { NODE_OPTIONS: '--experimental-vm-modules --no-warnings' };

describe('Jest', () => {
  let folder = '';
  before(() => {
    folder = project('jest');
  });

  for (const [what, args] of [
    ['in one process, and no handle is left open', ['--detectOpenHandles']],
    ['in two processes that end by themselves', ['--maxWorkers=2']],
  ])
    it(what, async () => {
      const output = await runs(folder, [process.execPath, JEST, ...args], { env: ESM });
      assert.match(output, /Test Suites: 4 passed, 4 total/);
      assert.doesNotMatch(output, /open handle|did not exit|failed to exit|worker process/i);
    });
});
