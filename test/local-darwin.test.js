'use strict';
// The backend for macOS, on Linux: everything but src/darwin, in whose place
// test/solo stands. What the sandbox of macOS itself does is not shown here.

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { after, before, describe, it } = require('node:test');
const { TARGETS, FLAGS } = require('../scripts/darwin.js');
const native = require('../lib/native.js');

const ROOT = path.join(__dirname, '..');
const WITHOUT = { skip: process.platform === 'linux' ? false : 'builds with the tools of Linux' };
const STAND_IN = {
  'src/darwin/host.c': 'test/solo/host.c',
  'src/darwin/wall.c': 'test/solo/wall.c',
};

function compile(out) {
  const include = [path.dirname(path.dirname(process.execPath)), '/usr', '/usr/local']
    .map((prefix) => path.join(prefix, 'include', 'node'))
    .find((dir) => fs.existsSync(path.join(dir, 'node_api.h')));
  for (const [name, { kind, sources }] of Object.entries(TARGETS)) {
    const files = sources.map((one) => STAND_IN[one] ?? one);
    const flags = [...FLAGS, '-Wall', '-Wextra', '-Werror', '-fvisibility=hidden', '-Isrc', '-isystem', include ?? ''];
    const { status, stderr } = spawnSync(
      'cc',
      [...flags, ...(kind ? [kind, '-fPIC'] : []), ...files, '-o', path.join(out, name)],
      { cwd: ROOT, encoding: 'utf8' },
    );
    assert.equal(status, 0, stderr);
  }
}

/** Processes whose command line names the folder. */
function left(out) {
  return fs.readdirSync('/proc').filter((pid) => {
    try {
      return (
        /^\d+$/.test(pid) &&
        fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(path.join(out, 'code-jail-keeper'))
      );
    } catch {
      return false;
    }
  });
}

describe('the backend for macOS', WITHOUT, () => {
  let out = '';
  /** @type {any} */
  let makeJail;
  const jails = [];
  const open = (config = {}) => {
    const parts = {
      keeper: path.join(out, 'code-jail-keeper'),
      guestNode: path.join(out, 'guest_node.node'),
      guestPython: path.join(out, 'guest_python.so'),
      guestDir: path.join(ROOT, 'lib', 'guest'),
    };
    const jail = makeJail(config, { parts, keeper: false });
    jails.push(jail);
    return jail;
  };
  const weak = () => open({ allowWeak: true, parked: 1 });

  before(() => {
    out = fs.mkdtempSync(path.join(os.tmpdir(), 'solo-'));
    fs.mkdirSync(path.join(out, 'tmp'));
    compile(out);
    process.env.TMPDIR = path.join(out, 'tmp'); // where the cells' folders are made
    const module = { exports: {} };
    process.dlopen(module, path.join(out, 'code_jail.node'));
    native.load = () => module.exports;
    ({ makeJail } = require('../lib/run-code.js'));
  });
  after(async () => {
    await Promise.all(jails.map((jail) => jail.close()));
    assert.deepEqual(left(out), []);
    assert.deepEqual(fs.readdirSync(path.join(out, 'tmp')), []);
    fs.rmSync(out, { recursive: true });
  });

  it('refuses where no wall holds, and says why', async () => {
    await assert.rejects(open().runCode({ language: 'python', code: 'result = 1' }), (error) => {
      assert.equal(error.code, 'ERR_JAIL_ISOLATION');
      assert.match(error.message, /no sandbox_init on this host/);
      return true;
    });
  });

  it('runs both languages with allowWeak, and claims no more than held', async () => {
    const jail = weak();
    for (const [language, code] of [
      ['javascript', 'console.log("said"); return input.a + 1;'],
      ['python', 'print("said")\nresult = input["a"] + 1'],
    ]) {
      const result = await jail.runCode({ language, code, input: { a: 41 } });
      assert.equal(result.status, 'ok', JSON.stringify(result.error));
      assert.equal(result.result, 42);
      assert.equal(result.stdout, 'said\n');
      assert.equal(result.jail.isolation, 'unverified');
      assert.equal(result.jail.start, 'cold');
      assert.ok(result.jail.missing.some(({ reason }) => /no sandbox_init/.test(reason)));
    }
  });

  it('says process isolation where all three held', async () => {
    const marker = path.join(out, 'tmp', 'walled');
    fs.writeFileSync(marker, '');
    try {
      const result = await open({ parked: 1 }).runCode({ language: 'python', code: 'result = 1' });
      assert.equal(result.jail.isolation, 'process');
    } finally {
      fs.rmSync(marker);
    }
  });

  it('tells how code ended', async () => {
    const jail = weak();
    const run = (code, more = {}) => jail.runCode({ language: 'python', code, ...more });
    const [late, exit, thrown, memory, killed, meddling] = await Promise.all([
      run('while True: pass', { timeoutMs: 300 }),
      run('import sys\nsys.exit(3)'),
      run('1 / 0'),
      run('x = []\nwhile True: x.append(bytearray(1 << 20))', { memoryMb: 64, timeoutMs: 9000 }),
      run('import os\nos.kill(os.getpid(), 9)'),
      run('import os\nos.write(3, b"x" * 64)\nwhile True: pass'),
    ]);
    assert.equal(late.status, 'timeout');
    assert.deepEqual([exit.status, exit.exitCode], ['error', 3]);
    assert.deepEqual([thrown.status, thrown.error.name, thrown.error.line], ['error', 'ZeroDivisionError', 1]);
    assert.equal(memory.status, 'out_of_memory');
    assert.equal(killed.status, 'killed');
    assert.equal(meddling.status, 'killed');
  });

  it('ends a run that is aborted, and what it started', async () => {
    const jail = weak();
    const abort = new AbortController();
    const run = jail.runCode({ language: 'javascript', code: 'while (true);' }, { signal: abort.signal });
    setTimeout(() => abort.abort(), 200);
    await assert.rejects(run, { name: 'AbortError' });
    const next = await jail.runCode({ language: 'javascript', code: 'return 1' });
    assert.equal(next.result, 1);
  });
});
