'use strict';
// A host that is short of something: an error of the one VM, and not the daemon's end.

const assert = require('node:assert/strict');
const { execFileSync } = require('node:child_process');
const path = require('node:path');
const { it } = require('node:test');

const WARDEN = path.join(__dirname, '..', '..', 'lib', 'jailer', 'warden.js');

const PROGRAM = `
const fs = require('node:fs');
const { startWarden } = require(process.argv[1]);
const start = async (left) => {
  const taken = [];
  try { for (;;) taken.push(fs.openSync('/dev/null')); } catch {}
  for (const fd of taken.splice(0, left)) fs.closeSync(fd);
  try {
    const warden = startWarden(['/nowhere/program']);
    await warden.end();
    return 'started';
  } catch (error) {
    return [error.code, error.retryable, error.message].join(' ');
  } finally {
    for (const fd of taken) fs.closeSync(fd);
    await new Promise((resolve) => setImmediate(resolve)); // what is emitted in the next turn
  }
};
(async () => console.log(JSON.stringify([await start(40), await start(2)])))();
`;

it('no descriptors for a warden', () => {
  const args = ['-c', 'ulimit -n 100; exec "$@"', 'sh', process.execPath, '-e', PROGRAM, WARDEN];
  const [enough, few] = JSON.parse(execFileSync('/bin/sh', args, { encoding: 'utf8' }));
  assert.equal(enough, 'started', 'the control');
  assert.match(few, /^ERR_JAIL_UNAVAILABLE true .*no descriptors/);
});
