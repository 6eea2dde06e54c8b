'use strict';
// One microVM: Firecracker under its own jailer, booted or restored, for one job.

const crypto = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');
const { Api } = require('./firecracker-api.js');
const { connectVsock } = require('./guest-channel.js');
const { failed, startWarden } = require('./warden.js');

const { link, mkdir, readFile, rm } = fs.promises;

/**
 * @typedef {object} Host what all VMs of an engine share: see firecracker.js
 * @property {string} folder the jailer's chroot base
 * @property {string} firecracker @property {string} jailer
 * @property {string} exeHash sha256 of the firecracker binary
 * @property {{ mount: string, parent: string }} cgroup
 * @property {number} uid the first
 * @property {number} memoryMb of a VM @property {number} vcpus
 * @property {number} timeoutMs for each step
 * @property {boolean} initrd
 */

// Files in a chroot; what the guest reads, and what a snapshot is.
const BOOT_FILES = ['kernel', 'rootfs'];
const SNAPSHOT_FILES = ['rootfs', 'snapshot', 'memory'];

const UIDS = 4096; // more than there can be VMs at a time
const MiB = 2 ** 20;
const SOME_BYTES = MiB; // to write to a file: it writes none
const VMM_MEMORY_MB = 64; // of Firecracker itself
const API = '/run/api.sock';
const VSOCK = '/run/v.sock';

const sha256 = async (bytes) => Buffer.from(await crypto.webcrypto.subtle.digest('SHA-256', bytes)).toString('hex');

class Vm {
  /** @param {Host} host @param {number} number unlike any other of the engine's */
  constructor(host, number) {
    this.host = host;
    this.id = `${process.pid}-${number}`;
    this.uid = host.uid + (number % UIDS);
    this.home = path.join(host.folder, path.basename(host.firecracker), this.id);
    this.root = path.join(this.home, 'root');
    this.gone = new AbortController();
    /** @type {Promise<void>} */
    this.placed = Promise.resolve();
    /** @type {import('./warden.js').Warden | null} */
    this.warden = null;
    /** @type {Promise<void> | null} */
    this.ending = null;
    this.api = new Api(this.root + API, { signal: this.gone.signal, timeoutMs: host.timeoutMs });
  }

  get over() {
    return this.ending !== null || this.warden?.over === true;
  }

  /** @param {string[]} files */
  async place(files) {
    await mkdir(this.root, { recursive: true, mode: 0o700 });
    for (const file of files) await link(path.join(this.host.folder, file), path.join(this.root, file));
  }

  /** Its process, which has done nothing yet. @param {string[]} files @param {number} fileBytes the largest it may write */
  async start(files, fileBytes) {
    const { host } = this;
    this.placed = this.place(files);
    await this.placed;
    this.gone.signal.throwIfAborted(); // ended meanwhile: nothing is started any more
    const limits = [`memory.max=${(host.memoryMb + VMM_MEMORY_MB) * MiB}`, 'pids.max=32'];
    this.warden = startWarden(
      [
        host.jailer,
        ...['--id', this.id, '--exec-file', host.firecracker, '--uid', String(this.uid), '--gid', String(this.uid)],
        ...['--chroot-base-dir', host.folder],
        ...['--cgroup-version', '2', '--parent-cgroup', host.cgroup.parent],
        ...limits.flatMap((limit) => ['--cgroup', limit]),
        ...['--resource-limit', 'no-file=256', '--resource-limit', `fsize=${fileBytes}`],
        ...['--', '--api-sock', API],
      ],
      { cgroup: path.join(host.cgroup.mount, host.cgroup.parent, this.id), alone: true },
    );
    const pid = await this.warden.pid;
    const info = await this.api.info(() => this.over);
    await this.verify(pid, info);
  }

  // Whoever answers on that socket is Firecracker, because the process is that very program.
  async verify(pid, info) {
    if (info.app_name !== 'Firecracker' || info.id !== this.id)
      throw failed('verification', 'what answers on the API socket is not this Firecracker');
    let hash = '';
    try {
      hash = await sha256(await readFile(`/proc/${pid}/exe`));
    } catch (error) {
      throw failed('verification', `its program cannot be read: ${error.message}`, { cause: error });
    }
    if (hash !== this.host.exeHash)
      throw failed('verification', `process ${pid} does not run ${this.host.firecracker}`);
  }

  async boot({ golden = false } = {}) {
    const { host, api } = this;
    const initrd = host.initrd;
    await this.start([...BOOT_FILES, ...(initrd ? ['initrd'] : [])], golden ? (host.memoryMb + 16) * MiB : SOME_BYTES);
    await api.put('/machine-config', { vcpu_count: host.vcpus, mem_size_mib: host.memoryMb, smt: false });
    await api.put('/boot-source', {
      kernel_image_path: '/kernel',
      boot_args: `quiet reboot=k panic=1 8250.nr_uarts=0 ${initrd ? 'program=/agent' : 'init=/agent'}`,
      ...(initrd && { initrd_path: '/initrd' }),
    });
    await api.put('/drives/rootfs', {
      drive_id: 'rootfs',
      path_on_host: '/rootfs',
      is_root_device: true,
      is_read_only: true,
    });
    await api.put('/vsock', { guest_cid: 3, uds_path: VSOCK });
    await api.put('/entropy', {});
    await api.put('/actions', { action_type: 'InstanceStart' });
    await this.listens();
    return this;
  }

  async restore() {
    await this.start(SNAPSHOT_FILES, SOME_BYTES);
    await this.api.put('/snapshot/load', {
      snapshot_path: '/snapshot',
      mem_backend: { backend_type: 'File', backend_path: '/memory' },
      resume_vm: true,
    });
    await this.listens();
    return this;
  }

  /** The agent answers; it takes no notice of who only asks. */
  async listens() {
    (await this.connect(this.gone.signal)).destroy();
  }

  /** @param {AbortSignal} signal */
  connect(signal) {
    return connectVsock(this.root + VSOCK, { signal, timeoutMs: this.host.timeoutMs, over: () => this.over });
  }

  /** Leaves `snapshot` and `memory` in the engine's folder, for all to read and none to change. */
  async snapshot() {
    await this.api.patch('/vm', { state: 'Paused' });
    await this.api.put('/snapshot/create', {
      snapshot_type: 'Full',
      snapshot_path: '/snapshot',
      mem_file_path: '/memory',
    });
    await this.end(async () => {
      for (const file of ['snapshot', 'memory']) {
        const from = path.join(this.root, file);
        await fs.promises.lchown(from, 0, 0);
        await fs.promises.chmod(from, 0o444);
        await fs.promises.rename(from, path.join(this.host.folder, file));
      }
    });
  }

  /** Nothing of it is left afterwards. @param {() => Promise<void>} [last] once its process is gone */
  end(last) {
    this.ending ??= (async () => {
      this.gone.abort(failed('end', 'the VM was ended'));
      await this.placed.catch(() => {}); // whoever places them hears of it
      await this.warden?.end();
      try {
        await last?.();
      } finally {
        await rm(this.home, { recursive: true, force: true });
      }
    })();
    return this.ending;
  }
}

module.exports = { Vm, sha256 };
