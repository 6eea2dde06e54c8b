'use strict';
// The guest agent as pid 1 of a real kernel, under emulation: the table of cases
// through it and its image, one job after another.
// CODE_JAIL_TEST_MICROVM=all: every case of the table (npm run test:microvm).

const assert = require('node:assert/strict');
const crypto = require('node:crypto');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { after, before, describe, it } = require('node:test');
const { connectUnix } = require('../lib/jailer/guest-channel.js');
const cases = require('./cases.js');
const { until } = require('./helpers/baseline.js');
const { guestOfMany, startMicrovm, whyNot } = require('./helpers/microvm.js');
const { asWire, matches } = require('./helpers/run.js');

const skip = whyNot();
const ALL = process.env.CODE_JAIL_TEST_MICROVM === 'all';
// Of each kind one: values, refusals, errors, exits, kills, both languages.
const SOME = ['O01', 'O02', 'O03', 'O04', 'O05', 'O16', 'O29'];
// 64 MiB of short lines are more than an emulated processor writes in a minute.
const TOO_SLOW = ['O17'];
const TABLE = cases.filter((one) => (ALL ? !one.parallel && !TOO_SLOW.includes(one.id) : SOME.includes(one.id)));

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cj-agent-'));
after(() => fs.rmSync(folder, { recursive: true, force: true }));

/** A stream's lines, one by one. @param {import('node:net').Socket} socket */
function lines(socket) {
  const rest = [];
  const stream = socket[Symbol.asyncIterator]();
  return async () => {
    for (;;) {
      const { value, done } = await stream.next();
      if (done) throw new Error('the guest has ended');
      const end = value.indexOf(10);
      rest.push(end < 0 ? value : value.subarray(0, end));
      if (end >= 0) return String(Buffer.concat(rest.splice(0)));
    }
  };
}

describe('cases from the field, through the agent of an emulated guest', { skip }, () => {
  /** @type {ReturnType<typeof startMicrovm>} */
  let vm;
  /** @type {import('node:net').Socket} */
  let socket;
  let nextLine;

  before(async () => {
    const disk = path.join(folder, 'many');
    const channel = path.join(folder, 'channel');
    guestOfMany(disk);
    vm = startMicrovm({ disk, program: '/agent serial', channel, memoryMb: 2048, cpus: 2 });
    const never = new AbortController().signal;
    socket = await until(() => connectUnix(channel, never).catch(() => null), 30000);
    nextLine = lines(socket);
    socket.write(`job 1 ${Date.now()}000000 ${crypto.randomBytes(32).toString('hex')}\n`);
  });
  after(async () => {
    socket?.destroy();
    await vm?.end();
  });

  for (const one of TABLE)
    it(`${one.id} ${one.language}: ${one.name}`, async () => {
      const { id, language, code, input = null } = one;
      const { maxMs: _, ...expect } = one.expect;
      // What an emulated processor does in its time is not the question.
      socket.write(`${JSON.stringify({ id, language, code, input, timeoutMs: 60000, ...asWire(one.options) })}\n`);
      const result = JSON.parse(await nextLine());
      assert.equal(result.id, id, JSON.stringify(result).slice(0, 500));
      matches(result, asWire(expect));
      assert.equal(result.jail.isolation, 'process');
      assert.ok(result.jail.layers.includes('seccomp') && result.jail.layers.includes('landlock'));
    });
});
