'use strict';
// The hosts that code-jail meets, made here: a host process with fewer rights, or
// on a kernel that seems to lack something. Needs root, to give rights away.

const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const microvm = require('../helpers/microvm.js');
const { ALWAYS, NAMESPACES, NO_CAPABILITIES, NOBODY, PYTHON, startIn, whyNot } = require('../helpers/tiers.js');

const HOST = path.join(__dirname, 'host.js');
const WITHOUT = path.join(__dirname, '..', 'helpers', 'without.py');
const USER = ['setpriv', ...NOBODY, ...NO_CAPABILITIES];
// What Docker leaves to root in a container.
const DOCKER_CAPABILITIES =
  '+chown,+dac_override,+fsetid,+fowner,+mknod,+net_raw,+setgid,+setuid,+setfcap,+setpcap,+net_bind_service,+sys_chroot,+kill,+audit_write';
const CONTAINER = ['setpriv', '--ambient-caps=-all', '--inh-caps=-all', `--bounding-set=-all,${DOCKER_CAPABILITIES}`];
const LANDLOCK = '444,445,446';
const SECCOMP = '317=22';
const NAMESPACE_FLAGS = '0x7e020000';
const without = (...calls) => [PYTHON, WITHOUT, calls.join(','), '--'];
// Docker's own filter, as far as walls are made of what it refuses.
const DOCKER = ['272=1', '308=1', '165=1', '166=1', '155=1', `56&${NAMESPACE_FLAGS}=1`, '435', '425'];
const RUNSC = ['runsc', '--platform=ptrace', '--network=none'];

const FULL = [...NAMESPACES, 'own-root', ...ALWAYS, 'separate-uid'];
const but =
  (...names) =>
  (layer) =>
    !names.includes(layer);

// Debian's runsc. Its /proc shows everybody's environment to everybody.
const GVISOR = {
  gvisor: true,
  weak: true,
  layers: ['no-capabilities', 'no-new-privs', 'seccomp', 'separate-uid'],
  leaking: ['environment of the sibling'],
};

/**
 * command: what starts the host. noNamespaces: in a user namespace that allows no
 * further one. weak: only with allowWeak, and refused without. lacking: probes that
 * this kernel cannot answer. leaking: those it allows whatever stands. layers: what
 * must stand, no more and no less.
 * @typedef {{ command: string[], layers: string[], noNamespaces?: boolean, weak?: boolean,
 *   lacking?: string[], leaking?: string[], gvisor?: boolean, microvm?: boolean }} Environment
 * @type {Record<string, Environment>}
 */
const ENVIRONMENTS = {
  root: { command: [], layers: FULL },
  'root in a container': { command: [...without(...DOCKER), ...CONTAINER], layers: [...ALWAYS, 'separate-uid'] },
  user: { command: USER, layers: FULL.filter(but('separate-uid')) },
  'user, no user namespaces': { command: USER, noNamespaces: true, layers: ALWAYS },
  'user, mounts refused': {
    // Ubuntu 24.04: unshare succeeds, and what it gave may do nothing.
    command: [...without('165=13', '442=13', '429=13', `56&${NAMESPACE_FLAGS}=1`), ...USER],
    layers: ALWAYS,
  },
  'no Landlock': { command: without(LANDLOCK), layers: FULL.filter(but('landlock')) },
  'no seccomp': {
    command: without(SECCOMP),
    layers: FULL.filter(but('seccomp')),
    lacking: ['one more filter'],
  },
  'old kernel': {
    // clone3, close_range, pidfd_open, openat2, faccessat2, and the new mount calls
    command: without('435,436,434,437,439', '428,429,430,431,432,433,442'),
    layers: FULL,
  },
  gVisor: { ...GVISOR, command: [] },
  'gVisor, no CAP_SYS_ADMIN': { ...GVISOR, command: CONTAINER },
  // Another kernel, with a cgroup that is ours, and Landlock as it was in 2022.
  'Debian 12 in a microvm': { microvm: true, command: [], layers: [...FULL, 'cgroup'] },
  'Landlock alone': {
    weak: true,
    noNamespaces: true,
    command: [...without(SECCOMP), ...USER],
    layers: ALWAYS.filter(but('seccomp')),
    lacking: ['one more filter'],
  },
  'seccomp alone': {
    weak: true,
    noNamespaces: true,
    command: [...without(LANDLOCK), ...USER],
    layers: ALWAYS.filter(but('landlock')),
  },
  'a uid alone': {
    weak: true,
    command: [...without(...DOCKER, LANDLOCK, SECCOMP), ...CONTAINER],
    layers: ['no-capabilities', 'no-new-privs', 'rlimits', 'separate-uid'],
    lacking: ['one more filter'],
  },
  nothing: {
    weak: true,
    noNamespaces: true,
    command: [...without(LANDLOCK, SECCOMP), ...USER],
    layers: ['no-capabilities', 'no-new-privs', 'rlimits'],
    lacking: ['one more filter'],
  },
};

const fails = (command, ...args) => spawnSync(command, args, { stdio: 'ignore' }).status !== 0;

/** @param {Environment} environment */
function whyNotThis(environment) {
  if (environment.gvisor && fails('runsc', '--version'))
    return 'runsc is not installed (Debian: apt-get install runsc)';
  return environment.microvm ? microvm.whyNot() : false;
}

/** Starts host.js there. @param {Environment} environment */
function start({ command, noNamespaces, gvisor }, options = {}) {
  const host = [...command, process.execPath, HOST, JSON.stringify({ python: PYTHON, ...options })];
  if (!gvisor) return startIn(host, { noNamespaces });
  const state = fs.mkdtempSync(path.join(os.tmpdir(), 'runsc-'));
  const started = startIn([RUNSC[0], `--root=${state}`, ...RUNSC.slice(1), 'do', '--', ...host]);
  started.ended.then(() => fs.rmSync(state, { recursive: true, force: true }));
  return started;
}

// The sandbox image's files, and host.js on top.
async function lookInMicrovm(options) {
  const tree = fs.mkdtempSync(path.join(os.tmpdir(), 'environment-'));
  const place = 'app/test/environments';
  const command = [
    '/usr/local/bin/node',
    `/${place}/host.js`,
    JSON.stringify({ python: PYTHON, brief: true, ...options }),
  ];
  try {
    fs.chmodSync(tree, 0o755);
    microvm.makeTree(tree, { image: true });
    fs.cpSync(__dirname, path.join(tree, place), { recursive: true });
    const { stdout, serial } = await microvm.runInMicrovm({
      tree,
      command,
      memoryMb: 1024,
      cpus: 2,
      timeoutMs: 380000,
    });
    const line = stdout.slice(stdout.indexOf('seen {')).split('\n')[0];
    if (!line.startsWith('seen ')) throw new Error(`the guest ended without a word: ${serial}`);
    return JSON.parse(line.slice('seen '.length));
  } finally {
    fs.rmSync(tree, { recursive: true, force: true });
  }
}

/** What host.js saw there. @param {Environment} environment */
async function look(environment, options = {}, tries = 3) {
  if (environment.microvm) return lookInMicrovm(options);
  const host = start(environment, options);
  const line = await Promise.race([host.line('seen ', 60000), host.ended.then(() => host.line('seen ', 60000))]);
  // The place to look from could not be made: no word about what is to be seen there.
  if (!line && tries > 1 && /max_user_namespaces/.test(host.seen.err)) return look(environment, options, tries - 1);
  if (!line) throw new Error(`the host ended without a word: ${host.seen.out}${host.seen.err}`);
  await host.ended;
  return JSON.parse(line.slice('seen '.length));
}

module.exports = { ENVIRONMENTS, look, start, whyNot, whyNotThis, without };
