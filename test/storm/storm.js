'use strict';
// Kills and stops the processes of a busy host at random moments, alone and
// together: the host itself, keepers, init, zygotes, cells. What is not hit goes
// on, what is lost comes back, and in the end nothing is left.

const fs = require('node:fs');
const path = require('node:path');
const { setTimeout: sleep } = require('node:timers/promises');
const { descendants, slack, survivors, until } = require('../helpers/baseline.js');
const { PYTHON, TIERS, startIn } = require('../helpers/tiers.js');

const HOST = path.join(__dirname, '..', 'hosts', 'storm.js');
const ROLES = ['host', 'keeper', 'init', 'zygote', 'cell'];
// What a run may come to when something below it is shot.
const FAIR = /^(ok|timeout|killed|ERR_JAIL_UNAVAILABLE)$/;

/** @type {Record<string, { command: string[], noNamespaces?: boolean }>} */
const PLACES = { root: { command: [] }, ...TIERS };

/** A repeatable series of numbers from 0 to 1 (mulberry32). @param {number} seed */
function randomOf(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

/** The host and all below it, by what they are: their depth says it. */
function peopleOf(host) {
  const below = descendants(host);
  const parents = new Map(below.map((one) => [one.pid, one.ppid]));
  const depth = (pid) => {
    let levels = 0;
    for (let at = pid; at !== host && at !== undefined; at = parents.get(at)) levels++;
    return levels;
  };
  return below.map((one) => ({ ...one, role: ROLES[Math.min(depth(one.pid), 4)] }));
}

function signal(pid, name) {
  try {
    process.kill(pid, name);
  } catch {} // it has ended by itself
}

class Storm {
  /** @param {string} place @param {number} seed */
  constructor(place, seed) {
    this.place = PLACES[place];
    this.random = randomOf(seed);
    this.before = { mounts: mounts(), shm: fs.readdirSync('/dev/shm').length };
    this.longestMs = 0;
    this.counts = {};
    this.outcomes = {};
  }

  async begin() {
    const options = JSON.stringify({ python: PYTHON });
    this.host = startIn([...this.place.command, process.execPath, HOST, options], this.place);
    this.checks = 0;
    await this.told('busy');
  }

  async told(prefix) {
    const line = await this.host.line(prefix, 40000 * slack());
    if (!line) throw new Error(`no "${prefix}" from the host: ${this.host.seen.out}${this.host.seen.err}`);
    return JSON.parse(line.slice(line.indexOf('{')));
  }

  /** Every role with even odds; sometimes two, or all but the host. */
  choose(people) {
    const pick = () => {
      const role = ROLES[Math.floor(this.random() * ROLES.length)];
      const such = people.filter((one) => one.role === role);
      return role === 'host'
        ? [{ pid: this.host.child.pid, role }]
        : such.slice(Math.floor(this.random() * such.length)).slice(0, 1);
    };
    const how = this.random();
    if (how < 0.1) return people;
    return how < 0.4 ? [...pick(), ...pick()] : pick();
  }

  async round() {
    await sleep(this.random() * 120);
    const people = peopleOf(this.host.child.pid);
    const victims = this.choose(people);
    const stops = this.random() < 0.25;
    const name = `${stops ? 'STOP' : 'KILL'} ${
      victims.length > 2
        ? 'all below'
        : victims
            .map((one) => one.role)
            .sort()
            .join('+')
    }`;
    this.counts[name] = (this.counts[name] ?? 0) + 1;
    for (const one of victims) signal(one.pid, stops ? 'SIGSTOP' : 'SIGKILL');
    if (stops) {
      await sleep(this.random() * 400);
      for (const one of victims) signal(one.pid, 'SIGCONT');
    }
    if (!stops && victims.some((one) => one.role === 'host')) {
      await this.gone(people, name);
      await this.begin();
      return;
    }
    this.host.child.stdin.write('check\n');
    const took = await this.told(`checked ${++this.checks} `);
    this.longestMs = Math.max(this.longestMs, took.javascript, took.python);
  }

  async gone(people, why) {
    const isGone = await until(() => survivors(people).length === 0, 5000 * slack());
    if (!isGone) throw new Error(`${why}: left behind ${JSON.stringify(survivors(people))}`);
  }

  /** The host closes: all runs have settled, and nothing is held or left. */
  async end() {
    const busy = await this.told('busy');
    const people = peopleOf(this.host.child.pid);
    this.host.child.stdin.write('end\n');
    const { outcomes, inFlight, ...held } = await this.told('ended');
    const wrong = Object.keys(outcomes).filter((name) => !FAIR.test(name));
    if (wrong.length > 0) wrong.unshift('runs came to');
    if (inFlight) wrong.push(`${inFlight} runs never settled`);
    if (held.descriptors > busy.descriptors) wrong.push(`descriptors ${busy.descriptors} → ${held.descriptors}`);
    if (held.threads > busy.threads) wrong.push(`threads ${busy.threads} → ${held.threads}`);
    if (held.rss > busy.rss + (64 << 20)) wrong.push(`RSS ${busy.rss >> 20} → ${held.rss >> 20} MiB`);
    await this.gone(people, 'the end');
    if (mounts() > this.before.mounts) wrong.push('a mount is left');
    if (fs.readdirSync('/dev/shm').length > this.before.shm) wrong.push('something is left in /dev/shm');
    this.outcomes = outcomes;
    if (wrong.length > 0) throw new Error(wrong.join('; '));
  }
}

/** Those that look like ours: others come and go on a machine. */
const mounts = () => fs.readFileSync('/proc/self/mountinfo', 'utf8').match(/ - tmpfs cell /g)?.length ?? 0;

/** @param {string} place @param {number} times @param {number} seed */
async function storm(place, times, seed) {
  const one = new Storm(place, seed);
  await one.begin();
  try {
    for (let i = 0; i < times; i++) await one.round();
    await one.end();
  } catch (error) {
    error.message = `${place}, seed ${seed}: ${error.message}`;
    throw error;
  } finally {
    signal(one.host.child.pid, 'SIGKILL');
  }
  return { longestMs: one.longestMs, counts: one.counts, outcomes: one.outcomes };
}

module.exports = { PLACES, storm };
