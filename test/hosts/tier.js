'use strict';
// Runs probes in both languages and prints, per language, what was reported and
// what held: one JSON line. `busy` then leaves endless runs going.
const net = require('node:net');
const { createJail } = require('../../lib/index.js');
const { python, allowWeak, busy } = JSON.parse(process.argv[2] ?? '{}');

const SIGNALS = {
  javascript: `
const fs = require('node:fs');
const attempt = (f) => { try { f(); return 'allowed'; } catch (e) { return String(e.code ?? e.name); } };
const connect = () => new Promise((r) => {
  const s = require('node:net').connect(input.port, '127.0.0.1');
  s.once('connect', () => r('allowed')); s.once('error', (e) => r(e.code));
});
return {
  file: attempt(() => fs.readFileSync(input.file)),
  environ: attempt(() => fs.readFileSync('/proc/' + input.host + '/environ')),
  network: await connect(),
  signal: attempt(() => process.kill(input.host, 'SIGUSR1')),
  all: attempt(() => process.kill(-1, 0)),
  process: attempt(() => { const r = require('node:child_process').spawnSync('/bin/true'); if (r.error) throw r.error; }),
  stdin: fs.readFileSync(0, 'utf8'),
  scratch: attempt(() => fs.writeFileSync('own', 'x')),
  control: attempt(() => fs.readFileSync(process.execPath, { flag: 'r' }).length),
};`,
  python: `
import ctypes, errno, os, resource, socket
def attempt(f, *a):
    try: f(*a); return 'allowed'
    except OSError as e: return errno.errorcode.get(e.errno, str(e))
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def call(*a):
    if libc.syscall(*[ctypes.c_long(x) for x in a]) == -1: raise OSError(ctypes.get_errno(), 'call')
r, w = os.pipe()
host = input['host']
scratch = ctypes.create_string_buffer(256)
S = ctypes.addressof(scratch)
result = {
    'file': attempt(open, input['file'], 'rb'),
    'environ': attempt(open, '/proc/%d/environ' % host, 'rb'),
    'memory': attempt(open, '/proc/%d/mem' % host, 'rb'),
    'network': attempt(lambda: socket.create_connection(('127.0.0.1', input['port']), 1)),
    'signal': attempt(os.kill, host, 10),
    'all': attempt(os.kill, -1, 0),
    'process': attempt(os.fork),
    'owner': attempt(call, 72, r, 8, host),
    'owner by ioctl': attempt(call, 16, r, 0x8901, S),
    'signal number': attempt(call, 72, r, 10, 9),
    'async': attempt(call, 72, r, 4, 0o20000),
    'pipe size': attempt(call, 72, r, 1031, 1 << 20),
    'limits': attempt(call, 302, host, 7, 0, S),
    'affinity': attempt(call, 203, host, 128, S),
    'scheduler': attempt(call, 144, host, 0, S),
    'priority': attempt(call, 141, 0, host, 19),
    'death signal': attempt(call, 157, 1, 0, 0, 0, 0),
    'trace': attempt(call, 101, 16, host, 0, 0),
    'stdin': os.read(0, 1).decode(),
    'scratch': attempt(lambda: open('own', 'w').close()),
    'control': attempt(open, os.__file__, 'rb'),
}`,
};

async function main() {
  const server = net.createServer((socket) => socket.destroy());
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const input = { host: process.pid, port: server.address().port, file: __filename };
  const jail = createJail({ allowWeak, ...(python && { python: { path: python } }) });
  const seen = {};
  for (const [language, code] of Object.entries(SIGNALS)) {
    try {
      const run = await jail.runCode({ language, code, input });
      const { layers, missing, isolation } = run.jail;
      seen[language] = { status: run.status, error: run.error, probes: run.result, layers, missing, isolation };
      // Memory that no wall but the watch may count.
      const fat = {
        language,
        memoryMb: 64,
        code:
          language === 'python'
            ? 'a = []\nwhile True: a.append(bytearray(1 << 20))'
            : 'const a = []; for (;;) a.push(Buffer.alloc(1 << 20, 1));',
      };
      seen[language].memory = (await jail.runCode(fat)).status;
    } catch (error) {
      seen[language] = { code: error.code, message: error.message };
    }
  }
  console.log(`seen ${JSON.stringify(seen)}`);
  server.close();
  if (!busy) {
    await jail.close();
    return;
  }
  const endless = { timeoutMs: 60000 };
  jail.runCode({ language: 'javascript', code: 'for (;;) {}', ...endless }).catch(() => {});
  jail.runCode({ language: 'python', code: 'import time\ntime.sleep(60)', ...endless }).catch(() => {});
  setTimeout(() => console.log('busy'), 300);
}
main();
