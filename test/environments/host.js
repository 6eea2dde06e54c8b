'use strict';
// A host in the environment to be looked at. Runs the probes in cells and prints
// one line, `seen {...}`: what was reported, and what each probe met. With `busy`
// it leaves endless runs going.

const { spawn } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { createInterface } = require('node:readline');
const { setTimeout: sleep } = require('node:timers/promises');

const { root = path.join(__dirname, '..', '..'), python, allowWeak, busy } = JSON.parse(process.argv[2] ?? '{}');
const { createJail } = require(path.join(root, 'lib', 'index.js'));

const PROBES = fs.readFileSync(path.join(__dirname, 'probes.py'), 'utf8');
// V8 takes a large buffer's memory at once, and the kernel gives it a page at a time.
const DATA = "try { new ArrayBuffer(1 << 29); return 'allowed'; } catch (error) { return error.name; }";
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

// What the cell calls itself meanwhile; other hosts may be at work beside this one.
const TITLE = `cell of ${process.pid}`;

/** The uid, as seen from here, of the process with that title. */
async function watchForCell(over) {
  while (!over.now) {
    for (const pid of fs.readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
      try {
        const status = fs.readFileSync(`/proc/${pid}/status`, 'utf8');
        if (status.startsWith(`Name:\t${TITLE}\n`)) return Number(/^Uid:\t(\d+)/m.exec(status)[1]);
      } catch {} // it has ended meanwhile
    }
    await sleep(5);
  }
  return null;
}

async function main() {
  const sibling = await startSibling();
  const secret = path.join(fs.mkdtempSync(path.join(os.tmpdir(), 'environment-')), 'secret');
  fs.writeFileSync(secret, 'x', { mode: 0o600 });
  fs.chmodSync(path.dirname(secret), 0o755);
  const input = { title: TITLE, hostname: os.hostname(), file: __filename, secret, sibling: sibling.where };
  const jail = createJail({ allowWeak, python: { path: python }, parked: 1 });
  /** @type {any} */
  const seen = { landlock: sibling.where.landlock };
  const over = { now: false };
  try {
    const outside = watchForCell(over);
    const run = await jail.runCode({ language: 'python', code: `${PROBES}\nimport time\ntime.sleep(0.3)`, input });
    over.now = true;
    const uid = await outside;
    const { layers, missing, isolation } = run.jail;
    Object.assign(seen, { status: run.status, error: run.error, layers, missing, isolation });
    const data = await jail.runCode({ language: 'javascript', code: DATA, memoryMb: 64 });
    seen.uid = uid;
    const said = (open) => (open ? 'allowed' : 'EPERM');
    seen.probes = {
      ...run.result?.probes,
      'data past the limit': String(data.result ?? data.status),
      'its id outside': said(uid === run.result?.uid),
      'an id of the host': said(uid === process.getuid()),
    };
    const javascript = await jail.runCode({ language: 'javascript', code: JAVASCRIPT, input });
    seen.javascript = { layers: javascript.jail.layers, probes: javascript.result };
    seen.memory = [];
    for (const language of Object.keys(MEMORY))
      seen.memory.push((await jail.runCode({ language, code: MEMORY[language], memoryMb: 64 })).status);
  } catch (error) {
    seen.code = error.code;
    seen.message = error.message;
  }
  over.now = true;
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
