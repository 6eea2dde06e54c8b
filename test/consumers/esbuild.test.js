'use strict';
// Bundlers: with code-jail kept external it runs, and bundled in it says what to set.

const assert = require('node:assert/strict');
const { execFileSync } = require('node:child_process');
const path = require('node:path');
const { before, describe, it } = require('node:test');
const { project } = require('./helpers/package.js');
const { runs, start } = require('./helpers/program.js');

const REMEDY = /code-jail has been bundled into \S.*keep it external.*--external:code-jail.*serverExternalPackages/;
const WITH_REQUIRE = "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);";

describe('esbuild', () => {
  let folder = '';
  before(() => {
    folder = project('esbuild');
  });

  /** Bundles, and gives the command of what came out. */
  function bundle(entry, ...options) {
    const out = path.join('out', `${options.length}-${entry.replace('app.js', 'app.mjs')}`);
    const format = entry.endsWith('.cjs') ? 'cjs' : 'esm';
    const esbuild = path.join(folder, 'node_modules', '.bin', 'esbuild');
    const always = ['--bundle', '--platform=node', `--format=${format}`, `--outfile=${out}`, '--log-level=warning'];
    execFileSync(esbuild, [entry, ...always, ...options], { cwd: folder, stdio: 'inherit' });
    return [process.execPath, out];
  }

  for (const entry of ['app.js', 'app.cjs'])
    for (const option of ['--external:code-jail', '--packages=external'])
      it(`${entry} with ${option}`, async () => {
        assert.match(await runs(folder, bundle(entry, option, '--minify')), /^42 43 true$/m);
      });

  for (const entry of ['app.js', 'app.cjs'])
    it(`${entry} with code-jail bundled in names the remedy`, async () => {
      const end = await start(folder, bundle(entry)).ended;
      assert.equal(end.code, 1, end.output);
      assert.match(end.output, REMEDY);
      assert.match(end.output, /ERR_JAIL_CONFIG/);
      assert.deepEqual(end.left, []);
    });

  it('also where an ES module has been given a require', async () => {
    const end = await start(folder, bundle('app.js', `--banner:js=${WITH_REQUIRE}`)).ended;
    assert.equal(end.code, 1, end.output);
    assert.match(end.output, REMEDY);
  });
});
