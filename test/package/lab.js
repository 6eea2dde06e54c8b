'use strict';
// The tarball, and a folder of its own for each program that installs it.

const assert = require('node:assert');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { fromNpm } = require('../../scripts/from-npm.js');
const { pack } = require('../../scripts/pack.js');

const ROOT = path.join(__dirname, '..', '..');
const made = fs.mkdtempSync(path.join(os.tmpdir(), 'code-jail-package-'));
process.on('exit', () => fs.rmSync(made, { recursive: true, force: true }));

/** @type {ReturnType<typeof pack> | undefined} */
let packed;
const tarball = () => {
  packed ??= pack(path.join(made, 'tarball'));
  return packed;
};

const PROGRAM = `
async function main({ runCode, checkCode, JailError }) {
  const of = async (language, code) => (await runCode({ language, code, input: 21 })).result;
  const javascript = await of('javascript', 'return input * 2');
  const python = await of('python', 'result = input * 2');
  const check = (await checkCode({ language: 'python', code: 'x = (' })).ok;
  console.log(JSON.stringify({ javascript, python, check, error: typeof JailError }));
}`;
const SAID = { javascript: 42, python: 42, check: false, error: 'function' };

/** @param {Record<string, unknown>} [manifest] */
function project(manifest = {}) {
  const dir = fs.mkdtempSync(path.join(made, 'project-'));
  fs.writeFileSync(path.join(dir, 'package.json'), JSON.stringify({ name: 'app', private: true, ...manifest }));
  fs.writeFileSync(path.join(dir, 'main.cjs'), `const jail = require('code-jail');${PROGRAM}\nmain(jail);\n`);
  fs.writeFileSync(path.join(dir, 'main.mjs'), `import * as jail from 'code-jail';${PROGRAM}\nmain(jail);\n`);
  return dir;
}

function run(dir, command, args, env = {}) {
  const options = { cwd: dir, encoding: /** @type {const} */ ('utf8'), timeout: 300_000, maxBuffer: 64 << 20 };
  const clean = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^npm_/i.test(name)));
  return spawnSync(command, args, { ...options, env: { ...clean, NODE_OPTIONS: '', ...env } });
}

function must(dir, command, args, env) {
  const done = run(dir, command, args, env);
  assert.strictEqual(done.status, 0, `${command} ${args.join(' ')}\n${done.stdout}${done.stderr}${done.error ?? ''}`);
  return done.stdout;
}

/** Both module systems, by `node` or what stands for it. */
function works(dir, command = process.execPath, before = [], env = {}) {
  for (const name of ['main.cjs', 'main.mjs']) {
    assert.deepStrictEqual(JSON.parse(must(dir, command, [...before, name], env)), SAID, name);
  }
}

const tool = (name, version, file, as = name) => fromNpm(['tools', `${as}-${version}`], name, version, file);

module.exports = { ROOT, tarball, project, run, must, works, tool };
