'use strict';
// Two cells of one zygote, and a cell and those who keep it: nothing of one run
// may be found by, copied into, or felt by another.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const { describe, it } = require('node:test');
const { setTimeout: sleep } = require('node:timers/promises');
const { createJail } = require('../lib/index.js');
const { descendants, slack } = require('./helpers/baseline.js');
const { body, matches, openJail, probe } = require('./helpers/run.js');

const jail = openJail();
const inJs = (fn, input, options) => probe(jail, 'javascript', typeof fn === 'string' ? fn : body(fn), input, options);
const inPython = (code, input, options) => probe(jail, 'python', code, input, options);

/* global input */

describe('randomness', () => {
  const drawJs = () => {
    const crypto = require('node:crypto');
    return {
      bytes: crypto.randomBytes(16).toString('hex'),
      uuid: crypto.randomUUID(),
      uuidUncached: crypto.randomUUID({ disableEntropyCache: true }),
      int: crypto.randomInt(2 ** 47),
      math: Math.random(),
      math2: Math.random(),
      web: Buffer.from(globalThis.crypto.getRandomValues(new Uint8Array(16))).toString('hex'),
      key: crypto.generateKeyPairSync('ed25519').publicKey.export({ type: 'spki', format: 'der' }).toString('hex'),
      folder: require('node:fs').mkdtempSync('/tmp/a-'),
    };
  };
  const drawPython = `
import os, random, secrets, ssl, tempfile, uuid
result = {
    'random': random.random(), 'bits': random.getrandbits(64), 'shuffled': str(random.sample(range(1000), 20)),
    'fresh': random.Random().random(), 'system': random.SystemRandom().random(),
    'secrets': secrets.token_hex(), 'ssl': ssl.RAND_bytes(16).hex(), 'urandom': os.urandom(16).hex(),
    'uuid4': str(uuid.uuid4()), 'uuid1': str(uuid.uuid1()), 'name': tempfile.mktemp(),
}
`;
  for (const [language, draw] of [
    ['javascript', body(drawJs)],
    ['python', drawPython],
  ]) {
    it(`${language}: no generator gives two cells the same value`, async () => {
      const draws = await Promise.all(Array.from({ length: 12 }, () => probe(jail, language, draw)));
      for (const name of Object.keys(draws[0])) {
        const values = new Set(draws.map((one) => one[name]));
        assert.equal(values.size, draws.length, `${name}: ${[...values].slice(0, 3)}`);
      }
    });
  }
});

describe('memory and descriptors', () => {
  // A cell may not look at itself in /proc; root may, from outside.
  const outside = process.getuid() !== 0 && 'only root may look into the cells from outside';
  for (const [language, code] of [
    ['javascript', 'console.log("up"); await new Promise((r) => setTimeout(r, 1500)); return 1'],
    ['python', 'print("up", flush=True)\nimport time\ntime.sleep(1.5)\nresult = 1'],
  ]) {
    it(`${language}: no mapping is shared and writable, no descriptor leads to a sibling`, {
      skip: outside,
    }, async () => {
      const runs = [probe(jail, language, code), probe(jail, language, code)];
      await sleep(600);
      const all = descendants();
      const leaves = all.filter((one) => !all.some((other) => other.ppid === one.pid));
      const cells = leaves.filter((one) => leaves.filter((other) => other.ppid === one.ppid).length >= 2);
      assert.ok(cells.length >= 2, 'parked and running cells are there');
      const seen = new Map();
      for (const { pid } of [...cells, ...all.filter((one) => cells.some((cell) => cell.ppid === one.pid))]) {
        const maps = fs.readFileSync(`/proc/${pid}/maps`, 'utf8').split('\n');
        assert.deepEqual(
          maps.filter((line) => /^\S+ .w.s /.test(line)),
          [],
          `pid ${pid}`,
        );
        // What is not reachable by name: pipes, sockets and the kernel's anonymous objects, by inode.
        const ends = fs.readdirSync(`/proc/${pid}/fd`).map((fd) => fs.readlinkSync(`/proc/${pid}/fd/${fd}`));
        for (const name of new Set(ends.filter((end) => /^(pipe|socket|\/memfd)/.test(end)))) {
          assert.ok(!seen.has(name), `${name} is open in ${pid} and ${seen.get(name)}`);
          seen.set(name, pid);
        }
      }
      assert.deepEqual(await Promise.all(runs), [1, 1]);
    });
  }

  it('a run finds nothing of the one before', async () => {
    const leave = `
import os
open('/cell/left', 'w').write('x'); open('/tmp/left', 'w').write('x')
try: open('/dev/shm/left', 'w').write('x')
except OSError: pass
import builtins
builtins.left = 'x'
result = sorted(os.listdir('/cell'))
`;
    const find = `
import os, builtins
found = []
for root in ('/cell', '/tmp', '/dev/shm'):
    try: found += [root + '/' + n for n in os.listdir(root)]
    except OSError: pass
result = {'found': found, 'builtin': hasattr(builtins, 'left')}
`;
    assert.deepEqual(await inPython(leave), ['left']);
    for (let i = 0; i < 4; i++) assert.deepEqual(await inPython(find), { found: [], builtin: false });
    await inJs('globalThis.left = 1; Object.prototype.left = 1; require("fs").left = 1; return 1');
    for (let i = 0; i < 4; i++) {
      assert.deepEqual(await inJs('return [typeof left, "left" in {}, "left" in require("fs")]'), [
        'undefined',
        false,
        false,
      ]);
    }
  });

  it('two cells find no lock, lease or name through which to talk', async () => {
    const talk = `
import errno, fcntl, os, socket, sys
def attempt(f):
    try: f(); return 'allowed'
    except OSError as e: return errno.errorcode[e.errno]
shared = open(os.__file__, 'rb')
result = {
    'flock': attempt(lambda: fcntl.flock(shared, fcntl.LOCK_SH)),
    'lease': attempt(lambda: fcntl.fcntl(shared, fcntl.F_SETLEASE, fcntl.F_RDLCK)),
    'abstract': attempt(lambda: socket.socket(socket.AF_UNIX).bind('\\0name')),
    'control': attempt(lambda: shared.read(1)),
}
`;
    const seen = await inPython(talk);
    assert.equal(seen.control, 'allowed');
    for (const name of ['flock', 'lease', 'abstract'])
      assert.match(seen[name], /^(EPERM|EACCES|ENOSYS|EAFNOSUPPORT)$/, name);
  });
});

describe('one cell\u2019s greed', () => {
  it('all its threads, pipes and descriptors leave its sibling what it needs', async () => {
    const greedy = jail.runCode({
      language: 'python',
      code: `
import os, threading, time
kept = []
for _ in range(100):
    try:
        t = threading.Thread(target=time.sleep, args=(30,), daemon=True); t.start(); kept.append(t)
    except RuntimeError: break
pipes = []
try:
    while True:
        r, w = os.pipe(); os.set_blocking(w, False); pipes.append((r, w))
        try:
            while True: os.write(w, b'x' * 65536)
        except BlockingIOError: pass
except OSError: pass
print(len(kept), len(pipes), flush=True)
time.sleep(1.5)
result = [len(kept), len(pipes)]
`,
    });
    const start = performance.now();
    for (let i = 0; i < 20; i++) {
      const sibling = await inPython(
        'import threading, os\nt = threading.Thread(target=lambda: None); t.start(); t.join()\nos.pipe()\nresult = input',
        i,
      );
      assert.equal(sibling, i);
    }
    assert.ok(performance.now() - start < 10000 * slack());
    const { result, status } = await greedy;
    assert.equal(status, 'ok');
    assert.ok(result[0] <= 64 && result[1] < 64, `threads and pipes: ${result}`);
  });

  const forged = {
    'a length of 2^32': 'struct.pack("<IIII", 0x31464a43, ord("R"), 0xffffffff, 0xffffffff)',
    'an unknown kind': 'struct.pack("<IIII", 0x31464a43, ord("?"), 0, 0)',
    'no magic': 'b"\\0" * 64',
    'a result that is not JSON': 'struct.pack("<IIII", 0x31464a43, ord("R"), 0, 4) + b"{]:,"',
    'a part of a header': 'struct.pack("<I", 0x31464a43)',
    'an error that is not an object': 'struct.pack("<IIII", 0x31464a43, ord("E"), 2, 0) + b"[]"',
  };
  for (const [name, bytes] of Object.entries(forged)) {
    it(`a forged frame with ${name} ends its own run as killed`, async () => {
      const result = await jail.runCode({
        language: 'python',
        code: `
import os, struct
frame = ${bytes}
for fd in range(3, 64):
    try: os.write(fd, frame)
    except OSError: pass
os._exit(0)
`,
      });
      assert.equal(result.status, 'killed', JSON.stringify(result));
      assert.equal(result.result, null);
      assert.equal(await inPython('result = 5'), 5, 'and costs the next one nothing');
    });
  }

  it('two frames, or one byte at a time, are one result or none', async () => {
    const code = (frame) => `
import os, struct, time
frame = ${frame}
for fd in range(3, 64):
    try: os.fstat(fd)
    except OSError: continue
    try:
        for b in frame: os.write(fd, bytes([b])); time.sleep(0.002)
    except OSError: pass
time.sleep(5)
`;
    const one = 'struct.pack("<IIII", 0x31464a43, ord("R"), 0, 4) + b"1234"';
    const slow = await jail.runCode({ language: 'python', code: code(one), timeoutMs: 3000 });
    assert.ok(/^(ok|killed)$/.test(slow.status), slow.status);
    if (slow.status === 'ok') assert.equal(slow.result, 1234);
    const twice = await jail.runCode({ language: 'python', code: code(`(${one}) * 2`), timeoutMs: 3000 });
    assert.ok(/^(ok|killed)$/.test(twice.status), twice.status);
  });

  const heavy = {
    'a legal 4 MB result of [[],[],…]': 'return Array.from({ length: 190000 }, () => []);',
    '100,000 one-letter keys':
      'return Object.fromEntries(Array.from({ length: 100000 }, (_, i) => [i.toString(36), 1]));',
    '500 levels': 'let a = []; for (let i = 0; i < 500; i++) a = [a]; return a;',
  };
  for (const [name, code] of Object.entries(heavy)) {
    it(`${name} arrives`, async () => {
      matches(await jail.runCode({ language: 'javascript', code }), { status: 'ok' });
    });
  }
  const over = {
    '1.3 million empty arrays': 'return Array.from({ length: 1300000 }, () => []);',
    '300,000 keys': 'return Object.fromEntries(Array.from({ length: 300000 }, (_, i) => [i.toString(36), 1]));',
    'five megabytes of text': 'return "x".repeat(5 * 2 ** 20);',
  };
  for (const [name, code] of Object.entries(over)) {
    it(`${name} is result_too_large`, async () => {
      matches(await jail.runCode({ language: 'javascript', code }), {
        status: 'result_too_large',
        ok: false,
        result: null,
      });
    });
  }
});

describe('variables that would change a runtime', () => {
  const env = {
    LD_PRELOAD: '/cell/x.so',
    LD_LIBRARY_PATH: '/cell',
    NODE_OPTIONS: '--require /cell/x.js',
    NODE_PATH: '/tmp/other',
    PYTHONPATH: '/tmp/other',
    PYTHONSTARTUP: '/cell/x.py',
    PYTHONHOME: '/cell',
    OPENSSL_CONF: '/cell/x.cnf',
  };
  for (const start of ['parked', 'cold']) {
    it(`are plain variables, ${start} start`, async () => {
      const own = createJail({ start });
      try {
        const names = JSON.stringify(Object.keys(env));
        const python = `import os, sys\nresult = [{k: os.environ.get(k) for k in ${names}}, "/tmp/other" in sys.path]`;
        const javascript = `return [Object.fromEntries(${names}.map((k) => [k, process.env[k]])), require("node:module").globalPaths?.includes("/tmp/other") ?? false];`;
        for (const [language, code] of [
          ['python', python],
          ['javascript', javascript],
        ]) {
          assert.deepEqual(await probe(own, language, code, null, { env }), [env, false], language);
        }
      } finally {
        await own.close();
      }
    });
  }
});
