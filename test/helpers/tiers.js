'use strict';
// Hosts with fewer rights, made here by root: the same program as nobody, with
// or without user namespaces, and as root without CAP_SYS_ADMIN.

const { spawn, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { setTimeout: sleep } = require('node:timers/promises');
const { until } = require('./baseline.js');

const NOBODY = ['--reuid', '65534', '--regid', '65534', '--clear-groups'];
const NO_CAPABILITIES = ['--ambient-caps=-all', '--inh-caps=-all', '--bounding-set=-all'];
// An interpreter that everybody may read; the one in PATH may lie in root's home.
const PYTHON = '/usr/bin/python3';

const NAMESPACES = ['user', 'pid', 'mount', 'network', 'ipc', 'uts'].map((name) => `${name}-namespace`);
const ALWAYS = ['no-capabilities', 'no-new-privs', 'landlock', 'seccomp', 'rlimits'];

/** @type {Record<string, { command: string[], noNamespaces?: boolean, layers: string[] }>} */
const TIERS = {
  'nobody, with user namespaces': {
    command: ['setpriv', ...NOBODY, ...NO_CAPABILITIES],
    layers: [...NAMESPACES, 'own-root', ...ALWAYS],
  },
  'nobody, without user namespaces': {
    command: ['setpriv', ...NOBODY, ...NO_CAPABILITIES],
    noNamespaces: true,
    layers: ALWAYS,
  },
  'root without CAP_SYS_ADMIN, as in a container': {
    command: ['setpriv', '--ambient-caps=-all', '--inh-caps=-all', '--bounding-set=-sys_admin'],
    noNamespaces: true,
    layers: [...ALWAYS, 'separate-uid'],
  },
};

function everybodyMayRead() {
  return spawnSync('setpriv', [...NOBODY, 'test', '-r', path.join(__dirname, 'tiers.js')]).status === 0;
}

/** Why these hosts cannot be made here; false if they can. */
function whyNot() {
  return (
    (process.getuid?.() !== 0 && 'only root can give rights away') ||
    (spawnSync('setpriv', ['--version']).status !== 0 && 'setpriv (util-linux) is not here') ||
    (process.arch !== 'x64' && 'the call numbers are those of x86_64') ||
    (!fs.existsSync(PYTHON) && `${PYTHON} is not here`) ||
    (!everybodyMayRead() && 'this folder can be read by its owner alone') ||
    false
  );
}

/** Starts a command, within a user namespace of its own that allows no further one if asked. */
function startIn(command, { noNamespaces = false, stdio = ['pipe', 'pipe', 'pipe'] } = {}) {
  const script = 'read _ && echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"';
  const whole = noNamespaces ? ['unshare', '--user', '--keep-caps', 'sh', '-c', script, 'sh', ...command] : command;
  const child = spawn(whole[0], whole.slice(1), { stdio, cwd: '/' });
  const seen = { out: '', err: '' };
  child.stdout.on('data', (chunk) => {
    seen.out += chunk;
  });
  child.stderr.on('data', (chunk) => {
    seen.err += chunk;
  });
  const ended = new Promise((resolve) => child.on('close', resolve));
  const line = (prefix, ms = 20000) => until(() => seen.out.split('\n').find((one) => one.startsWith(prefix)), ms, 20);
  const ready = noNamespaces ? giveIds(child) : Promise.resolve();
  return { child, ended, line, seen, ready };
}

/** Maps every id onto itself, once the child is in its own user namespace. */
async function giveIds(child) {
  const own = fs.readlinkSync('/proc/self/ns/user');
  const isThere = () =>
    fs.readlinkSync(`/proc/${child.pid}/ns/user`) !== own &&
    fs.readFileSync(`/proc/${child.pid}/comm`, 'utf8') === 'sh\n';
  await until(isThere, 10000);
  await sleep(100); // the name comes before the exec is over, and with it the rights
  for (const name of ['uid_map', 'gid_map']) fs.writeFileSync(`/proc/${child.pid}/${name}`, '0 0 65536');
  child.stdin.write('\n');
}

module.exports = { TIERS, PYTHON, NOBODY, NO_CAPABILITIES, NAMESPACES, ALWAYS, whyNot, startIn };
