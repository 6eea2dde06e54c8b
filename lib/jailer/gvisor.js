'use strict';
// The engine `gvisor`: one sandbox of runsc without any network, in it the
// sandbox image with an agent, and a cell for each job. See engines.js.
//
// One sandbox for all jobs and not one for each: starting one with an interpreter
// in it takes a third of a second of both cores under ptrace, a job in a running
// one some 10 to 40 ms; and jobs are as far apart in it as in the sandbox service.

const { execFileSync, spawn, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { JailError, misconfigured } = require('../errors.js');
const { ociConfig } = require('./bundle.js');
const { Frames, frame, TYPES } = require('./frames.js');

const ROOTFS = path.join(__dirname, '..', '..', 'apps', 'sandbox', 'rootfs.sh');
const PROGRAM = ['/app/build/Release/code-jail-launcher', '--input', '--user', '65532', '--'];
const AGENT = ['/usr/local/bin/node', '/app/lib/jailer/agent.js'];
// Outlives us: when the sandbox has ended by our end, and it has another parent by
// now, its files go. When it ended by itself, the next one needs them.
const GUARD = '"$@"; grep -q "^PPid:[[:space:]]*$PPID$" /proc/$$/status || rm -rf -- "$CODE_JAIL_FOLDER"';
const HELLO = Buffer.from(JSON.stringify({ isolation: 'gvisor' }));
const MAX_ANSWER_BYTES = 320 * 1024 * 1024;
const BOOT_MS = 60000;
const AGAIN_MS = 1000;
const END_MS = 5000;

/** @param {import('./engines.js').EngineSettings} settings @returns {string} the image's root */
function rootOf({ env, folder }) {
  const given = env.CODE_JAIL_GVISOR_ROOTFS;
  if (given) {
    if (fs.existsSync(path.join(given, 'app', 'lib', 'jailer', 'agent.js'))) return path.resolve(given);
    throw misconfigured(`CODE_JAIL_GVISOR_ROOTFS is ${given}, which apps/sandbox/rootfs.sh has not made`);
  }
  if (!fs.existsSync(ROOTFS))
    throw misconfigured(
      'CODE_JAIL_GVISOR_ROOTFS is not set; make one by apps/sandbox/rootfs.sh, in a clone of code-jail',
    );
  const root = path.join(folder, 'root');
  execFileSync(ROOTFS, [root, process.execPath], { stdio: ['ignore', 'ignore', 'inherit'] });
  return root;
}

function unavailable(what, retryable = false) {
  return new JailError('ERR_JAIL_UNAVAILABLE', `the gVisor sandbox ${what}`, { retryable });
}

/** One sandbox, from its start to its end. */
class Sandbox {
  /** @param {string} root @param {number} count @param {import('./engines.js').EngineSettings} settings */
  constructor(root, count, { slots, maxTimeoutMs, maxMemoryMb, folder, env }) {
    this.id = `jailer-${process.pid}-${count}`;
    const bundle = path.join(folder, this.id);
    this.state = path.join(folder, 'state');
    for (const one of [bundle, this.state]) fs.mkdirSync(one, { recursive: true, mode: 0o700 });
    const settings = JSON.stringify({ slots, maxTimeoutMs, maxMemoryMb });
    const config = ociConfig(root, [...PROGRAM, ...AGENT], { CODE_JAIL_AGENT: settings });
    fs.writeFileSync(path.join(bundle, 'config.json'), JSON.stringify(config));
    const platform = env.CODE_JAIL_GVISOR_PLATFORM ? [`--platform=${env.CODE_JAIL_GVISOR_PLATFORM}`] : [];
    const flags = [`--root=${this.state}`, ...platform, '--network=none', '--ignore-cgroups'];
    this.child = spawn('/bin/sh', ['-c', GUARD, 'sh', 'runsc', ...flags, 'run', '--bundle', bundle, this.id], {
      stdio: ['pipe', 'pipe', 'pipe'],
      detached: true, // a terminal's Ctrl-C is for us to act on
      env: { PATH: process.env.PATH, CODE_JAIL_FOLDER: folder },
    });
    this.said = '';
    this.child.on('error', (error) => {
      this.said += error.message;
    });
    if (!this.child.stdout) throw unavailable('cannot be started: no descriptors for its pipes', true);
    /** @type {Map<number, { resolve: (answer: Buffer) => void, reject: (error: unknown) => void, most: number, events: import('../server/events.js').EventReader | null }>} */
    this.jobs = new Map();
    this.numbers = 0;
    this.over = false;
    /** @type {Promise<void>} */
    this.ended = new Promise((resolve) => {
      this.child.on('close', () => {
        this.over = true;
        resolve();
      });
    });
    this.up = this.listen();
    this.up.catch(() => {}); // told to whoever waits for it
  }

  /** What comes may be a guest's that has taken the agent over. @returns {Promise<boolean>} whether it is gVisor, by what the agent found first */
  listen() {
    const { stdin, stdout, stderr } = this.child;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => this.kill(), BOOT_MS);
      const frames = new Frames(MAX_ANSWER_BYTES, (type, number, body) => {
        if (type === TYPES.hello) {
          clearTimeout(timer);
          resolve(body.equals(HELLO));
        } else if (type === TYPES.answer) this.onAnswer(number, body);
        else if (type === TYPES.event) this.onEvent(number, body);
      });
      stdin.on('error', () => {}); // its end tells
      stdout.on('data', (part) => {
        if (frames.add(part)) return;
        stdout.destroy();
        this.kill();
      });
      stderr.on('data', (part) => {
        if (this.said.length < 2000) this.said += part;
      });
      this.ended.then(() => {
        clearTimeout(timer);
        reject(unavailable(`did not start: ${this.said.trim().slice(0, 300) || 'it says nothing'}`, true));
        for (const job of this.jobs.values()) job.reject(unavailable('has ended; the run may have been carried out'));
      });
    });
  }

  /** @param {number} number @param {Buffer} body */
  onAnswer(number, body) {
    const job = this.jobs.get(number);
    if (!job) return; // cancelled
    if (body.length > job.most) job.reject(new JailError('ERR_JAIL_PROTOCOL', 'the answer is longer than it may be'));
    else job.resolve(Buffer.from(body));
  }

  /** @param {number} number @param {Buffer} line */
  onEvent(number, line) {
    const job = this.jobs.get(number);
    if (!job) return; // cancelled
    let why = 'it told of output that nobody asked for, or not as an event';
    try {
      if (job.events?.take(line)) return;
    } catch (error) {
      why = error.message;
    }
    this.send(TYPES.cancel, number, []);
    job.reject(new JailError('ERR_JAIL_PROTOCOL', why));
  }

  /** @param {import('./engines.js').Job} job @param {AbortSignal} signal @returns {Promise<Buffer>} */
  async run(job, signal) {
    if (this.over) throw unavailable('has ended; another one is being started', true);
    const number = ++this.numbers;
    return new Promise((resolve, reject) => {
      const onAbort = () => {
        this.send(TYPES.cancel, number, []);
        end(reject)(signal.reason);
      };
      const end = (settle) => (value) => {
        this.jobs.delete(number);
        signal.removeEventListener('abort', onAbort);
        settle(value);
      };
      this.jobs.set(number, {
        resolve: end(resolve),
        reject: end(reject),
        most: job.maxAnswerBytes,
        events: job.events,
      });
      signal.addEventListener('abort', onAbort, { once: true });
      this.send(TYPES.job, number, [job.line]);
    });
  }

  send(type, number, parts) {
    for (const part of frame(type, number, parts)) this.child.stdin.write(part);
  }

  kill() {
    const args = [`--root=${this.state}`, 'kill', this.id, 'KILL'];
    spawn('runsc', args, { stdio: 'ignore', timeout: END_MS }).on('error', () => {}); // then its input's end is left
    this.child.stdin.end();
  }

  /** Its input ends, so it does. */
  async close() {
    this.child.stdin.end();
    const timer = setTimeout(() => this.kill(), END_MS);
    await this.ended;
    clearTimeout(timer);
  }
}

class Gvisor {
  /** @param {string} root @param {import('./engines.js').EngineSettings} settings */
  constructor(root, settings) {
    this.root = root;
    this.settings = settings;
    /** @type {'gvisor'} */
    this.isolation = 'gvisor';
    this.starts = 0;
    this.failures = 0;
    this.isUp = false;
    this.closing = false;
    this.sandbox = this.start();
  }

  start() {
    const sandbox = new Sandbox(this.root, ++this.starts, this.settings);
    sandbox.up.then(
      (isGvisor) => {
        this.isUp = isGvisor && !sandbox.over;
      },
      () => {},
    );
    sandbox.ended.then(() => {
      this.isUp = false;
      this.startAgain('the sandbox has ended');
    });
    return sandbox;
  }

  /** @param {string} why */
  startAgain(why) {
    if (this.closing) return;
    this.failures++;
    this.settings.log.error({ event: 'sandbox', starts: this.starts }, why);
    setTimeout(() => {
      if (this.closing) return;
      try {
        this.sandbox = this.start();
      } catch {
        this.startAgain('the sandbox cannot be started'); // for want of descriptors or room, say
      }
    }, AGAIN_MS);
  }

  /** Resolves once it is there and is what it should be. */
  async ready(signal) {
    const aborted = new Promise((_, reject) => {
      signal?.addEventListener('abort', () => reject(signal.reason), { once: true });
    });
    if (!(await Promise.race([this.sandbox.up, aborted])))
      throw new JailError('ERR_JAIL_ISOLATION', 'what runsc has started is not gVisor, by what its kernel does');
  }

  /** @param {import('./engines.js').Job} job @returns {Promise<import('./engines.js').Answer>} */
  async run(job, { signal }) {
    const began = performance.now();
    signal.throwIfAborted();
    await this.ready(signal);
    const startMs = performance.now() - began;
    return { answer: await this.sandbox.run(job, signal), isolation: 'gvisor', startMs };
  }

  stats() {
    const ready = this.isUp ? 1 : 0;
    return { ready, running: this.sandbox.jobs.size, warm: ready, starts: this.starts, failures: this.failures };
  }

  async close() {
    this.closing = true;
    await this.sandbox.close();
  }
}

/** @param {import('./engines.js').EngineSettings} settings @returns {Promise<import('./engines.js').Engine>} */
async function createEngine(settings) {
  if (process.getuid?.() !== 0) throw misconfigured('the engine gvisor needs root: runsc builds the sandbox');
  if (spawnSync('runsc', ['--version'], { stdio: 'ignore' }).error)
    throw misconfigured('runsc is not in PATH; install gVisor (Debian: apt-get install runsc)');
  const engine = new Gvisor(rootOf(settings), settings);
  try {
    await engine.ready();
  } catch (error) {
    await engine.close();
    throw error;
  }
  return engine;
}

module.exports = { createEngine };
