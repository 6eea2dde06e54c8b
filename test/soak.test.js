'use strict';
// The short `npm run soak`.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { after, describe, it } = require('node:test');
const { descendants } = require('./helpers/baseline.js');
const { openJail } = require('./helpers/run.js');
const { growth, plot, soak } = require('./soak/soak.js');

// A folder for temporary files that nobody else writes to, so that what is left can be counted.
process.env.TMPDIR = fs.mkdtempSync(path.join(os.tmpdir(), 'soak-test-'));
after(() => fs.rmSync(process.env.TMPDIR, { recursive: true }));

describe('soak', () => {
  it('1,000 runs of every end leave descriptors, threads, processes, folders and memory as they were', async () => {
    const samples = await soak(openJail({ parked: 1 }), 1000, { samples: 10 });
    assert.equal(growth(samples, 16), '');
    assert.equal(descendants().filter((one) => one.state === 'Z').length, 0, 'no zombies');
    const file = path.join(process.env.TMPDIR, 'soak.svg');
    plot(samples, file);
    assert.equal(fs.readFileSync(file, 'utf8').match(/<polyline /g)?.length, 6);
    fs.rmSync(file);
  });

  it('what grows is noticed', () => {
    const flat = { fds: 20, threads: 12, processes: 9, tmp: 0, rss: 50 << 20 };
    const samples = Array.from({ length: 20 }, (_, i) => ({ ...flat, runs: i }));
    assert.equal(growth(samples, 16), '');
    const leaking = samples.map((one, i) => ({ ...one, fds: 20 + i }));
    assert.equal(growth(leaking, 16), 'fds 24 → 35');
    assert.match(growth([...samples, { ...flat, rss: 70 << 20 }], 16), /^RSS 50 → 70 MiB$/);
  });
});
