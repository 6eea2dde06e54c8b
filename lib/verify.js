'use strict';
// `code-jail verify`: proves from inside that the jail is shut. Programs of ours
// try there what must fail (verify-probes.js), a service is asked with wrong
// tokens, a loop must be cut. Whatever is not clearly refused counts as open.

const crypto = require('node:crypto');
const { isJailError } = require('./errors.js');
const { ISOLATIONS } = require('./options.js');
const { selected } = require('./run-code.js');
const probes = require('./verify-probes.js');
const { askService } = require('./verify-service.js');

const LANGUAGES = ['javascript', 'python'];
const LOOP_MARGIN_MS = 2000; // from a loop's end of time until its answer is here
const JOB_MS = 30000; // for any other job, start of a runtime included

// The errors by which a kernel (or, for JavaScript, Node in front of it) refuses.
// Not among them is what needs a peer to say it, such as ECONNREFUSED: then something was reached.
const DENIED =
  /^(EPERM|EACCES|ENOENT|ENOTDIR|ENODATA|EROFS|ESRCH|ENOSYS|EAFNOSUPPORT|EPROTONOSUPPORT|ENETUNREACH|ENETDOWN|EADDRNOTAVAIL|EAI_\w+|ENOTFOUND|ERR_ACCESS_DENIED)$/;

// All that a cell's environment may hold.
const OWN_VARIABLES = ['HOME', 'TMPDIR', 'LANG', 'PATH'];
const MOST_PROCESSES = 64; // of the others whose environment is tried

const FOLDERS = ['/', '/etc', '/usr', '/bin', '/var/tmp', '/dev/shm', '/root', '/home'];

// What gVisor calls its kernel. A guest cannot ask more than its name of it.
const GVISOR_KERNEL = /^4\.4\.0$|gvisor/i;

// Failures that tell nothing about the jail: it was not reached, or not allowed in.
const NOT_ASKED =
  /^ERR_JAIL_(CONFIG|UNAVAILABLE|UNAUTHORIZED|OVERLOADED|QUEUE_TIMEOUT|DEADLINE|CLOSED|INVALID_REQUEST)$/;

/** @param {string} nonce */
const hash = (nonce) => crypto.createHash('sha256').update(nonce).digest('hex');

/**
 * What a probe's answer says.
 * @param {any} run an IsolatedRunResult
 * @param {string} nonce
 */
function judge(run, nonce) {
  const bad = (detail) => ({ ok: false, detail });
  if (run.status !== 'ok') return bad(`the probe ended as ${run.status}${run.error ? ` (${run.error.name})` : ''}`);
  const { proof, allowed, denied, found } = run.result ?? {};
  if (proof !== hash(nonce)) return bad('the answer is not of the code that was sent');
  if (!isOutcomes(allowed) || !isOutcomes(denied) || !Array.isArray(found)) return bad('the answer is incomplete');
  for (const [what, outcome] of Object.entries(allowed))
    if (outcome !== 'allowed') return bad(`the probe itself cannot work: ${what}: ${outcome}`);
  const open = Object.entries(denied).filter(([, outcome]) => !DENIED.test(outcome));
  if (open.length > 0) return bad(open.map(([what, outcome]) => `${what}: ${outcome}`).join(', ') + names(found));
  const refused = [...new Set(Object.values(denied))].join(' ');
  return { ok: true, detail: refused || String(run.jail.runtime), found };
}

/** Of what was found, for a line. @param {string[]} found */
function names(found) {
  return found.length > 0 ? ` (${[...new Set(found)].slice(0, 8).join(', ')})` : '';
}

/** @param {unknown} value */
function isOutcomes(value) {
  return value !== null && typeof value === 'object' && Object.values(value).every((one) => typeof one === 'string');
}

class Verification {
  /**
   * @param {any} jail
   * @param {string} backend
   * @param {string} expect
   * @param {{ targets: typeof probes.TARGETS, folders: string[], loopMs?: number, waitMs: number, onCheck: (check: Check) => void }} how
   */
  constructor(jail, backend, expect, how) {
    this.jail = jail;
    this.backend = backend;
    this.expect = expect;
    this.how = how;
    /** @type {Check[]} */
    this.checks = [];
    /** What the runs say they are in. @type {Set<string>} */
    this.isolations = new Set();
    this.kernels = new Set();
  }

  /** @param {string} group @param {string} name @param {boolean} ok @param {string} detail */
  add(group, name, ok, detail) {
    const check = { group, name, ok, detail };
    this.checks.push(check);
    this.how.onCheck(check);
  }

  /** One run; a failure of the jail is given, not thrown. @returns {Promise<{ run?: any, error?: any }>} */
  async run(request, limitMs = JOB_MS) {
    const id = `verify-${crypto.randomUUID()}`;
    try {
      const run = await this.jail.runCode({ ...request, id }, { signal: AbortSignal.timeout(limitMs) });
      if (run.id !== id) return { error: new Error(`the answer has the id ${JSON.stringify(run.id)}, not its own`) };
      return { run };
    } catch (error) {
      return { error };
    }
  }

  /** The same in each language. @param {(language: string) => Promise<{ ok: boolean, detail: string }>} work */
  async each(group, name, work) {
    const said = [];
    for (const language of LANGUAGES) said.push({ language, ...(await work(language)) });
    const ok = said.every((one) => one.ok);
    const shown = ok ? said : said.filter((one) => !one.ok);
    const detail = shown.map((one) => `${one.language} ${one.detail}`).join(', ');
    this.add(group, name, ok, detail);
    return ok;
  }

  /** @param {Record<string, string>} program @param {(found: string[]) => string} [judgeFound] what is wrong with it */
  probe(group, name, program, input = {}, judgeFound = () => '') {
    return this.each(group, name, async (language) => {
      const nonce = crypto.randomBytes(16).toString('hex');
      const { run, error } = await this.run({
        language,
        code: program[language],
        input: { ...input, nonce, waitMs: this.how.waitMs },
      });
      if (error) return { ok: false, detail: describe(error) };
      this.isolations.add(String(run.jail.isolation));
      const verdict = judge(run, nonce);
      const wrong = verdict.ok ? judgeFound(verdict.found) : '';
      return wrong ? { ok: false, detail: wrong } : verdict;
    });
  }

  /** The first jobs. What fails here for want of a jail says nothing about one, and is thrown. */
  async first() {
    const { error } = await this.run({ language: 'javascript', code: 'return 1' });
    if (isJailError(error) && NOT_ASKED.test(error.code)) throw error;
    if (error?.name === 'TimeoutError') throw new Error(`no answer in ${JOB_MS / 1000} s`);
    await this.probe('control', 'code runs, and sees its own process', probes.SELF, {}, (found) => {
      this.kernels.add(found[0]);
      return '';
    });
  }

  isolation() {
    const said = [...this.isolations];
    // No service has a microVM: whoever says so over HTTP has verified nothing.
    const can = this.backend === 'http' ? ISOLATIONS.filter((one) => one !== 'microvm') : ISOLATIONS;
    const ok = said.length > 0 && said.every((one) => can.indexOf(one) >= ISOLATIONS.indexOf(this.expect));
    this.add('isolation', `at least ${this.expect}`, ok, `reported: ${said.join(', ') || 'nothing'}`);
    if (!said.includes('gvisor')) return;
    const kernels = [...this.kernels];
    const is = kernels.length > 0 && kernels.every((one) => GVISOR_KERNEL.test(one));
    this.add('isolation', "the code's kernel is gVisor's", is, `Linux ${kernels.join(', ')}`);
  }

  async walls() {
    for (const { name, program, host, port } of this.how.targets)
      await this.probe('network', name, program, { host, port });
    const input = { own: OWN_VARIABLES, most: MOST_PROCESSES };
    await this.probe('environment', "the server's, and of other processes", probes.ENVIRONMENT, input, (found) =>
      found.length > 0 ? `variables that are not its own${names(found)}` : '',
    );
    await this.probe('files', 'writing outside its own folder', probes.WRITE, { folders: this.how.folders });
    await this.probe('processes', 'a shell, a program, a fork', probes.SPAWN);
  }

  /** The first with the time that a request has by default, the other with a short one. */
  async loops() {
    const times = { javascript: this.how.loopMs, python: Math.min(2000, this.how.loopMs ?? 2000) };
    await this.each('time', 'an endless loop is cut', async (language) => {
      const limit = (times[language] ?? 10000) + LOOP_MARGIN_MS;
      const began = performance.now();
      const { run, error } = await this.run(
        { language, code: probes.LOOP[language], timeoutMs: times[language] },
        limit,
      );
      const seconds = ((performance.now() - began) / 1000).toFixed(1);
      if (error?.name === 'TimeoutError') return { ok: false, detail: `still runs after ${seconds} s` };
      if (error) return { ok: false, detail: describe(error) };
      const cut = run.status === 'timeout' && run.timedOut === true;
      return { ok: cut, detail: cut ? `after ${seconds} s` : `ended as ${run.status} after ${seconds} s` };
    });
  }

  async after() {
    await this.probe('control', 'after all this, a job still works', probes.SELF);
    this.isolation();
  }
}

/** @param {any} error */
function describe(error) {
  return error?.code ? `${error.code}: ${error.message}` : String(error?.message ?? error);
}

/**
 * Throws (JailError or not) where nothing could be asked: no verdict.
 *
 * @param {{ expect?: string } & Record<string, unknown>} [options] expect, and what createJail takes; the rest by the environment
 * @param {{ targets?: typeof probes.TARGETS, folders?: string[], loopMs?: number, waitMs?: number, onCheck?: (check: Check) => void }} [how]
 *   all but onCheck: for tests
 */
async function verify({ expect = 'process', ...given } = {}, how = {}) {
  const { backend, because, config, open } = selected(given);
  const jail = open();
  const began = performance.now();
  const verification = new Verification(jail, backend, expect, {
    targets: probes.TARGETS,
    folders: FOLDERS,
    waitMs: 2000,
    onCheck: () => {},
    ...how,
  });
  try {
    await verification.first();
    if (backend === 'http') await askService(config, verification);
    await verification.walls();
    await verification.loops();
    await verification.after();
  } finally {
    await jail.close();
  }
  const { checks, isolations } = verification;
  return {
    ok: checks.every((one) => one.ok),
    version: require('../package.json').version,
    backend,
    because,
    where: config.url ?? config.socket ?? null,
    expect,
    isolation: [...isolations].join(', '),
    checks,
    tookMs: Math.round(performance.now() - began),
  };
}

/** @typedef {{ group: string, name: string, ok: boolean, detail: string }} Check */

module.exports = { verify };
