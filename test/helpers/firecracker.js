'use strict';
// The engine firecracker over a fake Firecracker (test/fixtures/fake-firecracker*),
// and what of it is still there.

const { execFileSync } = require('node:child_process');
const crypto = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');
const { cgroupName } = require('../../lib/jailer/firecracker-host.js');

const FIXTURES = path.join(__dirname, '..', 'fixtures');
const sha256 = (text) => crypto.createHash('sha256').update(text).digest('hex');

function cgroupMount() {
  const line = fs
    .readFileSync('/proc/self/mountinfo', 'utf8')
    .split('\n')
    .find((one) => one.includes(' - cgroup2 '));
  return line?.split(' ')[4];
}

/** Why its tests cannot run; false where they can. */
function whyNot() {
  if (process.getuid?.() !== 0) return 'only root can make a VM’s namespaces and cgroup';
  const mount = cgroupMount();
  if (!mount) return 'no cgroup v2 is mounted';
  try {
    fs.mkdirSync(path.join(mount, `code-jail-try-${process.pid}`));
    fs.rmdirSync(path.join(mount, `code-jail-try-${process.pid}`));
    return false;
  } catch (error) {
    return `cgroup v2 is read-only: ${error.code}`;
  }
}

/** Compiles the fake into `folder`, and gives the settings of an engine over it. */
function makeFake(folder, { slots = 4, env = {} } = {}) {
  const state = path.join(folder, 'state');
  const engine = path.join(folder, 'e');
  fs.mkdirSync(state);
  fs.mkdirSync(engine, { mode: 0o700 });
  const bin = path.join(folder, 'firecracker');
  const define = (name, value) => `-D${name}="${value}"`;
  execFileSync(process.env.CC || 'cc', [
    ...['-O1', '-o', bin, path.join(FIXTURES, 'fake-firecracker.c'), define('STATE', state)],
    ...[define('NODE', process.execPath), define('SCRIPT', path.join(FIXTURES, 'fake-firecracker.js'))],
  ]);
  const jailer = path.join(folder, 'jailer');
  const script = fs.readFileSync(path.join(FIXTURES, 'fake-firecracker-jailer.sh'), 'utf8');
  fs.writeFileSync(jailer, script.replaceAll('@STATE@', state).replaceAll('@CGROUP@', String(cgroupMount())), {
    mode: 0o755,
  });
  const set = {};
  for (const [name, text] of [
    ['KERNEL', 'a kernel'],
    ['ROOTFS', 'a disk'],
  ]) {
    const file = path.join(folder, name);
    fs.writeFileSync(file, text);
    set[`CODE_JAIL_FIRECRACKER_${name}`] = file;
    set[`CODE_JAIL_FIRECRACKER_${name}_SHA256`] = sha256(text);
  }
  const logged = [];
  const log = Object.fromEntries(
    ['info', 'warn', 'error'].map((level) => [level, (facts) => logged.push({ level, ...facts })]),
  );
  const modeFile = path.join(state, 'mode.json');
  fs.writeFileSync(modeFile, '{}');
  return {
    logged,
    state,
    folder: engine,
    settings: {
      slots,
      maxTimeoutMs: 10000,
      maxMemoryMb: 512,
      folder: engine,
      log: /** @type {any} */ (log),
      env: {
        CODE_JAIL_FIRECRACKER_BIN: bin,
        CODE_JAIL_FIRECRACKER_JAILER: jailer,
        CODE_JAIL_FIRECRACKER_STEP_TIMEOUT_MS: '20000',
        CODE_JAIL_FIRECRACKER_WARM: '1',
        ...set,
        ...env,
      },
    },
    /** How the VMs that start from now on fail. */
    setMode(mode) {
      fs.writeFileSync(modeFile, JSON.stringify(mode));
      fs.rmSync(path.join(state, 'failures'), { force: true });
    },
    calls: () =>
      fs.existsSync(path.join(state, 'calls'))
        ? fs
            .readFileSync(path.join(state, 'calls'), 'utf8')
            .trim()
            .split('\n')
            .map((line) => JSON.parse(line))
        : [],
    jailerArgs: (id) =>
      fs
        .readFileSync(path.join(state, 'jailer', id), 'utf8')
        .trim()
        .split('\n'),
  };
}

/** Processes whose command line names something in `folder`. */
function processesOf(folder) {
  return fs
    .readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .map((pid) => {
      try {
        return { pid: Number(pid), command: fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ') };
      } catch {
        return { pid: Number(pid), command: '' }; // it has just ended
      }
    })
    .filter((one) => one.command.includes(folder));
}

/** All that a VM could leave: processes, chroots, cgroups of the daemon `pid`. */
function leftovers(fake, pid = process.pid) {
  const chroots = path.join(fake.folder, 'firecracker');
  const cgroup = path.join(String(cgroupMount()), cgroupName(pid));
  return [
    ...processesOf(path.dirname(fake.folder)).map((one) => one.command),
    ...(fs.existsSync(chroots) ? fs.readdirSync(chroots) : []),
    ...(fs.existsSync(cgroup) ? [cgroup] : []),
  ];
}

module.exports = { whyNot, makeFake, leftovers, processesOf, cgroupMount };
