'use strict';
// The service's queue, without a service: slots, memory, turns, and those who leave.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { setTimeout: sleep } = require('node:timers/promises');
const { Queue } = require('../../lib/server/queue.js');

const never = new AbortController().signal;
const enter = (queue, { tenant = null, memoryMb = 1, waitMs = 60000, signal = never } = {}) =>
  queue.enter({ tenant, memoryMb, waitMs, signal });
const make = (over) => new Queue({ slots: 2, totalMemoryMb: 100, maxQueue: 10, ...over });
const code = (promise) =>
  promise.then(
    () => 'entered',
    (error) => error.code ?? error.message,
  );

describe('the queue of the service', () => {
  it('gives as many slots as there are, and the next when one is free', async () => {
    const queue = make();
    const [one] = await Promise.all([enter(queue), enter(queue)]);
    let third = false;
    const waiting = enter(queue).then((release) => {
      third = true;
      return release;
    });
    await sleep(5);
    assert.deepEqual([third, queue.used, queue.waiting], [false, 2, 1]);
    one();
    one(); // once is enough
    (await waiting)();
    assert.deepEqual([queue.used, queue.waiting, queue.usedMemoryMb], [1, 0, 1]);
  });

  it('is full at its limit, and says so', async () => {
    const queue = make({ slots: 1, maxQueue: 1 });
    const first = await enter(queue);
    const second = enter(queue);
    assert.ok(queue.full);
    assert.equal(await code(enter(queue)), 'ERR_JAIL_OVERLOADED');
    first();
    (await second)();
    assert.ok(!queue.full);
  });

  it('without a queue takes what fits, and nothing else', async () => {
    const queue = make({ slots: 2, totalMemoryMb: 10, maxQueue: 0 });
    const one = await enter(queue, { memoryMb: 8 });
    assert.ok(!queue.full);
    assert.equal(await code(enter(queue, { memoryMb: 8 })), 'ERR_JAIL_OVERLOADED');
    const two = await enter(queue, { memoryMb: 2 });
    assert.ok(queue.full);
    one();
    two();
  });

  it('small runs do not starve one that needs much memory', async () => {
    const queue = make({ slots: 4, totalMemoryMb: 10 });
    const order = [];
    const small = await Promise.all([enter(queue, { memoryMb: 4 }), enter(queue, { memoryMb: 4 })]);
    const big = enter(queue, { memoryMb: 10 }).then((release) => {
      order.push('big');
      release();
    });
    const later = enter(queue, { memoryMb: 1 }).then((release) => {
      order.push('later');
      release();
    });
    await sleep(5);
    assert.deepEqual(order, []);
    for (const release of small) release();
    await Promise.all([big, later]);
    assert.deepEqual(order, ['big', 'later']);
  });

  it('tenants take turns, whatever each has waiting', async () => {
    const queue = make({ slots: 1, maxQueue: 100 });
    const order = [];
    const first = await enter(queue);
    const runs = [...'aaaabbc'].map((tenant) =>
      enter(queue, { tenant }).then((release) => {
        order.push(tenant);
        release();
      }),
    );
    first();
    await Promise.all(runs);
    assert.equal(order.join(''), 'abcabaa');
  });

  it('a named tenant never has the last slot; one without a name may', async () => {
    const queue = make({ slots: 2 });
    const first = await enter(queue, { tenant: 'a' });
    const second = enter(queue, { tenant: 'a' });
    await sleep(5);
    assert.deepEqual([queue.used, queue.waiting], [1, 1]);
    const other = await enter(queue, { tenant: 'b' });
    first();
    (await second)();
    other();
    const both = await Promise.all([enter(queue), enter(queue)]);
    for (const release of both) release();
    assert.deepEqual([queue.used, queue.held.size, queue.lines.size], [0, 0, 0]);
  });

  it('who goes away, or waited long enough, is out, and whoever was behind comes', async () => {
    const queue = make({ slots: 1 });
    const first = await enter(queue);
    const controller = new AbortController();
    const gone = code(enter(queue, { signal: controller.signal }));
    const late = code(enter(queue, { waitMs: 10 }));
    const last = enter(queue);
    controller.abort(new Error('gone'));
    assert.equal(await gone, 'gone');
    assert.equal(await late, 'ERR_JAIL_QUEUE_TIMEOUT');
    assert.equal(queue.waiting, 1);
    first();
    (await last)();
    assert.deepEqual([queue.used, queue.waiting, queue.lines.size], [0, 0, 0]);
  });

  it('cleared, it sends everybody away', async () => {
    const queue = make({ slots: 1 });
    const first = await enter(queue);
    const waiting = ['a', 'b', null].map((tenant) => code(enter(queue, { tenant })));
    queue.clear(() => Object.assign(new Error('x'), { code: 'CLEARED' }));
    assert.deepEqual(await Promise.all(waiting), ['CLEARED', 'CLEARED', 'CLEARED']);
    first();
    assert.deepEqual([queue.used, queue.waiting, queue.lines.size], [0, 0, 0]);
  });

  it('ten thousand random comings and goings leave nothing behind', async () => {
    const queue = make({ slots: 3, totalMemoryMb: 20, maxQueue: 50 });
    let seed = 7;
    const random = (n) => {
      seed = (seed * 1103515245 + 12345) % 2147483648;
      return seed % n;
    };
    let most = 0;
    const runs = [];
    for (let i = 0; i < 10000; i++) {
      const controller = new AbortController();
      const tenant = [null, 'a', 'b', 'c'][random(4)];
      runs.push(
        enter(queue, { tenant, memoryMb: 1 + random(20), signal: controller.signal }).then(
          async (release) => {
            most = Math.max(most, queue.used);
            assert.ok(queue.usedMemoryMb <= 20);
            await null;
            release();
          },
          () => {},
        ),
      );
      if (random(5) === 0) controller.abort(new Error('gone'));
      if (random(10) === 0) await null;
    }
    await Promise.all(runs);
    assert.equal(most, 3);
    assert.deepEqual(
      [queue.used, queue.usedMemoryMb, queue.waiting, queue.held.size, queue.lines.size],
      [0, 0, 0, 0, 0],
    );
  });
});
