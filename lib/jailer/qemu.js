'use strict';
// The engine `qemu`: the same guest image as firecracker's, booted anew for each job
// by QEMU without KVM. For trying an image out, and for tests: emulation takes some
// seconds for a job, and is no wall that anybody vouches for. So an answer's
// isolation stays what the cell in the guest says of itself. Not in `NAMES`, never a default.

const fs = require('node:fs');
const path = require('node:path');
const { setTimeout: sleep } = require('node:timers/promises');
const { misconfigured } = require('../errors.js');
const { connectUnix, exchange } = require('./guest-channel.js');
const { failed, startWarden } = require('./warden.js');

const PROGRAM = '/usr/bin/qemu-system-x86_64';
const PORT_NAME = 'code-jail';
const GUEST_MEMORY_MB = 256;
const START_MS = 30000; // until QEMU listens
const GUEST_START_MS = 240000; // and until the answer, beside the run itself, on a machine under load
const LOOK_MS = 20;

// On a busy machine the kernel cannot measure its clock against an emulated timer,
// and then waits for ever for the next tick: it is told the rate, which is the host's.
function clockKhz() {
  const mhz = /^cpu MHz\s*: ([\d.]+)/m.exec(fs.readFileSync('/proc/cpuinfo', 'utf8'));
  return Math.round(Number(mhz?.[1] ?? 2500) * 1000);
}

/**
 * A guest with an initrd of apps/jailer/kernel.sh, which executes `program` from the disk.
 * @param {{ kernel: string, initrd: string, disk: string, program: string, channel?: string, memoryMb?: number, cpus?: number }} vm
 *   channel: where its virtio-serial port is a Unix socket
 * @returns {string[]} the console is on standard output
 */
function qemuCommand({ kernel, initrd, disk, program, channel, memoryMb = 512, cpus = 1 }) {
  return [
    ...[PROGRAM, '-M', 'microvm', '-accel', 'tcg', '-cpu', 'max', '-m', String(memoryMb), '-smp', String(cpus)],
    ...['-kernel', kernel, '-initrd', initrd],
    ...['-append', `console=ttyS0 quiet tsc_early_khz=${clockKhz()} reboot=t panic=-1 program=${program}`],
    ...['-nodefaults', '-no-user-config', '-nographic', '-no-reboot', '-serial', 'stdio'],
    ...['-drive', `id=root,file=${disk},format=raw,if=none,read-only=on`, '-device', 'virtio-blk-device,drive=root'],
    ...(channel
      ? [
          ...['-device', 'virtio-serial-device', '-chardev', `socket,path=${channel},server=on,wait=off,id=channel`],
          ...['-device', `virtserialport,chardev=channel,name=${PORT_NAME}`],
        ]
      : []),
  ];
}

/** @param {NodeJS.ProcessEnv} env @param {string} name */
function readPath(env, name) {
  const file = env[`CODE_JAIL_QEMU_${name}`] ?? '';
  if (!path.isAbsolute(file) || !fs.existsSync(file) || file.includes(','))
    throw misconfigured(`CODE_JAIL_QEMU_${name} must name a file by an absolute path; see docs/firecracker.md`);
  return file;
}

/** @param {string} channel @param {AbortSignal} signal @param {import('./warden.js').Warden} warden */
async function connectWhenThere(channel, signal, warden) {
  for (const end = performance.now() + START_MS; ; await sleep(LOOK_MS)) {
    try {
      return await connectUnix(channel, signal);
    } catch (error) {
      signal.throwIfAborted();
      if (warden.over || performance.now() > end)
        throw failed('start', warden.errors || error.message, { retryable: true });
    }
  }
}

/** @param {import('./engines.js').EngineSettings} settings @returns {Promise<import('./engines.js').Engine>} */
async function createEngine({ folder, env, maxMemoryMb }) {
  if (!fs.existsSync(PROGRAM)) throw misconfigured(`${PROGRAM} is not installed (Debian: qemu-system-x86)`);
  const image = { kernel: readPath(env, 'KERNEL'), initrd: readPath(env, 'INITRD'), disk: readPath(env, 'ROOTFS') };
  const count = { running: 0, starts: 0, failures: 0 };
  /** @type {Set<Promise<void>>} */
  const all = new Set();
  const closing = new AbortController();

  async function withVm(job, signal) {
    const home = path.join(folder, `vm${count.starts++}`);
    const channel = path.join(home, 'channel');
    fs.mkdirSync(home, { mode: 0o700 });
    const options = { ...image, program: '/agent serial', channel, memoryMb: maxMemoryMb + GUEST_MEMORY_MB };
    const warden = startWarden(qemuCommand(options), { alone: true });
    const left = warden.ended.then(() => fs.promises.rm(home, { recursive: true, force: true }));
    all.add(left);
    left.finally(() => all.delete(left));
    try {
      const socket = await connectWhenThere(channel, signal, warden);
      const answer = await exchange(socket, job, signal);
      return { answer, isolation: null };
    } catch (error) {
      if (!signal.aborted) {
        count.failures++;
        await warden.end();
        if (warden.errors) error.message += ` (its console: ${warden.errors.slice(-300)})`;
      }
      throw error;
    } finally {
      void warden.end();
    }
  }

  return {
    isolation: 'process',
    startMs: GUEST_START_MS,
    async run(job, { signal }) {
      const either = AbortSignal.any([signal, closing.signal]);
      either.throwIfAborted();
      count.running++;
      try {
        return await withVm(job, either);
      } finally {
        count.running--;
      }
    },
    stats: () => ({ ready: 1, warm: 0, ...count }),
    async close() {
      closing.abort(failed('end', 'the daemon is going down'));
      await Promise.all(all);
    },
  };
}

module.exports = { createEngine, qemuCommand };
