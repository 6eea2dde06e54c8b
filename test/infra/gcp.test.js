'use strict';
// The scripts that deploy to Google Cloud, on a project that is an object: what
// they make, in which order, what they say when a step fails, that they go on
// where they stopped, and that a second run finds nothing to do.

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
  DASHBOARD,
  ROTATE,
  SANDBOX,
  SMOKE,
} = require('../helpers/project.js');

const envOf = (project, name) =>
  Object.fromEntries(
    project.services
      .find((one) => one.metadata.name === name)
      .template.env.map((one) => [one.name, one.value ?? one.valueFrom.secretKeyRef.key]),
  );
const tokens = (project) => project.secrets.flatMap((secret) => secret.versions.map((one) => one.value));

/** What a project with a dashboard of somebody else's has. */
function addDashboard({ project }) {
  const template = { env: [{ name: 'OWN', value: 'kept' }], annotations: {}, spec: {}, image: 'dashboard' };
  const account = 'dashboard@a-project.iam.gserviceaccount.com';
  project.services.push({
    metadata: { name: 'opendoor-dashboard', annotations: {}, labels: {} },
    template: { ...template, spec: { serviceAccountName: account } },
    spec: { template: { spec: { serviceAccountName: account, containers: [{ env: template.env }] } } },
    status: { url: 'https://dashboard.example', traffic: [] },
    policy: { bindings: [] },
  });
}

describe('a first deployment', () => {
  it('a dry run changes nothing, and names everything', async () => {
    const it = newProject();
    const run = await it.run(SANDBOX, ['--dry-run']);
    assert.equal(run.status, 0, run.out);
    assert.deepEqual(run.changes, []);
    for (const what of [
      'networks create',
      'deny-egress',
      'dns policies create',
      'secrets versions add',
      'docker push',
      'run deploy',
    ])
      assert.match(run.out, new RegExp(`would run: .*${what}`));
  });

  it('makes the ground, then the service, which nobody may call before it is proven', async () => {
    const it = newProject();
    const run = await it.run(SANDBOX);
    assert.equal(run.status, 0, run.out);
    const order = [
      'compute networks create',
      'compute routes delete',
      'dns policies create',
      'secrets versions add',
      'docker push',
      'run deploy',
    ];
    const places = order.map((what) => run.changes.findIndex((one) => one.startsWith(what)));
    assert.deepEqual(
      places,
      places.toSorted((a, b) => a - b),
    );
    assert.ok(!places.includes(-1), run.changes.join('\n'));

    const flags = argvOf(run, 'run deploy opendoor-sandbox');
    for (const flag of [
      '--execution-environment=gen1',
      '--vpc-egress=all-traffic',
      '--network=opendoor-sandbox-vpc',
      '--timeout=15s',
      '--concurrency=4',
      '--no-allow-unauthenticated',
      '--set-secrets=CODE_SANDBOX_TOKEN=opendoor-code-sandbox-token:1',
      '--startup-probe=tcpSocket.port=8080,periodSeconds=1,timeoutSeconds=1,failureThreshold=60',
      `--image=us-central1-docker.pkg.dev/a-project/opendoor/sandbox@${DIGEST}`,
    ])
      assert.ok(flags.includes(flag), `${flag}\n${flags.join('\n')}`);
    assert.ok(!flags.includes('--no-traffic'), 'gcloud refuses that for a first one');
    assert.deepEqual(it.project.services[0].policy.bindings, []);
  });

  it('a second run changes nothing, and proves it again', async () => {
    const it = await deployed();
    const again = await it.run(SANDBOX);
    assert.equal(again.status, 0, again.out);
    assert.deepEqual(again.changes, []);
    assert.equal(again.verified[0], 'verify --url https://opendoor-sandbox.example --expect gvisor');
  });

  it('no secret is in an argument or a message; the smoke test has it in its environment', async () => {
    const it = newProject();
    const traced = { SHELLOPTS: 'xtrace' };
    const runs = [
      await it.run(SANDBOX, [], traced),
      await it.run(ROTATE, [], traced),
      await it.run(ROTATE, ['--finish'], traced),
    ];
    assert.match(runs[0].out, /^\++ finish$/m, 'it was traced');
    const secrets = tokens(it.project);
    assert.equal(secrets.length, 2);
    for (const [at, run] of runs.entries()) {
      assert.equal(run.status, 0, run.out);
      assert.equal(run.verified[1], secrets[Math.min(at, 1)]);
      assert.equal(run.verified[2], 'an.identity.token');
      for (const secret of [...secrets, 'an.identity.token']) {
        assert.ok(!JSON.stringify(run.log).includes(secret), 'in an argument');
        assert.ok(!run.out.includes(secret), 'in a message');
      }
    }
    for (const secret of secrets) assert.match(secret, /^[0-9a-f]{64}$/);
    assert.notEqual(secrets[0], secrets[1]);
  });
});

describe('a step that fails', () => {
  // What fails, the step that has to be named, and a word of the remedy.
  const STEPS = [
    ['services enable', 'the APIs', /billing/],
    ['subnets create', 'the network that leads nowhere', /networkAdmin/],
    ['routes delete', 'the network that leads nowhere', /networkAdmin/],
    ['policies create', 'the network that leads nowhere', /dns\.admin/],
    ['versions add', 'the account and the token', /secretmanager\.admin/],
    ['repositories create', 'the image repository and the account of Cloud Build', /artifactregistry\.admin/],
    ['docker push', 'the image', /SANDBOX_BUILD/],
    ['run deploy', 'the new revision', /logs read/],
  ];

  it('is named, with a remedy; the next run goes on there and makes nothing twice', async () => {
    const it = newProject();
    const made = [];
    for (const [what, step, remedy] of STEPS) {
      const run = await it.run(SANDBOX, [], { FAKE_FAIL: what });
      assert.notEqual(run.status, 0, what);
      assert.match(run.out, new RegExp(`step '${step}' failed\\. .*${remedy.source}`));
      assert.match(run.out, /goes on from here/);
      assert.ok(run.changes.at(-1).includes(what), run.changes.join('\n'));
      made.push(...run.changes.slice(0, -1));
    }
    const red = await it.run(SANDBOX, [], { FAKE_VERDICT: '1' });
    assert.equal(red.status, 1);
    assert.match(red.out, /step 'the smoke test' failed\. The revision got no traffic/);
    made.push(...red.changes);
    const green = await it.run(SANDBOX);
    assert.equal(green.status, 0, green.out);
    const creations = made.filter((one) => /create|add |enable|run deploy/.test(one));
    assert.deepEqual(creations, [...new Set(creations)]);
    assert.deepEqual(green.changes, ['run services update-traffic opendoor-sandbox'], 'everything had been made');
  });

  it('a container that does not start is tried again, and what served before is not taken for it', async () => {
    const it = await deployed();
    const broken = { SANDBOX_IMAGE: `broken@sha256:${'b'.repeat(64)}` };
    for (const time of ['first', 'second']) {
      const run = await it.run(SANDBOX, [], broken);
      assert.notEqual(run.status, 0, time);
      assert.match(run.out, /step 'the new revision' failed\. .*logs read/);
    }
    assert.equal(trafficOf(it.project)[0].revisionName, revisionOf(it.project, DIGEST));
  });

  it('an openssl that makes nothing gives no version of the secret', async () => {
    const it = newProject();
    fs.writeFileSync(path.join(it.folder, 'bin', 'openssl'), '#!/bin/sh\nexit 1\n', { mode: 0o755 });
    const run = await it.run(SANDBOX, ['prepare']);
    assert.notEqual(run.status, 0);
    assert.match(run.out, /step 'the account and the token' failed/);
    assert.deepEqual(it.project.secrets[0].versions, []);
  });

  it('a question that is not answered is not taken for "it is not there"', async () => {
    const it = await deployed();
    const run = await it.run(SANDBOX, [], { FAKE_FAIL: 'compute networks list' });
    assert.equal(run.status, 1);
    assert.match(run.out, /PERMISSION_DENIED/);
    assert.match(run.out, /step 'the network that leads nowhere' failed/);
    assert.deepEqual(run.changes, []);
  });

  it('check only looks, and says what to run', async () => {
    const it = newProject();
    const fresh = await it.run(SANDBOX, ['check']);
    assert.equal(fresh.status, 1);
    assert.match(fresh.out, /not there yet: .*run once: infra\/gcp\/deploy-sandbox\.sh prepare/);
    assert.deepEqual(fresh.changes, []);
    assert.equal((await it.run(SANDBOX, ['prepare'])).status, 0);
    const ready = await it.run(SANDBOX, ['check']);
    assert.equal(ready.status, 0, ready.out);
    assert.deepEqual(ready.changes, []);
  });
});

describe('the dashboard', () => {
  it('that is to be connected and is not there is said to be missing', async () => {
    const it = await deployed();
    const run = await it.run(DASHBOARD, ['--connect']);
    assert.equal(run.status, 1);
    assert.match(run.out, /there is no service opendoor-dashboard in us-central1 to connect/);
    assert.deepEqual(run.changes, []);
  });

  it('that is deployed is connected: URL, token, the right to call and to read; a second run changes nothing', async () => {
    const it = await deployed();
    addDashboard(it);
    const run = await it.run(DASHBOARD, ['--connect']);
    assert.equal(run.status, 0, run.out);
    assert.deepEqual(envOf(it.project, 'opendoor-dashboard'), {
      OWN: 'kept',
      CODE_SANDBOX_URL: 'https://opendoor-sandbox.example',
      CODE_SANDBOX_IDENTITY: 'metadata',
      CODE_SANDBOX_TOKEN: '1',
      MIN_ISOLATION: 'gvisor',
      DASHBOARD_HOSTS: 'dashboard.example',
    });
    const member = 'serviceAccount:dashboard@a-project.iam.gserviceaccount.com';
    assert.deepEqual(it.project.services[0].policy.bindings, [{ role: 'roles/run.invoker', members: [member] }]);
    assert.ok(it.project.secrets[0].policy.bindings[0].members.includes(member));
    const again = await it.run(DASHBOARD, ['--connect']);
    assert.equal(again.status, 0, again.out);
    assert.deepEqual(again.changes, []);
  });

  it('is not connected to a sandbox that is open, and is not changed', async () => {
    const it = await deployed();
    addDashboard(it);
    it.project.subnets[0].privateIpGoogleAccess = true;
    const run = await it.run(DASHBOARD, ['--connect']);
    assert.equal(run.status, 1);
    assert.match(run.out, /WRONG opendoor-sandbox-subnet: has no Private Google Access/);
    assert.match(run.out, /is not connected to a sandbox that is not shut/);
    assert.deepEqual(run.changes, []);
  });

  it('is not connected to a sandbox that the smoke test has not called shut', async () => {
    const it = newProject();
    assert.equal((await it.run(SANDBOX, [], { FAKE_VERDICT: '1' })).status, 1);
    addDashboard(it);
    const run = await it.run(DASHBOARD, ['--connect']);
    assert.equal(run.status, 1);
    assert.match(run.out, /has not passed the smoke test\. Run infra\/gcp\/deploy-sandbox\.sh/);
    assert.deepEqual(run.changes, []);
  });

  it('is deployed from an image, also where there is no sandbox, and then says that', async () => {
    const it = newProject({ apis: ['run.googleapis.com', 'iam.googleapis.com', 'secretmanager.googleapis.com'] });
    const run = await it.run(DASHBOARD, [], { DASHBOARD_IMAGE: 'registry.example/dashboard:1' });
    assert.equal(run.status, 0, run.out);
    assert.match(run.out, /there is no opendoor-sandbox in us-central1: CODE_SANDBOX_URL is not set/);
    assert.deepEqual(run.changes, [
      'iam service-accounts create opendoor-dashboard',
      'run deploy opendoor-dashboard',
      'run services update opendoor-dashboard',
    ]);
    assert.deepEqual(envOf(it.project, 'opendoor-dashboard'), { DASHBOARD_HOSTS: 'opendoor-dashboard.example' });
  });

  it('is built, and never public; it keeps the names that it has, unless others are wanted', async () => {
    const it = await deployed();
    const first = await it.run(DASHBOARD, [], { DASHBOARD_HOSTS: 'a.example,b.example' });
    assert.equal(first.status, 0, first.out);
    assert.match(first.out, /docker build .*apps\/dashboard\/Dockerfile/);
    const second = await it.run(DASHBOARD);
    assert.equal(second.status, 0, second.out);
    for (const { out } of [first, second])
      assert.match(out, /run deploy opendoor-dashboard .*--no-allow-unauthenticated/);
    const { DASHBOARD_HOSTS, MIN_ISOLATION } = envOf(it.project, 'opendoor-dashboard');
    assert.deepEqual([DASHBOARD_HOSTS, MIN_ISOLATION], ['a.example,b.example', 'gvisor']);
    const wrong = await it.run(DASHBOARD, [], { DASHBOARD_HOSTS: 'a;MIN_ISOLATION=process' });
    assert.equal(wrong.status, 1);
    assert.deepEqual(wrong.changes, []);
  });
});

describe('a new token', () => {
  it('at no time does the dashboard hold one that the sandbox refuses', async () => {
    const it = await deployed();
    addDashboard(it);
    assert.equal((await it.run(DASHBOARD, ['--connect'])).status, 0);
    const accepted = () => {
      const serving = it.project.revisions.find((one) => one.metadata.name === trafficOf(it.project)[0].revisionName);
      return serving.spec.containers[0].env.filter((one) => one.valueFrom).map((one) => one.valueFrom.secretKeyRef.key);
    };
    // A run that fails at each place in turn, and at last one that does not.
    for (const FAKE_FAIL of [
      'versions add',
      'run services update opendoor-sandbox',
      'update-traffic',
      'run services update opendoor-dashboard',
      '',
    ]) {
      const run = await it.run(ROTATE, [], { FAKE_FAIL });
      assert.equal(run.status === 0, FAKE_FAIL === '', run.out);
      assert.ok(accepted().includes(envOf(it.project, 'opendoor-dashboard').CODE_SANDBOX_TOKEN), `after ${FAKE_FAIL}`);
    }
    assert.equal(tokens(it.project).length, 2, 'one new one, not one a try');
    assert.deepEqual(accepted(), ['2', '1']);
    assert.equal(envOf(it.project, 'opendoor-dashboard').CODE_SANDBOX_TOKEN, '2');
    assert.deepEqual((await it.run(ROTATE)).changes, [], 'the same rotation, which is still open');

    const end = await it.run(ROTATE, ['--finish']);
    assert.equal(end.status, 0, end.out);
    assert.deepEqual(accepted(), ['2']);
    assert.deepEqual(
      it.project.secrets[0].versions.map((one) => one.on),
      [false, true],
    );
    assert.deepEqual((await it.run(ROTATE, ['--finish'])).changes, []);
  });

  it('is not finished while the dashboard has the old one', async () => {
    const it = await deployed();
    addDashboard(it);
    assert.equal((await it.run(DASHBOARD, ['--connect'])).status, 0);
    assert.notEqual((await it.run(ROTATE, [], { FAKE_FAIL: 'update opendoor-dashboard' })).status, 0);
    const run = await it.run(ROTATE, ['--finish']);
    assert.equal(run.status, 1);
    assert.match(run.out, /opendoor-dashboard still has version 1 of the token, not 2/);
    assert.deepEqual(run.changes, []);
  });
});

describe('each script', () => {
  for (const script of [SANDBOX, DASHBOARD, SMOKE, ROTATE])
    it(`${script} has help, and refuses what it does not know`, async () => {
      const it = newProject();
      const help = await it.run(script, ['--help']);
      assert.equal(help.status, 0);
      assert.match(help.out, /^usage: .*Settings, from the environment:/s);
      const wrong = await it.run(script, ['--no-such-thing']);
      assert.equal(wrong.status, 2);
      const auth = await it.run(script, [], { SANDBOX_AUTH: 'none' });
      assert.equal(auth.status, 1);
      assert.match(auth.out, /SANDBOX_AUTH is 'none'; it is iam or token/);
      const project = await it.run(script, [], { PROJECT_ID: 'x","auth":"token' });
      assert.match(project.out, /the project is 'x","auth":"token'; its id is needed/);
      const region = await it.run(script, [], { REGION: 'us-central1,_AUTH=token' });
      assert.match(region.out, /REGION is 'us-central1,_AUTH=token'/);
      assert.deepEqual([project.status, region.status], [1, 1]);
      assert.deepEqual(
        [help, wrong, auth, project, region].flatMap((one) => one.log),
        [],
      );
    });
});
