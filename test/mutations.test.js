'use strict';
// A wall that is taken away is missed by a test: environments/mutations.js, in
// short. The long form, with every rule tried from a cell: npm run test:mutations.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { LAYERS, RULES, mutate, refusal, whyNot } = require('./environments/mutations.js');

describe('mutations', { skip: whyNot() }, () => {
  it('each layer and each rule of the filter is missed where it is left out', async (t) => {
    const found = await mutate({ quick: true });
    assert.deepEqual(Object.keys(found), [...LAYERS, ...RULES]);
    for (const [name, missed] of Object.entries(found))
      await t.test(`without ${name}: ${missed[0]}`, () => assert.ok(missed.length > 0, 'nothing missed it'));
  });
});

it('a package refuses to be built without a wall', () => {
  assert.equal(refusal('-DNDEBUG'), '');
  for (const define of ['-DCODE_JAIL_WITHOUT=CELL_LANDLOCK', '-DCODE_JAIL_WITHOUT_RULE=DENY'])
    assert.match(refusal(define), /takes a wall away/);
});
