'use strict';
// Other ways to run `1 + 1` for somebody else, one fresh context per run. They
// are installed here, into .cache/bench, never by `npm run setup`; what does not
// install is said in the table.

const { execFile, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const { createRequire } = require('node:module');
const path = require('node:path');
const vm = require('node:vm');
const { Worker } = require('node:worker_threads');
const { promisify } = require('node:util');
const { time } = require('./stats.js');

const FOLDER = path.join(__dirname, '..', '.cache', 'bench');
const major = Number(process.versions.node.split('.')[0]);
const PACKAGES = {
  'isolated-vm': major >= 24 ? '7.0.1' : major >= 22 ? '6.1.2' : '5.0.4',
  'quickjs-emscripten': '0.32.0',
  deno: '2.9.6',
};
const run = promisify(execFile);
const isInstalled = (name) => fs.existsSync(path.join(FOLDER, 'node_modules', name, 'package.json'));

// `python3` may be a shim that costs more than Python itself.
const python =
  spawnSync('python3', ['-c', 'import sys; print(sys.executable)'], { encoding: 'utf8' }).stdout?.trim() || 'python3';

/** @returns {Record<string, string | null>} per package: null, or why it is not there */
function install() {
  fs.mkdirSync(FOLDER, { recursive: true });
  const manifest = path.join(FOLDER, 'package.json');
  if (!fs.existsSync(manifest)) fs.writeFileSync(manifest, '{ "private": true }\n');
  const seen = {};
  for (const [name, version] of Object.entries(PACKAGES)) {
    seen[name] = null;
    if (isInstalled(name)) continue;
    const args = ['install', '--no-audit', '--no-fund', '--loglevel=error', `${name}@${version}`];
    const npm = spawnSync('npm', args, {
      cwd: FOLDER,
      stdio: ['ignore', 'pipe', 'pipe'],
      encoding: 'utf8',
      timeout: 300000,
    });
    if (npm.status !== 0) seen[name] = `not installed: ${(npm.stderr || 'npm failed').trim().split('\n').at(-1)}`;
  }
  return seen;
}

function installBubblewrap() {
  if (spawnSync('bwrap', ['--version']).status === 0) return null;
  if (process.getuid?.() !== 0) return 'not installed: apt-get install bubblewrap';
  const apt = spawnSync('apt-get', ['install', '-y', '--no-install-recommends', 'bubblewrap'], { stdio: 'ignore' });
  return apt.status === 0 ? null : 'not installed: apt-get failed';
}

const load = (name) => createRequire(path.join(FOLDER, 'package.json'))(name);

async function quickjs() {
  const { getQuickJS } = load('quickjs-emscripten');
  const QuickJS = await getQuickJS();
  return () => {
    const context = QuickJS.newContext();
    context.unwrapResult(context.evalCode('1 + 1')).dispose();
    context.dispose();
  };
}

async function isolatedVm() {
  const ivm = load('isolated-vm');
  return async () => {
    const isolate = new ivm.Isolate({ memoryLimit: 32 });
    const context = await isolate.createContext();
    await context.eval('1 + 1');
    isolate.dispose();
  };
}

function denoBinary() {
  const folder = path.join(FOLDER, 'node_modules', '@deno', `linux-${process.arch}-glibc`);
  return path.join(folder, 'deno');
}

const BWRAP = [
  ...['--unshare-all', '--die-with-parent', '--proc', '/proc', '--dev', '/dev', '--tmpfs', '/tmp'],
  ...['/usr', '/lib', '/lib64', '/bin'].flatMap((dir) => (fs.existsSync(dir) ? ['--ro-bind', dir, dir] : [])),
];

/** What a peer is, and how one run of it is made. The second word tells what kind of wall it has. */
const PEERS = [
  ['execFile(node)', 'javascript', async () => () => run(process.execPath, ['-e', 'console.log(1 + 1)'])],
  ['execFile(python3 -I -S)', 'python', async () => () => run(python, ['-I', '-S', '-c', 'print(1 + 1)'])],
  [
    'worker_threads (no wall)',
    'javascript',
    async () => () =>
      new Promise((resolve, reject) => {
        const worker = new Worker('require("worker_threads").parentPort.postMessage(1 + 1)', { eval: true });
        worker.once('message', () => worker.terminate().then(resolve));
        worker.once('error', reject);
      }),
  ],
  ['node:vm (no wall)', 'javascript', async () => () => vm.runInNewContext('1 + 1')],
  ['isolated-vm (in process)', 'javascript', isolatedVm, 'isolated-vm'],
  ['quickjs-emscripten (in process)', 'javascript', quickjs, 'quickjs-emscripten'],
  [
    'deno run',
    'javascript',
    async () => {
      const file = path.join(FOLDER, 'one.js');
      fs.writeFileSync(file, 'console.log(1 + 1)');
      const env = { ...process.env, DENO_NO_UPDATE_CHECK: '1', DENO_DIR: path.join(FOLDER, 'deno') };
      return () => run(denoBinary(), ['run', '--no-remote', file], { env });
    },
    'deno',
  ],
  [
    'bubblewrap + node',
    'javascript',
    async () => () => run('bwrap', [...BWRAP, '--', fs.realpathSync(process.execPath), '-e', 'console.log(1 + 1)']),
    'bubblewrap',
  ],
];

/** @param {number} runs */
async function measurePeers(runs) {
  const missing = { ...install(), bubblewrap: installBubblewrap() };
  const rows = [];
  for (const [name, language, prepare, needs] of PEERS) {
    if (needs && missing[needs]) {
      rows.push({ name, language, failure: missing[needs] });
      continue;
    }
    try {
      const work = await prepare();
      const isFast = /vm|quickjs/.test(name);
      rows.push({ name, language, ...(await time(isFast ? runs * 2 : runs, work, { warmUp: 2 })) });
    } catch (error) {
      rows.push({ name, language, failure: String(error.message).split('\n')[0].slice(0, 100) });
    }
  }
  return rows;
}

module.exports = { measurePeers };
