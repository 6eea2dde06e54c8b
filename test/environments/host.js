'use strict';
// A host in the environment to be looked at. Runs the probes in cells and prints
// one line, `seen {...}`: what was reported, and what each probe met. With `busy`
// it leaves endless runs going; with `brief` it asks Python alone.

const { spawn } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { createInterface } = require('node:readline');
const { setTimeout: sleep } = require('node:timers/promises');

const { root = path.join(__dirname, '..', '..'), python, allowWeak, busy, brief } = JSON.parse(process.argv[2] ?? '{}');
const { createJail } = require(path.join(root, 'lib', 'index.js'));

const PROBES = fs.readFileSync(path.join(__dirname, 'probes.py'), 'utf8');
// V8 takes a large buffer's memory at once, and the kernel gives it a page at a time.
const DATA = {
  javascript: "try { new ArrayBuffer(1 << 29); return 'allowed'; } catch (error) { return error.name; }",
  python:
    "import mmap\ntry: result = mmap.mmap(-1, 1 << 29, flags=34) and 'allowed'\nexcept OSError: result = 'ENOMEM'",
};
const JAVASCRIPT = `
const attempt = (f) => { try { f(); return 'allowed'; } catch (e) { return String(e.code ?? e.name); } };
const connected = new Promise((done) => {
  const socket = require('node:net').connect(input.sibling.port, '127.0.0.1');
  socket.once('connect', () => done('allowed')).once('error', (e) => done(e.code));
});
return {
  file: attempt(() => require('node:fs').readFileSync(input.file)),
  kill: attempt(() => process.kill(input.sibling.pid, 'SIGUSR1')),
  process: attempt(() => { const { error } = require('node:child_process').spawnSync('/bin/true'); if (error) throw error; }),
  network: await connected,
};`;
// What sockets hold is the kernel's memory: neither RLIMIT_DATA nor the watch counts it.
const SOCKETS = `
import socket
own, pairs = bytearray(b'x') * (20 << 20), []
for _ in range(26):
    pairs.append(socket.socketpair())
    for one in pairs[-1]:
        one.setblocking(False)
        try:
            while True: one.send(own[:65536])
        except BlockingIOError: pass
result = 'allowed'`;
const MEMORY = {
  python: 'a = []\nwhile True: a.append(bytearray(1 << 20))',
  javascript: 'const a = []; for (;;) a.push(Buffer.alloc(1 << 20, 1));',
};

async function startSibling() {
  const child = spawn(python, [path.join(__dirname, 'sibling.py')], { stdio: ['pipe', 'pipe', 'inherit'] });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const next = async () => JSON.parse((await lines.next()).value);
  const where = await next();
  const end = () => {
    child.stdin.end();
    return next();
  };
  return { where, end };
}

// A cell calls itself by our pid and its own uid, to be found from outside; other
// hosts may be at work beside this one.
const TITLE = process.pid.toString(36);
const SHOW = `
import ctypes, os, time
ctypes.CDLL(None).prctl(15, b'${TITLE}:%x' % os.getuid(), 0, 0, 0)
time.sleep(50)`;

function findCell() {
  for (const pid of fs.readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      const status = fs.readFileSync(`/proc/${pid}/status`, 'utf8');
      const [, title, inside] = /^Name:\t(\w+):(\w+)$/m.exec(status) ?? [];
      if (title === TITLE)
        return { inside: Number.parseInt(inside, 16), outside: Number(/^Uid:\t(\d+)/m.exec(status)[1]) };
    } catch {} // it has ended meanwhile
  }
  return null;
}

/** The uid of one cell, as it sees it and as it is seen from here. */
async function lookAtCell(jail) {
  const enough = new AbortController();
  let over = false;
  const run = jail.runCode({ language: 'python', code: SHOW, timeoutMs: 60000 }, { signal: enough.signal });
  const ended = run
    .catch(() => {})
    .then(() => {
      over = true;
    });
  let uid = null;
  while (!uid && !over) {
    await sleep(20);
    uid = findCell();
  }
  enough.abort();
  await ended;
  return uid ?? { inside: null, outside: null };
}

async function main() {
  const sibling = await startSibling();
  const secret = path.join(fs.mkdtempSync(path.join(os.tmpdir(), 'environment-')), 'secret');
  fs.writeFileSync(secret, 'x', { mode: 0o600 });
  fs.chmodSync(path.dirname(secret), 0o755);
  const input = { hostname: os.hostname(), file: __filename, secret, sibling: sibling.where };
  const jail = createJail({ allowWeak, python: { path: python }, parked: 1 });
  /** @type {any} */
  const seen = { landlock: sibling.where.landlock };
  try {
    const run = await jail.runCode({ language: 'python', code: PROBES, input });
    const { layers, missing, isolation } = run.jail;
    Object.assign(seen, { status: run.status, error: run.error, layers, missing, isolation });
    const dataIn = brief ? 'python' : 'javascript';
    const data = await jail.runCode({ language: dataIn, code: DATA[dataIn], memoryMb: 64 });
    const sockets = await jail.runCode({ language: 'python', code: SOCKETS, memoryMb: 24 });
    const uid = await lookAtCell(jail);
    seen.uid = uid.outside;
    const said = (open) => (open ? 'allowed' : 'EPERM');
    seen.probes = {
      ...run.result,
      'data past the limit': String(data.result ?? data.status),
      'memory of the kernel': String(sockets.result ?? sockets.status),
      'its id outside': said(uid.outside === uid.inside),
      'an id of the host': said(uid.outside === process.getuid()),
    };
    if (!brief) {
      const javascript = await jail.runCode({ language: 'javascript', code: JAVASCRIPT, input });
      seen.javascript = { layers: javascript.jail.layers, probes: javascript.result };
      seen.memory = [];
      for (const language of Object.keys(MEMORY))
        seen.memory.push((await jail.runCode({ language, code: MEMORY[language], memoryMb: 64 })).status);
    }
  } catch (error) {
    seen.code = error.code;
    seen.message = error.message;
  }
  seen.sibling = await sibling.end();
  fs.rmSync(path.dirname(secret), { recursive: true });
  console.log(`seen ${JSON.stringify(seen)}`);
  if (!busy) return jail.close();
  const endless = { timeoutMs: 60000 };
  jail.runCode({ language: 'javascript', code: 'for (;;) {}', ...endless }).catch(() => {});
  jail.runCode({ language: 'python', code: 'import time\ntime.sleep(60)', ...endless }).catch(() => {});
  setTimeout(() => console.log('busy'), 300);
}
main();
