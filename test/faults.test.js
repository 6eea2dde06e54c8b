'use strict';
// A sample of `npm run test:faults`: calls of the set-up that fail, some of each
// process and always the same.

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const crypto = require('node:crypto');
const { describe, it } = require('node:test');
const { Lab, describeFault, faultsOf } = require('./faults/lab.js');

const EACH = { keeper: 2, builder: 1, init: 1, zygote: 2, probe: 1, cell: 2 };
const why =
  (process.arch !== 'x64' && 'the injector knows the registers of x86_64') ||
  (spawnSync(process.env.CC || 'cc', ['--version']).status !== 0 && 'there is no C compiler') ||
  false;

/** The same ones on every machine, whatever their order. */
function sample(faults) {
  const rank = (fault) =>
    crypto.createHash('sha256').update(`${fault.role} ${fault.call} ${fault.error}`).digest('hex');
  return Object.entries(EACH).flatMap(([role, count]) =>
    faults
      .filter((fault) => fault.role === role)
      .map((fault) => ({ fault, rank: rank(fault) }))
      .sort((a, b) => (a.rank < b.rank ? -1 : 1))
      .slice(0, count)
      .map(({ fault }) => fault),
  );
}

for (const language of ['javascript', 'python'])
  describe(`a call of the set-up fails, ${language}`, { skip: why }, () => {
    it('no half-built cell, a stage and a cause, the next run works, nothing is left', async (t) => {
      const lab = new Lab(language);
      const recorded = await lab.record(); // without a fault, all is well
      const faults = sample(faultsOf(recorded, 1));
      let reached = 0;
      for (const fault of faults)
        await t.test(describeFault(fault), async () => {
          const { hit, wrong, outcome } = await lab.inject(fault);
          reached += hit ? 1 : 0;
          assert.deepEqual(wrong, [], outcome);
        });
      lab.close();
      assert.equal(faults.length, 9);
      assert.ok(reached > faults.length / 2, `${reached} of ${faults.length} calls were made again`);
    });
  });
