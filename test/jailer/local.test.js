'use strict';
// The jailer as an operator starts it, with the engine `local`: the table of
// cases through client, socket, daemon and cell; many at once; being killed.

const assert = require('node:assert/strict');
const { spawnSync, spawn } = require('node:child_process');
const { once } = require('node:events');
const fs = require('node:fs');
const net = require('node:net');
const path = require('node:path');
const { after, before, describe, it } = require('node:test');
const { createJail } = require('../../lib/index.js');
const cases = require('../cases.js');
const { descendants, slack, survivors, until } = require('../helpers/baseline.js');
const { startJailer } = require('../helpers/jailer.js');
const { matches } = require('../helpers/run.js');
const { socketPath } = require('../helpers/socket-peer.js');

const ROOT = path.join(__dirname, '..', '..');
let jailer;
let jail;
before(async () => {
  jailer = await startJailer({ env: { CODE_JAIL_CONCURRENCY: '4' } });
  jail = createJail({ socket: jailer.file, socketOwner: process.getuid() });
});
after(() => jail?.close());

describe('cases from the field, through the jailer', () => {
  const saved = { ...process.env };
  after(() => {
    process.env = saved;
  });
  for (const one of cases)
    it(`${one.id} ${one.language}: ${one.name}`, async () => {
      Object.assign(process.env, one.hostEnv);
      const floods = one.expect.status === 'output_limit'; // 64 MiB, which a busy machine takes its time for
      const { maxMs: given = 15000, ...expect } = one.expect;
      const maxMs = floods ? 60000 : given;
      const more = { ...(floods && { timeoutMs: 50000 }), ...one.options };
      const count = Math.min(one.parallel ?? 1, 8);
      const start = performance.now();
      const runs = Array.from({ length: count }, async (_, i) => {
        const input = one.parallel ? { i } : (one.input ?? null);
        const run = await jail.runCode({ language: one.language, code: one.code, input, ...more });
        matches(run, expect);
        if (one.parallel) assert.equal(run.result, i);
        assert.deepEqual([run.jail.backend, run.jail.isolation], ['socket', 'process']);
      });
      await Promise.all(runs);
      assert.ok(performance.now() - start <= (maxMs + 1000 * count) * slack());
    });
});

describe('the daemon', () => {
  it('one line through socat comes back as one line', () => {
    const line = '{"language":"python","code":"result = input + 1","input":41,"id":"one"}\n';
    const { stdout, error } = spawnSync('socat', ['-t', '20', '-', `UNIX-CONNECT:${jailer.file}`], { input: line });
    assert.equal(error, undefined, 'socat is there (Debian: apt-get install socat)');
    const result = JSON.parse(String(stdout));
    assert.deepEqual([result.id, result.status, result.result, result.jail.isolation], ['one', 'ok', 42, 'process']);
  });

  it('200 at once', async () => {
    const many = createJail({ socket: jailer.file, maxConnections: 200 });
    const runs = Array.from({ length: 200 }, (_, n) =>
      many.runCode({
        language: n % 2 ? 'python' : 'javascript',
        input: n,
        code: n % 2 ? 'result = input' : 'return input',
      }),
    );
    assert.deepEqual(
      (await Promise.all(runs)).map((run) => run.result),
      Array.from({ length: 200 }, (_, n) => n),
    );
    await many.close();
  });

  it('its log tells nothing of what was in a run', async () => {
    await jail.runCode({
      language: 'python',
      code: 'print("seCret1")\nraise ValueError("seCret2")',
      input: 'seCret3',
      env: { A: 'seCret4' },
      tenant: 'seCret5',
    });
    await until(() => jailer.seen.out.includes('"outcome":"error"'));
    assert.ok(!jailer.seen.out.includes('seCret'));
  });

  it('the demo runs in it', () => {
    const env = {
      ...process.env,
      FIRECRACKER_SOCKET: jailer.file,
      CODE_SANDBOX_URL: 'http://127.0.0.1:9',
      CODE_SANDBOX_TOKEN: 'x'.repeat(32),
    };
    const { stdout, status } = spawnSync(process.execPath, [path.join(ROOT, 'examples', 'demo.js')], {
      env,
      encoding: 'utf8',
    });
    assert.equal(status, 0, stdout);
    assert.equal(stdout.match(/socket, isolation verified: process/g).length, 2);
  });

  it('SIGTERM lets a run end, and leaves no socket', async () => {
    const run = jail.runCode({ language: 'python', code: 'import time\ntime.sleep(1)\nresult = 1' });
    await until(() => survivors(descendants(jailer.child.pid)).length > 0);
    await new Promise((resolve) => setTimeout(resolve, 300));
    const end = await jailer.stop();
    assert.equal((await run).result, 1);
    assert.deepEqual([end.code, end.left], [0, false]);
    assert.match(end.out, /"event":"end"/);
  });

  it('killed in the midst of runs, it leaves no process; the next one starts where it was', async () => {
    const first = await startJailer();
    const other = createJail({ socket: first.file });
    const runs = [1, 2].map(() =>
      other.runCode({ language: 'python', code: 'while True: pass' }).catch((error) => error),
    );
    await until(async () => (await other.stats()).running === 2);
    await new Promise((resolve) => setTimeout(resolve, 300));
    const below = descendants(first.child.pid);
    assert.ok(below.length > 4, 'there was something to end: the control');
    first.child.kill('SIGKILL');
    for (const error of await Promise.all(runs))
      assert.deepEqual([error.code, error.retryable], ['ERR_JAIL_UNAVAILABLE', false]);
    assert.ok(await until(() => survivors(below).length === 0, 10000), JSON.stringify(survivors(below)));
    await other.close();
    const again = spawn(
      process.execPath,
      [path.join(ROOT, 'bin', 'code-jail.js'), 'jailer', '--socket', first.file, '--engine', 'local'],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    );
    let out = '';
    again.stdout.on('data', (part) => {
      out += part;
    });
    assert.ok(await until(() => out.includes('"event":"listen"'), 60000));
    again.kill('SIGTERM');
    await new Promise((resolve) => again.on('close', resolve));
    assert.ok(!fs.existsSync(first.file));
  });
});

describe('what is wrong is said before anything is opened', () => {
  const start = (...args) =>
    spawnSync(process.execPath, [path.join(ROOT, 'bin', 'code-jail.js'), 'jailer', ...args], {
      encoding: 'utf8',
      timeout: 60000, // one that serves after all
      env: { PATH: process.env.PATH },
    });
  for (const [args, message, code = 125] of [
    [['--socket', '/tmp/x.sock'], /--engine is missing; it must be one of firecracker, gvisor, local/, 2],
    [['--engine', 'vault', '--socket', '/tmp/x.sock'], /"vault"/, 2],
    [['--engine', 'local'], /no socket: give --socket PATH/, 2],
    [['--engine', 'local', '--socket', ROOT], /is there already, and is no socket/],
    [['--engine', 'local', '--socket', '/tmp/x.sock', '--uid', 'me'], /--uid must be a whole number/],
  ])
    it(args.join(' '), () => {
      const { status, stderr } = start(...args);
      assert.equal(status, code);
      assert.match(stderr, message);
    });

  it('a socket whose listener is too busy to answer is not taken away from it', async () => {
    const { file, remove } = socketPath('busy.sock');
    const source =
      'require("node:net").createServer().listen({ path: process.argv[1], backlog: 1 }, () => console.log("up"))';
    const busy = spawn(process.execPath, ['-e', source, file], { stdio: ['ignore', 'pipe', 'inherit'] });
    const waiting = [];
    try {
      await once(busy.stdout, 'data');
      busy.kill('SIGSTOP');
      for (let code = ''; code !== 'EAGAIN'; ) {
        assert.ok(waiting.length < 1000, 'its backlog is full at some time');
        const socket = net.connect(file).on('error', () => {});
        waiting.push(socket);
        code = await once(socket, 'connect').then(
          () => '',
          (error) => error.code,
        );
      }
      const { status, stderr } = start('--engine', 'local', '--socket', file);
      assert.equal(status, 125);
      assert.match(stderr, /somebody listens at .* already/);
      assert.ok(fs.lstatSync(file).isSocket(), 'it is still there');
    } finally {
      busy.kill('SIGKILL');
      for (const socket of waiting) socket.destroy();
      remove();
    }
  });
});
