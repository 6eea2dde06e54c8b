'use strict';
// The built dashboard on loopback, and a browser before it. Used by the tests of this folder.

const { spawn } = require('node:child_process');
const fs = require('node:fs');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');
const { once } = require('node:events');
const { setTimeout: sleep } = require('node:timers/promises');
const { APP, SERVER, build } = require('./app.js');

const CHROMIUM = '/usr/bin/chromium';
const SCREENSHOTS = path.join(__dirname, '..', '..', '.cache', 'screenshots');

const whyNot = () => !fs.existsSync(CHROMIUM) && 'chromium is not installed (Debian: apt-get install chromium)';

async function freePort() {
  const server = net.createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = /** @type {net.AddressInfo} */ (server.address());
  server.close();
  await once(server, 'close');
  return port;
}

/** @param {Record<string, string>} env which jail it uses */
async function serve(env = {}) {
  build();
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const child = spawn(process.execPath, [SERVER], {
    env: {
      PATH: process.env.PATH,
      HOME: os.tmpdir(),
      NODE_ENV: 'production',
      PORT: String(port),
      HOSTNAME: '127.0.0.1',
      ...env,
    },
    stdio: 'ignore',
  });
  const exited = once(child, 'exit');
  const stop = async () => {
    child.kill('SIGKILL');
    await exited;
  };
  for (const end = Date.now() + 60000; ; await sleep(100)) {
    const answers = await fetch(url).then(
      (response) => response.ok,
      () => false,
    );
    if (answers) return { url, stop };
    if (child.exitCode !== null || Date.now() > end) {
      await stop();
      throw new Error('the dashboard did not start');
    }
  }
}

/** playwright-core makes a fresh user-data-dir, and removes it. */
function launch() {
  const { chromium } = require(path.join(APP, 'node_modules', 'playwright-core'));
  const quiet = ['networking', 'timer-throttling'].map((what) => `--disable-background-${what}`);
  const args = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', ...quiet];
  return chromium.launch({ executablePath: CHROMIUM, args: [...args, '--disable-component-update', '--disable-sync'] });
}

async function screenshot(page, name) {
  fs.mkdirSync(SCREENSHOTS, { recursive: true });
  await page.screenshot({ path: path.join(SCREENSHOTS, `${name}.png`) });
}

module.exports = { serve, launch, screenshot, whyNot };
