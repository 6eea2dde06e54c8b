'use strict';
// worker_threads and cluster: whoever ends, and however, takes its own cells along and
// nothing of the others.

const assert = require('node:assert/strict');
const { before, describe, it } = require('node:test');
const { project } = require('./helpers/package.js');
const { runs } = require('./helpers/program.js');

describe('threads and processes', () => {
  let folder = '';
  before(() => {
    folder = project('threads');
  });

  for (const [file, what] of [
    ['quiet.mjs', 'a program that made runs and closed nothing ends by itself'],
    ['workers.js', 'runs in several workers at once'],
    ['terminated.js', 'a worker that is terminated in mid-run'],
    ['ends.js', 'a worker, and a process, that leaves in mid-run'],
    ['cluster.js', 'a cluster of two, one of which is killed in mid-run'],
  ])
    it(what, async () => {
      assert.match(await runs(folder, [process.execPath, file]), /^done$/m);
    });
});
