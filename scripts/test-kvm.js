'use strict';
// The engine firecracker on real hardware: `npm run test:kvm`, as root on a host
// with KVM, Firecracker and its jailer. Says what is missing where something is,
// and then ends with 2; with 1 where something failed.
//
// CODE_JAIL_FIRECRACKER_* as in docs/firecracker.md. Without a kernel or a root
// file system these are made: Debian's kernel, and the image of this clone.

const assert = require('node:assert/strict');
const crypto = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');
const cases = require('../test/cases.js');
const { matches } = require('../test/helpers/run.js');
const microvm = require('../test/helpers/microvm.js');
const { cgroupMount } = require('../test/helpers/firecracker.js');
const { createEngine } = require('../lib/jailer/firecracker.js');
const { cgroupName } = require('../lib/jailer/firecracker-host.js');

const FOLDER = process.env.CODE_JAIL_TEST_KVM_FOLDER ?? '/var/lib/code-jail-test';
const env = { ...process.env };
const setting = (name) => env[`CODE_JAIL_FIRECRACKER_${name}`];

// ---- what it needs ----

function kvmFault() {
  try {
    fs.closeSync(fs.openSync('/dev/kvm', 'r+'));
    return null;
  } catch (error) {
    return error.code;
  }
}

function missing() {
  const list = [];
  const need = (good, what) => good || list.push(what);
  need(process.arch === 'x64' && process.platform === 'linux', 'Linux on x86_64');
  need(process.getuid?.() === 0, 'root');
  const kvm = kvmFault();
  need(kvm === null, `KVM: /dev/kvm cannot be opened (${kvm})`);
  const bin = setting('BIN') ?? '/usr/bin/firecracker';
  need(fs.existsSync(bin), `Firecracker: there is no ${bin} (CODE_JAIL_FIRECRACKER_BIN)`);
  const jailer = setting('JAILER') ?? '/usr/bin/jailer';
  need(fs.existsSync(jailer), `Firecracker’s jailer: there is no ${jailer} (CODE_JAIL_FIRECRACKER_JAILER)`);
  need(cgroupMount(), 'cgroup v2');
  if (!setting('KERNEL')) {
    const why = microvm.whyNot();
    need(!why, `a kernel in CODE_JAIL_FIRECRACKER_KERNEL, or what makes one: ${why}`);
  }
  return list;
}

const hash = (file) => crypto.createHash('sha256').update(fs.readFileSync(file)).digest('hex');

function provide(name, file) {
  env[`CODE_JAIL_FIRECRACKER_${name}`] ??= file;
  env[`CODE_JAIL_FIRECRACKER_${name}_SHA256`] ??= hash(env[`CODE_JAIL_FIRECRACKER_${name}`]);
}

function makeImages() {
  if (!setting('KERNEL')) {
    const { kernel, initrd } = microvm.guestKernel();
    provide('KERNEL', kernel);
    provide('INITRD', initrd);
  }
  provide('ROOTFS', setting('ROOTFS') ?? microvm.guestRootfs());
  provide('KERNEL', setting('KERNEL'));
}

// ---- what it proves ----

let failures = 0;
async function check(name, work) {
  const began = performance.now();
  try {
    const note = await work();
    console.log(`ok     ${name}${note ? `: ${note}` : ''} (${(performance.now() - began).toFixed(0)} ms)`);
  } catch (error) {
    failures++;
    console.log(`failed ${name}: ${error.stack}`);
  }
}

async function ask(engine, job, timeoutMs = 60000) {
  const line = Buffer.from(`${JSON.stringify(job)}\n`);
  const how = { signal: AbortSignal.timeout(timeoutMs), deadlineMs: timeoutMs };
  const { answer, isolation, startMs } = await engine.run(/** @type {any} */ ({ line, maxAnswerBytes: 80 << 20 }), how);
  return { ...JSON.parse(String(answer)), isolation, startedIn: startMs };
}

const js = (code) => ({ language: 'javascript', code });

async function prove(engine, start) {
  await check('a job is answered from a verified microVM', async () => {
    const one = await ask(engine, js('return 1 + 1'));
    assert.deepEqual([one.result, one.isolation], [2, 'microvm']);
    return `until the agent had the job ${one.startedIn.toFixed(1)} ms; the guest's own start ${one.usage.startMs} ms`;
  });
  await check('two VMs draw different numbers, and know the time', async () => {
    const draw = js('return [require("crypto").randomUUID(), Math.random(), Date.now()]');
    const [one, other] = [(await ask(engine, draw)).result, (await ask(engine, draw)).result];
    assert.ok(one[0] !== other[0] && one[1] !== other[1]);
    assert.ok(Math.abs(other[2] - Date.now()) < 5000, 'the clock');
  });
  await check('a job that never ends is killed with its VM', async () => {
    await assert.rejects(ask(engine, js('for (;;);'), 3000), { name: 'TimeoutError' });
  });
  for (const one of start === 'snapshot' ? cases.filter((each) => !each.parallel) : [])
    await check(`${one.id} ${one.name}`, async () => {
      const { maxMs: _, ...expect } = one.expect;
      const { language, code, input = null, options } = one;
      matches(await ask(engine, { language, code, input, ...options }, 120000), expect);
    });
}

async function main() {
  const list = missing();
  if (list.length > 0) {
    console.log(
      `The engine firecracker cannot be proven on this host. Missing:\n${list.map((one) => `  - ${one}`).join('\n')}`,
    );
    return 2;
  }
  makeImages();
  const log = Object.fromEntries(
    ['info', 'warn', 'error'].map((level) => [level, (facts) => console.log(level, facts)]),
  );
  for (const start of ['boot', 'snapshot']) {
    const folder = path.join(FOLDER, start);
    fs.rmSync(folder, { recursive: true, force: true });
    fs.mkdirSync(folder, { recursive: true, mode: 0o700 });
    console.log(`\n${start}`);
    const settings = { slots: 2, maxTimeoutMs: 60000, maxMemoryMb: 1024, folder, log: /** @type {any} */ (log) };
    const engine = await createEngine({ ...settings, env: { ...env, CODE_JAIL_FIRECRACKER_START: start } });
    await prove(engine, start);
    await check('it started as it was told to', async () => {
      assert.equal(engine.stats().snapshot_failures, 0);
      assert.equal(engine.stats().restores > 0, start === 'snapshot');
    });
    await engine.close();
    await check('nothing is left', async () => {
      const chroots = path.join(folder, path.basename(fs.realpathSync(setting('BIN') ?? '/usr/bin/firecracker')));
      assert.deepEqual(fs.existsSync(chroots) ? fs.readdirSync(chroots) : [], []);
      assert.ok(!fs.existsSync(path.join(String(cgroupMount()), cgroupName())));
    });
  }
  fs.rmSync(FOLDER, { recursive: true, force: true });
  return failures > 0 ? 1 : 0;
}

main().then((code) => {
  process.exitCode = code;
});
