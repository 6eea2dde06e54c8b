'use strict';
// A VM's process, held by src/agent/warden.c: it ends when we say so, and when we end.

const { spawn } = require('node:child_process');
const path = require('node:path');
const { JailError } = require('../errors.js');
const native = require('../native.js');

const ERRORS_BYTES = 2000;

/** @param {string} stage @param {string} why @param {{ retryable?: boolean, code?: string, cause?: unknown }} [facts] */
function failed(stage, why, { retryable = false, code = 'ERR_JAIL_UNAVAILABLE', cause } = {}) {
  return new JailError(code, `the microVM failed at "${stage}": ${why}`, { retryable, cause });
}

/**
 * @param {string[]} command PROGRAM ARGUMENT..., absolute
 * @param {{ cgroup?: string, alone?: boolean }} [options] cgroup: a folder that PROGRAM will be in;
 *   alone: in network, ipc and uts namespaces of its own
 */
function startWarden(command, { cgroup, alone = false } = {}) {
  const warden = path.join(path.dirname(native.parts().keeper), 'code-jail-warden');
  const args = [...(alone ? ['--private'] : []), ...(cgroup ? ['--cgroup', cgroup] : []), '--', ...command];
  const child = spawn(warden, args, { stdio: ['pipe', 'pipe', 'pipe'], env: {}, cwd: '/' });
  let said = '';
  let errors = '';
  child.on('error', (error) => {
    errors += error.message;
  });
  if (!child.stdin) throw failed('start', 'no descriptors for the warden', { retryable: true });
  child.stdin.on('error', () => {}); // it has ended: `ended` tells
  child.stdout.setEncoding('utf8');
  child.stderr.setEncoding('utf8').on('data', (part) => {
    if (errors.length < ERRORS_BYTES) errors += part.slice(0, ERRORS_BYTES);
  });
  /** @type {Promise<void>} */
  const ended = new Promise((resolve) => {
    child.on('error', () => resolve());
    child.on('close', () => resolve());
  });
  /** @type {Promise<number>} */
  const pid = new Promise((resolve, reject) => {
    child.stdout.on('data', (part) => {
      said += part;
      const line = /^pid (\d+)\n/.exec(said);
      if (line) resolve(Number(line[1]));
    });
    ended.then(() => reject(failed('start', errors.trim() || 'the warden has ended', { retryable: true })));
  });
  pid.catch(() => {}); // whoever waits for it hears of it
  let over = false;
  ended.then(() => {
    over = true;
  });
  return {
    pid,
    ended,
    get over() {
      return over;
    },
    /** What the program and the warden have written to stderr, for a message. */
    get errors() {
      return errors.trim().replace(/[^\x20-\x7e]+/g, ' ');
    },
    /** Kills it with all that it started; resolves when nothing of it is left. */
    end() {
      child.stdin.end();
      return ended;
    },
  };
}

/** @typedef {ReturnType<typeof startWarden>} Warden */

module.exports = { startWarden, failed };
