'use strict';
// What the engine `firecracker` needs of its host: read, checked whole, and put in
// place in the engine's folder. Each refusal names the setting and the remedy.

const { execFile } = require('node:child_process');
const crypto = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');
const { setTimeout: sleep } = require('node:timers/promises');
const { promisify } = require('node:util');
const { misconfigured } = require('../errors.js');
const { sha256 } = require('./firecracker-vm.js');

const PREFIX = 'CODE_JAIL_FIRECRACKER_';
// A Unix socket's path has 107 bytes; this is what lies between our folder and its end.
const SOCKET_PATH = 107;
const END_MS = 5000; // for a killed VM to be gone
const END_LOOK_MS = 10;
const GUEST_MEMORY_MB = 256; // of the guest's system and a parked runtime, beside what a job may add

/** @param {NodeJS.ProcessEnv} env @param {string} name @param {string} [fallback] @returns {string} */
function read(env, name, fallback) {
  const value = env[PREFIX + name] ?? fallback;
  if (value === undefined || value === '') throw misconfigured(`${PREFIX}${name} is not set; see docs/firecracker.md`);
  return value;
}

/** @param {NodeJS.ProcessEnv} env @param {string} name @param {number} fallback @param {number} min @param {number} max */
function readNumber(env, name, fallback, min, max) {
  const text = read(env, name, String(fallback));
  const value = Number(text);
  if (/^\d{1,9}$/.test(text) && value >= min && value <= max) return value;
  throw misconfigured(`${PREFIX}${name} must be a whole number from ${min} to ${max}, not ${JSON.stringify(text)}`);
}

/** @param {NodeJS.ProcessEnv} env @param {string} name @param {string} [fallback] */
function readFilePath(env, name, fallback) {
  const file = read(env, name, fallback);
  if (!path.isAbsolute(file)) throw misconfigured(`${PREFIX}${name} must be an absolute path, not ${file}`);
  const what = fs.statSync(file, { throwIfNoEntry: false });
  if (!what?.isFile()) throw misconfigured(`${PREFIX}${name}: there is no file ${file}; see docs/firecracker.md`);
  return file;
}

/** The host's table of mounts: { point, type, options }. */
function mounts() {
  return fs
    .readFileSync('/proc/self/mountinfo', 'utf8')
    .trim()
    .split('\n')
    .map((line) => {
      const [, , , , point, options, ...rest] = line.split(' ');
      return { point, options: options.split(','), type: rest[rest.indexOf('-') + 1] };
    });
}

function cgroupMount() {
  const found = mounts().find((mount) => mount.type === 'cgroup2');
  if (!found) throw misconfigured('no cgroup v2 is mounted on this host; Firecracker’s jailer needs it for the limits');
  return found.point;
}

/** A daemon's cgroup; a pid alone would be another's in another pid namespace. @param {number | string} [pid] */
function cgroupName(pid = process.pid) {
  return `code-jail-vms-${fs.readlinkSync('/proc/self/ns/pid').replace(/\D/g, '')}-${pid}`;
}

/** Ends what is in it, and removes it. @param {string} group */
async function endCgroup(group) {
  await fs.promises.writeFile(path.join(group, 'cgroup.kill'), '1').catch(() => {});
  for (const end = performance.now() + END_MS; performance.now() < end; await sleep(END_LOOK_MS))
    if (
      await fs.promises.rmdir(group).then(
        () => true,
        (error) => error.code !== 'EBUSY',
      )
    )
      return;
}

/** Of daemons that were killed: VMs whose warden was killed too, and what no VM was there to remove. @param {string} mount */
async function sweepCgroups(mount) {
  for (const name of await fs.promises.readdir(mount)) {
    const pid = /-(\d+)$/.exec(name)?.[1];
    if (!pid || name !== cgroupName(pid) || fs.existsSync(`/proc/${pid}`)) continue;
    const group = path.join(mount, name);
    for (const vm of await fs.promises.readdir(group, { withFileTypes: true }).catch(() => []))
      if (vm.isDirectory()) await endCgroup(path.join(group, vm.name));
    await fs.promises.rmdir(group).catch(() => {}); // a warden may just do the same
  }
}

// The jailer copies its program there and makes /dev/kvm in it.
function checkFolder(folder, firecracker) {
  const within = (point) => point === '/' || folder === point || folder.startsWith(`${point}/`);
  const on = mounts()
    .filter((mount) => within(mount.point))
    .sort((one, other) => one.point.length - other.point.length)
    .at(-1);
  for (const option of ['nodev', 'noexec'])
    if (on?.options.includes(option))
      throw misconfigured(`${folder} is on ${on.point}, mounted ${option}: the jailer needs a place without it`);
  const longest = path.join(folder, path.basename(firecracker), `${process.pid}-9999999`, 'root/run/api.sock');
  if (longest.length > SOCKET_PATH)
    throw misconfigured(`${folder} is too long a path: the sockets in it would have over ${SOCKET_PATH} bytes`);
}

/** @param {string} file @returns {Promise<string>} */
async function hashFile(file) {
  const sum = crypto.createHash('sha256');
  for await (const part of fs.createReadStream(file)) sum.update(part);
  return sum.digest('hex');
}

// A copy of our own, checked itself: what its owner does to the original later is nothing to us.
async function place(folder, name, env, setting) {
  const from = readFilePath(env, setting);
  const pin = read(env, `${setting}_SHA256`).toLowerCase();
  const to = path.join(folder, name);
  await fs.promises.copyFile(from, to, fs.constants.COPYFILE_FICLONE);
  await fs.promises.chmod(to, 0o444);
  const hash = await hashFile(to);
  if (hash !== pin) throw misconfigured(`${PREFIX}${setting}: ${from} has sha256 ${hash}, not ${pin}`);
}

/** @param {string} firecracker */
async function checkVersion(firecracker) {
  let said = '';
  try {
    said = (await promisify(execFile)(firecracker, ['--version'], { env: {}, timeout: 10000 })).stdout;
  } catch (error) {
    throw misconfigured(`${PREFIX}BIN: ${firecracker} --version fails: ${error.message}`, error);
  }
  if (!/^Firecracker v\d+\.\d+/.test(said))
    throw misconfigured(`${PREFIX}BIN: ${firecracker} does not say that it is Firecracker`);
}

/**
 * @typedef {object} Facts
 * @property {import('./firecracker-vm.js').Host} host
 * @property {number} warm how many VMs wait for a job
 * @property {boolean} snapshots
 * @property {() => Promise<void>} remove what is outside the engine's folder
 */

/** @param {import('./engines.js').EngineSettings} settings @returns {Promise<Facts>} */
async function readHost({ env, folder, slots, maxMemoryMb }) {
  if (process.platform !== 'linux' || process.arch !== 'x64')
    throw misconfigured('the engine firecracker is for Linux on x86_64');
  if (process.getuid?.() !== 0) throw misconfigured('the engine firecracker needs root: Firecracker’s jailer does');
  const firecracker = fs.realpathSync(readFilePath(env, 'BIN', '/usr/bin/firecracker'));
  const jailer = readFilePath(env, 'JAILER', '/usr/bin/jailer');
  const start = read(env, 'START', 'snapshot');
  if (!['snapshot', 'boot'].includes(start))
    throw misconfigured(`${PREFIX}START must be snapshot or boot, not ${JSON.stringify(start)}`);
  checkFolder(folder, firecracker);
  const cgroup = { mount: cgroupMount(), parent: cgroupName() };
  await sweepCgroups(cgroup.mount);
  await checkVersion(firecracker);
  await place(folder, 'kernel', env, 'KERNEL');
  await place(folder, 'rootfs', env, 'ROOTFS');
  const initrd = Boolean(env[`${PREFIX}INITRD`]);
  if (initrd) await place(folder, 'initrd', env, 'INITRD');
  return {
    host: {
      folder,
      firecracker,
      jailer,
      exeHash: await sha256(await fs.promises.readFile(firecracker)),
      cgroup,
      uid: readNumber(env, 'UID', 200000, 1000, 999999999),
      memoryMb: maxMemoryMb + GUEST_MEMORY_MB,
      vcpus: readNumber(env, 'VCPUS', 1, 1, 32),
      timeoutMs: readNumber(env, 'STEP_TIMEOUT_MS', 10000, 100, 600000),
      initrd,
    },
    warm: readNumber(env, 'WARM', Math.min(slots, 2), 0, 256),
    snapshots: start === 'snapshot',
    remove: () => fs.promises.rmdir(path.join(cgroup.mount, cgroup.parent)).catch(() => {}),
  };
}

module.exports = { readHost, cgroupName };
