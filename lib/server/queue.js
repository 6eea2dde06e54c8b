'use strict';
// Who runs next. A fixed number of slots and so much memory; behind them a
// bounded queue in which tenants take turns. The jail has a queue as well, which
// stays empty: only here can a waiting run be taken out when its client goes
// away, or when it could no longer finish while its client waits.

const { JailError } = require('../errors.js');

/** @typedef {{ tenant: string | null, memoryMb: number, since: number, start: (release: () => void) => void, fail: (error: unknown) => void, over: boolean }} Waiting */

class Queue {
  /** @param {{ slots: number, totalMemoryMb: number, maxQueue: number }} limits */
  constructor({ slots, totalMemoryMb, maxQueue }) {
    this.slots = slots;
    this.memoryMb = totalMemoryMb;
    this.maxQueue = maxQueue;
    this.used = 0;
    this.usedMemoryMb = 0;
    this.waiting = 0;
    /** Runs of each named tenant. @type {Map<string, number>} */
    this.held = new Map();
    /** Those that wait, by tenant; the tenants in the order of their turns. @type {Map<string | null, Waiting[]>} */
    this.lines = new Map();
  }

  /** Nothing more may wait. */
  get full() {
    return this.waiting >= this.maxQueue && (this.waiting > 0 || this.used >= this.slots);
  }

  /**
   * Waits for a slot. The caller must call `release` once.
   *
   * @param {{ tenant: string | null, memoryMb: number, waitMs: number, signal: AbortSignal }} what
   * @returns {Promise<() => void>} release
   */
  enter({ tenant, memoryMb, waitMs, signal }) {
    return new Promise((resolve, reject) => {
      if (signal.aborted) {
        reject(signal.reason);
        return;
      }
      if (this.waiting >= this.maxQueue && !(this.waiting === 0 && this.fits(tenant, memoryMb))) {
        reject(overloaded());
        return;
      }
      const settle = (action, value) => {
        one.over = true;
        clearTimeout(timer);
        signal.removeEventListener('abort', onAbort);
        action(value);
      };
      const leave = (error) => {
        if (one.over) return;
        this.remove(one);
        settle(reject, error);
        this.pump(); // it may have been what the others waited behind
      };
      const onAbort = () => leave(signal.reason);
      /** @type {Waiting} */
      const one = {
        tenant,
        memoryMb,
        since: performance.now(),
        start: (release) => settle(resolve, release),
        fail: leave,
        over: false,
      };
      const timer = setTimeout(() => leave(tooLate()), waitMs);
      signal.addEventListener('abort', onAbort, { once: true });
      const line = this.lines.get(tenant);
      if (line) line.push(one);
      else this.lines.set(tenant, [one]);
      this.waiting++;
      this.pump();
    });
  }

  /** @param {string | null} tenant @param {number} memoryMb */
  fits(tenant, memoryMb) {
    return this.used < this.slots && this.usedMemoryMb + memoryMb <= this.memoryMb && this.mayHoldMore(tenant);
  }

  // A named tenant never has the last slot.
  mayHoldMore(tenant) {
    return tenant === null || this.slots === 1 || (this.held.get(tenant) ?? 0) < this.slots - 1;
  }

  pump() {
    for (let tries = this.lines.size; tries > 0 && this.used < this.slots; tries--) {
      const [tenant, line] = /** @type {[string | null, Waiting[]]} */ (this.lines.entries().next().value);
      if (!this.mayHoldMore(tenant)) {
        this.turn(tenant, line);
        continue;
      }
      // Whoever needs much memory is waited for, or small runs would starve it.
      if (this.usedMemoryMb + line[0].memoryMb > this.memoryMb) return;
      const one = /** @type {Waiting} */ (line.shift());
      this.waiting--;
      this.turn(tenant, line);
      this.take(one);
      tries = this.lines.size + 1;
    }
  }

  // Its line goes to the end.
  turn(tenant, line) {
    this.lines.delete(tenant);
    if (line.length > 0) this.lines.set(tenant, line);
  }

  /** @param {Waiting} one */
  take(one) {
    const { tenant, memoryMb } = one;
    this.used++;
    this.usedMemoryMb += memoryMb;
    if (tenant !== null) this.held.set(tenant, (this.held.get(tenant) ?? 0) + 1);
    let released = false;
    one.start(() => {
      if (released) return;
      released = true;
      this.used--;
      this.usedMemoryMb -= memoryMb;
      if (tenant !== null) {
        const left = /** @type {number} */ (this.held.get(tenant)) - 1;
        if (left > 0) this.held.set(tenant, left);
        else this.held.delete(tenant);
      }
      this.pump();
    });
  }

  /** @param {Waiting} one */
  remove(one) {
    const line = this.lines.get(one.tenant);
    const at = line ? line.indexOf(one) : -1;
    if (!line || at < 0) return;
    line.splice(at, 1);
    this.waiting--;
    if (line.length === 0) this.lines.delete(one.tenant);
  }

  /** Nobody waits any longer. @param {() => unknown} error */
  clear(error) {
    for (const line of [...this.lines.values()]) for (const one of [...line]) one.fail(error());
  }
}

function overloaded() {
  return new JailError('ERR_JAIL_OVERLOADED', 'the queue is full', { retryable: true, retryAfterMs: 1000 });
}

function tooLate() {
  return new JailError('ERR_JAIL_QUEUE_TIMEOUT', 'no slot came free in time', { retryable: true, retryAfterMs: 1000 });
}

module.exports = { Queue, overloaded };
