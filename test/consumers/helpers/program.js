'use strict';
// A program of a fixture, started as its user would, under helpers/left.py.

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const path = require('node:path');
const { slack } = require('../../helpers/baseline.js');

const LIMIT_S = 60;
const GRACE_S = 5;

/**
 * @param {string} cwd @param {string[]} command
 * @param {{ env?: Record<string, string>, limitS?: number }} [how]
 */
function start(cwd, command, { env = {}, limitS = LIMIT_S } = {}) {
  const limits = [limitS, GRACE_S].map((seconds) => String(Math.ceil(seconds * slack())));
  const child = spawn('python3', [path.join(__dirname, 'left.py'), ...limits, ...command], {
    cwd,
    // What node's test runner sets would reach every program below it.
    env: { ...process.env, NODE_OPTIONS: '', NODE_TEST_CONTEXT: '', NEXT_TELEMETRY_DISABLED: '1', CI: '1', ...env },
    stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
  });
  const heard = { output: '', report: '' };
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => (heard.output += data));
  /** @type {any} */ (child.stdio[3]).on('data', (data) => (heard.report += data));
  const ended = new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', () => {
      if (heard.report === '') reject(new Error(`no report:\n${heard.output}`));
      else resolve({ output: heard.output, ...JSON.parse(heard.report) });
    });
  });
  return { pid: child.pid, heard, ended, stop: () => child.kill('SIGTERM') };
}

/** Runs to its end: by itself, well, and with nothing left of it. */
async function runs(cwd, command, how) {
  const end = await start(cwd, command, how).ended;
  assert.equal(end.hung, false, `it ends by itself:\n${end.output}`);
  assert.equal(end.code, 0, end.output);
  assert.deepEqual(end.left, [], 'nothing of it is left');
  return end.output;
}

module.exports = { start, runs };
