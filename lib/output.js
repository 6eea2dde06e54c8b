'use strict';
// What a run writes, as it comes, to whoever asked for it: onStdout and onStderr.

const { AsyncResource } = require('node:async_hooks');
const { FLAGS } = require('./calls.js');

const OF_STREAM = [0, FLAGS.stdout, FLAGS.stderr];
const NAMES = ['', 'onStdout', 'onStderr'];

/**
 * @typedef {(text: string) => unknown} Listener
 * @typedef {{ flags: number, give(stream: number, text: string): void, end(run: any): void }} Hearer what a call tells: this, or the service's
 */

class Output {
  /** @param {Listener | null | undefined} onStdout @param {Listener | null | undefined} onStderr */
  constructor(onStdout, onStderr) {
    /** By stream: 1 stdout, 2 stderr. @type {(Listener | null)[]} */
    this.listeners = [null, onStdout ?? null, onStderr ?? null];
    this.given = [false, false, false];
    this.flags = this.listeners.reduce((flags, one, stream) => flags | (one === null ? 0 : OF_STREAM[stream]), 0);
    this.resource = new AsyncResource('code-jail'); // they see the store of whoever called runCode
  }

  /** @param {number} stream @param {string} text */
  give(stream, text) {
    const listener = this.listeners[stream];
    this.given[stream] = true;
    if (listener === null || text === '') return;
    try {
      const promise = /** @type {any} */ (this.resource.runInAsyncScope(listener, undefined, text));
      if (typeof promise?.then === 'function') promise.then(undefined, (error) => this.stop(stream, error));
    } catch (error) {
      this.stop(stream, error);
    }
  }

  // The run is innocent of it, and its result is still to come.
  stop(stream, error) {
    if (this.listeners[stream] === null) return;
    this.listeners[stream] = null;
    let why = 'something that cannot be shown';
    try {
      why = `${error?.stack ?? error}`;
    } catch {}
    process.emitWarning(`${NAMES[stream]} has failed, and hears no more of this run: ${why}`, {
      type: 'CodeJailWarning',
      code: 'CODE_JAIL_LISTENER',
    });
  }

  /** Of a peer that sent nothing before its answer: then all at once. @param {{ stdout: string, stderr: string }} run */
  end(run) {
    if (!this.given[1]) this.give(1, run.stdout);
    if (!this.given[2]) this.give(2, run.stderr);
  }
}

module.exports = { Output };
