'use strict';
// With fewer rights, too, nothing outlives the host, and nothing half-built is
// used. What stands where: test/environments.test.js.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { ENVIRONMENTS, look, start, whyNot, without } = require('./environments/environments.js');
const { untrue } = require('./environments/probes.js');
const { descendants, survivors, until } = require('./helpers/baseline.js');

describe('fewer rights', { skip: whyNot() }, () => {
  for (const name of ['root in a container', 'user', 'user, no user namespaces']) {
    it(`${name}: a killed host leaves nothing`, async () => {
      const host = start(ENVIRONMENTS[name], { busy: true });
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

  it('a mount that is refused half-way is rolled back, not continued', async () => {
    // unshare and clone with new namespaces both go; mount alone is refused.
    const seen = await look({ command: without('165=1'), layers: [] });
    assert.equal(seen.status, 'ok', JSON.stringify(seen));
    assert.ok(!seen.layers.includes('own-root'), 'a root that could not be built is not reported');
    assert.deepEqual(untrue(seen), []);
  });
});
