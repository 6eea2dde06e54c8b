'use strict';
// The sandbox image under a real gVisor, over plain HTTP: both languages, the
// tables of conventions and of the field's cases, what a guest can reach from in
// there (probe 92), and going down.

const assert = require('node:assert/strict');
const { after, before, describe, it } = require('node:test');
const { createJail } = require('../../lib/index.js');
const { verify } = require('../../lib/verify.js');
const cases = require('../cases.js');
const conventions = require('../guest/conventions.js');
const { startInGvisor, whyNot } = require('../../scripts/in-gvisor.js');
const { asWire, matches } = require('../helpers/run.js');
const { ask, bearer, js, post, py, waitFor, EXEC, TOKEN } = require('../helpers/service.js');

const skip = whyNot();
let service;
before(async () => {
  if (skip) return;
  const started = await startInGvisor({ token: TOKEN, env: { CODE_SANDBOX_CONCURRENCY: '4' } });
  service = {
    ...started,
    post: (job, more) => post(started.base, job, more),
    get: (where) => ask(started.base + where, { headers: bearer() }),
  };
});
after(() => service?.stop());

/** Runs code that is expected to succeed, and gives its result. */
async function probe(job) {
  const { status, json, text } = await service.post(job);
  assert.equal(status, 200, text);
  assert.equal(json.status, 'ok', text);
  return json.result;
}

async function perform({ language, code, input = null, options, expect }, over = {}) {
  const { maxMs: _, ...expected } = expect;
  const { status, json, text } = await service.post({ language, code, input, ...asWire(options) });
  assert.equal(status, 200, text);
  try {
    matches(json, { ...asWire(expected), ...over });
  } catch (error) {
    error.message += `\nthe run: ${text.slice(0, 2000)}`;
    throw error;
  }
}

describe('in gVisor', { skip }, () => {
  it('each result says so, and names what else stands', async () => {
    for (const job of [js('return 6 * 7'), py('result = 6 * 7')]) {
      const { json } = await service.post({ ...job, minIsolation: 'gvisor' });
      assert.equal(json.result, 42);
      assert.equal(json.jail.isolation, 'gvisor');
      assert.match(json.jail.runtime, /^(node 22|python 3)\./);
      for (const layer of ['no-capabilities', 'no-new-privs', 'seccomp', 'separate-uid'])
        assert.ok(json.jail.layers.includes(layer), layer);
      for (const { reason } of json.jail.missing) assert.ok(reason.length > 5);
    }
    assert.equal((await service.get('/capabilities')).json.isolation, 'gvisor');
    assert.equal((await service.post(js('1', { minIsolation: 'process' }))).status, 200);
    const refused = await service.post(js('1', { minIsolation: 'microvm' }));
    assert.equal(refused.status, 400);
    assert.equal(refused.json.error.code, 'ERR_JAIL_ISOLATION');
  });

  it('a program that uses code-jail needs two settings, and sees that it was gVisor', async () => {
    const jail = createJail({ url: service.url, token: TOKEN, minIsolation: 'gvisor' });
    try {
      for (const job of [js('return input + 1', { input: 41 }), py('result = input + 1', { input: 41 })]) {
        const run = await jail.runCode(job);
        assert.equal(run.result, 42);
        assert.deepEqual([run.jail.backend, run.jail.isolation], ['http', 'gvisor']);
      }
    } finally {
      await jail.close();
    }
  });

  it('cells are forked and parked there, too', async () => {
    const starts = [];
    for (let i = 0; i < 5; i++) {
      await new Promise((resolve) => setTimeout(resolve, 300));
      starts.push((await service.post(py('result = 1'))).json.jail.start);
    }
    assert.ok(starts.includes('parked'), starts.join());
    assert.ok(!starts.includes('cold'));
  });
});

describe('code-jail verify, in gVisor', { skip }, () => {
  it('finds it shut', async () => {
    const report = await verify({ url: service.url, token: TOKEN, expect: 'gvisor' }, { loopMs: 1500 });
    assert.deepEqual(
      report.checks.filter((one) => !one.ok),
      [],
    );
    assert.equal(report.isolation, 'gvisor');
    assert.ok(report.checks.length > 20);
    assert.match(report.checks.find((one) => /kernel/.test(one.name)).detail, /4\.4\.0|gvisor/i);
  });
});

describe('conventions, in gVisor', { skip }, () => {
  for (const one of conventions) it(`${one.language}: ${one.name}`, () => perform(one));
});

describe('cases from the field, in gVisor', { skip }, () => {
  for (const one of cases.filter((entry) => !entry.parallel)) {
    // Sixty-four MiB of short lines take longer than ten seconds where each write is caught by ptrace.
    const slow = one.expect.status === 'output_limit';
    const over = slow
      ? {
          status: (status) => ['output_limit', 'timeout'].includes(status),
          timedOut: () => true,
          error: () => true,
          stdoutDropped: (bytes) => bytes > 0,
        }
      : {};
    it(`${one.id} ${one.language}: ${one.name}`, () => perform(one, over));
  }
});

describe('what a guest can reach from its cell', { skip }, () => {
  const attempts = {
    'the service, with a stolen token': [
      `const s = require('node:net').connect(8080, '127.0.0.1');
       return await new Promise((r) => { s.on('connect', () => r('connected')); s.on('error', (e) => r(e.code)); });`,
      /^(EPERM|EACCES)$/,
    ],
    'the metadata server': [
      `return await fetch('http://169.254.169.254/computeMetadata/v1/', { headers: { 'Metadata-Flavor': 'Google' } })
         .then(() => 'answered', (e) => e.cause?.code ?? e.code ?? e.name);`,
      /^(EPERM|EACCES|UND_ERR_\w+)$/,
    ],
    'another process': ["try { process.kill(1, 0); return 'allowed' } catch (e) { return e.code }", /^(EPERM|ESRCH)$/],
    'every process': [
      "try { process.kill(-1, 'SIGKILL'); return 'allowed' } catch (e) { return e.code }",
      /^(EPERM|ESRCH)$/,
    ],
  };
  for (const [name, [code, denied]] of Object.entries(attempts))
    it(`not ${name}`, async () => assert.match(await probe(js(code)), denied));

  it('not a program, nor another process', async () => {
    const tried = await probe(
      py(`import os, errno
def attempt(f, *a):
    try: f(*a); return 'allowed'
    except OSError as e: return errno.errorcode[e.errno]
result = [attempt(os.fork), attempt(os.posix_spawn, '/usr/local/bin/node', ['node', '-v'], {}), attempt(os.execv, '/usr/local/bin/node', ['node', '-v'])]`),
    );
    for (const one of tried) assert.match(one, /^(EPERM|EACCES|ENOSYS)$/);
    const there = js("return require('node:fs').statSync('/usr/local/bin/node').size > 1e6");
    assert.equal(await probe(there), true, 'it is there: the control');
  });

  it('a request to the service itself works from where its client is (the control)', async () => {
    assert.equal((await service.post(js('return 1'), { headers: bearer(TOKEN) })).status, 200);
    assert.equal((await service.post(js('return 1'), { headers: {} })).status, 401);
  });

  it('not a token, wherever it looks', async () => {
    const found = await probe(
      py(
        `import os
seen, held = [], []
for pid in filter(str.isdigit, os.listdir('/proc')):
    for name in ('environ', 'cmdline', 'mem', 'maps'):
        try:
            data = open(f'/proc/{pid}/{name}', 'rb').read(1 << 20)
        except OSError:
            continue
        seen.append(f'{pid} {name}')
        if input.encode() in data or b'CODE_SANDBOX_TOKEN=' in data: held.append(f'{pid} {name}')
result = [len(seen), held]`,
        { input: TOKEN.slice(0, 12) },
      ),
    );
    assert.ok(found[0] > 0, 'it could read something: the control');
    // Its own input is in its own memory; the command line is Python's.
    assert.deepEqual(
      found[1].filter((one) => !/ (mem|maps)$/.test(one)),
      [],
    );
  });

  it('only its own folder can be written to, and nothing that it left is there for the next', async () => {
    const write = py(`import os
places, wrote = ['.'], []
for folder, names, _ in os.walk('/'):
    if folder.startswith(('/proc', '/sys')):
        names[:] = []
        continue
    path = os.path.join(folder, 'left-behind')
    try:
        open(path, 'w').close()
        wrote.append(folder)
    except OSError:
        pass
open('mine', 'w').close()
result = [os.getcwd(), wrote, os.path.exists('mine')]`);
    const [own, wrote, control] = await probe(write);
    assert.ok(control);
    assert.deepEqual(wrote, []); // its own folder cannot be found by walking, either
    const [next, , fresh] = await probe(write);
    assert.notEqual(own, next);
    assert.ok(fresh);
    await waitFor(
      async () => (await probe(py(`import os\nresult = os.path.exists(${JSON.stringify(own)})`))) === false,
    );
  });

  it('a sibling is out of reach', async () => {
    const wait = service.post(
      py('import os, time\nopen("secret", "w").write("s")\nprint(os.getcwd(), os.getpid(), flush=True)\ntime.sleep(2)'),
    );
    await new Promise((resolve) => setTimeout(resolve, 700));
    const look = await probe(
      py(`import os
opened, others = [], 0
for pid in filter(str.isdigit, os.listdir('/proc')):
    if int(pid) == os.getpid(): continue
    others += 1
    try: os.kill(int(pid), 0); opened.append('signal ' + pid)
    except OSError: pass
    # The names of others' descriptors can be listed in the gVisor of 2022; none but these opens.
    fds = []
    try: fds = ['fd/' + fd for fd in os.listdir(f'/proc/{pid}/fd')]
    except OSError: pass
    for name in ['mem', 'cwd/secret', *fds]:
        path = f'/proc/{pid}/{name}'
        for mode in (os.O_RDONLY, os.O_WRONLY):
            try: os.close(os.open(path, mode | os.O_NONBLOCK))
            except OSError: continue
            target = os.readlink(path)
            if target != '/dev/null' and not (target.startswith('/proc/') and target.endswith('/status')):
                opened.append(f'{pid} {name} {target} {mode}')
result = [opened, others]`),
    );
    const { json } = await wait;
    assert.equal(json.status, 'ok');
    assert.ok(look[1] > 5, 'it sees that there are others: the control');
    assert.deepEqual(look[0], []);
  });

  it('memory and files end where they should', async () => {
    for (const job of [
      js('const a = []; for (;;) a.push(Buffer.alloc(1 << 20, 1));', { memoryMb: 64 }),
      py('a = []\nwhile True: a.append(bytearray(1 << 20))', { memoryMb: 64 }),
      py('for i in range(100): open(str(i), "wb").write(bytes(10 << 20))', { memoryMb: 64 }),
      py('import os\nwhile True:\n    os.mkdir("d")\n    os.chdir("d")', { memoryMb: 64 }),
      py('for i in range(10 ** 6): open(str(i), "w").close()', { memoryMb: 64 }),
    ]) {
      const { json, text } = await service.post(job);
      assert.equal(json.status, 'out_of_memory', text);
    }
    assert.equal(await probe(py('result = len(bytearray(30 << 20))', { memoryMb: 64 })), 30 << 20);
  });
});

describe('the image', { skip }, () => {
  it('holds no shell, no package manager, and nothing that everybody may write to', () => {
    const fs = require('node:fs');
    const path = require('node:path');
    const all = fs.readdirSync(service.root, { recursive: true, withFileTypes: true });
    const programs = all
      .filter((one) => one.isFile() && /\/s?bin$/.test(one.parentPath ?? one.path))
      .map((one) => one.name);
    assert.deepEqual(programs.sort(), ['code-jail.js', 'node', 'python3']);
    for (const one of all) {
      const file = path.join(one.parentPath ?? one.path, one.name);
      const { mode } = fs.lstatSync(file);
      assert.ok(one.isSymbolicLink() || (mode & 0o6022) === 0, `${file} ${mode.toString(8)}`);
    }
  });
});

describe('going down, in gVisor', { skip }, () => {
  it('SIGTERM lets a run end, and the log tells nothing of what was in it', async () => {
    const running = service.post(py('import time\ntime.sleep(1.5)\nresult = "seCret"', { tenant: 'tenAnt' }));
    await new Promise((resolve) => setTimeout(resolve, 500));
    service.terminate();
    assert.equal((await running).json.result, 'seCret');
    await service.exited;
    const log = service.log();
    assert.match(log, /"event":"end"/);
    assert.match(log, /"isolation":"gvisor"/);
    assert.ok(!/seCret|tenAnt/.test(log));
    assert.ok(!log.includes(TOKEN) && log.includes('"status":200'), EXEC);
  });
});
