'use strict';
// The sandbox service in a process of its own, on loopback, as an operator
// starts it; and the short ways to ask it something. Plain HTTP, no client of ours.

const { spawn } = require('node:child_process');
const http = require('node:http');
const path = require('node:path');
const { after } = require('node:test');

const ROOT = path.join(__dirname, '..', '..');
const LAUNCHER = path.join(ROOT, 'build', 'Release', 'code-jail-launcher');
const EXEC = '/internal/sandbox/exec';
const TOKEN = 'the-current-token-0123456789abcdef';
const PREVIOUS = 'the-previous-token-0123456789abcdef';
const bearer = (token = TOKEN) => ({ authorization: `Bearer ${token}` });

// Where a test failed before it stopped its own.
const started = new Set();
after(() => {
  for (const child of started) child.kill('SIGKILL');
});

/** One request, as it comes: { status, headers, body }. */
function ask(url, { method = 'GET', headers = {}, body, agent, signal } = {}) {
  return new Promise((resolve, reject) => {
    const request = http.request(url, { method, headers, agent, signal }, (response) => {
      const parts = [];
      response.on('data', (part) => parts.push(part));
      response.on('error', reject);
      response.on('end', () => {
        const text = Buffer.concat(parts).toString();
        let json = null;
        try {
          json = JSON.parse(text);
        } catch {
          // not every answer is
        }
        resolve({ status: response.statusCode, headers: response.headers, text, json });
      });
    });
    request.on('error', reject);
    request.end(body);
  });
}

/** Runs code. @param {string} base @param {object} job */
function post(base, job, { headers = bearer(), ...more } = {}) {
  return ask(base + EXEC, {
    method: 'POST',
    headers,
    body: typeof job === 'string' ? job : JSON.stringify(job),
    ...more,
  });
}

const js = (code, more) => ({ language: 'javascript', code, ...more });
const py = (code, more) => ({ language: 'python', code, ...more });

/**
 * @param {{ env?: Record<string, string>, user?: string | null, args?: string[], ready?: boolean }} [options]
 *   user: null for none; default, as root, one that is nobody's
 */
async function startService({
  env = {},
  user = process.getuid?.() === 0 ? '65532' : null,
  args = ['--port', '0'],
  ready = true,
} = {}) {
  const command = [
    ...(user ? ['--user', user] : []),
    '--',
    process.execPath,
    path.join(ROOT, 'bin', 'code-jail.js'),
    'serve',
    ...args,
  ];
  const child = spawn(LAUNCHER, command, {
    cwd: '/',
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env.PATH, CODE_SANDBOX_TOKEN: TOKEN, CODE_SANDBOX_TOKEN_PREVIOUS: PREVIOUS, ...env },
  });
  started.add(child);
  const seen = { out: '', err: '' };
  const lines = [];
  child.stdout.on('data', (part) => {
    seen.out += part;
    lines.length = 0;
    for (const line of seen.out.split('\n').slice(0, -1)) lines.push(JSON.parse(line));
  });
  child.stderr.on('data', (part) => {
    seen.err += part;
  });
  const exited = new Promise((resolve) => child.on('close', (code, signal) => resolve({ code, signal, ...seen })));
  const find = (event) => lines.find((line) => line.event === event);
  await waitFor(() => find('listen') || child.exitCode !== null, 20000);
  const at = find('listen')?.at;
  if (!at) {
    child.kill('SIGKILL');
    throw Object.assign(new Error(`the service did not start: ${seen.err}${seen.out}`), { seen });
  }
  const base = `http://${at}`;
  if (ready) await waitFor(async () => (await ask(`${base}/readyz`)).status === 200, 40000);
  return {
    base,
    child,
    lines,
    exited,
    seen,
    post: (job, more) => post(base, job, more),
    get: (where, headers = {}) => ask(base + where, { headers }),
    metric: async (name) => {
      const { text } = await ask(`${base}/metrics`, { headers: bearer() });
      return Number(new RegExp(`^${name.replace(/[{}"]/g, '\\$&')} (.*)$`, 'm').exec(text)?.[1]);
    },
    /** Gently; and whatever does not end so has failed. */
    async stop() {
      child.kill('SIGTERM');
      const timer = setTimeout(() => child.kill('SIGKILL'), 15000);
      const end = await exited;
      clearTimeout(timer);
      return end;
    },
  };
}

async function waitFor(check, timeoutMs = 5000, stepMs = 20) {
  const end = Date.now() + timeoutMs;
  for (;;) {
    const value = await check();
    if (value) return value;
    if (Date.now() > end) throw new Error(`waited ${timeoutMs} ms in vain for ${check}`);
    await new Promise((resolve) => setTimeout(resolve, stepMs));
  }
}

module.exports = { startService, ask, post, js, py, bearer, waitFor, TOKEN, PREVIOUS, EXEC, LAUNCHER, ROOT };
