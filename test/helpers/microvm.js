'use strict';
// A real guest kernel without KVM: Debian's cloud kernel under QEMU's microvm
// machine, emulated. The kernel is fetched from Debian once (.cache/microvm), its
// initrd made by apps/jailer/kernel.sh, its disk by apps/jailer/disk.sh.
//
//   const vm = await runInMicrovm({ tree, command: ['/bin/sh', '-c', 'uname -r'] });
//   vm.code, vm.stdout (what came over the serial console: both streams)

const { execFileSync, spawn, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { qemuCommand } = require('../../lib/jailer/qemu.js');
const { nodeBinary } = require('../../scripts/from-npm.js');

const ROOT = path.join(__dirname, '..', '..');
const CACHE = path.join(ROOT, '.cache', 'microvm');
const WARDEN = path.join(ROOT, 'build', 'Release', 'code-jail-warden');
const SCRIPTS = path.join(ROOT, 'apps', 'jailer');

const NEEDS = {
  'qemu-system-x86_64': 'qemu-system-x86',
  'mkfs.ext4': 'e2fsprogs',
  'dpkg-deb': 'dpkg',
  cpio: 'cpio',
  busybox: 'busybox-static',
};

/** Why no guest can be booted here; false where one can. */
function whyNot() {
  if (process.arch !== 'x64') return 'the guest kernel is for x86_64';
  if (process.getuid?.() !== 0) return 'only root can make a disk whose files are root’s';
  for (const [command, name] of Object.entries(NEEDS))
    if (spawnSync('sh', ['-c', `command -v ${command}`]).status !== 0)
      return `${command} is not installed (Debian: apt-get install ${name})`;
  return spawnSync('apt-get', ['--version']).status === 0 ? false : 'the kernel comes from Debian: no apt-get here';
}

const text = (command, args, options = {}) => execFileSync(command, args, { encoding: 'utf8', ...options });

/** Debian's newest kernel of the running release: { kernel, initrd, version }. */
function guestKernel() {
  const found = () =>
    /linux-image-\S+-cloud-amd64/.exec(text('apt-cache', ['depends', 'linux-image-cloud-amd64']))?.[0];
  let name = found();
  if (!name) {
    execFileSync('apt-get', ['update'], { stdio: 'ignore' });
    name = found();
  }
  if (!name) throw new Error('Debian has no linux-image-cloud-amd64 here: apt-get update');
  const init = path.join(ROOT, 'build', 'Release', 'code-jail-initrd');
  const folder = path.join(CACHE, name);
  const made = { kernel: path.join(folder, 'vmlinuz'), initrd: path.join(folder, 'initrd'), version: name.slice(12) };
  once(folder, [init, path.join(SCRIPTS, 'kernel.sh')], (into) => {
    const deb = () => fs.readdirSync(into).find((file) => file.endsWith('.deb'));
    execFileSync('apt-get', ['download', name], { cwd: into, stdio: 'ignore' });
    execFileSync(path.join(SCRIPTS, 'kernel.sh'), [path.join(into, String(deb())), into]);
    fs.rmSync(path.join(into, String(deb())));
  });
  return made;
}

// Makes a folder whole or not at all, anew when one of its sources is younger; two processes may try at once.
function once(folder, sources, make) {
  const age = fs.statSync(folder, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  if (sources.every((file) => fs.statSync(file).mtimeMs < age)) return;
  fs.mkdirSync(CACHE, { recursive: true });
  const draft = fs.mkdtempSync(path.join(CACHE, 'draft-'));
  make(draft);
  fs.utimesSync(draft, new Date(), new Date());
  try {
    fs.rmSync(folder, { recursive: true, force: true });
    fs.renameSync(draft, folder);
  } catch (error) {
    fs.rmSync(draft, { recursive: true });
    if (!/ENOTEMPTY|EEXIST/.test(error.code)) throw error;
  }
}

/**
 * An empty root for a guest's disk in `folder`: busybox as /bin/sh, and, with
 * `image`, all that the sandbox image has: node, python3 and code-jail in /app.
 * @param {string} folder @param {{ image?: boolean, node?: string }} [options]
 */
function makeTree(folder, { image = false, node = image ? nodeBinary('22') : '' } = {}) {
  if (image) execFileSync(path.join(ROOT, 'apps', 'sandbox', 'rootfs.sh'), [folder, node], { stdio: 'ignore' });
  for (const name of ['bin', 'dev', 'etc', 'proc', 'run', 'sys', 'tmp'])
    fs.mkdirSync(path.join(folder, name), { recursive: true });
  fs.copyFileSync('/bin/busybox', path.join(folder, 'bin', 'busybox'));
  for (const name of ['sh', 'cat', 'ls', 'mount', 'mkdir', 'grep', 'sleep', 'dmesg'])
    fs.symlinkSync('busybox', path.join(folder, 'bin', name));
}

/** The root file system of apps/jailer/rootfs.sh, made once: its path. */
function guestRootfs() {
  const folder = path.join(CACHE, 'rootfs');
  const sources = ['lib', 'build/Release', 'apps/sandbox', 'apps/jailer', 'package.json'].flatMap((name) =>
    everyFile(path.join(ROOT, name)),
  );
  once(folder, sources, (into) => {
    execFileSync(path.join(SCRIPTS, 'rootfs.sh'), [path.join(into, 'rootfs'), nodeBinary('22')], {
      stdio: ['ignore', 'ignore', 'inherit'],
    });
  });
  return path.join(folder, 'rootfs');
}

/** A copy of that image in which the agent's guest takes one job after another. @param {string} image */
function guestOfMany(image) {
  const guest = path.join(ROOT, 'lib', 'jailer', 'guest.js');
  const many = `${image}.js`;
  fs.writeFileSync(
    many,
    "const { openGuest, serveOne } = require('./guest-one.js');\n" +
      '(async () => { const guest = openGuest(); for (;;) await serveOne(guest); })();\n',
  );
  fs.copyFileSync(guestRootfs(), image);
  const commands = ['rm guest.js', `write ${many} guest.js`, `write ${guest} guest-one.js`];
  execFileSync('debugfs', ['-w', '-f', '-', image], {
    input: ['cd /app/lib/jailer', ...commands].join('\n'),
    stdio: ['pipe', 'ignore', 'ignore'],
  });
}

function everyFile(file) {
  if (!fs.statSync(file).isDirectory()) return [file];
  return fs.readdirSync(file).flatMap((name) => everyFile(path.join(file, name)));
}

/** @param {string} tree @param {string} image */
function makeDisk(tree, image) {
  execFileSync(path.join(SCRIPTS, 'disk.sh'), [tree, image], { stdio: ['ignore', 'ignore', 'inherit'] });
}

const IN_GUEST = '/in-guest.sh';
const END = 'code-jail-microvm-exit';

// pid 1: mounts what a system has, runs the command, tells its exit status.
const inGuest = (command) => `#!/bin/busybox sh
export PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME=/root
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/shm
mount -t tmpfs -o mode=755 tmpfs /run
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -t cgroup2 cgroup2 /sys/fs/cgroup
cd /tmp
${command.map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(' ')} </dev/null
echo "${END} $?"
/bin/busybox poweroff -f
`;

/**
 * A guest whose initrd executes `program` from the disk.
 * @param {{ disk: string, program: string, channel?: string, memoryMb?: number, cpus?: number }} options
 */
function startMicrovm(options) {
  // Under the warden: it ends with this process, however this ends. What a guest writes comes on stderr.
  const child = spawn(WARDEN, ['--', ...qemuCommand({ ...guestKernel(), ...options })], { env: {} });
  const seen = { serial: '' };
  child.stdout.resume();
  child.stderr.on('data', (part) => {
    seen.serial += part;
  });
  /** @type {Promise<{ serial: string }>} */
  const exited = new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', () => resolve(seen));
  });
  const end = () => {
    child.stdin.end();
    return exited;
  };
  return { seen, exited, end };
}

/**
 * Boots a guest from the files of `tree` (which gets one more), runs the command
 * as root with a writable /tmp and /run, cgroup v2 at /sys/fs/cgroup, and everything else read-only.
 * @param {{ tree: string, command: string[], timeoutMs?: number, memoryMb?: number, cpus?: number }} options
 * @returns {Promise<{ code: number | null, stdout: string, serial: string }>} code null: it never came so far
 */
async function runInMicrovm({ tree, command, timeoutMs = 120000, ...options }) {
  fs.writeFileSync(path.join(tree, IN_GUEST), inGuest(command), { mode: 0o755 });
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cj-microvm-'));
  const disk = path.join(folder, 'disk');
  try {
    makeDisk(tree, disk);
    const vm = startMicrovm({ disk, program: IN_GUEST, ...options });
    const timer = setTimeout(() => vm.end(), timeoutMs);
    const { serial } = await vm.exited;
    clearTimeout(timer);
    const lines = serial.replaceAll('\r\n', '\n');
    const end = new RegExp(`^${END} (\\d+)$`, 'm').exec(lines);
    return { code: end ? Number(end[1]) : null, stdout: lines.slice(0, end?.index), serial };
  } finally {
    fs.rmSync(folder, { recursive: true, force: true });
  }
}

module.exports = { whyNot, guestKernel, guestRootfs, guestOfMany, makeTree, makeDisk, startMicrovm, runInMicrovm };
