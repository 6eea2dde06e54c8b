'use strict';
// The same host with fewer rights, or on a kernel that lacks something: what is
// reported must be what stands, and what cannot be isolated must be refused.

const assert = require('node:assert/strict');
const path = require('node:path');
const { describe, it } = require('node:test');
const { descendants, survivors, until } = require('./helpers/baseline.js');
const { DENIED } = require('./helpers/run.js');
const { ALWAYS, NAMESPACES, NOBODY, NO_CAPABILITIES, PYTHON, TIERS, startIn, whyNot } = require('./helpers/tiers.js');

const HOST = path.join(__dirname, 'hosts', 'tier.js');
const WITHOUT = path.join(__dirname, 'helpers', 'without.py');
const why = whyNot();

const node = (options) => [process.execPath, HOST, JSON.stringify({ python: PYTHON, ...options })];
const without = (calls, command) => [PYTHON, WITHOUT, calls, '--', ...command];

async function look(command, options, tries = 3) {
  const host = startIn(command, options);
  const line = await host.line('seen ');
  // The place to look from could not be made: no word about what is to be seen there.
  if (!line && tries > 1 && /max_user_namespaces/.test(host.seen.err)) return look(command, options, tries - 1);
  assert.ok(line, `${host.seen.out}${host.seen.err}`);
  await host.ended;
  return Object.entries(JSON.parse(line.slice('seen '.length)));
}

function holds([language, one], layers) {
  assert.equal(one.status, 'ok', `${language}: ${JSON.stringify(one)}`);
  assert.deepEqual(one.layers.filter((name) => name !== 'cgroup').sort(), [...layers].sort(), language);
  for (const { layer, reason } of one.missing) assert.ok(reason.length > 5, `${layer} is missing for a reason`);
  const { control, scratch, stdin, ...probes } = one.probes;
  assert.equal(stdin, '', 'standard input is empty, and nothing of ours');
  assert.equal(control, 'allowed');
  assert.equal(scratch, 'allowed'); // on a tmpfs of its own, or in a folder that the keeper made
  for (const [name, outcome] of Object.entries(probes)) {
    assert.match(outcome, /^EINVAL$/.test(outcome) && name === 'scheduler' ? /./ : DENIED, `${language}: ${name}`);
  }
  assert.equal(one.memory, 'out_of_memory', `${language}: memory`);
}

describe('fewer rights', { skip: why }, () => {
  for (const [name, { command, noNamespaces, layers }] of Object.entries(TIERS)) {
    it(`${name}: the layers are these, and every probe is denied`, async () => {
      for (const one of await look([...command, ...node()], { noNamespaces })) {
        holds(one, layers);
        assert.equal(one[1].isolation, 'process');
      }
    });

    it(`${name}: a killed host leaves nothing`, async () => {
      const host = startIn([...command, ...node({ busy: true })], { noNamespaces });
      assert.ok(await host.line('busy'), `${host.seen.out}${host.seen.err}`);
      const below = descendants(host.child.pid);
      assert.ok(below.length >= 4);
      host.child.kill('SIGKILL');
      await until(() => survivors(below).length === 0, 4000);
      const left = survivors(below);
      for (const one of left) process.kill(one.pid, 'SIGKILL');
      assert.deepEqual(left, []);
    });
  }
});

describe('a kernel that lacks something', { skip: why }, () => {
  const FULL = [...NAMESPACES, 'own-root', ...ALWAYS, 'separate-uid'];
  const lacking = {
    'Landlock (ENOSYS)': ['444,445,446', FULL.filter((name) => name !== 'landlock')],
    'clone3, close_range, pidfd_open, openat2, faccessat2': ['435,436,434,437,439', FULL],
    'the new mount calls': ['428,429,430,431,432,433,442', FULL],
  };
  for (const [name, [calls, layers]] of Object.entries(lacking)) {
    it(`without ${name}`, async () => {
      for (const one of await look(without(calls, node()))) holds(one, layers);
    });
  }

  it('without Landlock and without namespaces files cannot be isolated: refused, unless allowWeak', async () => {
    const masked = (options) => ['setpriv', ...NOBODY, ...NO_CAPABILITIES, ...without('444,445,446', node(options))];
    for (const [language, one] of await look(masked(), { noNamespaces: true })) {
      assert.equal(one.code, 'ERR_JAIL_ISOLATION', `${language}: ${JSON.stringify(one)}`);
      assert.match(one.message, /\w/);
    }
    for (const [language, one] of await look(masked({ allowWeak: true }), { noNamespaces: true })) {
      assert.equal(one.status, 'ok', `${language}: ${JSON.stringify(one)}`);
      assert.equal(one.isolation, 'unverified');
      assert.ok(!one.layers.includes('landlock'));
      // What is not reported may be open; what is reported must hold.
      assert.match(one.probes.process, DENIED);
      assert.match(one.probes.signal, DENIED);
    }
  });

  it('unshare that is refused half-way is rolled back, not continued', async () => {
    // unshare and clone with new namespaces both go; mount alone is refused.
    for (const [language, one] of await look(without('165=1', node()))) {
      assert.ok(one.status === 'ok' || one.code === 'ERR_JAIL_ISOLATION', `${language}: ${JSON.stringify(one)}`);
      if (one.status === 'ok') {
        assert.ok(!one.layers.includes('own-root'), 'a root that could not be built is not reported');
        assert.match(one.probes.file, DENIED);
        assert.match(one.probes.signal, DENIED);
        assert.match(one.probes.network, DENIED);
      }
    }
  });
});
