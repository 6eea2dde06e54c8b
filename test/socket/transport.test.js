'use strict';
// The way to the socket: connecting, who listens there, cancelling, many at
// once, and what the host pays. The peer is a fake.

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const fs = require('node:fs');
const { describe, it } = require('node:test');
const { setTimeout: sleep } = require('node:timers/promises');
const { createJail, doctor, runCode } = require('../..');
const { measure, slack, until } = require('../helpers/baseline.js');
const { answerTo, errorOf, startPeer, TOKEN } = require('../helpers/peer.js');
const { startSocketPeer, socketPath } = require('../helpers/socket-peer.js');

const JOB = { language: 'javascript', code: 'return 1 + 1' };
const uid = process.getuid();

/** One peer and one jail for `work`; both closed behind it. */
async function withPeer(work, { handler, config = {}, ...options } = {}) {
  const peer = await startSocketPeer(handler, options);
  const jail = createJail({ socket: peer.file, ...config });
  try {
    await work(jail, peer);
  } finally {
    await jail.close();
    await peer.close();
  }
}

/** Runs `work` with these in the environment, and nothing else of ours. */
async function withEnv(env, work) {
  const names = ['FIRECRACKER_SOCKET', 'CODE_SANDBOX_URL', 'CODE_SANDBOX_TOKEN'];
  const before = names.map((name) => process.env[name]);
  const set = (name, value) => {
    if (value === undefined) delete process.env[name];
    else process.env[name] = value;
  };
  for (const name of names) set(name, env[name]);
  try {
    return await work();
  } finally {
    names.forEach((name, i) => {
      set(name, before[i]);
    });
  }
}

describe('connecting', () => {
  it('nobody listens, or there is nothing, or no socket: nothing was sent', async () => {
    const { file, remove } = socketPath();
    const jail = createJail({ socket: file });
    const absent = await errorOf(jail.runCode(JOB));
    assert.deepEqual([absent.code, absent.retryable, absent.backend], ['ERR_JAIL_UNAVAILABLE', true, 'socket']);
    assert.match(absent.message, /does it run\?/);
    assert.equal((await errorOf(jail.warm())).code, 'ERR_JAIL_UNAVAILABLE');
    fs.writeFileSync(file, 'no socket');
    assert.equal((await errorOf(jail.runCode(JOB))).code, 'ERR_JAIL_UNAVAILABLE');
    await jail.close();
    remove();
  });

  it('a path that no socket can have is refused by name', () => {
    assert.throws(() => createJail({ socket: `/${'x'.repeat(107)}` }), /socket is 108 bytes long.*107/);
    assert.throws(() => createJail({ socket: 'a\0b' }), { code: 'ERR_JAIL_CONFIG' });
    assert.throws(() => createJail({ socket: 5 }), /socket must be a string/);
    for (const value of [-1, 1.5, '0', 4294967295])
      assert.throws(() => createJail({ socketOwner: value }), /socketOwner/);
  });

  it('a socket that is not ours to use', {
    skip: uid === 0 ? false : 'needs root, to become somebody else',
  }, async () => {
    await withPeer(async (_, peer) => {
      fs.chmodSync(peer.file, 0o600);
      fs.chmodSync(require('node:path').dirname(peer.file), 0o755);
      const code = `const {createJail}=require(${JSON.stringify(require.resolve('../..'))});
        process.setgid(65534);process.setuid(65534);
        createJail({socket:process.argv[1]}).runCode({language:'python',code:''}).catch(e=>console.log(e.code,e.retryable))`;
      const child = spawn(process.execPath, ['-e', code, peer.file], { stdio: ['ignore', 'pipe', 'inherit'] });
      const out = await child.stdout.toArray();
      assert.equal(Buffer.concat(out).toString(), 'ERR_JAIL_UNAUTHORIZED false\n');
    });
  });

  it('socketOwner: the right one is asked, another one hears nothing', async () => {
    await withPeer(async (jail) => assert.equal((await jail.runCode(JOB)).result, 2), { config: { socketOwner: uid } });
    await withPeer(
      async (jail, peer) => {
        const error = await errorOf(jail.runCode(JOB));
        assert.equal(error.code, 'ERR_JAIL_UNAUTHORIZED');
        assert.match(
          error.message,
          new RegExp(`^uid ${uid} listens at .*, and not 4242 \\(socketOwner\\): nothing was sent`),
        );
        await sleep(50);
        assert.equal(peer.lines.length, 0);
      },
      { config: { socketOwner: 4242 } },
    );
  });

  it('a full backlog is waited for', async () => {
    // A process that is stopped accepts nobody; the kernel keeps two for it.
    const { file, remove } = socketPath();
    const code = `require('node:net').createServer(c=>{let t='';c.on('error',()=>{});c.on('data',d=>{t+=d;if(!t.includes('\\n'))return;
      const {answerTo}=require(${JSON.stringify(require.resolve('../helpers/peer.js'))});c.end(JSON.stringify(answerTo(JSON.parse(t)))+'\\n')})})
      .listen({path:process.argv[1],backlog:1},()=>console.log('up'))`;
    const child = spawn(process.execPath, ['-e', code, file], { stdio: ['ignore', 'pipe', 'inherit'] });
    await new Promise((resolve) => child.stdout.once('data', resolve));
    const jail = createJail({ socket: file });
    child.kill('SIGSTOP');
    const runs = Array.from({ length: 20 }, () => jail.runCode(JOB));
    await sleep(300);
    child.kill('SIGCONT');
    assert.deepEqual(new Set((await Promise.all(runs)).map((run) => run.result)), new Set([2]));
    child.kill('SIGKILL');
    await jail.close();
    remove();
  });

  it('warm asks whether somebody listens, and says nothing', async () => {
    await withPeer(async (jail, peer) => {
      await jail.warm();
      await until(() => peer.connections() === 1 && peer.sockets.size === 0);
      assert.deepEqual([peer.connections(), peer.lines.length], [1, 0]);
    });
  });
});

describe('cancelling', () => {
  it('an abort closes the connection', async () => {
    const heard = [];
    await withPeer(
      async (jail, peer) => {
        const controller = new AbortController();
        const run = jail.runCode(JOB, { signal: controller.signal });
        await until(() => heard.length === 1);
        const start = performance.now();
        controller.abort(new Error('enough'));
        await assert.rejects(run, /enough/);
        assert.ok(await until(() => peer.sockets.size === 0));
        assert.ok(performance.now() - start < 1000 * slack());
        assert.equal((await jail.runCode({ ...JOB, id: 'next' })).result, 2, 'the next one works');
      },
      {
        handler: ({ job, socket }) => {
          heard.push(job);
          socket.on('end', () => socket.end()); // we keep our half open until it goes
          if (job.id === 'next') socket.end(JSON.stringify(answerTo(job)));
        },
      },
    );
  });

  it('closing the jail ends what is under way', async () => {
    const peer = await startSocketPeer(({ socket }) => socket.on('end', () => socket.end()));
    const jail = createJail({ socket: peer.file, maxConnections: 2 });
    const runs = [1, 2, 3].map(() => errorOf(jail.runCode(JOB)));
    await until(() => peer.lines.length === 2);
    await jail.close();
    assert.deepEqual(
      (await Promise.all(runs)).map((error) => error.code),
      Array(3).fill('ERR_JAIL_CLOSED'),
    );
    assert.ok(await until(() => peer.sockets.size === 0));
    await assert.rejects(jail.runCode(JOB), { code: 'ERR_JAIL_CLOSED' });
    await peer.close();
  });
});

describe('many', () => {
  it('no more connections at a time than there may be', async () => {
    let most = 0;
    let open = 0;
    await withPeer(
      async (jail, peer) => {
        const runs = Array.from({ length: 60 }, (_, n) => jail.runCode({ ...JOB, id: `n${n}` }));
        assert.deepEqual(
          (await Promise.all(runs)).map((run) => run.id),
          Array.from({ length: 60 }, (_, n) => `n${n}`),
        );
        assert.ok(most <= 3 && most > 1, `${most} at a time`);
        assert.equal(peer.connections(), 60);
      },
      {
        config: { maxConnections: 3 },
        handler: ({ job, socket }) => {
          most = Math.max(most, ++open);
          setTimeout(() => {
            open--;
            socket.end(JSON.stringify(answerTo(job)));
          }, 5);
        },
      },
    );
  });

  it('a thousand leave nothing behind', async () => {
    await withPeer(async (jail, peer) => {
      const some = () => Promise.all(Array.from({ length: 50 }, () => jail.runCode(JOB)));
      await some();
      await until(() => peer.sockets.size === 0);
      const before = measure();
      for (let i = 0; i < 20; i++) await some();
      assert.ok(
        await until(() => measure().fds <= before.fds),
        `${before.fds} descriptors before, ${measure().fds} after`,
      );
      assert.equal(measure().threads, before.threads);
    });
  });
});

describe('the choice of the jail', () => {
  it('FIRECRACKER_SOCKET before CODE_SANDBOX_URL before the local jail, by configuration alone', async () => {
    const http = await startPeer();
    const peer = await startSocketPeer();
    const all = { FIRECRACKER_SOCKET: peer.file, CODE_SANDBOX_URL: http.url, CODE_SANDBOX_TOKEN: TOKEN };
    const taken = async (env) => (await withEnv(env, () => runCode(JOB))).jail.backend;
    assert.equal(await taken(all), 'socket');
    assert.equal(await taken({ ...all, FIRECRACKER_SOCKET: undefined }), 'http');
    assert.equal(await taken({ ...all, FIRECRACKER_SOCKET: '' }), 'http');
    assert.equal(await taken({ FIRECRACKER_SOCKET: peer.file }), 'socket');
    assert.equal(await taken({}), 'local');
    const asked = http.requests.length;
    await peer.close();
    const error = await withEnv(all, () => errorOf(runCode(JOB)));
    assert.deepEqual([error.code, error.backend], ['ERR_JAIL_UNAVAILABLE', 'socket']);
    assert.equal(http.requests.length, asked, 'a jail that fails is no reason to take a weaker one');
    await http.close();
  });

  it('is ignored where it cannot be, even when set', async () => {
    const { select } = require('../../lib/run-code.js');
    const real = Object.getOwnPropertyDescriptor(process, 'platform');
    Object.defineProperty(process, 'platform', { ...real, value: 'darwin' });
    try {
      assert.deepEqual(select({}, { FIRECRACKER_SOCKET: '/s', CODE_SANDBOX_URL: 'https://x' })[0], 'http');
      assert.deepEqual(select({}, { FIRECRACKER_SOCKET: '/s' })[0], 'local');
    } finally {
      Object.defineProperty(process, 'platform', real);
    }
    assert.deepEqual(select({}, { FIRECRACKER_SOCKET: '/s' })[0], 'socket', 'here it is not: the control');
  });

  it('the default jail follows the environment from call to call', async () => {
    const [one, two] = [await startSocketPeer(), await startSocketPeer()];
    for (const peer of [one, two, one]) await withEnv({ FIRECRACKER_SOCKET: peer.file }, () => runCode(JOB));
    assert.deepEqual([one.lines.length, two.lines.length], [2, 1]);
    await one.close();
    await two.close();
  });

  it('doctor tells of it', async () => {
    const peer = await startSocketPeer(({ job, socket }) => socket.end(JSON.stringify(answerTo(job, { result: 42 }))));
    const report = await withEnv({ FIRECRACKER_SOCKET: peer.file }, () => doctor());
    assert.equal(report.ok, true);
    assert.deepEqual(report.selects, { backend: 'socket', because: 'FIRECRACKER_SOCKET' });
    assert.deepEqual(
      report.runtimes.map((one) => [one.backend, one.isolation, one.path]),
      Array(3).fill(['socket', 'gvisor', null]),
    );
    await peer.close();
    const down = await withEnv({ FIRECRACKER_SOCKET: peer.file }, () => doctor());
    assert.equal(down.ok, false);
    assert.equal(down.runtimes[0].error.code, 'ERR_JAIL_UNAVAILABLE');
  });
});
