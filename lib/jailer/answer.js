'use strict';
// What an engine brought back, checked and stamped. An answer may come from a
// guest that has been taken over: it is JSON with each member once, it is for
// this job, and what it says of its isolation is replaced by what was verified.
// Only its small members are parsed here; the client checks the rest as strictly.

const { STARTS, STATUSES } = require('../calls.js');
const { JailError } = require('../errors.js');
const { splitMembers } = require('../server/body.js');

const NUL = Buffer.alloc(1);
const SMALL_BYTES = 64 * 1024;
const USAGE = ['queueMs', 'startMs', 'runMs', 'cpuMs', 'peakMemoryBytes'];
const RUNTIME = /^[\w.+ -]{1,64}$/;
const CODES = ['ERR_JAIL_INVALID_REQUEST', 'ERR_JAIL_OVERLOADED', 'ERR_JAIL_UNAVAILABLE', 'ERR_JAIL_ISOLATION'];

/** @param {string} why */
const wrong = (why) => new JailError('ERR_JAIL_PROTOCOL', `the engine's answer is no result: ${why}`);

/** @param {Buffer} answer @returns {Promise<Map<string, Buffer>>} the members' text, by name */
async function membersOf(answer) {
  const text = Buffer.concat([answer, NUL]);
  const marks = await splitMembers(text, 'it').catch((error) => {
    throw wrong(error.message);
  });
  if (!marks) throw wrong('it is not an object, or has too many members');
  const members = new Map();
  for (let i = 0; i < marks.length; i += 4) {
    const [from, behind, at, end] = marks.slice(i, i + 4);
    const name = behind - from <= 256 ? JSON.parse(text.toString('utf8', from, behind)) : '';
    if (members.has(name)) throw wrong('it has a member twice');
    members.set(name, text.subarray(at, end));
  }
  return members;
}

/** A member that is small, parsed. @param {Map<string, Buffer>} members @param {string} name */
function small(members, name) {
  const text = members.get(name);
  if (text === undefined) return null;
  if (text.length > SMALL_BYTES) throw wrong(`its \`${name}\` is too long`);
  return JSON.parse(text.toString());
}

/** @param {Map<string, Buffer>} members */
function throwRefusal(members) {
  const error = members.has('status') ? null : small(members, 'error');
  if (error === null || typeof error !== 'object') throw wrong('it has no status');
  const code = CODES.includes(error.code) ? error.code : 'ERR_JAIL_UNAVAILABLE';
  const message = typeof error.message === 'string' ? error.message.slice(0, 300) : '';
  throw new JailError(code, message || 'the engine refused, and does not say why');
}

/**
 * What also goes into our log and metrics: from a guest that has been taken over no text of its own.
 * @param {Map<string, Buffer>} members
 */
function factsOf(members) {
  const pick = (name, value, isFine) => {
    if (value === null || value === undefined) return null;
    if (!isFine(value)) throw wrong(`its \`${name}\` cannot be`);
    return value;
  };
  const isAmount = (value) => Number.isFinite(value) && value >= 0;
  const { start, runtime } = small(members, 'jail') ?? {};
  const usage = small(members, 'usage') ?? {};
  const status = small(members, 'status');
  if (!STATUSES.includes(status)) throw wrong('its `status` is none');
  pick('jail.start', start, (value) => STARTS.includes(value));
  pick('jail.runtime', runtime, (value) => typeof value === 'string' && RUNTIME.test(value));
  return {
    status,
    exitCode: pick('exitCode', small(members, 'exitCode'), Number.isInteger),
    usage: Object.fromEntries(USAGE.map((name) => [name, pick(`usage.${name}`, usage[name], isAmount)])),
  };
}

/** @param {any} said @param {string | null} verified */
function placeOf(said, verified) {
  const base = { layers: [], missing: [], runtime: null, start: null, ...said };
  // Nothing but its own cell speaks for a run that no engine vouches for.
  return {
    ...base,
    backend: 'socket',
    isolation: verified ?? (base.isolation === 'process' ? 'process' : 'unverified'),
  };
}

// JSON text on one line: within a string there is no line end.
function onOneLine(text) {
  if (!text.includes(10) && !text.includes(13)) return text;
  const line = Buffer.from(text);
  // A loop: a call for each byte of a large one would stop this thread for seconds.
  for (let at = 0; at < line.length; at++) if (line[at] === 10 || line[at] === 13) line[at] = 32;
  return line;
}

/**
 * @param {import('./engines.js').Answer} came
 * @param {{ id: string, asText: boolean, queuedMs: number }} job
 * @returns {Promise<{ run: any, parts: Buffer[] }>} run: the small members, for logs and metrics
 */
async function stamp({ answer, isolation, startMs = 0 }, { id, asText, queuedMs }) {
  const members = await membersOf(answer);
  if (!members.has('status')) throwRefusal(members);
  if (small(members, 'id') !== id) throw wrong('it is for another job');
  const { status, exitCode, usage } = factsOf(members);
  const run = {
    status,
    exitCode,
    usage: { ...usage, queueMs: usage.queueMs + queuedMs, startMs: usage.startMs + startMs },
    jail: placeOf(small(members, 'jail'), isolation),
  };
  const replaced = { usage: run.usage, jail: run.jail };
  const parts = [];
  for (const [name, text] of members) {
    if (name in replaced || name === 'resultText') continue;
    if (name === 'result' && asText) {
      const asString = status === 'ok' ? JSON.stringify(text.toString()) : 'null';
      parts.push(Buffer.from(`,"result":null,"resultText":${asString}`));
    } else parts.push(Buffer.from(`,${JSON.stringify(name)}:`), onOneLine(text));
  }
  const tail = JSON.stringify(replaced).slice(1);
  parts.push(Buffer.from(`,${tail}\n`));
  parts[0] = Buffer.concat([Buffer.from('{'), parts[0].subarray(1)]);
  return { run, parts };
}

module.exports = { stamp };
