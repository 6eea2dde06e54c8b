'use strict';
// What Kubernetes, Compose and systemd are given: the schemas' and the tools' own word
// on it, the settings that hold the walls up, and the capabilities, tried under gVisor.

const assert = require('node:assert/strict');
const { execFileSync, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { describe, it } = require('node:test');
const yaml = require('yaml');
const { startInGvisor, whyNot } = require('../../scripts/in-gvisor.js');
const { ask, bearer, js, post, py, LAUNCHER, TOKEN } = require('../helpers/service.js');
const { ROOT } = require('../helpers/project.js');

const read = (name) => fs.readFileSync(path.join(ROOT, name), 'utf8');
const documents = (name) => yaml.parseAllDocuments(read(name)).map((one) => one.toJS());
const has = (command) => !spawnSync(command, ['--version'], { stdio: 'ignore' }).error;
const K8S = fs.readdirSync(path.join(ROOT, 'infra', 'k8s')).filter((name) => name.endsWith('.yaml'));
const objects = K8S.filter((name) => name !== 'kustomization.yaml').flatMap((name) => documents(`infra/k8s/${name}`));
const object = (kind) => objects.find((one) => one.kind === kind);
const pod = () => object('Deployment').spec.template.spec;
const sandbox = () => pod().containers.find((one) => one.name === 'sandbox');
const compose = () => documents('infra/compose/sandbox.compose.yaml')[0];
const NEEDED = ['CHOWN', 'DAC_OVERRIDE', 'KILL', 'SETGID', 'SETPCAP', 'SETUID'];

describe('infra/k8s', () => {
  it('each object is what its schema says, without a field that it does not know', () => {
    assert.ok(objects.length >= 7);
    const lines = [];
    const declare = (one, name) => {
      lines.push(`import type { I${one.kind} as T${name} } from '${moduleOf(one)}';`);
      lines.push(`export const ${name}: T${name} = ${JSON.stringify(one)};`);
    };
    for (const [at, one] of objects.entries()) {
      new (require(moduleOf(one))[one.kind])(one).validate();
      declare(one, `o${at}`);
    }
    // The schemas take fields that they do not know; the types of literals do not.
    declare(JSON.parse(JSON.stringify(object('NetworkPolicy')).replace('"egress"', '"egres"')), 'control');
    const said = typesOf(lines.join('\n')).trim().split('\n');
    assert.match(said[0], /"egres"' does not exist/);
    assert.equal(said.filter((line) => line.includes('error TS')).length, 1, said.join('\n'));
  });

  it('kubectl makes one list of it', {
    skip: has('kubectl') ? false : 'kubectl is not installed (not in Debian)',
  }, () => {
    const list = execFileSync('kubectl', ['kustomize', path.join(ROOT, 'infra', 'k8s')], { encoding: 'utf8' });
    assert.equal(yaml.parseAllDocuments(list).length, objects.length + 1, 'and the configuration of the TLS container');
  });

  it('gVisor, nothing of the cluster within, no way out, and only the dashboard gets in', () => {
    assert.equal(object('RuntimeClass').handler, 'runsc');
    assert.equal(pod().runtimeClassName, object('RuntimeClass').metadata.name);
    assert.equal(pod().automountServiceAccountToken, false);
    assert.equal(pod().enableServiceLinks, false);
    const { podSelector, policyTypes, egress, ingress } = object('NetworkPolicy').spec;
    assert.deepEqual(podSelector.matchLabels, object('Deployment').spec.template.metadata.labels);
    assert.deepEqual([policyTypes, egress], [['Ingress', 'Egress'], []]);
    assert.deepEqual(ingress[0].from[0].podSelector.matchLabels, { app: 'opendoor-dashboard' });
    for (const { name, securityContext } of pod().containers) {
      assert.equal(securityContext.readOnlyRootFilesystem, true, name);
      assert.equal(securityContext.allowPrivilegeEscalation, false, name);
      assert.deepEqual(securityContext.capabilities.drop, ['ALL'], name);
    }
    assert.deepEqual(sandbox().securityContext.capabilities.add, NEEDED);
    assert.equal(sandbox().env.find((one) => one.name === 'CODE_SANDBOX_HOST').value, '127.0.0.1');
    assert.ok(!sandbox().env.some((one) => one.name === 'CODE_SANDBOX_TOKEN' && one.value));
  });

  it('the objects name each other', () => {
    const labels = object('Deployment').spec.template.metadata.labels;
    assert.deepEqual(object('Service').spec.selector, labels);
    assert.deepEqual(object('PodDisruptionBudget').spec.selector.matchLabels, labels);
    assert.equal(object('HorizontalPodAutoscaler').spec.scaleTargetRef.name, object('Deployment').metadata.name);
    const names = new Set(pod().containers.flatMap((one) => (one.ports ?? []).map((port) => port.name)));
    for (const port of object('Service').spec.ports) assert.ok(names.has(port.targetPort));
  });
});

const moduleOf = ({ apiVersion, kind }) => `kubernetes-models/${apiVersion}/${kind}`;

/** What TypeScript says of a text. */
function typesOf(text) {
  const file = path.join(ROOT, 'node_modules', `.check-${process.pid}.ts`);
  fs.writeFileSync(file, text);
  const flags = [
    '--noEmit',
    '--strict',
    '--skipLibCheck',
    '--module',
    'node16',
    '--moduleResolution',
    'node16',
    '--types',
    'node',
  ];
  const { stdout } = spawnSync(process.execPath, [require.resolve('typescript/bin/tsc'), ...flags, file], {
    encoding: 'utf8',
  });
  fs.rmSync(file);
  return stdout;
}

describe('infra/compose', () => {
  it('gVisor, no network that leads out, and the same walls as under Kubernetes', () => {
    const service = compose().services['sandbox-service'];
    assert.equal(service.runtime, 'runsc');
    assert.deepEqual([service.read_only, service.cap_drop, service.cap_add], [true, ['ALL'], NEEDED]);
    assert.deepEqual(service.networks, ['sandbox-inner']);
    assert.equal(service.ports, undefined);
    for (const network of Object.values(compose().networks)) assert.equal(network.internal, true);
    for (const [name, value] of Object.entries(service.environment).filter(([key]) => !key.includes('TOKEN')))
      assert.equal(value, sandbox().env.find((one) => one.name === name).value, name);
    assert.match(service.environment.CODE_SANDBOX_TOKEN, /^\$\{CODE_SANDBOX_TOKEN:\?/);
  });

  it('its TLS container differs from that of Kubernetes in the service alone', () => {
    const other = read('infra/k8s/nginx.conf').replace(
      'proxy_pass 127.0.0.1:8080;',
      'proxy_pass sandbox-service:8080;',
    );
    assert.equal(read('infra/compose/nginx.conf'), other);
  });
});

describe('infra/systemd', () => {
  it('is a unit that systemd takes', {
    skip: has('systemd-analyze') ? false : 'systemd-analyze is not installed (Debian: systemd)',
  }, () => {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'unit-'));
    const verify = (text) => {
      const file = path.join(folder, 'code-jail-sandbox.service');
      fs.writeFileSync(file, text);
      const { stderr, stdout } = spawnSync('systemd-analyze', ['verify', file], { encoding: 'utf8' });
      return (stderr + stdout).split('\n').filter((line) => line.includes('code-jail-sandbox.service'));
    };
    const unit = read('infra/systemd/code-jail-sandbox.service').replace(/^ExecStart=\S+/m, 'ExecStart=/bin/true');
    try {
      assert.deepEqual(verify(unit), []);
      assert.notDeepEqual(verify(unit.replace('ProtectHome=', 'ProtectHouse=')), [], 'the control');
    } finally {
      fs.rmSync(folder, { recursive: true, force: true });
    }
    assert.match(
      unit,
      new RegExp(`^CapabilityBoundingSet=${NEEDED.map((name) => `CAP_${name}`).join(' ')} CAP_SYS_ADMIN$`, 'm'),
    );
  });
});

/** What is wrong with a Dockerfile of the dashboard: no engine here builds it. */
function faultsOf(text) {
  const lines = text
    .replace(/\\\n/g, ' ')
    .split('\n')
    .filter((line) => line && !line.startsWith('#'))
    .map((line) => /^(\w+)\s+(.*)$/.exec(line) ?? [line, '', line]);
  const faults = [];
  const stages = [];
  const last = {};
  for (const [line, word, rest] of lines) {
    last[word] = rest;
    if (word === 'FROM') stages.push(rest);
    else if (word === 'COPY') {
      const [, stage, source] = /^(?:--from=(\w+) )?(\S+) \S+$/.exec(rest) ?? [];
      if (!source) faults.push(line);
      else if (stage ? !stages.some((one) => one.endsWith(` AS ${stage}`)) : !fs.existsSync(path.join(ROOT, source)))
        faults.push(line);
    } else if (!['RUN', 'WORKDIR', 'ENV', 'EXPOSE', 'USER', 'STOPSIGNAL', 'CMD'].includes(word)) faults.push(line);
    if (/TOKEN|SECRET|PASSWORD|_KEY/.test(rest)) faults.push(line);
  }
  if (stages.at(-1) !== 'node:22-bookworm-slim') faults.push(`FROM ${stages.at(-1)}`);
  if (last.USER !== 'node' || lines.findLastIndex(([, word]) => word === 'USER') < lines.length - 3)
    faults.push(`USER ${last.USER}`);
  if (!/HOSTNAME=0\.0\.0\.0 PORT=8080/.test(last.ENV ?? '') || last.EXPOSE !== '8080') faults.push(`ENV ${last.ENV}`);
  if (last.CMD !== '["node", "apps/dashboard/server.js"]') faults.push(`CMD ${last.CMD}`);
  return faults;
}

describe('apps/dashboard/Dockerfile', () => {
  const text = read('apps/dashboard/Dockerfile');

  it('copies what is there, is not root, listens where Cloud Run asks, and holds no secret', () => {
    assert.deepEqual(faultsOf(text), []);
    for (const [what, other] of [
      ['COPY . .', 'COPY nowhere .'],
      ['--from=build', '--from=other'],
      ['USER node', 'USER root'],
      ['PORT=8080', 'PORT=8080 CODE_SANDBOX_TOKEN=x'],
      ['bookworm-slim', 'bookworm'],
    ])
      assert.equal(faultsOf(text.replace(what, other)).length, 1, `the control: ${other}`);
  });

  it('runs what the build of the app leaves, of scripts that are there', () => {
    const scripts = (name) => Object.keys(JSON.parse(read(name)).scripts);
    assert.ok(scripts('package.json').includes('setup') && scripts('apps/dashboard/package.json').includes('build'));
    assert.match(read('apps/dashboard/next.config.ts'), /output: 'standalone'/);
    assert.match(text, /npm run setup && cd apps\/dashboard && npm ci .* && npm run build/);
    assert.match(text, /apps\/dashboard\/\.next\/standalone \.\//);
    const ignored = read('.dockerignore').split('\n');
    for (const name of ['.git', '**/node_modules', '**/.next', '**/.env*']) assert.ok(ignored.includes(name), name);
  });
});

describe('the capabilities that are named', { skip: whyNot() }, () => {
  const start = (names) => startInGvisor({ token: TOKEN, capabilities: names.map((name) => `CAP_${name}`) });

  it('suffice under gVisor: both languages run, write, are cut off, and leave nothing', async () => {
    const service = await start(NEEDED);
    try {
      const write = py("import os\nos.makedirs('a/b')\nopen('a/b/c', 'w').write('x')\nresult = os.getuid()");
      for (const job of [js("require('node:fs').writeFileSync('a', 'b'); return process.getuid()"), write]) {
        const { json, text } = await post(service.base, job);
        assert.equal(json.status, 'ok', text);
        assert.ok(json.result > 65535, 'a uid that is nobody else’s');
        assert.ok(json.jail.layers.includes('separate-uid'));
      }
      assert.equal((await post(service.base, js('for (;;);', { timeoutMs: 300 }))).json.status, 'timeout');
      assert.equal((await ask(`${service.base}/readyz`, { headers: bearer() })).status, 200);
    } finally {
      await service.stop();
    }
  });

  it('and to become nobody, SETUID and SETGID are needed', () => {
    for (const name of ['setuid', 'setgid', '']) {
      const command = [
        '--bounding-set',
        name ? `-${name}` : '-mknod',
        '--',
        LAUNCHER,
        '--user',
        '65532',
        '--',
        '/usr/bin/id',
        '-u',
      ];
      const { status, stdout, stderr } = spawnSync('setpriv', command, { encoding: 'utf8' });
      if (name) assert.match(stderr, /become the service's uid: Operation not permitted/, name);
      else assert.deepEqual([status, stdout], [0, '65532\n'], `the control: ${stderr}`);
    }
  });
});
