'use strict';
// The hosts in which cells are isolated: environments/check.js.

const assert = require('node:assert/strict');
const { it } = require('node:test');
const { checkEnvironments } = require('./environments/check.js');
const { ENVIRONMENTS } = require('./environments/environments.js');
const { FORBIDDEN_BY, LAYERS } = require('./environments/probes.js');
const { published, render } = require('./environments/table.js');

checkEnvironments(({ weak, microvm }) => !weak && !microvm);

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

it('SECURITY.md has the table of what these tests found', () => {
  assert.equal(published(), render(ENVIRONMENTS));
});
