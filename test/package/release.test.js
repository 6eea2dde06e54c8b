'use strict';
// The release workflow: what it calls is there, and a tag that is not the version stops it.

const assert = require('node:assert');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { test } = require('node:test');
const yaml = require('yaml');

const ROOT = path.join(__dirname, '..', '..');
const { scripts, version } = require(path.join(ROOT, 'package.json'));
const { jobs } = yaml.parse(fs.readFileSync(path.join(ROOT, '.github', 'workflows', 'release.yml'), 'utf8'));
const { steps, permissions } = jobs.publish;

test('every npm script that it runs is there', () => {
  const names = steps.flatMap(({ run = '' }) => [...run.matchAll(/npm run ([\w:]+)/g)].map((found) => found[1]));
  assert.deepStrictEqual(names, ['setup', 'test:package', 'pack']);
  for (const name of names) assert.ok(scripts[name], name);
});

test('only the tag of the package’s version passes', () => {
  const check = steps.find(({ env }) => env?.TAG);
  const passes = (tag) => spawnSync('sh', ['-ec', check.run], { cwd: ROOT, env: { ...process.env, TAG: tag } }).status;
  assert.strictEqual(passes(`v${version}`), 0);
  for (const tag of [version, `v${version}-rc.1`, 'v', '']) assert.strictEqual(passes(tag), 1, tag);
});

test('actions are pinned to a commit, and it may write nothing but its identity', () => {
  const actions = steps.flatMap(({ uses }) => uses ?? []);
  assert.ok(actions.length > 0);
  for (const uses of actions) assert.match(uses, /@[0-9a-f]{40}$/);
  assert.deepStrictEqual(permissions, { contents: 'read', 'id-token': 'write' });
});
