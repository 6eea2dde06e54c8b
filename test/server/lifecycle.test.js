'use strict';
// The service as a process: how it starts and what it refuses to start with,
// where its tokens are, a client that goes away (probe 91), going down in good
// order, and a service that was stopped for a while (probe 113).

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const http = require('node:http');
const { describe, it } = require('node:test');
const { setTimeout: sleep } = require('node:timers/promises');
const { descendants, survivors } = require('../helpers/baseline.js');
const {
  ask,
  bearer,
  js,
  post,
  py,
  startService,
  waitFor,
  LAUNCHER,
  PREVIOUS,
  ROOT,
  TOKEN,
} = require('../helpers/service.js');

const root = process.getuid?.() === 0;
const stress = py('import time\ntime.sleep(30)', { timeoutMs: 10000 });

describe('starting', () => {
  const start = (env, args = []) =>
    spawnSync(process.execPath, [path.join(ROOT, 'bin', 'code-jail.js'), 'serve', '--port', '0', ...args], {
      env: { PATH: process.env.PATH, ...env },
      encoding: 'utf8',
      timeout: 20000,
    });
  const refused = {
    'no token': [{}, /CODE_SANDBOX_TOKEN is not set/],
    'an empty token': [{ CODE_SANDBOX_TOKEN: '' }, /CODE_SANDBOX_TOKEN is empty/],
    'a short token': [{ CODE_SANDBOX_TOKEN: 'changeme' }, /has 8 characters; the least is 24/],
    'a token that is easily guessed': [{ CODE_SANDBOX_TOKEN: 'x'.repeat(40) }, /easily guessed/],
    'a token with a line break': [{ CODE_SANDBOX_TOKEN: `${TOKEN}\n` }, /line break/],
    'a short previous token': [
      { CODE_SANDBOX_TOKEN: TOKEN, CODE_SANDBOX_TOKEN_PREVIOUS: 'short' },
      /_PREVIOUS has 5 characters/,
    ],
  };
  for (const [name, [env, message]] of Object.entries(refused)) {
    it(`${name} is refused, with the remedy and without the token`, () => {
      const { status, stdout, stderr } = start(env);
      assert.notEqual(status, 0);
      assert.match(stderr, message);
      assert.match(stderr, /openssl rand|cut it off/);
      assert.equal(stdout, '');
      for (const value of Object.values(env)) assert.ok(value === '' || !stderr.includes(value));
    });
  }

  it('settings that are none are refused by name', () => {
    for (const [name, value] of [
      ['CODE_SANDBOX_MAX_TIMEOUT_MS', '60001'],
      ['PORT', 'http'],
      ['CODE_SANDBOX_CONCURRENCY', '0'],
    ]) {
      const { status, stderr } = start({ CODE_SANDBOX_TOKEN: TOKEN, [name]: value });
      assert.notEqual(status, 0);
      assert.match(stderr, new RegExp(`${name} must be a whole number from`));
    }
  });

  it('over a Unix socket, for its owner alone', async () => {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'serve-'));
    const socketPath = path.join(folder, 'http.sock');
    try {
      const service = await startService({ args: ['--socket', socketPath], user: null, ready: false });
      assert.equal(fs.statSync(socketPath).mode & 0o777, 0o600);
      const answer = await new Promise((resolve, reject) =>
        http.get({ socketPath, path: '/livez' }, (response) => resolve(response.resume())).on('error', reject),
      );
      assert.equal(answer.statusCode, 200);
      await service.stop();
    } finally {
      fs.rmSync(folder, { recursive: true });
    }
  });

  it('it is alive before it is ready', async () => {
    const service = await startService({ ready: false });
    assert.equal((await service.get('/livez')).status, 200);
    await waitFor(async () => (await service.get('/readyz')).status === 200, 40000);
    assert.equal(await service.metric('code_jail_ready'), 1);
    for (const language of ['javascript', 'python'])
      assert.ok((await service.metric(`code_jail_cells_parked{language="${language}"}`)) > 0, language);
    await service.stop();
  });
});

describe('its processes', () => {
  it('nothing that was set is in any of their environments, no token in their command lines', async () => {
    const service = await startService({ env: { CONTROL: 'was set', CODE_SANDBOX_CONCURRENCY: '3' } });
    assert.equal(await service.metric('code_jail_slots_total'), 3, 'and yet it was read');
    assert.match(fs.readFileSync('/proc/self/environ', 'latin1'), /PATH=/, 'such a file can be read: the control');
    const all = [{ pid: service.child.pid }, ...descendants(service.child.pid)];
    assert.ok(all.length >= 6, `${all.length} processes`);
    for (const { pid } of all)
      for (const file of ['environ', 'cmdline']) {
        const text = fs.readFileSync(`/proc/${pid}/${file}`, 'latin1');
        assert.ok(
          !text.includes(TOKEN) && !text.includes(PREVIOUS) && !/CODE_SANDBOX_TOKEN(_PREVIOUS)?=/.test(text),
          `${pid} ${file}`,
        );
        assert.ok(!/CONTROL|CONCURRENCY/.test(text), `${pid} ${file}`);
      }
    await service.stop();
  });

  it('started by code-jail itself likewise: it replaces itself', async () => {
    const { spawn } = require('node:child_process');
    const env = { PATH: process.env.PATH, CODE_SANDBOX_TOKEN: TOKEN, CONTROL: 'was set' };
    const child = spawn(process.execPath, [path.join(ROOT, 'bin', 'code-jail.js'), 'serve', '--port', '0'], { env });
    let out = '';
    child.stdout.on('data', (part) => {
      out += part;
    });
    await waitFor(() => out.includes('"ready"'), 30000);
    const text = fs.readFileSync(`/proc/${child.pid}/environ`, 'latin1');
    assert.equal(text.replaceAll('\0', ''), '');
    assert.ok(text.length > 20, 'it is where the environment was');
    const ended = new Promise((resolve) => child.on('close', resolve));
    child.kill('SIGTERM');
    assert.equal(await ended, 0);
  });

  it('the service has a uid of its own without a right, cells have others, keepers alone are root', {
    skip: !root && 'needs root',
  }, async () => {
    const service = await startService();
    const owner = (pid) =>
      /^Uid:\t(\d+)\t(\d+)/m
        .exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))
        .slice(1)
        .map(Number);
    const below = descendants(service.child.pid);
    const server = below.find((one) => one.ppid === service.child.pid && /^(node|MainThread)/.test(one.comm));
    assert.deepEqual(owner(server.pid), [65532, 65532]);
    const status = fs.readFileSync(`/proc/${server.pid}/status`, 'utf8');
    for (const set of ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb'])
      assert.match(status, new RegExp(`^${set}:\t0+$`, 'm'));
    assert.match(status, /^NoNewPrivs:\t1$/m);
    const others = below.filter((one) => one.pid !== server.pid).map((one) => ({ ...one, uid: owner(one.pid)[0] }));
    assert.ok(others.every((one) => one.uid !== 65532));
    assert.ok(
      others.filter((one) => one.uid === 0).every((one) => one.comm === 'code-jail'),
      JSON.stringify(others),
    );
    assert.ok(
      others.some((one) => one.uid > 65536),
      'cells',
    );
    await service.stop();
  });

  it('a keeper that the launcher started takes nothing that is not root’s', { skip: !root && 'needs root' }, () => {
    // As the service's uid, with the launcher's socket: what somebody would do who has taken the service over.
    const folder = fs.mkdtempSync('/tmp/taken-');
    fs.copyFileSync('/bin/true', path.join(folder, 'node'));
    fs.chownSync(folder, 65532, 65532);
    fs.chownSync(path.join(folder, 'node'), 65532, 65532);
    const script = `
      const { readConfig } = require('${ROOT}/lib/config.js');
      const { Local } = require('${ROOT}/lib/local.js');
      const parts = { ...require('${ROOT}/lib/native.js').parts(), keeper: '@' + process.env.CODE_JAIL_LAUNCHER_FD };
      const warm = (node) => {
        const local = new Local(readConfig({ node, allowWeak: true }), { parts });
        return local.warm(['javascript']).then(() => 'warm', (error) => error.code + ' ' + error.message).finally(() => local.close());
      };
      (async () => {
        console.log(JSON.stringify([process.getuid(), await warm({}), await warm({ path: '${folder}/node' })]));
      })();`;
    const run = spawnSync(LAUNCHER, ['--user', '65532', '--', process.execPath, '-e', script], {
      encoding: 'utf8',
      cwd: '/',
    });
    fs.rmSync(folder, { recursive: true });
    const [uid, control, taken] = JSON.parse(run.stdout || 'null') ?? [run.stderr];
    assert.equal(uid, 65532);
    assert.equal(control, 'warm');
    assert.match(taken, /ERR_JAIL_CONFIG .*is not root's alone/);
  });
});

describe('a client that goes away', () => {
  it('while its code runs: the run is stopped, the slot is free', async () => {
    const service = await startService({ env: { CODE_SANDBOX_CONCURRENCY: '1' } });
    const controller = new AbortController();
    const gone = service.post(stress, { signal: controller.signal }).catch((error) => error.name);
    await waitFor(async () => (await service.metric('code_jail_slots_used')) === 1);
    const began = performance.now();
    controller.abort();
    assert.equal(await gone, 'AbortError');
    assert.equal((await service.post(js('return 1'))).json.result, 1);
    assert.ok(performance.now() - began < 3000);
    await waitFor(() => service.lines.some((line) => line.status === 499));
    await service.stop();
  });

  it('while it waits: it never runs', async () => {
    const service = await startService({ env: { CODE_SANDBOX_CONCURRENCY: '1' } });
    const first = service.post(py('import time\ntime.sleep(1)'));
    await waitFor(async () => (await service.metric('code_jail_slots_used')) === 1);
    const controller = new AbortController();
    const second = service.post(stress, { signal: controller.signal }).catch((error) => error.name);
    await waitFor(async () => (await service.metric('code_jail_queue_length')) === 1);
    controller.abort();
    assert.equal(await second, 'AbortError');
    await waitFor(async () => (await service.metric('code_jail_queue_length')) === 0);
    assert.equal((await first).json.status, 'ok');
    assert.equal(await service.metric('code_jail_run_seconds_count'), 1);
    await service.stop();
  });
});

describe('going down', () => {
  it('SIGTERM: what runs ends, what waits or comes is sent elsewhere, nothing is left', async () => {
    const service = await startService({ env: { CODE_SANDBOX_CONCURRENCY: '1' } });
    const below = descendants(service.child.pid);
    const running = service.post(py('import time\ntime.sleep(1.5)\nresult = "done"'));
    await waitFor(async () => (await service.metric('code_jail_slots_used')) === 1);
    const waiting = service.post(js('return 1'));
    await waitFor(async () => (await service.metric('code_jail_queue_length')) === 1);
    const agent = new http.Agent({ keepAlive: true });
    await ask(`${service.base}/livez`, { agent });
    service.child.kill('SIGTERM');
    const refused = await waiting;
    assert.equal(refused.status, 503);
    assert.equal(refused.json.error.code, 'ERR_JAIL_UNAVAILABLE');
    assert.ok(Number(refused.headers['retry-after']) >= 1);
    assert.equal((await ask(`${service.base}/readyz`)).status, 503);
    assert.equal((await ask(`${service.base}/livez`, { agent })).status, 200);
    const late = await service.post(js('return 1'));
    assert.equal(late.status, 503);
    assert.ok(Number(late.headers['retry-after']) >= 1);
    assert.equal((await running).json.result, 'done');
    const { code } = await service.exited;
    assert.equal(code, 0);
    agent.destroy();
    await waitFor(() => survivors(below).length === 0, 3000);
  });

  it('within ten seconds, whatever still runs', async () => {
    const service = await startService();
    const below = descendants(service.child.pid);
    const running = service.post(stress);
    await waitFor(async () => (await service.metric('code_jail_slots_used')) === 1);
    const began = performance.now();
    service.child.kill('SIGTERM');
    const answer = await running;
    assert.ok([500, 503].includes(answer.status) || answer.json?.status === 'timeout', answer.text);
    assert.equal(answer.headers['retry-after'], undefined, 'it has run: nobody is told to try again');
    assert.equal((await service.exited).code, 0);
    assert.ok(performance.now() - began < 10000);
    await waitFor(() => survivors(below).length === 0, 3000);
  });

  it('the launcher killed takes everything along', async () => {
    const service = await startService();
    const running = service.post(stress).catch((error) => error.code);
    await waitFor(async () => (await service.metric('code_jail_slots_used')) === 1);
    const below = descendants(service.child.pid);
    service.child.kill('SIGKILL');
    assert.equal(await running, 'ECONNRESET');
    await waitFor(() => survivors(below).length === 0, 5000);
  });

  it('the service killed takes everything along, the launcher too', async () => {
    const service = await startService();
    const running = service.post(stress).catch((error) => error.code);
    await waitFor(async () => (await service.metric('code_jail_slots_used')) === 1);
    const below = descendants(service.child.pid);
    const server = below.find((one) => one.ppid === service.child.pid && /^(node|MainThread)/.test(one.comm));
    process.kill(server.pid, 'SIGKILL');
    assert.equal(await running, 'ECONNRESET');
    assert.equal((await service.exited).code, 137);
    await waitFor(() => survivors(below).length === 0, 5000);
  });
});

describe('stopped for a while, as a throttled instance', () => {
  it('the next request is answered, not timed out', async () => {
    const service = await startService();
    const agent = new http.Agent({ keepAlive: true });
    const again = () => post(service.base, py('result = 1'), { agent });
    assert.equal((await again()).json.result, 1);
    const all = [service.child.pid, ...descendants(service.child.pid).map((one) => one.pid)];
    // A cell whose run has ended may end meanwhile, too.
    const signal = (name) => {
      for (const pid of all) {
        try {
          process.kill(pid, name);
        } catch (error) {
          assert.equal(error.code, 'ESRCH');
        }
      }
    };
    signal('SIGSTOP');
    await sleep(13000); // longer than any of its patience
    const answers = [again(), service.post(js('return 2'))];
    await sleep(100);
    signal('SIGCONT');
    const [one, two] = await Promise.all(answers);
    assert.equal(one.json?.result, 1, one.text);
    assert.equal(two.json?.result, 2, two.text);
    assert.equal((await service.get('/capabilities', bearer())).status, 200);
    agent.destroy();
    await service.stop();
  });
});

it('a connection that cannot be accepted is told, and is not the end', async () => {
  const { Service } = require('../../lib/server/http.js');
  const { readSettings } = require('../../lib/server/settings.js');
  const told = [];
  const log = { info: () => {}, error: () => {}, warn: (facts) => told.push(facts) };
  const service = new Service(readSettings({}, { port: 0, host: '127.0.0.1' }), [TOKEN], { log });
  const { port } = await service.listen({ port: 0, host: '127.0.0.1' });
  for (let i = 0; i < 3; i++) service.server.emit('error', Object.assign(new Error('full'), { code: 'ENFILE' }));
  assert.deepEqual(told, Array(3).fill({ event: 'listener', code: 'ENFILE' }));
  assert.equal((await fetch(`http://127.0.0.1:${port}/livez`)).status, 200);
  await service.close();
});
