'use strict';
// A jail elsewhere: what its calls have in common, whatever way they take.

const { Call, Counts, connect, submit, ask } = require('./calls.js');
const { JailError } = require('./errors.js');
const native = require('./native.js');
const { LANGUAGES } = require('./options.js');

// Cells are the peer's.
const nothing = () => Object.fromEntries(LANGUAGES.map((language) => [language, 0]));

class Remote {
  /**
   * @param {'http' | 'socket'} backend
   * @param {(addon: any, client: any) => any} open
   */
  constructor(backend, open) {
    this.backend = backend;
    /** @type {Promise<void> | null} */
    this.closed = null;
    this.counts = new Counts();
    this.addon = native.load();
    this.handle = open(this.addon, connect());
  }

  assertOpen() {
    if (this.closed) throw new JailError('ERR_JAIL_CLOSED', 'the jail has been closed', { backend: this.backend });
  }

  /**
   * @param {import('./options.js').Request} request
   * @param {AbortSignal | null} signal not aborted
   */
  run(request, signal, resolve, reject) {
    this.submit(request, signal, resolve, reject, null);
  }

  /** @param {string | null} headers as C takes them */
  submit(request, signal, resolve, reject, headers) {
    this.assertOpen();
    const call = new Call(
      this.backend,
      this.handle,
      resolve,
      reject,
      request.id,
      request.asText,
      request.output,
      this.counts,
    );
    submit(call, request, signal, 0, request.minIsolation + 1, request.id, headers);
  }

  /** Opens a connection. @returns {Promise<void>} */
  warm() {
    return ask(this.backend, this.handle, (ticket) => {
      this.assertOpen();
      this.addon.warm(this.handle, ticket, 0);
    });
  }

  stats() {
    this.assertOpen();
    const [queued, running, settled, refused, queuedBytes, runningMemoryMb] = this.addon.stats(this.handle);
    return {
      backend: this.backend,
      queued,
      running,
      settled,
      refused,
      queuedBytes,
      runningMemoryMb,
      parked: nothing(),
      cells: nothing(),
      zygotes: 0,
      zygoteStarts: 0,
      ...this.counts.read(),
    };
  }

  /** @returns {Promise<void>} */
  close() {
    this.closed ??= ask(this.backend, this.handle, (ticket) => this.addon.close(this.handle, ticket));
    return this.closed;
  }
}

module.exports = { Remote };
