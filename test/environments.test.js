'use strict';
// Every environment: the layers that are reported are those that stand there, and
// each probe (environments/probes.js) is refused by a layer that is reported, or
// succeeds because none of them is.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { ENVIRONMENTS, look, whyNot, whyNotThis } = require('./environments/environments.js');
const { FORBIDDEN_BY, LAYERS, untrue } = require('./environments/probes.js');
const { published, render } = require('./environments/table.js');
const { DENIED } = require('./helpers/run.js');

describe('environments', { skip: whyNot() }, () => {
  for (const [name, environment] of Object.entries(ENVIRONMENTS)) {
    const skip = whyNotThis(environment);
    it(`${name}: what is reported stands, and what is not does not`, { skip }, async () => {
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
      assert.deepEqual(seen.javascript.layers, seen.layers);
      const tried = Object.entries(environment.weak ? {} : seen.javascript.probes);
      for (const [probe, outcome] of tried) assert.match(outcome, DENIED, probe);
      assert.deepEqual(seen.memory, ['out_of_memory', 'out_of_memory']);
      const apart = ['pid-namespace', 'seccomp'].some((layer) => seen.layers.includes(layer));
      if (apart) assert.deepEqual(seen.sibling, { changed: [], signals: 0 }, 'the sibling is as it was');
    });
    if (environment.weak)
      it(`${name}: refused without allowWeak`, { skip }, async () => {
        const seen = await look(environment);
        assert.equal(seen.code, 'ERR_JAIL_ISOLATION', JSON.stringify(seen));
        assert.match(seen.message, /isolation: \w/);
      });
  }

  it('every layer has a probe that it alone forbids, and an environment without it', () => {
    const built = LAYERS.filter((layer) => ENVIRONMENTS.root.layers.includes(layer));
    for (const layer of built) {
      const isolating = Object.values(ENVIRONMENTS).some((environment) =>
        Object.values(FORBIDDEN_BY).some(
          (layers) =>
            layers.includes(layer) &&
            environment.layers.includes(layer) &&
            !layers.some((other) => other !== layer && environment.layers.includes(other.split(' ')[0])),
        ),
      );
      assert.ok(isolating, `${layer} is nowhere the only wall of a probe`);
    }
  });
});

it('SECURITY.md has the table of what these tests found', () => {
  assert.equal(published(), render(ENVIRONMENTS));
});
