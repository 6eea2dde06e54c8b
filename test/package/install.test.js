'use strict';
// The tarball installs without a script and runs, under each package manager and each Node.

const assert = require('node:assert');
const fs = require('node:fs');
const path = require('node:path');
const { test } = require('node:test');
const { nodeBinary } = require('../../scripts/from-npm.js');
const { tarball, project, run, must, works, tool } = require('./lab.js');

const QUIET = ['--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'];

test('npm 11, then Node 20, 22, 24 and 26', () => {
  const dir = project();
  must(dir, process.execPath, [tool('npm', '11', 'bin/npm-cli.js'), 'install', ...QUIET, tarball().file]);
  for (const version of ['20', '22', '24', '26']) works(dir, nodeBinary(version));
});

test('npm 12', () => {
  const dir = project();
  const node = nodeBinary('24');
  must(dir, node, [tool('npm', '12', 'bin/npm-cli.js'), 'install', ...QUIET, tarball().file]);
  works(dir, node);
});

test('pnpm 10', () => {
  const dir = project();
  const pnpm = tool('pnpm', '10', 'bin/pnpm.cjs');
  must(dir, process.execPath, [
    pnpm,
    'add',
    '--ignore-scripts',
    '--store-dir',
    path.join(dir, 'store'),
    tarball().file,
  ]);
  works(dir);
});

for (const linker of ['pnp', 'node-modules']) {
  test(`Yarn 4, ${linker}`, () => {
    const dir = project({ dependencies: { 'code-jail': `file:${tarball().file}` } });
    const registry = must(dir, 'npm', ['config', 'get', 'registry']).trim().replace(/\/$/, '');
    const env = {
      YARN_NPM_REGISTRY_SERVER: registry,
      YARN_UNSAFE_HTTP_WHITELIST: new URL(registry).hostname,
      YARN_NODE_LINKER: linker,
      YARN_PNP_ENABLE_ESM_LOADER: 'true',
      YARN_ENABLE_SCRIPTS: 'false',
      YARN_ENABLE_TELEMETRY: 'false',
      YARN_ENABLE_GLOBAL_CACHE: 'false',
      YARN_ENABLE_IMMUTABLE_INSTALLS: 'false',
    };
    fs.writeFileSync(path.join(dir, 'yarn.lock'), '');
    const yarn = tool('@yarnpkg/cli-dist', '4', 'bin/yarn.js', 'yarn');
    must(dir, process.execPath, [yarn, 'install'], env);
    works(dir, process.execPath, [yarn, 'node'], env);
  });
}

test('without a prebuild: an error with the command that builds it, which works without a network', () => {
  const dir = project();
  must(dir, 'npm', ['install', ...QUIET, tarball().file]);
  const own = path.join(dir, 'node_modules', 'code-jail');
  fs.rmSync(path.join(own, 'prebuilds'), { recursive: true });
  const ask =
    "require('code-jail').runCode({ language: 'python', code: '' }).catch((e) => console.log(e.code, e.message))";
  const said = must(dir, process.execPath, ['-e', ask]);
  assert.match(said, /^ERR_JAIL_CONFIG /);
  const command = /`(npm [^`]+)`/.exec(said)?.[1];
  assert.ok(command, said);
  const alone = run(dir, 'unshare', ['--net', 'sh', '-c', command]);
  assert.strictEqual(alone.status, 0, alone.stdout + alone.stderr);
  works(dir);
});
