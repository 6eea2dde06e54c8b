'use strict';
// With fewer rights, too, nothing outlives the host, and nothing half-built is
// used. What stands where: test/environments.test.js.

const assert = require('node:assert/strict');
const fs = require('node:fs');
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

  // Where cells have a folder on disk, what a killed keeper left there is removed.
  it('a folder that only has such a name, or stands beside, is left alone', async () => {
    const uid = 65534;
    const folders = {
      stale: '/tmp/.code-jail-scratch-staleX',
      alike: '/tmp/.code-jail-scratch-alikeX',
      longer: '/tmp/.code-jail-scratch-alikeXX',
      another: `/tmp/code-jail-${process.pid}`,
    };
    try {
      for (const [name, folder] of Object.entries(folders)) {
        fs.mkdirSync(`${folder}/1`, { recursive: true });
        fs.writeFileSync(`${folder}/1/file`, 'mine');
        if (name === 'stale') fs.writeFileSync(`${folder}/.of-a-keeper`, '');
        for (const one of fs.readdirSync(folder)) fs.chownSync(`${folder}/${one}`, uid, uid);
        fs.chownSync(folder, uid, uid);
      }
      const seen = await look(ENVIRONMENTS['user, no user namespaces']);
      assert.equal(seen.status, 'ok', JSON.stringify(seen));
      const left = Object.entries(folders).filter(([, folder]) => fs.existsSync(`${folder}/1/file`));
      assert.deepEqual(left.map(([name]) => name).sort(), ['alike', 'another', 'longer']);
      assert.ok(!fs.existsSync(folders.stale));
    } finally {
      for (const folder of Object.values(folders)) fs.rmSync(folder, { recursive: true, force: true });
    }
  });

  it('a mount that is refused half-way is rolled back, not continued', async () => {
    // unshare and clone with new namespaces both go; mount alone is refused.
    const seen = await look({ command: without('165=1'), layers: [] });
    assert.equal(seen.status, 'ok', JSON.stringify(seen));
    assert.ok(!seen.layers.includes('own-root'), 'a root that could not be built is not reported');
    assert.deepEqual(untrue(seen), []);
  });
});
