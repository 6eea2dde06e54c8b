'use strict';
// The engine `firecracker`: a microVM for each job (see engines.js, docs/firecracker.md).
//
// At the start one VM is booted until its agent listens, and a snapshot is taken:
// no interpreter has run in it, no secret been drawn. Restored copies of it wait,
// each for one job. Where a snapshot cannot be had, VMs are booted instead: slower,
// and no weaker.

const { setTimeout: sleep } = require('node:timers/promises');
const { readHost } = require('./firecracker-host.js');
const { Vm } = require('./firecracker-vm.js');
const { exchange } = require('./guest-channel.js');
const { failed } = require('./warden.js');

const BACK_OFF_MS = { first: 100, most: 10000 };

class Firecracker {
  /** @param {import('./firecracker-host.js').Facts} facts @param {import('./engines.js').EngineSettings} settings */
  constructor(facts, { log }) {
    this.facts = facts;
    this.log = log;
    this.hasSnapshot = false;
    this.number = 0;
    this.closed = false;
    /** Prepared, waiting for a job. @type {Vm[]} */
    this.warm = [];
    /** Every one whose process or files may be there. @type {Set<Vm>} */
    this.all = new Set();
    this.filling = false;
    this.count = { running: 0, starts: 0, restores: 0, failures: 0, snapshot_failures: 0 };
  }

  /** A new VM of ours, which is in `all` until nothing is left of it. */
  make() {
    if (this.closed) throw failed('start', 'the daemon is going down', { retryable: true });
    const vm = new Vm(this.facts.host, this.number++);
    this.all.add(vm);
    this.count.starts++;
    return vm;
  }

  /** @param {Vm} vm */
  async discard(vm) {
    try {
      await vm.end();
    } catch (error) {
      this.log.error({ event: 'leftover', vm: vm.id, why: error.message }, 'leftover');
    }
    this.all.delete(vm);
  }

  /** @template T @param {(vm: Vm) => Promise<T>} work @param {AbortSignal} [signal] @returns {Promise<T>} */
  async attempt(work, signal) {
    signal?.throwIfAborted();
    const vm = this.make();
    const onAbort = () => void this.discard(vm);
    signal?.addEventListener('abort', onAbort, { once: true });
    try {
      const value = await work(vm);
      signal?.throwIfAborted();
      return value;
    } catch (error) {
      const end = this.discard(vm);
      signal?.throwIfAborted();
      await end;
      this.count.failures++;
      const said = vm.warden?.errors;
      if (said) error.message += ` (it said: ${said.slice(0, 300)})`;
      throw error;
    } finally {
      signal?.removeEventListener('abort', onAbort);
    }
  }

  async takeSnapshot() {
    try {
      await this.attempt(async (vm) => {
        await vm.boot({ golden: true });
        await vm.snapshot();
        this.all.delete(vm);
      });
      this.hasSnapshot = true;
    } catch (error) {
      this.withoutSnapshot(error);
    }
  }

  withoutSnapshot(error) {
    this.hasSnapshot = false;
    this.count.snapshot_failures++;
    this.log.warn({ event: 'snapshot', code: error.code, why: error.message }, 'booting instead of restoring');
  }

  /** A VM whose agent listens. @param {AbortSignal} [signal] @returns {Promise<Vm>} */
  async prepare(signal) {
    if (this.hasSnapshot) {
      try {
        const vm = await this.attempt((one) => one.restore(), signal);
        this.count.restores++;
        return vm;
      } catch (error) {
        signal?.throwIfAborted();
        if (this.closed) throw error;
        this.withoutSnapshot(error);
      }
    }
    return this.attempt((vm) => vm.boot(), signal);
  }

  async open() {
    if (this.facts.snapshots) await this.takeSnapshot();
    // Also proves that it can be done at all.
    this.warm.push(await this.prepare());
    void this.fill();
  }

  /** As many warm ones as are wanted, one after another, behind the jobs. */
  async fill() {
    if (this.filling) return;
    this.filling = true;
    let pause = BACK_OFF_MS.first;
    while (!this.closed) {
      this.sweep();
      if (this.warm.length >= this.facts.warm) break;
      try {
        const vm = await this.prepare();
        if (this.closed) await this.discard(vm);
        else this.warm.push(vm);
        pause = BACK_OFF_MS.first;
      } catch (error) {
        if (this.closed) break;
        this.log.error({ event: 'vm', code: error.code, why: error.message }, 'no microVM');
        await sleep(pause, undefined, { ref: false });
        pause = Math.min(2 * pause, BACK_OFF_MS.most);
      }
    }
    this.filling = false;
  }

  /** Those that ended while they waited. */
  sweep() {
    for (const vm of this.warm.filter((one) => one.over)) {
      this.warm.splice(this.warm.indexOf(vm), 1);
      this.count.failures++;
      void this.discard(vm);
    }
  }

  /** A VM and a stream to its agent; a warm one that does not answer is replaced once. @param {AbortSignal} signal */
  async connect(signal) {
    for (let tries = 0; ; tries++) {
      this.sweep();
      const warm = this.warm.shift();
      void this.fill();
      const vm = warm ?? (await this.prepare(signal));
      try {
        return { vm, socket: await vm.connect(signal) };
      } catch (error) {
        void this.discard(vm);
        signal.throwIfAborted();
        this.count.failures++;
        if (tries > 0) throw error;
      }
    }
  }

  /** @type {import('./engines.js').Engine['run']} */
  async run(job, { signal }) {
    const began = performance.now();
    signal.throwIfAborted();
    this.count.running++;
    /** @type {Vm | undefined} */
    let vm;
    try {
      const { vm: ours, socket } = await this.connect(signal);
      vm = ours;
      const startMs = performance.now() - began;
      const answer = await exchange(socket, job, signal);
      return { answer, isolation: 'microvm', startMs };
    } catch (error) {
      if (vm && !signal.aborted) this.count.failures++;
      throw error;
    } finally {
      this.count.running--;
      if (vm) void this.discard(vm);
    }
  }

  stats() {
    const ready = this.closed ? 0 : 1;
    return { ready, warm: this.warm.filter((vm) => !vm.over).length, ...this.count };
  }

  async close() {
    this.closed = true;
    this.warm.length = 0;
    while (this.all.size > 0) await Promise.all([...this.all].map((vm) => this.discard(vm)));
    await this.facts.remove();
  }
}

/** @param {import('./engines.js').EngineSettings} settings @returns {Promise<import('./engines.js').Engine>} */
async function createEngine(settings) {
  const engine = new Firecracker(await readHost(settings), settings);
  try {
    await engine.open();
  } catch (error) {
    await engine.close();
    throw error;
  }
  return {
    isolation: 'microvm',
    run: (job, how) => engine.run(job, how),
    stats: () => engine.stats(),
    close: () => engine.close(),
  };
}

module.exports = { createEngine };
