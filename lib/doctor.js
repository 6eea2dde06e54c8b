'use strict';
// What this host gives: which jail the environment selects, which runtimes are
// found, which walls stand. The facts come from real cells, one run per
// language, never from a version number.

const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { JailError } = require('./errors.js');
const { askJailer } = require('./doctor-jailer.js');
const { examineService } = require('./doctor-service.js');
const { WARMED } = require('./options.js');

const LANGUAGES = [
  { language: 'javascript', code: 'return 6 * 7' },
  { language: 'python', code: 'result = 6 * 7' },
  { language: 'typescript', code: 'const six: number = 6;\nreturn six * 7' },
];

// What to do about a layer that is missing. The first that matches the layer
// and the reason given by the core.
const REMEDIES = [
  [
    /^user-namespace$/,
    /apparmor/i,
    'sysctl kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile with `userns`',
  ],
  [
    /^user-namespace$/,
    /./,
    'allow unprivileged user namespaces (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone=1), or run as root with CAP_SYS_ADMIN',
  ],
  [
    /-namespace$|^own-root$/,
    /./,
    'run where user namespaces are allowed, or as root with CAP_SYS_ADMIN (in a container: a seccomp profile that lets unshare and mount pass)',
  ],
  [
    /^landlock$/,
    /./,
    'a kernel of 5.13 or newer with landlock among its security modules (lsm=landlock,… on the kernel command line)',
  ],
  [/^seccomp$/, /./, 'a kernel with CONFIG_SECCOMP_FILTER'],
  [
    /^cgroup$/,
    /./,
    'optional: cgroup v2 with memory and pids delegated (systemd: Delegate=memory pids, DelegateSubgroup=host); without it rlimits and the watch keep the memory limit',
  ],
  [
    /^separate-uid$/,
    /./,
    'run the host as root (or with CAP_SETUID and CAP_SETGID), so that each cell can have a uid of its own',
  ],
  [/^rlimits$/, /./, 'nothing is known to help; the memory limit is then kept by watching alone'],
  [/./, /./, null],
];

/** @param {string} layer @param {string} reason @returns {string | null} */
function remedyFor(layer, reason) {
  const found = REMEDIES.find(
    ([name, why]) => /** @type {RegExp} */ (name).test(layer) && /** @type {RegExp} */ (why).test(reason),
  );
  return /** @type {string | null} */ (found?.[2] ?? null);
}

/** The runtime's path, as the local jail chooses it. */
function runtimePath(language, config) {
  if (language !== 'python') return config.node?.path ?? process.execPath;
  if (config.python?.path) return config.python.path;
  const found = (process.env.PATH ?? '')
    .split(path.delimiter)
    .map((dir) => path.join(dir, 'python3'))
    .find((file) => fs.existsSync(file));
  return found ?? null;
}

// What selects a jail, in words, where its name alone does not say it.
const BECAUSE = {
  socket: 'config.socket',
  url: 'config.url',
  '': 'neither FIRECRACKER_SOCKET nor CODE_SANDBOX_URL is set',
};

/** libcurl and its TLS, and whether they are the addon's own; null without a native build. */
function httpVersion() {
  try {
    return require('./native.js').load().http;
  } catch {
    return null;
  }
}

/** @param {unknown} error */
function describe(error) {
  if (error instanceof JailError) return { code: error.code, message: error.message };
  return { code: 'ERR_INTERNAL', message: error instanceof Error ? error.message : String(error) };
}

/** One run in a cell of the language. */
async function examine(jail, { language, code }) {
  try {
    const run = await jail.runCode({ language, code });
    const { runtime, start, isolation, backend, layers, missing } = run.jail;
    const answered = run.ok && run.result === 42;
    const failure = answered
      ? null
      : { code: 'ERR_RUN', message: run.error?.message ?? `the run ended as ${run.status}` };
    return {
      language,
      ok: answered,
      runtime,
      start,
      isolation,
      backend,
      layers,
      missing,
      usage: run.usage,
      error: failure,
    };
  } catch (error) {
    return {
      language,
      ok: false,
      runtime: null,
      start: null,
      isolation: null,
      backend: null,
      layers: [],
      missing: [],
      usage: null,
      error: describe(error),
    };
  }
}

/** Each layer once: it stands if it stands in every language that ran. */
function mergeLayers(runs) {
  const ran = runs.filter((run) => run.ok);
  const names = [...new Set(ran.flatMap((run) => [...run.layers, ...run.missing.map((one) => one.layer)]))];
  return names.map((layer) => {
    const gaps = ran.flatMap((run) =>
      run.missing.filter((one) => one.layer === layer).map((one) => ({ ...one, language: run.language })),
    );
    if (gaps.length === 0) return { layer, stands: true, reason: null, remedy: null };
    const where = gaps.length < ran.length ? ` (${gaps.map((gap) => gap.language).join(', ')})` : '';
    const reason = gaps[0].reason;
    return { layer, stands: false, reason: reason + where, remedy: remedyFor(layer, reason) };
  });
}

/** TypeScript may need a package more, and nothing else waits for it. @param {{ language: string, ok: boolean }[]} runtimes */
const isReady = (runtimes) => runtimes.every(({ ok, language }) => ok || !WARMED.includes(language));

/**
 * Examines this host, or the jailer it is set to use, by one run per language. A
 * sandbox service is only asked: it may be busy, and `code-jail verify` is for more.
 *
 * @param {object} [config] as for createJail
 * @returns {Promise<object>} see Doctor in index.d.ts
 */
async function doctor(config = {}) {
  const { version } = require('../package.json');
  const runtimes = [];
  const { backend, because, config: whole, open } = require('./run-code.js').selected(config);
  const isAsked = backend === 'http' && whole.proxy === undefined; // by a proxy only runs go
  let service = null;
  let jailer = null;
  let failure = null;
  try {
    const jail = open(); // which loads the addon
    try {
      if (isAsked) service = await examineService(whole);
      if (backend === 'socket') jailer = await askJailer(path.resolve(whole.socket));
      for (const one of isAsked ? [] : LANGUAGES) {
        const file = backend === 'local' ? runtimePath(one.language, config) : null;
        runtimes.push({ ...(await examine(jail, one)), path: file });
      }
    } finally {
      await jail.close();
    }
  } catch (error) {
    failure = describe(error);
  }
  return {
    ok: failure === null && isReady(runtimes) && service?.ready !== false,
    version,
    platform: `${os.type()} ${os.release()} ${os.arch()}`,
    node: process.version,
    root: process.getuid?.() === 0,
    selects: { backend, because: BECAUSE[because] ?? because },
    http: httpVersion(),
    service,
    jailer,
    runtimes,
    layers: mergeLayers(runtimes),
    error: failure,
  };
}

module.exports = { doctor, isReady, remedyFor };
