'use strict';
// The jailer with the engine `gvisor`: Debian's runsc, the sandbox image, an
// agent, and a cell for each job.

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const { before, after, describe, it } = require('node:test');
const { createJail } = require('../../lib/index.js');
const { verify } = require('../../lib/verify.js');
const { whyNot } = require('../../scripts/in-gvisor.js');
const cases = require('../cases.js');
const { descendants, survivors, until } = require('../helpers/baseline.js');
const { startJailer } = require('../helpers/jailer.js');
const { matches } = require('../helpers/run.js');

const skip = whyNot();
const py = (code, more) => ({ language: 'python', code, ...more });
const js = (code, more) => ({ language: 'javascript', code, ...more });

let jailer;
let jail;
before(async () => {
  if (skip) return;
  jailer = await startJailer({ engine: 'gvisor', env: { CODE_JAIL_CONCURRENCY: '4' } });
  jail = createJail({ socket: jailer.file, minIsolation: 'gvisor' });
});
after(() => jail?.close());

/** Runs code that is expected to succeed, and gives its result. */
async function probe(job) {
  const run = await jail.runCode(job);
  assert.equal(run.status, 'ok', JSON.stringify(run));
  return run.result;
}

describe('a jailer with gVisor', { skip }, () => {
  it('one line through socat comes back as one line, and says what it verified', () => {
    for (const job of [js('return input + 1', { input: 41 }), py('result = input + 1', { input: 41 })]) {
      const line = `${JSON.stringify({ ...job, minIsolation: 'gvisor' })}\n`;
      const { stdout } = spawnSync('socat', ['-t', '60', '-', `UNIX-CONNECT:${jailer.file}`], { input: line });
      const result = JSON.parse(String(stdout));
      assert.deepEqual([result.status, result.result, result.jail.isolation], ['ok', 42, 'gvisor'], String(stdout));
      assert.ok(result.jail.layers.includes('seccomp') && result.jail.layers.includes('separate-uid'));
    }
  });

  it('more than it can prove is refused', async () => {
    const wanting = createJail({ socket: jailer.file, minIsolation: 'microvm' });
    await assert.rejects(wanting.runCode(js('return 1')), { code: 'ERR_JAIL_ISOLATION' });
    await wanting.close();
  });

  it('it is another kernel than ours, and there is no network and no other job', async () => {
    assert.notEqual(await probe(py('import platform\nresult = platform.release()')), os.release());
    const look = py(`import os
opened = []
for pid in filter(str.isdigit, os.listdir('/proc')):
    if int(pid) == os.getpid(): continue
    try: os.kill(int(pid), 0); opened.append('signal ' + pid)
    except OSError: pass
    fds = []
    try: fds = ['fd/' + fd for fd in os.listdir(f'/proc/{pid}/fd')]
    except OSError: pass
    for name in ['mem', 'environ', *fds]:
        for mode in (os.O_RDONLY, os.O_WRONLY):
            path = f'/proc/{pid}/{name}'
            try: os.close(os.open(path, mode | os.O_NONBLOCK))
            except OSError: continue
            if name == 'environ' and b'SECRET' not in open(path, 'rb').read(): continue
            target = os.readlink(path)
            if target != '/dev/null' and not (target.startswith('/proc/') and target.endswith('/status')):
                opened.append(f'{pid} {name} {target} {mode}')
result = [opened, len(os.listdir('/proc')), os.readlink('/proc/self/fd/0') if os.path.exists('/proc/self/fd/0') else None]`);
    const waiting = jail.runCode(py('import time\ntime.sleep(3)', { env: { SECRET: 'SECRET' } }));
    const [opened, entries] = await probe(look);
    assert.deepEqual(opened, [], 'the agent’s pipes to the daemon are among what it tried');
    assert.ok(entries > 5, 'it sees that there are others: the control');
    await waiting;
    assert.match(
      await probe(
        js(
          "return await fetch('http://169.254.169.254/').then(() => 'answered', (e) => e.cause?.code ?? e.code ?? e.name)",
        ),
      ),
      /^(EPERM|EACCES|UND_ERR_\w+)$/,
    );
  });

  it('code-jail verify finds it shut', async () => {
    const report = await verify({ socket: jailer.file, expect: 'gvisor' }, { loopMs: 500 });
    assert.deepEqual(
      report.checks.filter((one) => !one.ok),
      [],
    );
    assert.deepEqual([report.ok, report.backend, report.isolation], [true, 'socket', 'gvisor']);
  });

  it('what a job writes is heard while it runs', async () => {
    const stop = new AbortController();
    const onStdout = () => stop.abort(new Error('heard')); // only a piece that comes in time can end this run
    const job = py('import time\nprint("here", flush=True)\ntime.sleep(60)', { timeoutMs: 30000 });
    await assert.rejects(jail.runCode(job, { signal: stop.signal, onStdout }), /heard/);
    let out = '';
    const run = await jail.runCode(js('console.log("é"); return 1'), {
      onStdout: (text) => {
        out += text;
      },
    });
    assert.deepEqual([run.result, run.stdout, out, run.jail.isolation], [1, 'é\n', 'é\n', 'gvisor']);
  });

  it('each job finds nothing of the one before', async () => {
    const write = py('import os\nseen = os.listdir(".")\nopen("left", "w").close()\nresult = seen');
    for (let i = 0; i < 3; i++) assert.deepEqual(await probe(write), []);
  });

  it('limits are kept, an abort is heard, and many at once are served', async () => {
    assert.equal((await jail.runCode(js('for (;;) {}', { timeoutMs: 300 }))).status, 'timeout');
    const controller = new AbortController();
    const run = jail.runCode(py('import time\ntime.sleep(50)', { timeoutMs: 60000 }), { signal: controller.signal });
    setTimeout(() => controller.abort(new Error('enough')), 500);
    await assert.rejects(run, /enough/);
    const runs = Array.from({ length: 16 }, (_, n) => probe(js('return input', { input: n })));
    assert.deepEqual(
      await Promise.all(runs),
      Array.from({ length: 16 }, (_, n) => n),
    );
  });
});

describe('cases from the field, through gVisor', { skip }, () => {
  // Those that are about the host, time or gigabytes run elsewhere; ptrace is slow.
  const compact = cases.filter(
    (one) =>
      !one.parallel &&
      !one.repeat &&
      !one.hostEnv &&
      !one.hostLagMs &&
      !one.destructive &&
      /^(ok|error|not_serializable)$/.test(one.expect.status) &&
      one.expect.jail === undefined,
  );
  it('there are enough of them', () => assert.ok(compact.length > 25, `${compact.length}`));
  for (const one of compact)
    it(`${one.id} ${one.language}: ${one.name}`, async () => {
      const { maxMs: _, ...expect } = one.expect;
      const run = await jail.runCode({
        language: one.language,
        code: one.code,
        input: one.input ?? null,
        ...one.options,
      });
      try {
        matches(run, expect);
      } catch (error) {
        error.message += `\nthe run: ${JSON.stringify(run).slice(0, 1000)}`;
        throw error;
      }
    });
});

describe('its end', { skip }, () => {
  it('killed in mid-run, the daemon leaves no process and no file', async () => {
    const mine = () =>
      fs.readdirSync(os.tmpdir()).filter((name) => name.startsWith(`code-jail-jailer-${jailer.child.pid}-`));
    const run = jail.runCode(py('while True: pass')).catch((error) => error);
    await until(async () => (await jail.stats()).running === 1);
    await new Promise((resolve) => setTimeout(resolve, 1000));
    const below = descendants(jailer.child.pid);
    assert.ok(
      below.some((one) => /^runsc/.test(one.comm)) && mine().length === 1,
      'there was something to end: the control',
    );
    jailer.child.kill('SIGKILL');
    assert.equal((await run).code, 'ERR_JAIL_UNAVAILABLE');
    assert.ok(await until(() => survivors(below).length === 0, 30000, 100), JSON.stringify(survivors(below)));
    assert.ok(await until(() => mine().length === 0, 10000, 100));
  });
});
