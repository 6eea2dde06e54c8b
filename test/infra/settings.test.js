'use strict';
// Nobody may take an open sandbox for a shut one: each setting on which its walls
// rest is turned, one at a time, and has to be called wrong. What was not read, too.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const http = require('node:http');
const path = require('node:path');
const { before, describe, it } = require('node:test');
const { judge, read } = require('../../infra/gcp/settings.js');
const { newProject, ID, ROOT, SANDBOX, SMOKE } = require('../helpers/project.js');

const WANTED = { project: ID, auth: 'iam', ingress: 'all' };
const GOOGLE = 'run.googleapis.com/';
const network = 'projects/a-project/global/networks/opendoor-sandbox-vpc';
const member = `serviceAccount:opendoor-sandbox@${ID}.iam.gserviceaccount.com`;

let project;
let state;
before(async () => {
  const it = newProject();
  const run = await it.run(SANDBOX);
  assert.equal(run.status, 0, run.out);
  project = it.project;
  const folder = path.join(it.folder, 'read');
  const collected = await it.run(SMOKE, ['--settings', '--collect', folder]);
  assert.equal(collected.status, 0, collected.out);
  state = read(folder);
});

const wrong = (changed, wanted = WANTED) => judge(changed, wanted).filter((one) => !one.holds);
const annotate = (key, value) => (now) => {
  now.revisions[0].metadata.annotations[GOOGLE + key] = value;
};
const container = (now) => now.revisions[0].spec.containers[0];
const env = (entry) => (now) => container(now).env.push(entry);
const rule = (now) => now.firewall.find((one) => one.direction === 'EGRESS');

/** [what is turned, how, the setting that has to be called wrong] */
const TURNED = [
  ['the other generation', annotate('execution-environment', 'gen2'), 'runs in gVisor'],
  ['no generation named', annotate('execution-environment', undefined), 'runs in gVisor'],
  [
    'only private addresses through the network',
    annotate('vpc-access-egress', 'private-ranges-only'),
    'all its traffic',
  ],
  ['no network', annotate('network-interfaces', undefined), 'is attached to'],
  ['no JSON as network', annotate('network-interfaces', 'default'), 'is attached to'],
  [
    'another network',
    annotate('network-interfaces', '[{"network":"default","subnetwork":"opendoor-sandbox-subnet"}]'),
    'is attached to',
  ],
  [
    'another subnet',
    annotate('network-interfaces', '[{"network":"opendoor-sandbox-vpc","subnetwork":"other"}]'),
    'is attached to',
  ],
  [
    'a network of that name in another project',
    annotate(
      'network-interfaces',
      `[{"network":"projects/other/x/opendoor-sandbox-vpc","subnetwork":"opendoor-sandbox-subnet"}]`,
    ),
    'is attached to',
  ],
  ['a connector', annotate('vpc-access-connector', 'sandbox-conn'), 'is attached to'],
  ['a database', annotate('cloudsql-instances', 'a-project:us-central1:main'), 'database'],
  [
    'a bucket',
    (now) => Object.assign(now.revisions[0].spec, { volumes: [{ csi: { driver: 'gcsfuse.run.googleapis.com' } }] }),
    'volume',
  ],
  ['a second container', (now) => now.revisions[0].spec.containers.push({ image: 'proxy' }), 'one container'],
  ['another program', (now) => Object.assign(container(now), { command: ['/bin/sh'] }), 'one container'],
  ['an image by its tag', (now) => Object.assign(container(now), { image: 'sandbox:latest' }), 'digest'],
  [
    'the default account',
    (now) => Object.assign(now.revisions[0].spec, { serviceAccountName: '1-compute@developer.gserviceaccount.com' }),
    'account without roles',
  ],
  ['five minutes', (now) => Object.assign(now.revisions[0].spec, { timeoutSeconds: 300 }), '15 s'],
  [
    'more requests than slots',
    (now) => Object.assign(now.revisions[0].spec, { containerConcurrency: 80 }),
    'a slot for each',
  ],
  [
    'the token as text',
    (now) =>
      Object.assign(
        container(now).env.find((one) => one.name === 'CODE_SANDBOX_TOKEN'),
        { valueFrom: undefined, value: 'x' },
      ),
    'Secret Manager',
  ],
  [
    'a secret more',
    env({ name: 'DATABASE_URL', valueFrom: { secretKeyRef: { name: 'database', key: '1' } } }),
    'no other secret',
  ],
  [
    'the token of whatever version is the latest',
    (now) => {
      container(now).env.find((one) => one.name === 'CODE_SANDBOX_TOKEN').valueFrom.secretKeyRef.key = 'latest';
    },
    'the number of its version',
  ],
  ['the former token as text', env({ name: 'CODE_SANDBOX_TOKEN_PREVIOUS', value: 'x' }), 'Secret Manager'],
  [
    'the secret of another project',
    annotate('secrets', 'opendoor-code-sandbox-token:projects/2/secrets/theirs'),
    'Secret Manager',
  ],
  ['an address with a password', env({ name: 'DATABASE_URL', value: 'x' }), 'no variable but'],
  ['weak walls allowed', env({ name: 'CODE_SANDBOX_ALLOW_WEAK', value: '1' }), 'no variable but'],
  ['a program in front of Node', env({ name: 'NODE_OPTIONS', value: '--inspect' }), 'no variable but'],
  [
    'open to everybody',
    (now) => now.servicePolicy.bindings.push({ role: 'roles/run.invoker', members: ['allUsers'] }),
    'only who may invoke',
  ],
  [
    'open to every account of Google',
    (now) => now.servicePolicy.bindings.push({ role: 'roles/run.invoker', members: ['allAuthenticatedUsers'] }),
    'only who may invoke',
  ],
  [
    'the check of the invoker off',
    (now) => Object.assign(now.service.metadata.annotations, { [`${GOOGLE}invoker-iam-disabled`]: 'true' }),
    'only who may invoke',
  ],
  [
    'another ingress',
    (now) => Object.assign(now.service.metadata.annotations, { [`${GOOGLE}ingress`]: 'internal' }),
    'ingress',
  ],
  [
    'a revision that nobody read',
    (now) => now.service.status.traffic.push({ revisionName: 'old', tag: 'old' }),
    'old: was read',
  ],
  ['a peering', (now) => Object.assign(now.network, { peerings: [{ name: 'to-default' }] }), 'no other network'],
  ['addresses of IPv6', (now) => Object.assign(now.network, { enableUlaInternalIpv6: true }), 'IPv6'],
  [
    'a subnet more',
    (now) => now.subnets.push({ name: 'other', stackType: 'IPV4_ONLY', privateIpGoogleAccess: false }),
    'one subnet',
  ],
  ['a subnet with IPv6', (now) => Object.assign(now.subnets[0], { stackType: 'IPV4_IPV6' }), 'IPv4 alone'],
  [
    'Private Google Access',
    (now) => Object.assign(now.subnets[0], { privateIpGoogleAccess: true }),
    'Private Google Access',
  ],
  ['no firewall rule', (now) => Object.assign(now, { firewall: [] }), 'denies all'],
  ['a firewall rule that is off', (now) => Object.assign(rule(now), { disabled: true }), 'denies all'],
  ['a firewall rule that others precede', (now) => Object.assign(rule(now), { priority: 1000 }), 'denies all'],
  [
    'a firewall rule for one protocol',
    (now) => Object.assign(rule(now), { denied: [{ IPProtocol: 'tcp' }] }),
    'denies all',
  ],
  [
    'a firewall rule for some addresses',
    (now) => Object.assign(rule(now), { destinationRanges: ['10.0.0.0/8'] }),
    'denies all',
  ],
  ['a firewall rule for a tag', (now) => Object.assign(rule(now), { targetTags: ['vm'] }), 'denies all'],
  [
    'a policy that comes before the rules',
    (now) => Object.assign(now.network, { networkFirewallPolicyEnforcementOrder: 'BEFORE_CLASSIC_FIREWALL' }),
    'come first',
  ],
  [
    'a firewall rule that allows',
    (now) => now.firewall.push({ name: 'out', direction: 'EGRESS', priority: 1, allowed: [{ IPProtocol: 'tcp' }] }),
    'allows anything',
  ],
  [
    'a firewall rule that lets in',
    (now) => now.firewall.push({ name: 'in', direction: 'INGRESS', priority: 1, allowed: [{ IPProtocol: 'tcp' }] }),
    'allows anything',
  ],
  [
    'a way to the internet',
    (now) => now.routes.push({ name: 'out', network, nextHopGateway: 'default-internet-gateway' }),
    'no route',
  ],
  ['a way through a machine', (now) => now.routes.push({ name: 'vm', network, nextHopIp: '10.250.0.9' }), 'no route'],
  ['Cloud NAT', (now) => now.routers.push({ name: 'nat', nats: [{ name: 'nat' }] }), 'Cloud NAT'],
  [
    'Private Service Connect',
    (now) => now.forwardings.push({ name: 'psc', target: 'all-apis' }),
    'Private Service Connect',
  ],
  ['no DNS policy', (now) => Object.assign(now, { policies: [] }), 'names are asked'],
  [
    'a name server that answers',
    (now) =>
      Object.assign(now.policies[0].alternativeNameServerConfig.targetNameServers[0], { ipv4Address: '8.8.8.8' }),
    'names are asked',
  ],
  [
    'the DNS of Google',
    (now) => Object.assign(now.policies[0], { alternativeNameServerConfig: undefined }),
    'names are asked',
  ],
  ['DNS for others', (now) => Object.assign(now.policies[0], { enableInboundForwarding: true }), 'names are asked'],
  ['a role', (now) => now.projectPolicy.bindings.push({ role: 'roles/editor', members: [member] }), 'no role'],
  [
    'a role for everybody',
    (now) => now.projectPolicy.bindings.push({ role: 'roles/viewer', members: ['allAuthenticatedUsers'] }),
    'no role',
  ],
  [
    'a token that anybody reads',
    (now) => now.secretPolicy.bindings.push({ role: 'roles/secretmanager.secretAccessor', members: ['allUsers'] }),
    'can read the token',
  ],
  ['a token that it cannot read', (now) => Object.assign(now.secretPolicy, { bindings: [] }), 'can read the token'],
];

describe('the settings of a deployed sandbox', () => {
  it('all hold as deploy-sandbox.sh makes them (the control)', () => {
    assert.deepEqual(wrong(state), []);
    assert.ok(judge(state, WANTED).length >= 30);
  });

  for (const [name, turn, what] of TURNED)
    it(`${name}: called wrong, with a remedy`, () => {
      const changed = structuredClone(state);
      turn(changed);
      const found = wrong(changed);
      assert.ok(
        found.some((one) => one.what.includes(what)),
        JSON.stringify(found),
      );
      for (const one of found) assert.ok(one.remedy.length > 10);
    });

  it('every setting is turned by some line above', () => {
    const seen = new Set();
    for (const [, turn] of TURNED) {
      const changed = structuredClone(state);
      turn(changed);
      for (const one of wrong(changed)) seen.add(one.what.replace(/^\S+-\d+: /, ''));
    }
    const never = judge(state, WANTED)
      .map((one) => one.what.replace(/^\S+-\d+: /, ''))
      .filter((what) => !seen.has(what));
    // A service without revisions, and the read of the one that is there: below.
    assert.deepEqual(
      never,
      [
        'opendoor-sandbox-vpc is there, and no other network is joined to it',
        'something of it can be reached',
        'was read',
      ].filter((what) => !seen.has(what)),
    );
  });

  it('a network of this project may be named in full', () => {
    const changed = structuredClone(state);
    const full =
      '[{"network":"projects/a-project/global/networks/opendoor-sandbox-vpc","subnetwork":"opendoor-sandbox-subnet"}]';
    annotate('network-interfaces', full)(changed);
    assert.deepEqual(wrong(changed), []);
  });

  it('what gcloud did not answer is wrong', () => {
    for (const name of Object.keys(state).filter((key) => key !== 'wanted')) {
      const changed = structuredClone(state);
      changed[name] = name === 'revisions' ? [] : undefined;
      assert.notDeepEqual(wrong(changed), [], name);
    }
    assert.ok(wrong({}).length > 10);
  });

  it('with the token alone, open to everybody is as wanted', () => {
    const open = structuredClone(state);
    open.servicePolicy.bindings.push({ role: 'roles/run.invoker', members: ['allUsers'] });
    assert.deepEqual(wrong(open, { ...WANTED, auth: 'token' }), []);
    assert.notDeepEqual(wrong(open), []);
  });
});

describe('smoke.sh', () => {
  // Through gcloud, the files and the exit code.
  const OPEN = [
    [
      'gen2',
      (now) => Object.assign(now.revisions[0].metadata.annotations, { [`${GOOGLE}execution-environment`]: 'gen2' }),
      /WRONG .*gVisor/,
    ],
    [
      'private-ranges-only',
      (now) =>
        Object.assign(now.revisions[0].metadata.annotations, { [`${GOOGLE}vpc-access-egress`]: 'private-ranges-only' }),
      /WRONG .*traffic/,
    ],
    ['no firewall', (now) => Object.assign(now, { firewall: [] }), /WRONG .*firewall/],
    [
      '--allow-unauthenticated',
      (now) => now.services[0].policy.bindings.push({ role: 'roles/run.invoker', members: ['allUsers'] }),
      /WRONG only who may invoke/,
    ],
    ['NAT', (now) => Object.assign(now, { routers: [{ name: 'nat' }] }), /WRONG no router/],
  ];
  for (const [name, turn, says] of OPEN)
    it(`${name}: red, and nothing was asked of the service`, async () => {
      const it = newProject(project);
      turn(it.project);
      const run = await it.run(SMOKE);
      assert.equal(run.status, 1);
      assert.match(run.out, says);
      assert.match(run.out, /step 'the settings' failed/);
      assert.deepEqual([run.verified, run.changes], [[], []]);
    });

  it('a variable of the caller’s does not make it a dry run', async () => {
    const run = await newProject(project).run(SMOKE, [], { MODE: 'dry', CDPATH: ROOT });
    assert.equal(run.status, 0, run.out);
    assert.equal(run.verified.length, 3);
  });

  it('judges the ground alone, before there is a service', async () => {
    const it = newProject();
    assert.equal((await it.run(SMOKE, ['--ground'])).status, 1, 'nothing is there');
    assert.equal((await it.run(SANDBOX, ['prepare'])).status, 0);
    const run = await it.run(SMOKE, ['--ground']);
    assert.equal(run.status, 0, run.out);
    assert.match(run.out, /^14 of 14 settings hold$/m);
    assert.equal((await it.run(SMOKE, ['--settings'])).status, 1, 'a service is not there');
  });

  it('a question that fails is red', async () => {
    const run = await newProject(project).run(SMOKE, ['--settings'], { FAKE_FAIL: 'compute routers list' });
    assert.equal(run.status, 1);
    assert.match(run.out, /not read: gcloud compute routers list .*PERMISSION_DENIED/);
    assert.match(run.out, /WRONG no router/);
  });

  it('reads on one machine and judges on another, which needs no gcloud; what it read is its own', async () => {
    const it = newProject(project);
    const folder = path.join(it.folder, 'smoke');
    const collected = await it.run(SMOKE, ['--collect', folder]);
    assert.equal(collected.status, 0, collected.out);
    assert.equal(fs.statSync(folder).mode & 0o777, 0o700);
    assert.equal(fs.statSync(path.join(folder, 'token')).mode & 0o777, 0o600);
    const judged = await it.run(SMOKE, ['--judge', folder]);
    assert.equal(judged.status, 0, judged.out);
    assert.deepEqual(judged.log, []);
    assert.match(judged.out, /^shut: opendoor-sandbox-\S+ at https:/m);
    const again = await it.run(SMOKE, ['--ground', '--collect', folder]);
    assert.equal(again.status, 1, 'two readings in one folder would be judged as one');
    assert.match(again.out, /is there already/);
    assert.equal(judged.verified[0], 'verify --url https://opendoor-sandbox.example --expect gvisor');
  });

  it('the identity is for the service, also where a tagged revision is asked; as an account, if told so', async () => {
    const run = await newProject(project).run(SMOKE, [], {
      SMOKE_ACCOUNT: 'builder@a-project.iam.gserviceaccount.com',
    });
    assert.equal(run.status, 0, run.out);
    assert.deepEqual(run.log.find((one) => one.command === 'auth print-identity-token').argv.slice(2), [
      '--impersonate-service-account=builder@a-project.iam.gserviceaccount.com',
      '--audiences=https://opendoor-sandbox.example',
      '--include-email',
    ]);
  });

  it('without an identity where everybody may call', async () => {
    const it = newProject(project);
    it.project.services[0].policy.bindings.push({ role: 'roles/run.invoker', members: ['allUsers'] });
    const run = await it.run(SMOKE, [], { SANDBOX_AUTH: 'token' });
    assert.equal(run.status, 0, run.out);
    assert.equal(run.verified[2], '');
  });

  it('the real code-jail verify shows both tokens, and takes a door that stays shut for no proof', async () => {
    const seen = new Set();
    const door = http.createServer((request, response) => {
      seen.add(`${request.headers['x-serverless-authorization']} ${request.headers.authorization}`);
      response.writeHead(403).end();
    });
    await new Promise((resolve) => door.listen(0, '127.0.0.1', () => resolve(undefined)));
    const { port } = /** @type {any} */ (door.address());
    const it = newProject(project);
    const folder = path.join(it.folder, 'smoke');
    assert.equal((await it.run(SMOKE, ['--collect', folder])).status, 0);
    fs.writeFileSync(path.join(folder, 'url'), `http://127.0.0.1:${port}\n`);
    const run = await it.run(SMOKE, ['--judge', folder], {
      SMOKE_VERIFY: `${process.execPath} ${ROOT}/bin/code-jail.js`,
    });
    door.close();
    assert.notEqual(run.status, 0);
    assert.match(run.out, /step 'from inside the jail' failed/);
    const token = it.project.secrets[0].versions[0].value;
    assert.ok(seen.has(`Bearer an.identity.token Bearer ${token}`), [...seen].join());
    assert.ok(!run.out.includes(token));
  });
});
