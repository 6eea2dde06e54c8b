'use strict';
// The tests of environments, for the files that share them out.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { ENVIRONMENTS, look, whyNot, whyNotThis } = require('./environments.js');
const { LAYERS, untrue } = require('./probes.js');
const { DENIED } = require('../helpers/run.js');

/**
 * What is reported are the layers that stand there, and each probe is refused by
 * one that is reported, or succeeds because none of them is.
 * @param {(environment: import('./environments.js').Environment) => boolean | undefined} which
 */
function checkEnvironments(which) {
  const some = Object.entries(ENVIRONMENTS).filter(([, environment]) => which(environment));
  describe('environments', { skip: whyNot() }, () => {
    for (const [name, environment] of some) {
      const skip = whyNotThis(environment);
      it(`${name}: what is reported stands, and what is not does not`, { skip, timeout: 400000 }, async () => {
        const seen = await look(environment, { allowWeak: environment.weak });
        assert.equal(seen.status, 'ok', JSON.stringify(seen));
        assert.deepEqual([...seen.layers].sort(), [...environment.layers].sort());
        assert.deepEqual(untrue(seen, environment), []);
        assert.equal(seen.isolation, environment.weak ? 'unverified' : 'process');
        assert.deepEqual(
          seen.missing.map((one) => one.layer).sort(),
          LAYERS.filter((one) => !seen.layers.includes(one)).sort(),
        );
        for (const { layer, reason } of seen.missing) assert.ok(reason.length > 5, `${layer} is missing for a reason`);
        const apart = ['pid-namespace', 'seccomp'].some((layer) => seen.layers.includes(layer));
        if (apart) assert.deepEqual(seen.sibling, { changed: [], signals: 0 }, 'the sibling is as it was');
        if (environment.microvm) return; // emulated: the short form
        assert.deepEqual(seen.javascript.layers, seen.layers);
        const tried = Object.entries(environment.weak ? {} : seen.javascript.probes);
        for (const [probe, outcome] of tried) assert.match(outcome, DENIED, probe);
        assert.deepEqual(seen.memory, ['out_of_memory', 'out_of_memory']);
      });
      if (environment.weak)
        it(`${name}: refused without allowWeak`, { skip }, async () => {
          const seen = await look(environment);
          assert.equal(seen.code, 'ERR_JAIL_ISOLATION', JSON.stringify(seen));
          assert.match(seen.message, /isolation: \w/);
        });
    }
  });
}

module.exports = { checkEnvironments };
