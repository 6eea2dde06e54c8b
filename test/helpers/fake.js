'use strict';
// Jails behind test/fixtures/fake-keeper.c: no walls, no runtimes, but cells and
// keepers that misbehave on demand. The file's head says what they can do.

const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { after } = require('node:test');
const { makeJail } = require('../../lib/run-code.js');

const ROOT = path.join(__dirname, '..', '..');
const SOURCE = path.join(ROOT, 'test', 'fixtures', 'fake-keeper.c');

/** Compiled once, for all test files at once. */
function build() {
  const dir = path.join(ROOT, '.cache', 'fixtures');
  const newest = Math.max(...[SOURCE, path.join(ROOT, 'src', 'protocol.h')].map((file) => fs.statSync(file).mtimeMs));
  const binary = path.join(dir, `fake-keeper-${Math.round(newest)}`);
  if (!fs.existsSync(binary)) {
    fs.mkdirSync(dir, { recursive: true });
    const mine = `${binary}.${process.pid}`;
    execFileSync(process.env.CC || 'cc', [
      '-std=gnu11',
      '-D_GNU_SOURCE',
      '-O1',
      '-Wall',
      '-Wextra',
      SOURCE,
      '-o',
      mine,
    ]);
    fs.renameSync(mine, binary);
  }
  return binary;
}

/** @param {string} mode which keeper: /fake/MODE */
function fakeJail(mode = 'ok', config = {}, how = {}) {
  const parts = { keeper: build(), guestNode: '/fake/node', guestPython: '/fake/python', guestDir: '/fake' };
  const runtime = { path: `/fake/${mode}` };
  const jail = makeJail({ parked: 1, node: runtime, python: runtime, ...config }, { parts, ...how });
  after(() => jail.close());
  return jail;
}

/** What a cell is to do. @param {string} code */
const job = (code, more = {}) => ({ language: 'javascript', code, ...more });

/** A frame as hex, for `raw:`. */
function frame({ magic = 0x31464a43, kind = 'R', meta = '', result = '', metaBytes, resultBytes } = {}) {
  const header = Buffer.alloc(16);
  header.writeUInt32LE(magic, 0);
  header.writeUInt32LE(typeof kind === 'string' ? kind.charCodeAt(0) : kind, 4);
  header.writeUInt32LE(metaBytes ?? Buffer.byteLength(meta), 8);
  header.writeUInt32LE(resultBytes ?? Buffer.byteLength(result), 12);
  return Buffer.concat([header, Buffer.from(meta), Buffer.from(result)]).toString('hex');
}

module.exports = { fakeJail, job, frame, fakeKeeper: build };
