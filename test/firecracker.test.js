'use strict';
// The jailer's engine `firecracker` without KVM: a fake Firecracker that checks
// each call against the subset of its API that we use, and fails at each step.

const assert = require('node:assert/strict');
const { spawn, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { after, afterEach, beforeEach, describe, it } = require('node:test');
const { createEngine } = require('../lib/jailer/firecracker.js');
const { cgroupName } = require('../lib/jailer/firecracker-host.js');
const { until } = require('./helpers/baseline.js');
const { cgroupMount, makeFake, leftovers, processesOf, whyNot } = require('./helpers/firecracker.js');
const { startHost } = require('./helpers/host.js');

const skip = whyNot();
const BOOT = [
  'PUT /machine-config',
  'PUT /boot-source',
  'PUT /drives/rootfs',
  'PUT /vsock',
  'PUT /entropy',
  'PUT /actions',
];
const SNAPSHOT = ['PATCH /vm', 'PUT /snapshot/create'];
const RESTORE = ['PUT /snapshot/load'];

const job = (fields = {}, maxAnswerBytes = 1 << 20) => ({
  line: Buffer.from(`${JSON.stringify({ language: 'javascript', code: 'return 1', ...fields })}\n`),
  request: /** @type {any} */ (null),
  maxAnswerBytes,
});
/** @param {string} cgroup */
function removed(cgroup) {
  try {
    fs.rmdirSync(cgroup);
    return true;
  } catch {
    return false; // its process is still ending
  }
}
const never = () => ({ signal: new AbortController().signal, deadlineMs: 60000 });

describe('engine firecracker', { skip }, () => {
  const base = fs.mkdtempSync(path.join(os.tmpdir(), 'cj-fc-'));
  after(() => fs.rmSync(base, { recursive: true, force: true }));
  let number = 0;
  /** @type {ReturnType<typeof makeFake>} */
  let fake;
  /** @type {import('../lib/jailer/engines.js').Engine | null} */
  let engine = null;

  beforeEach(() => {
    const folder = path.join(base, String(number++));
    fs.mkdirSync(folder);
    fake = makeFake(folder);
  });
  afterEach(async () => {
    await engine?.close();
    engine = null;
    assert.deepEqual(await until(() => leftovers(fake).length === 0 && [], 10000), [], leftovers(fake).join('\n'));
  });

  const open = async (env = {}) => {
    engine = await createEngine({ ...fake.settings, env: { ...fake.settings.env, ...env } });
    return engine;
  };
  const callsOf = (id) =>
    fake
      .calls()
      .filter((call) => call.id === id)
      .map((call) => call.name);
  const answerOf = async (running) => JSON.parse(String((await running).answer));

  it('boots one VM for a snapshot, and restores one for each job', async () => {
    const { run, stats } = await open();
    const [first, second] = [await answerOf(run(job({ id: 'a' }), never())), await answerOf(run(job(), never()))];
    assert.deepEqual(first.job, { language: 'javascript', code: 'return 1', id: 'a' });
    assert.notEqual(first.vm, second.vm, 'no VM takes a second job');
    assert.notEqual(first.seed, second.seed);
    assert.ok(Math.abs(first.clock - Date.now()) < 60000);
    const [golden] = fake.calls().map((call) => call.id);
    assert.deepEqual(callsOf(golden), [...BOOT, ...SNAPSHOT]);
    assert.deepEqual(callsOf(first.vm), RESTORE);
    assert.equal(stats().failures, 0);
    assert.equal(fake.logged.length, 0, JSON.stringify(fake.logged));
  });

  it('asks its jailer for a uid, a cgroup and limits of each VM’s own, and for no network', async () => {
    const { run } = await open();
    const [one, other] = [await answerOf(run(job(), never())), await answerOf(run(job(), never()))];
    const value = (args, name) => args[args.indexOf(name) + 1];
    const args = fake.jailerArgs(one.vm);
    const uid = Number(value(args, '--uid'));
    assert.ok(uid >= 200000);
    assert.equal(value(args, '--gid'), String(uid));
    assert.notEqual(value(fake.jailerArgs(other.vm), '--uid'), String(uid));
    assert.equal(value(args, '--cgroup-version'), '2');
    assert.ok(args.includes('pids.max=32'));
    assert.ok(args.includes(`memory.max=${(512 + 256 + 64) * 2 ** 20}`));
    const api = fake.calls();
    assert.ok(api.every((call) => !/network|mmds/.test(call.name)));
    assert.equal(api.find((call) => call.name === 'PUT /drives/rootfs').body.is_read_only, true);
    assert.match(api.find((call) => call.name === 'PUT /boot-source').body.boot_args, /8250\.nr_uarts=0/);
  });

  it('has verified a microVM in every answer', async () => {
    const { run, isolation } = await open();
    const answer = await run(job(), never());
    assert.deepEqual([isolation, answer.isolation], ['microvm', 'microvm']);
    assert.ok(Number(answer.startMs) >= 0);
  });

  it('boots each VM where that is asked for', async () => {
    const { run } = await open({ CODE_JAIL_FIRECRACKER_START: 'boot' });
    const { vm } = await answerOf(run(job(), never()));
    assert.deepEqual(callsOf(vm), BOOT);
  });

  it('runs as many at a time as it is given', async () => {
    const { run } = await open();
    const all = await Promise.all(Array.from({ length: 4 }, (_, i) => answerOf(run(job({ id: `n${i}` }), never()))));
    assert.deepEqual(all.map((one) => one.job.id).sort(), ['n0', 'n1', 'n2', 'n3']);
    assert.equal(new Set(all.map((one) => one.vm)).size, 4);
  });

  describe('where a snapshot cannot be had it boots, and says so', () => {
    for (const mode of [
      { at: 'PUT /snapshot/create', how: 'refuse' },
      { at: 'PATCH /vm', how: 'reset' },
      { at: 'PUT /snapshot/load', how: 'refuse' },
      { at: 'PUT /snapshot/load', how: 'exit' },
    ])
      it(`${mode.at}: ${mode.how}`, async () => {
        fake.setMode(mode);
        const { run, stats } = await open();
        const answer = await run(job(), never());
        assert.equal(answer.isolation, 'microvm');
        assert.deepEqual(callsOf(JSON.parse(String(answer.answer)).vm), BOOT);
        assert.equal(stats().snapshot_failures, 1);
        assert.match(fake.logged[0].why, new RegExp(mode.at), 'the stage');
      });
  });

  describe('a VM that cannot be started is an error that names the stage', () => {
    const quick = { CODE_JAIL_FIRECRACKER_STEP_TIMEOUT_MS: '1000', CODE_JAIL_FIRECRACKER_START: 'boot' };
    const modes = [
      { at: 'GET /', how: 'other', stage: /"verification"/ },
      { at: 'GET /', how: 'exit', stage: /"(API socket|GET \/)"/ },
      ...['refuse', 'reset', 'slow', 'garbage', 'large'].map((how) => ({ at: 'PUT /machine-config', how })),
      { at: 'PUT /actions', how: 'refuse' },
      { at: 'PUT /drives/rootfs', how: 'exit' },
      ...['close', 'silent', 'wrong', 'endless'].map((how) => ({ at: 'vsock', how })),
    ];
    for (const { stage, ...mode } of modes)
      it(`${mode.at}: ${mode.how}`, async () => {
        fake.setMode(mode);
        await assert.rejects(open(quick), (error) => {
          assert.match(error.code, /^ERR_JAIL_(UNAVAILABLE|PROTOCOL)$/);
          assert.match(error.message, stage ?? new RegExp(`"${mode.at}"`));
          assert.ok(error.message.length < 1200 && !error.message.includes('\u001b'), error.message);
          return true;
        });
      });
  });

  it('asks again where the agent does not listen yet, or its reply comes in pieces', async () => {
    fake.setMode({ at: 'vsock', how: 'close', times: 5 });
    const first = await open({ CODE_JAIL_FIRECRACKER_WARM: '0' });
    await answerOf(first.run(job(), never()));
    fake.setMode({ at: 'vsock', how: 'dribble' });
    await answerOf(first.run(job(), never()));
    assert.equal(first.stats().failures, 0);
  });

  it('replaces a warm VM that has ended', async () => {
    const { run } = await open();
    const [warm] = processesOf(path.join(fake.folder, 'firecracker')).filter((one) =>
      /root\/firecracker/.test(one.command),
    );
    process.kill(warm.pid, 'SIGKILL');
    await until(() => processesOf(fake.folder).every((one) => one.pid !== warm.pid), 5000);
    assert.equal((await run(job(), never())).isolation, 'microvm');
  });

  describe('an answer that is none is an error, and the job is not repeated', () => {
    const modes = [
      ['none', 'ERR_JAIL_UNAVAILABLE'],
      ['partial', 'ERR_JAIL_UNAVAILABLE'],
      ['exit', 'ERR_JAIL_UNAVAILABLE'],
      ['two', 'ERR_JAIL_PROTOCOL'],
      ['flood', 'ERR_JAIL_PROTOCOL'],
    ];
    for (const [how, code] of modes)
      it(how, async () => {
        fake.setMode({ at: 'answer', how });
        const { run, stats } = await open();
        await assert.rejects(run(job(), never()), { code, retryable: false, message: /"answer"/ });
        assert.equal(stats().failures, 1);
      });
  });

  it('a stalled job ends with its signal, at once, with its reason', async () => {
    fake.setMode({ at: 'answer', how: 'stall' });
    const { run, stats } = await open();
    const gone = new AbortController();
    const running = run(job(), { signal: gone.signal, deadlineMs: 60000 });
    assert.equal(stats().running, 1);
    await until(() => stats().warm === 1, 10000);
    const reason = new Error('the client has gone');
    gone.abort(reason);
    await assert.rejects(running, (error) => error === reason);
    assert.equal(stats().running, 0);
  });

  it('a VMM killed in mid-run is an error, and nothing of it is left', async () => {
    fake.setMode({ at: 'answer', how: 'stall' });
    const { run } = await open({ CODE_JAIL_FIRECRACKER_WARM: '0' });
    const running = run(job(), never());
    const ours = () =>
      processesOf(path.join(fake.folder, 'firecracker')).filter((one) => /root\/firecracker/.test(one.command));
    const rejected = assert.rejects(running, { code: 'ERR_JAIL_UNAVAILABLE', retryable: false });
    const timer = setInterval(() => {
      for (const one of ours()) process.kill(one.pid, 'SIGKILL');
    }, 1000);
    await rejected;
    clearInterval(timer);
  });

  it('ends a VM that outlived its daemon and its warden, and no other', async () => {
    const programs = [2 ** 22 + 2, process.ppid].map((pid) => {
      const parent = path.join(String(cgroupMount()), cgroupName(pid));
      const group = path.join(parent, 'vm');
      fs.mkdirSync(group, { recursive: true });
      const child = spawn('sleep', ['1000'], { stdio: 'ignore' });
      fs.writeFileSync(path.join(group, 'cgroup.procs'), String(child.pid));
      return {
        parent,
        group,
        child,
        ended: new Promise((resolve) => child.on('exit', (_, signal) => resolve(signal))),
      };
    });
    const [dead, alive] = programs;
    try {
      await open();
      assert.equal(await dead.ended, 'SIGKILL');
      assert.deepEqual([fs.existsSync(dead.parent), alive.child.exitCode, alive.child.signalCode], [false, null, null]);
    } finally {
      for (const { child, ended } of programs) {
        child.kill('SIGKILL');
        await ended;
      }
      for (const folder of [alive.group, alive.parent]) await until(() => removed(folder), 5000);
    }
  });

  it('removes the empty cgroup of a daemon that was killed, and no other', async () => {
    const [dead, alive] = [2 ** 22 + 1, process.ppid].map((pid) => path.join(String(cgroupMount()), cgroupName(pid)));
    for (const one of [dead, alive]) fs.mkdirSync(one, { recursive: true });
    await open();
    await until(() => !fs.existsSync(dead), 5000);
    assert.deepEqual(
      [dead, alive].map((one) => fs.existsSync(one)),
      [false, true],
    );
    fs.rmdirSync(alive);
  });

  it('a daemon that is killed leaves no process and no cgroup', async () => {
    fake.setMode({ at: 'answer', how: 'stall' });
    const { log: _, ...settings } = fake.settings;
    const host = startHost('firecracker', [JSON.stringify(settings)]);
    await host.line(/^running$/);
    assert.ok(leftovers(fake, host.child.pid).length >= 4, 'while it lives there are some');
    host.child.kill('SIGKILL');
    await host.exited;
    const gone = () => leftovers(fake, host.child.pid).filter((one) => !/^\d+-\d+$/.test(one));
    assert.deepEqual(await until(() => gone().length === 0 && [], 15000), [], gone().join('\n'));
    // Its files are the daemon's guard's to remove.
    fs.rmSync(path.join(fake.folder, 'firecracker'), { recursive: true, force: true });
  });

  describe('a host that is not fit is named', () => {
    const refused = (env, message) => assert.rejects(open(env), { code: 'ERR_JAIL_CONFIG', message });
    it('a kernel that is not the pinned one', () =>
      refused({ CODE_JAIL_FIRECRACKER_KERNEL_SHA256: '0'.repeat(64) }, /KERNEL.*sha256/));
    it('no pin', () => refused({ CODE_JAIL_FIRECRACKER_ROOTFS_SHA256: '' }, /ROOTFS_SHA256 is not set/));
    it('no jailer', () => refused({ CODE_JAIL_FIRECRACKER_JAILER: '/nowhere/jailer' }, /there is no file/));
    it('a program that is not Firecracker', () =>
      refused({ CODE_JAIL_FIRECRACKER_BIN: process.execPath }, /does not say that it is Firecracker/));
    it('a process that is not the configured Firecracker', async () => {
      // The jailer starts something else, which says all that Firecracker says.
      const file = fake.settings.env.CODE_JAIL_FIRECRACKER_JAILER;
      const script = fs.readFileSync(file, 'utf8').replace('FAKE_ROOT', `printf x >>"$root/$name"\nFAKE_ROOT`);
      fs.writeFileSync(file, script);
      await assert.rejects(open(), { code: 'ERR_JAIL_UNAVAILABLE', message: /"verification".*does not run/ });
    });
  });
});

describe('npm run test:kvm', () => {
  it('says what a host is missing', () => {
    const run = spawnSync(process.execPath, [path.join(__dirname, '..', 'scripts', 'test-kvm.js')], {
      encoding: 'utf8',
      env: { PATH: process.env.PATH, CODE_JAIL_FIRECRACKER_BIN: '/nowhere/firecracker' },
    });
    assert.equal(run.status, 2, run.stdout + run.stderr);
    assert.match(run.stdout, /cannot be proven on this host.*there is no \/nowhere\/firecracker/s);
  });
});
