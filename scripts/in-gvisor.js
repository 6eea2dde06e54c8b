'use strict';
// The sandbox image under gVisor: its root file system, made by the script that
// the Dockerfile runs, in an OCI bundle with what Cloud Run gives a container
// (root, the usual capabilities and no more, a read-only root, a tmpfs), in a
// network namespace of its own with a cable to us and no route to anywhere else.

const { execFileSync, spawn, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const http = require('node:http');
const net = require('node:net');
const { setTimeout: sleep } = require('node:timers/promises');
const { ociConfig, CAPABILITIES } = require('../lib/jailer/bundle.js');
const { nodeBinary } = require('./from-npm.js');

const ROOT = path.join(__dirname, '..');

const PORT = 8080;

const has = (command, ...args) => !spawnSync(command, args, { stdio: 'ignore' }).error;

/** Why there can be no gVisor here; false where there can. */
function whyNot() {
  if (process.getuid?.() !== 0) return 'only root can start gVisor and make a network namespace';
  if (!has('runsc', '--version')) return 'runsc is not installed (Debian: apt-get install runsc)';
  if (!has('ip', '-V')) return 'ip is not installed (Debian: apt-get install iproute2)';
  if (!fs.existsSync('/usr/bin/python3')) return 'the image is made of /usr/bin/python3, which is not here';
  return false;
}

/** @param {string} folder */
function makeRoot(folder) {
  execFileSync(path.join(ROOT, 'apps', 'sandbox', 'rootfs.sh'), [folder, nodeBinary('22')], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
}

/** What the Dockerfile says is started. */
function entrypoint() {
  const text = fs.readFileSync(path.join(ROOT, 'apps', 'sandbox', 'Dockerfile'), 'utf8');
  return JSON.parse(/^ENTRYPOINT (\[.*\])$/m.exec(text)[1]);
}

function bundle(folder, root, env, capabilities) {
  const config = ociConfig(root, entrypoint(), { PORT: String(PORT), ...env }, capabilities);
  fs.writeFileSync(path.join(folder, 'config.json'), JSON.stringify(config));
}

/** Everything that goes wrong while taking down is no reason to stop. */
function quietly(command, ...args) {
  spawnSync(command, args, { stdio: 'ignore', timeout: 20000 });
}

/** A network namespace with one cable to us. */
function makeNetwork() {
  const name = `cj${process.pid}`;
  const [ours, theirs] = [`${name}a`, `${name}b`];
  const net = `10.222.${process.pid % 250}`;
  const ip = (...args) => execFileSync('ip', args, { stdio: ['ignore', 'ignore', 'inherit'] });
  ip('netns', 'add', name);
  try {
    ip('link', 'add', ours, 'type', 'veth', 'peer', 'name', theirs);
    ip('link', 'set', theirs, 'netns', name);
    ip('addr', 'add', `${net}.1/30`, 'dev', ours);
    ip('link', 'set', ours, 'up');
    ip('-n', name, 'addr', 'add', `${net}.2/30`, 'dev', theirs);
    ip('-n', name, 'link', 'set', theirs, 'up');
    ip('-n', name, 'link', 'set', 'lo', 'up');
  } catch (error) {
    quietly('ip', 'netns', 'del', name);
    throw error;
  }
  return { name, address: `${net}.2`, remove: () => quietly('ip', 'netns', 'del', name) };
}

/** @param {string} url @returns {Promise<boolean>} */
function answers(url) {
  return new Promise((resolve) => {
    const request = http.get(url, (response) => resolve(response.resume().statusCode === 200));
    request.on('error', () => resolve(false));
    request.setTimeout(2000, () => request.destroy());
  });
}

/** On our loopback, because a client of ours sends its token in clear nowhere else. */
async function forward(host, port, at = 0) {
  const server = net.createServer((near) => {
    const far = net.connect(port, host);
    for (const [one, other] of [
      [near, far],
      [far, near],
    ]) {
      one.on('error', () => other.destroy());
      one.on('close', () => other.destroy());
      one.pipe(other);
    }
  });
  await new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(at, '127.0.0.1', () => resolve(undefined));
  });
  return server;
}

/**
 * @param {{ token: string, env?: Record<string, string>, port?: number, capabilities?: string[] }} options
 *   port: on our loopback, default any
 */
async function startInGvisor({ token, env = {}, port = 0, capabilities = CAPABILITIES }) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'gvisor-'));
  const root = path.join(folder, 'root');
  const state = path.join(folder, 'state');
  const id = `sandbox-${process.pid}`;
  fs.mkdirSync(state);
  makeRoot(root);
  bundle(folder, root, { CODE_SANDBOX_TOKEN: token, ...env }, capabilities);
  const network = makeNetwork();
  // Its control socket is an abstract one, of the network namespace.
  const inside = ['netns', 'exec', network.name, 'runsc', `--root=${state}`];
  const runsc = (...args) => quietly('ip', ...inside, ...args);
  const flags = ['--platform=ptrace', '--network=host', '--ignore-cgroups'];
  const child = spawn('ip', [...inside, ...flags, 'run', '--bundle', folder, id], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let out = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (part) => {
      out += part;
    });
  const exited = new Promise((resolve) => child.on('close', (code, signal) => resolve({ code, signal })));
  /** @type {net.Server | null} */
  let loopback = null;
  const stop = async () => {
    loopback?.close();
    runsc('kill', id, 'KILL');
    child.kill('SIGKILL');
    await exited;
    runsc('delete', '--force', id);
    network.remove();
    fs.rmSync(folder, { recursive: true, force: true });
  };
  const base = `http://${network.address}:${PORT}`;
  try {
    for (const end = Date.now() + 60000; !(await answers(`${base}/readyz`)); await sleep(200))
      if (child.exitCode !== null || Date.now() > end) throw new Error('it has ended, or is not ready');
    loopback = await forward(network.address, PORT, port);
  } catch (error) {
    await stop();
    throw new Error(`the service did not start under gVisor: ${error.message}\n${out}`);
  }
  const near = /** @type {net.AddressInfo} */ (loopback.address()).port;
  const terminate = () => runsc('kill', id, 'TERM');
  return { base, url: `http://127.0.0.1:${near}`, root, log: () => out, terminate, exited, stop };
}

module.exports = { startInGvisor, whyNot };

async function main() {
  const why = whyNot();
  if (why) throw new Error(why);
  const token = process.env.CODE_SANDBOX_TOKEN || require('node:crypto').randomBytes(24).toString('hex');
  const service = await startInGvisor({ token, port: Number(process.env.PORT ?? 0) });
  console.log(`The sandbox image is up, under gVisor. In another shell:\n`);
  console.log(`  CODE_SANDBOX_URL=${service.url} CODE_SANDBOX_TOKEN=${token} npm run demo\n\nCtrl-C ends it.`);
  await new Promise((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, resolve);
  });
  await service.stop();
}

if (require.main === module)
  main().catch((error) => {
    console.error(error.message);
    process.exitCode = 1;
  });
