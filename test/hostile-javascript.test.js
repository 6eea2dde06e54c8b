'use strict';
// JavaScript that tries to leave, to harm or to deceive. Each denial stands
// beside something that is allowed, so that a probe that merely failed to run
// does not pass for a wall.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const inspector = require('node:inspector');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');
const { after, before, describe, it } = require('node:test');
const { descendants, measure, slack, timerLag } = require('./helpers/baseline.js');
const { body, DENIED, matches, openJail, probe } = require('./helpers/run.js');

const jail = openJail();

// In scope of every probe: what an operation came to, in one word.
const PRELUDE = `
const attempt = (f) => { try { f(); return 'allowed'; } catch (e) { return String(e?.code ?? e?.name ?? e); } };
const attemptAsync = async (f, ms = 1500) => {
  let timer;
  const late = new Promise((r) => { timer = setTimeout(() => r('silence'), ms); });
  try { return await Promise.race([Promise.resolve(f()).then(() => 'allowed'), late]); }
  catch (e) { return String(e?.cause?.code ?? e?.code ?? e?.name ?? e); }
  finally { clearTimeout(timer); }
};
`;
const ask = (fn, input, options) => probe(jail, 'javascript', PRELUDE + body(fn), input, options);
const run = (fn, input = null, options = {}) =>
  jail.runCode({ language: 'javascript', code: typeof fn === 'string' ? fn : PRELUDE + body(fn), input, ...options });

function allDenied(outcomes, except = []) {
  for (const [name, outcome] of Object.entries(outcomes)) {
    if (except.includes(name)) assert.equal(outcome, 'allowed', `${name} is the allowed control`);
    else assert.match(String(outcome), DENIED, name);
  }
}

// What a probe's function body refers to exists inside the cell only.
/* global attempt, attemptAsync, input */

describe('JavaScript: signals and processes', () => {
  it('cannot signal its parent, its group or everyone; may ask for its own pid', async () => {
    const outcomes = await ask(
      () => {
        return {
          inspectParent: attempt(() => process.kill(process.ppid, 'SIGUSR1')),
          debugParent: attempt(() => process._debugProcess(process.ppid || 1)),
          everyone: attempt(() => process.kill(-1, 'SIGKILL')),
          group: attempt(() => process.kill(0, 'SIGSTOP')),
          stopParent: attempt(() => process.kill(process.ppid, 'SIGSTOP')),
          host: attempt(() => process.kill(input.host, 'SIGUSR1')),
          control: attempt(() => process.pid > 0),
        };
      },
      { host: process.pid },
    );
    // Signalling itself through _debugProcess is its own affair; the rest must fail.
    const { debugParent: _, ...rest } = outcomes;
    allDenied(rest, ['control']);
    assert.equal(inspector.url(), undefined, 'the host has no inspector');
  });

  it('cannot start a program, by any of the ways', async () => {
    const outcomes = await ask(() => {
      const cp = require('node:child_process');
      const spawned = (r) => {
        if (r.error) throw r.error;
      };
      return {
        execSync: attempt(() => cp.execSync('id', { stdio: 'pipe' })),
        execFileSync: attempt(() => cp.execFileSync('/bin/sh', ['-c', 'id'])),
        spawnSync: attempt(() => spawned(cp.spawnSync('id'))),
        own: attempt(() => spawned(cp.spawnSync(process.execPath, ['-e', '1']))),
        fork: attempt(() => spawned(cp.spawnSync(process.execPath, ['/cell/x.js']))),
        control: attempt(() => require('node:os').availableParallelism()),
      };
    });
    allDenied(outcomes, ['control']);
    assert.deepEqual(
      descendants().filter((one) => /^(sh|id)$/.test(one.comm)),
      [],
    );
  });

  it('cannot start one through the internals either', async () => {
    const outcomes = await ask(() => {
      const result = {};
      result.binding = attempt(() => {
        const { spawn } = process.binding('spawn_sync');
        const r = spawn({
          file: '/bin/sh',
          args: ['sh', '-c', 'id'],
          envPairs: [],
          stdio: [
            { type: 'pipe', readable: true, writable: false },
            { type: 'pipe', readable: false, writable: true },
            { type: 'pipe', readable: false, writable: true },
          ],
        });
        if (r.error) throw Object.assign(new Error('spawn'), { code: 'EPERM' });
      });
      result.exposed = attempt(() => {
        const { internalBinding } = require('internal/test/binding');
        if (internalBinding) return;
      });
      result.control = attempt(() => require('node:util').inspect({}));
      return result;
    });
    assert.match(outcomes.binding, /^(EPERM|EACCES|ERR_ACCESS_DENIED|ERR_INVALID_MODULE|Error|TypeError|ENOSYS)$/);
    assert.equal(outcomes.exposed, 'MODULE_NOT_FOUND');
    assert.equal(outcomes.control, 'allowed');
  });

  it('NODE_OPTIONS and LD_PRELOAD in env are plain variables without effect', async () => {
    const env = { NODE_OPTIONS: '--expose-internals --require /cell/x.js', LD_PRELOAD: '/cell/x.so', CONTROL: 'yes' };
    const seen = await ask(
      () => {
        return {
          options: process.env.NODE_OPTIONS,
          preload: process.env.LD_PRELOAD,
          control: process.env.CONTROL,
          internals: attempt(() => require('internal/test/binding')),
        };
      },
      null,
      { env },
    );
    assert.deepEqual(seen, {
      options: env.NODE_OPTIONS,
      preload: env.LD_PRELOAD,
      control: 'yes',
      internals: 'MODULE_NOT_FOUND',
    });
  });

  it('a worker thread, where one starts at all, stands behind the same walls', async () => {
    const outcome = await ask(async () => {
      const { Worker } = require('node:worker_threads');
      const code = `
        const { parentPort } = require('node:worker_threads');
        const seen = {};
        for (const [name, f] of Object.entries({
          passwd: () => require('fs').readFileSync('/etc/shadow'),
          spawn: () => { const r = require('child_process').spawnSync('/bin/sh'); if (r.error) throw r.error; },
          kill: () => process.kill(-1, 9),
        })) { try { f(); seen[name] = 'allowed'; } catch (e) { seen[name] = e.code ?? e.name; } }
        parentPort.postMessage(seen);`;
      try {
        const worker = new Worker(code, { eval: true });
        return await new Promise((resolve, reject) => {
          worker.once('message', resolve);
          worker.once('error', reject);
          setTimeout(() => resolve('silence'), 1500);
        });
      } catch (error) {
        return error.code ?? error.name;
      }
    });
    if (typeof outcome === 'object') allDenied(outcome);
    else assert.match(outcome, /^(ERR_ACCESS_DENIED|ERR_WORKER_INIT_FAILED|EPERM|EAGAIN|silence)$/);
  });

  it('identity cannot be changed, and nothing of it is seen outside', async () => {
    const title = fs.readFileSync('/proc/self/comm', 'utf8');
    const umask = process.umask();
    const seen = await ask(() => {
      return {
        uid: attempt(() => process.setuid(0)),
        groups: attempt(() => process.setgroups([0])),
        chdir: attempt(() => process.chdir('/')),
        umask: attempt(() => process.umask(0)),
        title: attempt(() => {
          process.title = 'somebody else';
        }),
        nice: attempt(() => require('node:os').setPriority(0, -20)),
        control: attempt(() => process.cwd()),
      };
    });
    // uid 0 of its own user namespace, if it is that already, may be "set" again without effect.
    assert.match(seen.groups, DENIED);
    assert.match(seen.nice, /^(EPERM|EACCES|ERR_SYSTEM_ERROR)$/);
    assert.equal(seen.control, 'allowed');
    assert.equal(fs.readFileSync('/proc/self/comm', 'utf8'), title);
    assert.equal(process.umask(), umask);
  });
});

describe('JavaScript: files', () => {
  it('sees no file of the host; its own folder is writable', async () => {
    const secret = path.join(os.tmpdir(), `code-jail-secret-${process.pid}`);
    fs.writeFileSync(secret, 'secret');
    try {
      const outcomes = await ask(
        () => {
          const read = (file) => attempt(() => require('node:fs').readFileSync(file));
          const seen = Object.fromEntries(input.files.map((file) => [file, read(file)]));
          seen.control = attempt(() => {
            require('node:fs').writeFileSync('own.txt', 'mine');
            if (require('node:fs').readFileSync('own.txt', 'utf8') !== 'mine') throw new Error('not mine');
          });
          return seen;
        },
        {
          files: [
            secret,
            __filename,
            '/etc/shadow',
            '/root/.ssh/id_rsa',
            '/root/.npmrc',
            path.join(os.homedir(), '.bashrc'),
            path.join(__dirname, '..', 'package.json'),
            '/proc/1/environ',
            `/proc/${process.pid}/environ`,
            '/dev/mem',
            '/dev/kmsg',
            '/sys/kernel/uevent_seqnum',
          ].filter((file) => file !== '/proc/1/environ'),
        },
      );
      allDenied(outcomes, ['control']);
    } finally {
      fs.rmSync(secret);
    }
  });

  it('/etc/passwd, where there is one, is not the host\u2019s', async () => {
    const seen = await ask(() => {
      try {
        return require('node:fs').readFileSync('/etc/passwd', 'utf8');
      } catch (error) {
        return error.code;
      }
    });
    assert.notEqual(seen, fs.readFileSync('/etc/passwd', 'utf8'));
  });

  it('a descriptor opened for reading changes nothing', async () => {
    const outcomes = await ask(() => {
      const fs = require('node:fs');
      const fd = fs.openSync(process.execPath, 'r');
      return {
        chmod: attempt(() => fs.fchmodSync(fd, 0o777)),
        truncate: attempt(() => fs.ftruncateSync(fd, 0)),
        times: attempt(() => fs.futimesSync(fd, 0, 0)),
        write: attempt(() => fs.writeSync(fd, 'x')),
        control: attempt(() => fs.readSync(fd, Buffer.alloc(4))),
      };
    });
    for (const name of ['chmod', 'truncate', 'times', 'write']) {
      assert.match(outcomes[name], /^(EPERM|EROFS|EACCES|EINVAL|EBADF|ERR_ACCESS_DENIED)$/, name);
    }
    assert.equal(outcomes.control, 'allowed');
  });

  it('what it writes where it may is gone with it, and the rest of the tree is read-only', async () => {
    const outcomes = await ask(() => {
      const fs = require('node:fs');
      const write = (dir) => attempt(() => fs.writeFileSync(`${dir}/x`, 'x'));
      return { root: write('/'), usr: write('/usr'), rt: write('/rt'), lib: write('/lib'), control: write('/tmp') };
    });
    for (const name of ['root', 'usr', 'rt', 'lib']) assert.match(outcomes[name], DENIED, name);
    assert.equal(outcomes.control, 'allowed');
    const next = await ask(() => {
      const fs = require('node:fs');
      return [fs.readdirSync('/tmp'), fs.readdirSync('/cell'), fs.readdirSync('.')];
    });
    assert.deepEqual(next, [[], [], []]);
  });

  it('a native module dropped into its folder does not load, and the guest\u2019s own is inert', async () => {
    const outcomes = await ask(() => {
      const fs = require('node:fs');
      const own = '/rt/guest_node.node';
      fs.copyFileSync(own, '/cell/x.node');
      const again = { exports: {} };
      const loaded = attempt(() => process.dlopen(again, own));
      const inert = Object.values(again.exports).every((f) => typeof f !== 'function' || attempt(() => f()) !== 'dead');
      return {
        require: attempt(() => require('/cell/x.node')),
        dlopen: attempt(() => process.dlopen({ exports: {} }, '/cell/x.node')),
        control: attempt(() => fs.readFileSync('/cell/x.node')),
        loaded,
        inert,
      };
    });
    assert.match(outcomes.require, /^ERR_DLOPEN/);
    assert.match(outcomes.dlopen, /^ERR_DLOPEN/);
    assert.equal(outcomes.control, 'allowed');
    assert.equal(outcomes.inert, true);
    assert.match(outcomes.loaded, /^(allowed|ERR_DLOPEN\w*)$/);
  });

  it('crypto engines and OPENSSL_CONF load nothing', async () => {
    const outcomes = await ask(
      () => {
        const crypto = require('node:crypto');
        return {
          engine: attempt(() => crypto.setEngine('/tmp/x.so')),
          control: attempt(() => crypto.createHash('sha256').update('').digest()),
        };
      },
      null,
      { env: { OPENSSL_CONF: '/tmp/evil.cnf' } },
    );
    assert.match(outcomes.engine, /^(ERR_|TypeError|Error)/);
    assert.equal(outcomes.control, 'allowed');
  });

  it('snapshots, reports and profiles stay within its own folder', async () => {
    const before = fs.readdirSync(process.cwd()).sort();
    await run(() => {
      attempt(() => require('node:v8').writeHeapSnapshot());
      attempt(() => process.report.writeReport());
      process.abort();
    });
    assert.deepEqual(fs.readdirSync(process.cwd()).sort(), before);
  });
});

describe('JavaScript: network', () => {
  let server;
  let connections = 0;
  before(async () => {
    server = net.createServer((socket) => {
      connections++;
      socket.destroy();
    });
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  });
  after(() => server.close());

  it('reaches neither the host, nor metadata services, nor anyone', async () => {
    const outcomes = await ask(
      async () => {
        const seen = {};
        for (const url of input.urls) seen[url] = await attemptAsync(() => fetch(url));
        const connect = (options) =>
          new Promise((resolve, reject) => {
            const socket = require('node:net').connect(options);
            socket.once('connect', resolve);
            socket.once('error', reject);
          });
        seen.host = await attemptAsync(() => connect({ port: input.port, host: '127.0.0.1' }));
        seen.docker = await attemptAsync(() => connect({ path: '/run/docker.sock' }));
        seen.abstract = await attemptAsync(() => connect({ path: '\0x' }));
        seen.control = await attemptAsync(() => Promise.resolve(new URL('http://a/b')));
        return seen;
      },
      {
        port: server.address().port,
        urls: [
          'http://169.254.169.254/computeMetadata/v1/instance/',
          'http://metadata.google.internal/',
          'http://[fd00:ec2::254]/latest/meta-data/',
          'http://2852039166/',
          'http://0xA9FEA9FE/',
          `http://127.0.0.1:${server.address().port}/`,
          'http://localhost/',
          'http://192.0.2.1/',
        ],
      },
      { timeoutMs: 20000 },
    );
    for (const [name, outcome] of Object.entries(outcomes)) {
      if (name === 'control') assert.equal(outcome, 'allowed');
      else assert.match(outcome, DENIED, name);
    }
    assert.equal(connections, 0, 'nobody has called');
  });

  it('cannot listen, resolve names or send datagrams', async () => {
    const outcomes = await ask(
      async () => {
        const listen = (where) =>
          new Promise((resolve, reject) => {
            const s = require('node:net').createServer().listen(where, resolve);
            s.once('error', reject);
          });
        const datagram = () =>
          new Promise((resolve, reject) => {
            const s = require('node:dgram').createSocket('udp4');
            s.once('error', reject);
            s.send('x', 53, '127.0.0.1', (e) => (e ? reject(e) : resolve()));
          });
        return {
          tcp: await attemptAsync(() => listen(0)),
          unix: await attemptAsync(() => listen('/tmp/x.sock')),
          lookup: await attemptAsync(() => require('node:dns').promises.lookup('example.org')),
          resolve: await attemptAsync(() => require('node:dns').promises.resolve4('example.org')),
          datagram: await attemptAsync(datagram),
          http2: await attemptAsync(
            () => new Promise((_, no) => require('node:http2').connect('http://127.0.0.1:1').once('error', no)),
          ),
          tls: await attemptAsync(
            () => new Promise((_, no) => require('node:tls').connect(1, '127.0.0.1').once('error', no)),
          ),
        };
      },
      null,
      { timeoutMs: 20000 },
    );
    for (const [name, outcome] of Object.entries(outcomes)) {
      assert.notEqual(outcome, 'allowed', name);
    }
  });
});

describe('JavaScript: time', () => {
  const endless = {
    loop: 'for (;;) {}',
    regex: 'return /^(a+)+$/.test("a".repeat(60) + "b");',
    'Atomics.wait': 'Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);',
    scrypt: 'const c = require("crypto"); for (;;) c.scryptSync("a", "b", 64, { N: 2 ** 14 });',
    'microtasks without end': 'for (;;) await null;',
    'a timer that keeps alive': 'await new Promise(() => setInterval(() => {}, 1000));',
  };
  for (const [name, code] of Object.entries(endless)) {
    it(`${name} ends at the deadline`, async () => {
      const start = performance.now();
      const result = await run(code, null, { timeoutMs: 300 });
      const tookMs = performance.now() - start;
      matches(result, { status: 'timeout', timedOut: true, exitCode: null, signal: 'SIGKILL', result: null });
      assert.ok(tookMs >= 295 && tookMs < 1800 * slack(), `${tookMs} ms`);
      assert.ok(result.usage.runMs >= 295 && result.usage.runMs < 900 * slack(), `runMs ${result.usage.runMs}`);
    });
  }

  it('a promise that can never settle is an error at once, not a time-out', async () => {
    const result = await run('await new Promise(() => {});', null, { timeoutMs: 30000 });
    matches(result, { status: 'error', exitCode: 1, timedOut: false, error: { name: 'NeverSettledError' } });
    assert.ok(result.usage.runMs < 1000 * slack());
  });

  it('a value returned beside a running interval arrives at once', async () => {
    const result = await run('setInterval(() => {}, 10); return 7;');
    matches(result, { status: 'ok', result: 7 });
    assert.ok(result.usage.runMs < 500 * slack());
  });
});

describe('JavaScript: memory', () => {
  const flat = async (work) => {
    const before = process.memoryUsage.rss();
    const value = await work();
    const grown = (process.memoryUsage.rss() - before) / 2 ** 20;
    assert.ok(grown < 48, `the host grew by ${grown.toFixed(0)} MiB`);
    return value;
  };
  const bombs = {
    'a heap bomb': 'const keep = []; for (;;) keep.push(new Array(10000).fill(Math.random()));',
    'a buffer bomb': 'const keep = []; for (;;) keep.push(Buffer.alloc(1 << 20, 1));',
    'an ArrayBuffer bomb': 'const keep = []; for (;;) keep.push(new Uint8Array(1 << 22).fill(1));',
    'a string bomb':
      'let s = "x"; const keep = []; for (;;) { keep.push(Buffer.from(s)); if (s.length < 1e7) s += s; }',
    'a wasm memory':
      'const keep = []; for (;;) { const m = new WebAssembly.Memory({ initial: 256 }); new Uint8Array(m.buffer).fill(1); keep.push(m); }',
  };
  for (const [name, code] of Object.entries(bombs)) {
    it(`${name} is out_of_memory, the host stays flat`, async () => {
      const result = await flat(() => run(code, null, { memoryMb: 64, timeoutMs: 20000 }));
      matches(result, { status: 'out_of_memory', ok: false, result: null });
      matches(await run('return 1'), { status: 'ok', result: 1 });
    });
  }

  it('a failed allocation that the code catches is nothing', async () => {
    const result = await run(
      () => {
        const kept = [];
        try {
          for (let i = 0; i < 100; i++) kept.push(Buffer.alloc(8 << 20));
          return 'no limit';
        } catch (error) {
          kept.length = 0;
          return error.name;
        }
      },
      null,
      { memoryMb: 64 },
    );
    matches(result, { status: 'ok', result: 'RangeError' });
  });

  it('sizes beyond the language are its own RangeErrors', async () => {
    const outcomes = await ask(() => {
      const deep = () => deep() + 1;
      return {
        array: attempt(() => new Array(2 ** 32)),
        string: attempt(() => 'x'.repeat(2 ** 30)),
        recursion: attempt(deep),
        control: attempt(() => new Array(1000).fill(0)),
      };
    });
    assert.deepEqual(outcomes, {
      array: 'RangeError',
      string: 'ERR_STRING_TOO_LONG' === outcomes.string ? outcomes.string : 'RangeError',
      recursion: 'RangeError',
      control: 'allowed',
    });
  });

  it('a result nested 100,000 levels deep is refused, and parsed nowhere', async () => {
    const result = await run('let a = []; for (let i = 0; i < 100000; i++) a = [a]; return a;');
    assert.notEqual(result.status, 'ok');
    assert.match(result.status, /^(not_serializable|result_too_large)$/);
    matches(await run('let a = []; for (let i = 0; i < 100; i++) a = [a]; return a;'), { status: 'ok' });
  });
});

describe('JavaScript: output', () => {
  it('a flood of stdout ends as output_limit, and others are not kept waiting', async () => {
    await run('return 1');
    const flood = run('const b = Buffer.alloc(1 << 20, 97); for (;;) require("fs").writeSync(1, b);');
    const times = [];
    let done = false;
    flood.finally(() => {
      done = true;
    });
    while (!done && times.length < 200) {
      const start = performance.now();
      await run('return 1');
      times.push(performance.now() - start);
    }
    const result = await flood;
    matches(result, {
      status: 'output_limit',
      signal: 'SIGKILL',
      stdout: (text) => text.length < 1.1 * 2 ** 20 && text.startsWith('aaaa'),
      stdoutDropped: (bytes) => bytes > 48 * 2 ** 20,
    });
  });

  it('a flood of stderr likewise, stdout quiet', async () => {
    matches(await run('const b = Buffer.alloc(1 << 16, 98); for (;;) require("fs").writeSync(2, b);'), {
      status: 'output_limit',
      stdout: '',
      stderr: (text) => text.length < 1.1 * 2 ** 20,
    });
  });

  it('over the cap the middle is left out, and the run goes on', async () => {
    const result = await run(
      'for (let i = 0; i < 2000; i++) console.log(String(i).padStart(9, "0")); return "done";',
      null,
      { maxOutputBytes: 1000 },
    );
    matches(result, { status: 'ok', result: 'done', stdoutDropped: (n) => n >= 19000 && n < 20000 });
    const lines = result.stdout.split('\n');
    assert.equal(lines[0], '000000000');
    assert.equal(lines.at(-2), '000001999');
    assert.match(result.stdout, new RegExp(String(result.stdoutDropped)), 'it says how much is missing');
  });

  it('both streams at once, and one line without an end, do not lock', async () => {
    const result = await run(
      'const fs = require("fs"); for (let i = 0; i < 500; i++) { fs.writeSync(1, "o".repeat(5000)); fs.writeSync(2, "e".repeat(5000)); } return 1;',
    );
    matches(result, { status: 'ok', result: 1, stdoutDropped: (n) => n > 0, stderrDropped: (n) => n > 0 });
  });

  it('a forged result is output, and bytes in the result pipe are at most its own end', async () => {
    const result = await run(() => {
      const fs = require('node:fs');
      const forged = Buffer.concat([
        Buffer.from([0x43, 0x4a, 0x46, 0x31, 0x52, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0]),
        Buffer.from('"fa"'),
      ]);
      console.log(JSON.stringify({ id: 'other', ok: true, status: 'ok', result: 'forged' }));
      for (let fd = 3; fd < 256; fd++) {
        try {
          fs.writeSync(fd, forged);
        } catch {}
      }
      return 'real';
    });
    assert.match(result.status, /^(ok|killed)$/);
    assert.ok(result.result === 'fa' || result.result === null || result.result === 'real');
    assert.notEqual(result.id, 'other');
    matches(await run('return 2'), { status: 'ok', result: 2 });
  });
});

describe('JavaScript: ends and results', () => {
  it('process.exit(0) is ok with null, and an exit code is never taken for a signal', async () => {
    matches(await run('process.exit(0)'), { status: 'ok', exitCode: 0, result: null });
    matches(await run('process.exit(137)'), { status: 'error', exitCode: 137, signal: null });
  });

  it('abort is killed by SIGABRT', async () => {
    matches(await run('process.abort()'), { status: 'killed', signal: 'SIGABRT', exitCode: null });
  });

  it('flags and natives of V8 harm the own process only', async () => {
    const result = await run(
      'require("v8").setFlagsFromString("--allow-natives-syntax"); return eval("%SystemBreak()");',
    );
    assert.match(result.status, /^(killed|error|timeout)$/);
    matches(await run('return 3'), { status: 'ok', result: 3 });
  });

  const values = {
    'a throwing getter': ['return { get x() { throw new Error("no"); } };', { status: /^(error|not_serializable)$/ }],
    'a throwing toJSON': ['return { toJSON() { throw new Error("no"); } };', { status: /^(error|not_serializable)$/ }],
    'a throwing proxy': [
      'return new Proxy({}, { ownKeys() { throw new Error("no"); } });',
      { status: /^(error|not_serializable)$/ },
    ],
    'a function inside': ['return { a: [() => 1] };', { status: 'not_serializable', error: { path: '$.a[0]' } }],
    'a symbol inside': ['return { a: Symbol("x") };', { status: 'not_serializable', error: { path: '$.a' } }],
    'NaN, infinity and minus zero': [
      'return [NaN, -Infinity, -0, 0];',
      { status: 'ok', result: (v) => v[0] === null && v[1] === null && v[2] + 0 === 0 },
    ],
    undefined: ['return undefined;', { status: 'ok', result: null }],
    'a date': ['return new Date(0);', { status: 'ok', result: '1970-01-01T00:00:00.000Z' }],
    'a Map and a Set': ['return [new Map([["a", 1]]), new Set([1, 2])];', { status: 'ok', result: [{ a: 1 }, [1, 2]] }],
    'a lone surrogate': ['return "\\ud83d";', { status: 'ok', result: '\ud83d' }],
    '2^53 + 1': ['return 2 ** 53 + 2;', { status: 'ok', result: '9007199254740994' }],
  };
  for (const [name, [code, expected]] of Object.entries(values)) {
    it(`returns ${name} as documented`, async () => matches(await run(code), expected));
  }

  it('a key named __proto__ pollutes nothing', async () => {
    const result = await run('return JSON.parse(\'{"__proto__": {"polluted": true}, "constructor": 1}\');');
    matches(result, { status: 'ok' });
    assert.equal({}.polluted, undefined);
    assert.equal(Object.getPrototypeOf(result.result), Object.prototype);
    assert.deepEqual(Object.keys(result.result), ['__proto__', 'constructor']);
  });

  const texts = {
    'closes the wrapper': [
      '}); process.exit(9); (() => {',
      { status: 'error', error: { name: 'SyntaxError', line: 1 } },
    ],
    'a brace too many': ['return 1 }', { status: 'error', error: { name: 'SyntaxError', line: 1 } }],
    'a hash-bang line': ['#!/usr/bin/env node\nreturn new Error().stack.includes(":2:");', { status: 'ok' }],
    'a byte order mark': ['\ufeffreturn 1;', { status: 'ok', result: 1 }],
    CRLF: ['const a = 1;\r\nreturn a;\r\n', { status: 'ok', result: 1 }],
    'U+2028 in a string': ['return "a\u2028b";', { status: 'ok', result: 'a\u2028b' }],
    'NUL in a string': ['return "a\0b";', { status: 'ok', result: 'a\0b' }],
    'an HTML comment and a block\u2019s end': ['return "</script> */ `";', { status: 'ok', result: '</script> */ `' }],
    'a megabyte': [`return 1; //${'x'.repeat(2 ** 20 - 20)}`, { status: 'ok', result: 1 }],
  };
  for (const [name, [code, expected]] of Object.entries(texts)) {
    it(`takes a text with ${name}`, async () => matches(await run(code), expected));
  }

  it('after all this the host is as before', async () => {
    const { worst } = await timerLag(() => run('return 1'));
    assert.ok(worst() < 250);
    assert.ok(measure().fds < 200);
  });
});
