'use strict';
// Which revision of the sandbox can be reached, and by whom: only what the smoke test
// has called shut, whatever else happens to the service meanwhile.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { describe, it } = require('node:test');
const {
  argvOf,
  deployed,
  newProject,
  revisionOf,
  trafficOf,
  DIGEST,
  SANDBOX,
  SMOKE,
} = require('../helpers/project.js');

const PUBLIC = { role: 'roles/run.invoker', members: ['allUsers'] };

describe('a next revision', () => {
  const NEW = { SANDBOX_IMAGE: `registry.example/sandbox@sha256:${'e'.repeat(64)}` };

  it('has no traffic until it is proven, at its own URL', async () => {
    const it = await deployed();
    const red = await it.run(SANDBOX, [], { ...NEW, FAKE_VERDICT: '1' });
    assert.equal(red.status, 1);
    assert.equal(red.verified[0], 'verify --url https://smoke---opendoor-sandbox.example --expect gvisor');
    assert.ok(argvOf(red, 'run deploy opendoor-sandbox').includes('--no-traffic'));
    assert.equal(trafficOf(it.project)[0].revisionName, revisionOf(it.project, DIGEST));

    const green = await it.run(SANDBOX, [], NEW);
    assert.equal(green.status, 0, green.out);
    assert.deepEqual(green.changes, ['run services update-traffic opendoor-sandbox']);
    assert.equal(trafficOf(it.project)[0].revisionName, revisionOf(it.project, 'registry.example'));
    assert.deepEqual((await it.run(SANDBOX, [], NEW)).changes, []);
  });

  /** A smoke test during which somebody else changes the service. */
  const during = (it, command) => {
    const file = path.join(it.folder, 'meanwhile');
    fs.writeFileSync(file, `#!/bin/sh\ngcloud run services update opendoor-sandbox --no-traffic ${command}\n`, {
      mode: 0o755,
    });
    return { SMOKE_VERIFY: file };
  };

  it('gets the traffic only if it is the one that was proven', async () => {
    const it = await deployed();
    const newer = await it.run(SANDBOX, [], { ...NEW, ...during(it, '--execution-environment=gen2') });
    assert.equal(newer.status, 0, newer.out);
    const proven = revisionOf({ revisions: it.project.revisions.slice(0, -1) }, 'registry.example');
    assert.deepEqual(trafficOf(it.project), [{ revisionName: proven, percent: 100 }]);

    const other = await deployed();
    const moved = await other.run(SANDBOX, [], {
      ...NEW,
      ...during(other, '--execution-environment=gen2 --tag=smoke'),
    });
    assert.equal(moved.status, 1);
    assert.match(moved.out, /another deployment came between/);
    assert.equal(trafficOf(other.project)[0].revisionName, revisionOf(other.project, DIGEST));
  });

  it('without a proof, traffic is not moved', async () => {
    const it = await deployed();
    const run = await it.run(SANDBOX, ['traffic']);
    assert.equal(run.status, 1);
    assert.match(run.out, /SANDBOX_REVISION is not set/);
    assert.deepEqual(run.changes, []);
  });

  it('replaces one that is open, and what only a tag makes reachable', async () => {
    const it = await deployed();
    const [revision] = it.project.revisions;
    revision.metadata.annotations['run.googleapis.com/execution-environment'] = 'gen2';
    it.project.services[0].status.traffic.push({ revisionName: revision.metadata.name, tag: 'canary' });
    const open = await it.run(SMOKE);
    assert.equal(open.status, 1);
    assert.match(open.out, /WRONG .*gVisor/);
    const green = await it.run(SANDBOX, [], NEW);
    assert.equal(green.status, 0, green.out);
    const names = it.project.services[0].status.traffic.map((one) => one.revisionName);
    assert.deepEqual([...new Set(names)], [revisionOf(it.project, 'registry.example')]);
    assert.equal((await it.run(SMOKE)).status, 0);
  });

  it('that is open itself is not called shut for being a candidate', async () => {
    const it = await deployed();
    it.project.revisions[0].spec.timeoutSeconds = 300;
    const run = await it.run(SMOKE, ['--candidate']);
    assert.equal(run.status, 1);
    assert.match(run.out, /WRONG .*given up after 15 s/);
  });

  it('what was changed by hand is made again', async () => {
    for (const change of [
      (project) =>
        Object.assign(project.services[0].metadata.annotations, { 'run.googleapis.com/ingress': 'internal' }),
      (project) => {
        const [{ metadata, spec }] = project.revisions;
        const byHand = { metadata: { ...metadata, name: 'opendoor-sandbox-00002' }, spec };
        project.revisions.push(byHand);
        const name = byHand.metadata.name;
        Object.assign(project.services[0].status, { latestCreatedRevisionName: name, latestReadyRevisionName: name });
      },
    ]) {
      const it = await deployed();
      change(it.project);
      const run = await it.run(SANDBOX);
      assert.equal(run.status, 0, run.out);
      assert.deepEqual(run.changes, ['run deploy opendoor-sandbox', 'run services update-traffic opendoor-sandbox']);
    }
  });

  it('an image that is not named by its digest is refused', async () => {
    const it = await deployed();
    const run = await it.run(SANDBOX, ['revision'], { SANDBOX_IMAGE: 'registry.example/sandbox:latest' });
    assert.equal(run.status, 1);
    assert.match(run.out, /name it by its digest/);
    assert.deepEqual(run.changes, []);
  });

  it('a setting is one setting', async () => {
    const run = await newProject().run(SANDBOX, ['--dry-run'], { SANDBOX_CPU: '2,CODE_SANDBOX_ALLOW_WEAK=1' });
    assert.equal(run.status, 1);
    assert.match(run.out, /SANDBOX_CPU is '2,CODE_SANDBOX_ALLOW_WEAK=1'/);
  });

  it('Cloud Build gets the settings, and does the rest', async () => {
    const it = newProject();
    const settings = { SANDBOX_CPU: '1', SANDBOX_MAX_INSTANCES: '3' };
    const run = await it.run(SANDBOX, [], { SANDBOX_BUILD: 'cloud', REGION: 'europe-west1', ...settings });
    assert.equal(run.status, 0, run.out);
    const submit = run.log.find((one) => one.command.startsWith('builds submit')).argv;
    const place = '_REGION=europe-west1,_TAG=0123456789ab,_AUTH=iam,_INGRESS=all';
    assert.ok(
      submit.includes(`--substitutions=${place},_SETTINGS=SANDBOX_CPU=1 SANDBOX_MAX_INSTANCES=3`),
      submit.join(),
    );
    assert.ok(!run.changes.some((one) => one.startsWith('run ')), 'not from here');
  });
});

describe('who may call it', () => {
  it('with the token alone: everybody, but only once it is proven; back to IAM: nobody, before it is proven', async () => {
    const it = newProject();
    const token = { SANDBOX_AUTH: 'token' };
    const red = await it.run(SANDBOX, [], { ...token, FAKE_VERDICT: '1' });
    assert.equal(red.status, 1);
    assert.deepEqual(it.project.services[0].policy.bindings, []);
    assert.equal((await it.run(SANDBOX, [], token)).status, 0);
    assert.deepEqual(it.project.services[0].policy.bindings, [PUBLIC]);
    assert.deepEqual((await it.run(SANDBOX, [], token)).changes, []);

    const closed = await it.run(SANDBOX, [], { FAKE_VERDICT: '1' });
    assert.equal(closed.status, 1);
    assert.deepEqual(it.project.services[0].policy.bindings, []);
  });
});
