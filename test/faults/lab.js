'use strict';
// Makes one system call of one process of a keeper fail, and looks at what comes
// of it: the run's outcome, where user's code ran, the next run, what is left.
// inject.c does the failing; the keeper and all below it are as they are shipped.

const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { errno: ERRNO } = os.constants;
const { setTimeout: sleep } = require('node:timers/promises');
const native = require('../../lib/native.js');
const { makeJail } = require('../../lib/run-code.js');
const { descendants, slack, until } = require('../helpers/baseline.js');
const { canFail, nameOf } = require('./calls.js');

const ROOT = path.join(__dirname, '..', '..');
const SOURCE = path.join(__dirname, 'inject.c');

// An interpreter that needs no shim: its boot has fewer calls.
const PYTHON = fs.existsSync('/usr/bin/python3') ? { path: '/usr/bin/python3' } : {};

// What user's code finds where it runs, after the marker that inject.c waits for.
const PROBES = {
  javascript: `const fs = require('node:fs');
const attempt = (f) => { try { f(); return 'allowed'; } catch (e) { return 'denied'; } };
attempt(() => fs.accessSync('/marker'));
return { canary: attempt(() => fs.readFileSync('/canary')), signal: attempt(() => process.kill(input, 0)),
  own: attempt(() => fs.writeFileSync('own', 'x')) };`,
  python: `import os
def attempt(f, *a):
    try: f(*a); return 'allowed'
    except OSError: return 'denied'
os.access('/marker', 0)
result = {'canary': attempt(open, '/canary'), 'signal': attempt(os.kill, input, 0), 'own': attempt(open, 'own', 'w')}`,
};

/** Compiled once. */
function buildInjector() {
  const binary = path.join(ROOT, '.cache', 'fixtures', `inject-${Math.round(fs.statSync(SOURCE).mtimeMs)}`);
  if (!fs.existsSync(binary)) {
    fs.mkdirSync(path.dirname(binary), { recursive: true });
    const flags = ['-std=gnu11', '-D_GNU_SOURCE', '-O1', '-Wall', '-Wextra'];
    execFileSync(process.env.CC || 'cc', [...flags, SOURCE, '-o', `${binary}.${process.pid}`]);
    fs.renameSync(`${binary}.${process.pid}`, binary);
  }
  return binary;
}

/** A place where keepers of one language are started under the injector. */
class Lab {
  /** @param {'javascript' | 'python'} language @param {{ start?: 'cold' }} [config] */
  constructor(language, config = {}) {
    this.language = language;
    this.config = { parked: 0, python: PYTHON, ...config };
    this.folder = fs.mkdtempSync(path.join(os.tmpdir(), 'faults-'));
    this.parts = { ...native.parts(), keeper: path.join(this.folder, 'keeper') };
    const command = `exec '${buildInjector()}' '${this.folder}' '${native.parts().keeper}'`;
    fs.writeFileSync(this.parts.keeper, `#!/bin/sh\n${command}\n`, { mode: 0o755 });
  }

  close() {
    fs.rmSync(this.folder, { recursive: true, force: true });
  }

  at(name) {
    return path.join(this.folder, name);
  }

  read(name) {
    return fs.existsSync(this.at(name)) ? fs.readFileSync(this.at(name), 'utf8') : '';
  }

  /** Lines of the injector's log that begin with `word`, without it. */
  seen(word) {
    const lines = this.read('log').split('\n');
    return lines.filter((line) => line.split(' ')[0] === word).map((line) => line.slice(word.length + 1));
  }

  async run(jail) {
    const request = { language: this.language, code: PROBES[this.language], input: process.pid, timeoutMs: 20000 };
    return jail.runCode(request).then(
      (result) => ({ result }),
      (error) => ({ error }),
    );
  }

  begin(fault) {
    for (const name of ['log', 'facts']) fs.rmSync(this.at(name), { force: true });
    fs.writeFileSync(this.at('fault'), fault);
    return makeJail(this.config, { parts: this.parts });
  }

  /** A run without a fault: every call that may be made to fail, and what a cell is like. */
  async record() {
    const jail = this.begin('record');
    const { result, error } = await this.run(jail);
    await jail.close();
    if (error) throw error;
    const facts = readFacts(this.read('facts'));
    this.clean = { layers: result.jail.layers, found: result.result, facts };
    const [cell] = this.seen('inside');
    this.depth = cell.split('.').length - 1;
    const calls = this.seen('call').map((line) => {
      const [process, number, occurrence] = line.split(' ');
      return { process, number: Number(number), occurrence: Number(occurrence) };
    });
    return { calls: setUpOnly(calls, cell), roles: rolesOf(cell, this.seen('exec')) };
  }

  /** @param {{ process: string, number: number, occurrence: number, error: string }} fault @returns what is wrong */
  async inject({ process: name, number, occurrence, error }) {
    const before = standing();
    const wrong = [];
    const jail = this.begin([name, number, occurrence, ERRNO[error], this.depth].join(' '));
    const start = performance.now();
    const first = await this.run(jail);
    const took = performance.now() - start;
    const hit = this.seen('hit').length > 0;
    wrong.push(...this.judge(first));
    if (took > 15000 * Math.min(slack(), 2)) wrong.push(`the run took ${Math.round(took)} ms`);
    fs.rmSync(this.at('fault'));
    const next = await this.settled(jail);
    if (!next.result?.ok) wrong.push(`the next run: ${next.error?.message ?? next.result?.status}`);
    await jail.close();
    const left = await leftovers(before);
    const outlived = this.seen('left');
    if (left) wrong.push(left);
    if (outlived.length > 0) wrong.push(`outlived the keeper: ${outlived}`);
    const outcome = first.error ? `${first.error.code} ${first.error.message}` : first.result.status;
    return { hit, wrong, outcome, took, lacks: first.result && this.lacks(first.result) };
  }

  /** The first run that is not refused for the last one's sake. */
  async settled(jail) {
    for (let tries = 0; ; tries++) {
      const next = await this.run(jail);
      if (next.result || tries === 10) return next;
      await sleep(Math.max(next.error.retryAfterMs ?? 0, 200));
    }
  }

  lacks(result) {
    return this.clean.layers.filter((layer) => !result.jail.layers.includes(layer));
  }

  judge({ result, error }) {
    const inside = this.seen('inside');
    const wrong = inside.length > 1 ? [`user's code ran ${inside.length} times`] : [];
    if (error) {
      if (!/^ERR_JAIL_(UNAVAILABLE|CONFIG|ISOLATION)$/.test(error.code)) wrong.push(`${error.code} ${error.message}`);
      if (!/: [a-z][\w/ -]*: \S/.test(error.message)) wrong.push(`no stage and cause: ${error.message}`);
    } else if (!result.ok) {
      wrong.push(`the user is told ${result.status}: ${result.error?.message}`);
    }
    // Wherever it ran, all that is claimed stood.
    if (inside.length > 0) {
      const claimed = result ? result.jail.layers : this.clean.layers;
      wrong.push(...differences(this.clean.facts, readFacts(this.read('facts')), claimed));
    }
    if (result?.ok) wrong.push(...openDoors(result, this.clean));
    return wrong;
  }
}

/** What user's code could do although the layer against it is reported. */
function openDoors(result, clean) {
  const against = { canary: 'landlock', signal: 'seccomp', own: null };
  return Object.entries(result.result)
    .filter(([name, value]) => value !== clean.found[name])
    .filter(([name]) => !against[name] || result.jail.layers.includes(against[name]))
    .map(([name, value]) => `${name} is ${value}`);
}

// ---- what a recording says ----

/** In the cell only what comes before its last filter is ours; then the user's code is compiled and runs. */
function setUpOnly(calls, cell) {
  const EXECVE = 59; // the keeper's own is the injector's
  const SECCOMP = 317;
  const last = calls.findLastIndex((call) => call.process === cell && call.number === SECCOMP);
  return calls.filter((call, i) =>
    call.process === cell ? i <= last : call.process !== 'k' || call.number !== EXECVE,
  );
}

function rolesOf(cell, execs) {
  const up = (name, levels) => name.split('.').slice(0, -levels).join('.');
  const roles = {
    k: 'keeper',
    [cell]: 'cell',
    [up(cell, 1)]: 'zygote',
    [up(cell, 2)]: 'init',
    [up(cell, 3)]: 'builder',
  };
  return (name) => {
    if (roles[name]) return roles[name];
    if (name.startsWith(up(cell, 1))) return 'trial';
    return execs.some((one) => one !== 'k' && (name === one || name.startsWith(`${one}.`))) ? 'asked' : 'probe';
  };
}

// ---- what /proc says of a cell ----

function readFacts(text) {
  const [, status = '', limits = '', links = ''] = text.split(/\[(?:status|limits|links)\]\n/);
  const field = (name) => new RegExp(`^${name}:\\s*(.*)$`, 'm').exec(status)?.[1];
  const link = (name) => new RegExp(`^ns/${name} (.*)$`, 'm').exec(links)?.[1];
  return {
    seccomp: `${field('Seccomp')} ${field('Seccomp_filters')}`,
    'no-new-privs': field('NoNewPrivs'),
    'no-capabilities': ['CapInh', 'CapPrm', 'CapEff', 'CapAmb'].map(field).join(' '),
    rlimits: limits.replace(/^(Max data size) .*$/m, '$1'), // from what it holds when the job comes
    'separate-uid': field('Uid')
      ?.split('\t')
      .map((id) => Number(id) >= 0x70000000 && new Set(field('Uid').split('\t')).size === 1),
    'user-namespace': foreign('user', link('user')),
    'pid-namespace': foreign('pid', link('pid')),
    'mount-namespace': foreign('mnt', link('mnt')),
    'network-namespace': foreign('net', link('net')),
    'ipc-namespace': foreign('ipc', link('ipc')),
    'uts-namespace': foreign('uts', link('uts')),
    descriptors: links
      .split('\n')
      .filter((line) => line.startsWith('fd/') && !line.endsWith(' /dev/null'))
      .map((line) => line.replace(/\[\d+\]$/, '')),
  };
}

/** Whether a namespace is another than ours; undefined where it cannot be seen. */
function foreign(name, link) {
  return link && link !== fs.readlinkSync(`/proc/self/ns/${name}`);
}

function differences(clean, now, claimed) {
  return Object.keys(clean)
    .filter((name) => name === 'descriptors' || claimed.includes(name))
    .filter((name) => JSON.stringify(clean[name]) !== JSON.stringify(now[name]))
    .map((name) => `${name} was ${JSON.stringify(now[name])}, not ${JSON.stringify(clean[name])}`);
}

// ---- what is left behind ----

/** Those that look like ours: others come and go on a machine. */
const mounts = () => fs.readFileSync('/proc/self/mountinfo', 'utf8').match(/ - tmpfs cell /g)?.length ?? 0;

function standing() {
  return {
    descriptors: fs.readdirSync('/proc/self/fd').length,
    processes: descendants().length,
    mounts: mounts(),
    'shared memory': fs.readdirSync('/dev/shm').length,
  };
}

async function leftovers(before) {
  let now = before;
  const grown = () => Object.keys(before).filter((what) => now[what] > before[what]);
  await until(() => {
    now = standing();
    return grown().length === 0;
  }, 3000 * slack());
  return grown()
    .map((what) => `${what}: ${before[what]} → ${now[what]}`)
    .join(', ');
}

// ---- which faults ----

/** Every error that each call can give; of calls made over and over by one process, `most` of each kind. */
function faultsOf({ calls, roles }, most) {
  const kinds = Map.groupBy ? Map.groupBy(calls, (call) => `${call.process} ${call.number}`) : groupBy(calls);
  const faults = [];
  for (const kind of kinds.values()) {
    const errors = canFail(kind[0].number);
    for (const call of spread(kind, most))
      for (const error of errors) {
        const fault = { ...call, error, role: roles(call.process), call: nameOf(call.number) };
        faults.push(fault);
        // Not in one cell, which the next makes up for, but in each.
        if (fault.role === 'cell') faults.push({ ...fault, process: call.process.replace(/\d+$/, '*') });
      }
  }
  return faults;
}

function groupBy(calls) {
  const kinds = new Map();
  for (const call of calls) {
    const key = `${call.process} ${call.number}`;
    kinds.set(key, [...(kinds.get(key) ?? []), call]);
  }
  return kinds;
}

/** `most` of a list, the first and the last among them. */
function spread(list, most) {
  if (list.length <= most) return list;
  if (most === 1) return list.slice(-1);
  return Array.from({ length: most }, (_, i) => list[Math.round((i * (list.length - 1)) / (most - 1))]);
}

const describeFault = (fault) =>
  `${fault.role} (${fault.process}): ${fault.call} no. ${fault.occurrence} fails with ${fault.error}`;

module.exports = { Lab, faultsOf, describeFault };
