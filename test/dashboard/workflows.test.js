'use strict';
// The dashboard's own suites, each in its runner, and its types.

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const { before, describe, it } = require('node:test');
const { APP, build } = require('./app.js');

function runs(command, ...args) {
  const env = { ...process.env, NO_COLOR: '1', FORCE_COLOR: undefined };
  const run = spawnSync('npx', ['--no-install', command, ...args], {
    cwd: APP,
    encoding: 'utf8',
    timeout: 300000,
    env,
  });
  const text = `${run.stdout}${run.stderr}`;
  assert.equal(run.status, 0, text);
  return text;
}

describe('the dashboard', () => {
  before(build);

  it('has sound types', () => {
    runs('tsc', '-p', '.');
  });

  it('passes its workflow tests under Jest, and leaves no handle open', () => {
    const text = runs('jest', '--detectOpenHandles');
    assert.match(text, /Tests: +\d+ passed, \d+ total/);
    assert.doesNotMatch(text, /open handle|did not exit/i);
  });

  it('passes them under vitest', () => {
    assert.match(runs('vitest', 'run'), /Tests +\d+ passed/);
  });
});
