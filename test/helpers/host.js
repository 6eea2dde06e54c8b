'use strict';
// A host in a process of its own, for what a test runner would not survive:
// starts test/hosts/NAME.js and gives its lines as they come.

const { spawn } = require('node:child_process');
const path = require('node:path');

function startHost(name, args = [], { shell, env, ...options } = {}) {
  const file = path.join(__dirname, '..', 'hosts', `${name}.js`);
  const command = [process.execPath, file, ...args.map(String)];
  // A sanitizer's runtime is for the host: the shell dies of some.
  const { LD_PRELOAD: runtime, ...plain } = env ?? process.env;
  const within = runtime ? ['env', `LD_PRELOAD=${runtime}`] : [];
  const child = shell
    ? spawn('/bin/sh', ['-c', `${shell}\nexec "$@"`, 'sh', ...within, ...command], {
        stdio: ['ignore', 'pipe', 'pipe'],
        env: plain,
        ...options,
      })
    : spawn(command[0], command.slice(1), { stdio: ['ignore', 'pipe', 'pipe'], env, ...options });
  let text = '';
  let errors = '';
  const waiting = new Set();
  child.stdout.on('data', (chunk) => {
    text += chunk;
    for (const check of waiting) check();
  });
  child.stderr.on('data', (chunk) => {
    errors += chunk;
  });
  const exited = new Promise((resolve) => {
    child.on('close', (code, signal) => {
      resolve({ code, signal, stdout: text, stderr: errors });
      for (const check of waiting) check(true);
    });
  });
  /** The first line that matches; rejects if the host ends without it. */
  const line = (pattern, timeoutMs = 60000) =>
    new Promise((resolve, reject) => {
      const timer = setTimeout(() => fail('timed out'), timeoutMs);
      const fail = (why) => {
        waiting.delete(check);
        clearTimeout(timer);
        reject(new Error(`host ${name}: ${why} before ${pattern}\n${text}${errors}`));
      };
      const check = (ended) => {
        const found = text.split('\n').find((one) => pattern.test(one));
        if (found !== undefined) {
          waiting.delete(check);
          clearTimeout(timer);
          resolve(found);
        } else if (ended) fail('ended');
      };
      waiting.add(check);
      check();
    });
  return { child, line, exited };
}

module.exports = { startHost };
