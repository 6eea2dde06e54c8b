'use strict';
// The real gcloud's word on what the scripts and Cloud Build's files say, without a
// network; and what of those files can be checked without it.

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { describe, it } = require('node:test');
const yaml = require('yaml');
const { newProject, ROOT, DASHBOARD, ROTATE, SANDBOX } = require('../helpers/project.js');

const read = (name) => fs.readFileSync(path.join(ROOT, name), 'utf8');
const has = (command) => !spawnSync(command, ['--version'], { stdio: 'ignore' }).error;

describe('infra/gcp', () => {
  const skip =
    has('gcloud') && has('unshare') && process.getuid?.() === 0
      ? false
      : 'gcloud is not installed (not in Debian), or this is not root';
  const offline = (folder, seconds, ...args) =>
    spawnSync('unshare', ['-n', 'timeout', String(seconds), 'gcloud', ...args], {
      encoding: 'utf8',
      env: {
        PATH: process.env.PATH,
        HOME: folder,
        CLOUDSDK_CONFIG: path.join(folder, 'gcloud'),
        CLOUDSDK_CORE_DISABLE_USAGE_REPORTING: 'true',
        CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK: 'true',
        CLOUDSDK_CORE_DISABLE_PROMPTS: '1',
        CLOUDSDK_CORE_PROJECT: 'a-project',
        CLOUDSDK_AUTH_ACCESS_TOKEN_FILE: path.join(folder, 'word'),
      },
    });

  it("gcloud's own linter knows every command and flag that the scripts use", { skip }, async () => {
    const it = newProject();
    const commands = new Map();
    const image = (digit) => ({ SANDBOX_IMAGE: `x@sha256:${digit.repeat(64)}` });
    const more = { SANDBOX_AUTH: 'token', SANDBOX_CPU_ALWAYS: '1', SANDBOX_BINARY_AUTHORIZATION: 'default' };
    for (const [script, args, env] of [
      [SANDBOX, [], { SANDBOX_BUILD: 'cloud' }],
      [SANDBOX, [], { ...image('1'), ...more, SMOKE_ACCOUNT: 'b@a-project.iam.gserviceaccount.com' }],
      [SANDBOX, [], image('2')],
      [DASHBOARD, [], { DASHBOARD_IMAGE: 'x', SANDBOX_JUDGED: '1' }],
      [ROTATE, [], {}],
      [ROTATE, ['--finish'], {}],
    ])
      for (const { argv } of (await it.run(script, args, env)).log)
        if (argv[0] !== 'docker') commands.set(argv.map((word) => word.split('=')[0]).join(' '), argv);
    assert.ok(commands.size > 45, String(commands.size));
    const quoted = (word) => (/\s/.test(word) ? `'${word}'` : word);
    const strings = [...commands.values(), ['run', 'deploy', 'x', '--no-such-flag']].map((argv) => ({
      command_string: `gcloud ${argv.map(quoted).join(' ')}`,
    }));
    const file = path.join(it.folder, 'commands.json');
    fs.writeFileSync(file, JSON.stringify(strings));
    const { stdout, stderr } = offline(it.folder, 120, 'meta', 'lint-gcloud-commands', `--commands-file=${file}`);
    const wrong = JSON.parse(stdout || `"${stderr}"`).filter((one) => !one.success);
    assert.deepEqual(
      wrong.map((one) => one.command_string.replace(/ --project=\S+/, '')),
      ['gcloud run deploy x --no-such-flag'],
      JSON.stringify(wrong),
    );
  });

  it('gcloud takes both files of Cloud Build', { skip }, () => {
    const it = newProject();
    fs.writeFileSync(path.join(it.folder, 'word'), 'no-token');
    const file = path.join(it.folder, 'build.yaml');
    for (const name of ['sandbox', 'dashboard']) {
      // A file that it takes whole it would want to send, in vain and for long; so each has a key that
      // it does not know where it looks last (top, options, steps): that is all it may find.
      const text = read(`infra/gcp/cloudbuild.${name}.yaml`);
      const last = yaml.parse(text).steps.length - 1;
      fs.writeFileSync(file, text.replace(/^ {2}- id:(?![\s\S]*\n {2}- id:)/m, '  - iD: x\n    id:'));
      const { stderr } = offline(it.folder, 120, 'builds', 'submit', '--no-source', `--config=${file}`);
      assert.match(stderr, new RegExp(`as build config: \\.steps\\[${last}\\]\\.iD: unused$`, 'm'));
    }
  });

  for (const name of ['sandbox', 'dashboard'])
    it(`cloudbuild.${name}.yaml runs scripts that are there, and uses what it declares`, () => {
      const text = read(`infra/gcp/cloudbuild.${name}.yaml`);
      const { steps, substitutions, options } = yaml.parse(text);
      assert.equal(new Set(steps.map((step) => step.id)).size, steps.length);
      for (const [file] of text.matchAll(/(infra|scripts)\/[\w./-]+\.sh/g))
        assert.ok(fs.existsSync(path.join(ROOT, file)), file);
      const used = new Set([...text.matchAll(/\$\{(_\w+)\}/g)].map((match) => match[1]));
      assert.deepEqual([...used].sort(), Object.keys(substitutions).sort(), 'MUST_MATCH');
      assert.equal(options.logging, 'CLOUD_LOGGING_ONLY');
      for (const { args } of steps)
        if (args[0] === '-c') assert.equal(spawnSync('bash', ['-n', '-c', args[1].replaceAll('$$', '$')]).status, 0);
    });

  it('Cloud Build proves a revision before it gives it the traffic', () => {
    const ids = yaml.parse(read('infra/gcp/cloudbuild.sandbox.yaml')).steps.map((step) => step.id);
    const order = ['ground', 'build', 'push', 'revision', 'smoke', 'traffic'];
    assert.deepEqual(
      ids.filter((id) => order.includes(id)),
      order,
    );
  });
});
