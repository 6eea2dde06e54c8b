'use strict';
// What carries out the jobs of the jailer daemon: one module per engine, each
// exporting `createEngine(settings) -> Promise<Engine>`. It resolves once the
// engine can take a job; where it cannot be had on this host it rejects with
// ERR_JAIL_CONFIG, and the message names the remedy.

const { misconfigured } = require('../errors.js');

/**
 * @typedef {object} EngineSettings
 * @property {number} slots jobs at a time: the daemon never has more under way
 * @property {number} maxTimeoutMs no job's timeoutMs is above it
 * @property {number} maxMemoryMb nor its memoryMb above this
 * @property {string} folder absolute, empty, 0700: the engine's own for as long as it
 *   lives. The daemon removes it after close(). When the daemon was killed, gvisor's guard does;
 *   the other engines' stays where temporary files are
 * @property {NodeJS.ProcessEnv} env the engine's own settings: CODE_JAIL_<ENGINE>_*
 * @property {ReturnType<typeof import('../server/log.js').createLog>} log
 *   info(facts, message) and so on; never code, input, output, messages of a run
 */

/**
 * @typedef {object} Job checked: every field is within its cap
 * @property {Buffer} line the request as one JSON line, the line break included, for an agent
 *   elsewhere. Every field is there; `minIsolation` and `tenant` are not: they are judged here
 * @property {import('../options.js').Request} request the same, as lib/options.js reads it;
 *   asText is set, because the result's JSON only passes through. Its `output`, if there is one,
 *   hears what the run writes, as it comes
 * @property {import('../server/events.js').EventReader | null} events for such lines of an agent
 *   elsewhere (its line has `stream`); null: nobody listens
 * @property {number} maxAnswerBytes what an answer may have; more is ERR_JAIL_PROTOCOL
 */

/**
 * @typedef {object} Answer
 * @property {Buffer} answer one JSON object in the shape of IsolatedRunResult, or
 *   { "error": { "code", "message" } } from an agent that has refused. Not believed: the daemon
 *   checks it, and sets its jail.isolation
 * @property {'process' | 'gvisor' | 'microvm' | null} isolation what the engine has verified around this
 *   very job; null: whatever the answer itself says of its cell (never more than `process`)
 * @property {number} [startMs] from run() until the job was sent, where the answer cannot know
 */

/**
 * @typedef {object} Engine
 * @property {'process' | 'gvisor' | 'microvm'} isolation what it can prove: more minIsolation is refused before run()
 * @property {number} [startMs] what it may take beside a run, where that is more than is usual
 * @property {(job: Job, how: { signal: AbortSignal, deadlineMs: number }) => Promise<Answer>} run
 *   Rejects with a JailError, `retryable` only where the code provably never ran; once the signal
 *   fires, with its reason, and without waiting: the client has gone, the daemon ends, or deadlineMs
 *   (from the call on; start and timeoutMs are within it) have passed. Whichever way it settles,
 *   nothing of the job is left alive or on disk soon after
 * @property {() => Record<string, number>} stats numbers for the metrics, by name in snake case, at
 *   least: ready (0 or 1), running, warm (prepared, waiting for a job), starts, failures
 * @property {() => Promise<void>} close ends everything, runs under way too; resolves when the last
 *   process is gone. Also ends when the daemon is killed: its children must notice by themselves
 */

// Those that this build contains; qemu is for tests, and for trying a guest image out (docs/firecracker.md).
const ENGINES = {
  firecracker: () => require('./firecracker.js'),
  gvisor: () => require('./gvisor.js'),
  local: () => require('./local.js'),
  qemu: () => require('./qemu.js'),
};

const NAMES = ['firecracker', 'gvisor', 'local'];

/** @param {string} name @param {EngineSettings} settings @returns {Promise<Engine>} */
async function openEngine(name, settings) {
  if (!NAMES.includes(name) && !Object.hasOwn(ENGINES, name))
    throw misconfigured(`there is no engine ${JSON.stringify(name)}; it is one of ${NAMES.join(', ')}`);
  if (!Object.hasOwn(ENGINES, name)) throw misconfigured(`this build of code-jail does not contain the engine ${name}`);
  return ENGINES[name]().createEngine(settings);
}

module.exports = { openEngine, ENGINES, NAMES };
