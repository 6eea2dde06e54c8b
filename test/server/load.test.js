'use strict';
// Many at once: a load that loses nothing, more than there is room for (probe
// 91), and connections that only sit there (probe 89). Health answers meanwhile.

const assert = require('node:assert/strict');
const net = require('node:net');
const { describe, it } = require('node:test');
const { setTimeout: sleep } = require('node:timers/promises');
const { slack } = require('../helpers/baseline.js');
const autocannon = require('autocannon');
const { ask, bearer, js, py, startService, waitFor, EXEC, TOKEN } = require('../helpers/service.js');

// Nineteen of twenty answers. This machine's cores are shared with the load itself, with
// its client and with whoever else is on it: the bound stretches with that.
const HEALTHY_MS = 100;
const isHealthy = (seen) => seen.p95 < HEALTHY_MS * slack();
const LOAD = Number(process.env.CODE_JAIL_TEST_LOAD ?? 10000);
const SLEEPERS = Number(process.env.CODE_JAIL_TEST_SLEEPERS ?? 500);

/** Asks for health every 50 ms, over a new connection each time, until `end` is called. */
function watchHealth(base) {
  const took = [];
  let over = false;
  const loop = (async () => {
    while (!over) {
      const began = performance.now();
      const { status } = await ask(`${base}/livez`, { agent: false });
      took.push(status === 200 ? performance.now() - began : Number.POSITIVE_INFINITY);
      await sleep(50);
    }
  })();
  return {
    async end() {
      over = true;
      await loop;
      took.sort((a, b) => a - b);
      return {
        count: took.length,
        median: took[took.length >> 1],
        p95: took[Math.floor(took.length * 0.95)],
        worst: took[took.length - 1],
      };
    },
  };
}

describe('load', () => {
  it(`${LOAD} requests over 64 connections: nothing is lost, health answers within ${HEALTHY_MS} ms`, async (t) => {
    const service = await startService();
    const health = watchHealth(service.base);
    const body = JSON.stringify(js('return input * 2', { input: 21 }));
    let right = 0;
    const result = await autocannon({
      url: service.base + EXEC,
      method: 'POST',
      headers: bearer(),
      body,
      connections: 64,
      amount: LOAD,
      timeout: 60,
      verifyBody: (text) => text.includes('"result":42,') && ++right > 0,
    });
    const seen = await health.end();
    t.diagnostic(
      `${Math.round(result.requests.average)} requests/s, p99 ${result.latency.p99} ms; health ${JSON.stringify(seen)}`,
    );
    assert.equal(result['2xx'], LOAD);
    assert.equal(right, LOAD);
    assert.deepEqual([result.non2xx, result.errors, result.timeouts, result.mismatches], [0, 0, 0, 0]);
    assert.ok(isHealthy(seen), `health: ${JSON.stringify(seen)}`);
    assert.equal(await service.metric('code_jail_requests_total{code="200"}'), LOAD);
    assert.equal(await service.metric('code_jail_held_bytes'), 0);
    await service.stop();
  });

  it('more than there is room for: 429 with Retry-After, and the rest is served', async () => {
    const service = await startService({ env: { CODE_SANDBOX_CONCURRENCY: '2', CODE_SANDBOX_MAX_QUEUE: '3' } });
    const health = watchHealth(service.base);
    const jobs = Array.from({ length: 40 }, () => service.post(py('import time\ntime.sleep(0.5)\nresult = 1')));
    const answers = await Promise.all(jobs);
    const served = answers.filter((one) => one.status === 200);
    const refused = answers.filter((one) => one.status === 429);
    assert.equal(served.length, 5, 'two slots and three who wait');
    assert.equal(refused.length, 35);
    for (const one of refused) {
      assert.equal(one.json.error.code, 'ERR_JAIL_OVERLOADED');
      assert.ok(Number(one.headers['retry-after']) >= 1);
    }
    for (const one of served) assert.equal(one.json.result, 1);
    const seen = await health.end();
    assert.ok(isHealthy(seen), `health: ${JSON.stringify(seen)}`);
    await service.stop();
  });

  it('who waits too long is told so, in its own time', async () => {
    const service = await startService({
      env: { CODE_SANDBOX_CONCURRENCY: '1', CODE_SANDBOX_QUEUE_TIMEOUT_MS: '20000' },
    });
    const first = service.post(py('import time\ntime.sleep(2)'));
    await waitFor(async () => (await service.metric('code_jail_slots_used')) === 1);
    const began = performance.now();
    const headers = { ...bearer(), 'x-code-jail-wait-ms': '1500' };
    const late = await service.post(js('return 1', { timeoutMs: 1000 }), { headers });
    assert.equal(late.status, 429);
    assert.equal(late.json.error.code, 'ERR_JAIL_QUEUE_TIMEOUT');
    assert.ok(performance.now() - began < 1000, 'when it could no longer end, not later');
    assert.equal((await first).status, 200);
    await service.stop();
  });

  it('tenants take turns, and none has the last slot', async () => {
    const service = await startService({ env: { CODE_SANDBOX_CONCURRENCY: '2' } });
    const order = [];
    const one = (name, tenant) =>
      service.post(py('import time\ntime.sleep(0.3)', { tenant })).then(() => order.push(name));
    const greedy = Array.from({ length: 4 }, () => one('greedy', 'a'));
    await waitFor(async () => (await service.metric('code_jail_queue_length')) === 3);
    assert.equal(await service.metric('code_jail_slots_used'), 1);
    const modest = one('modest', 'b');
    await Promise.all([...greedy, modest]);
    assert.ok(order.indexOf('modest') <= 1, order.join());
    await service.stop();
  });

  it('bodies are held up to a limit, all together', async () => {
    const service = await startService();
    const { hostname, port } = new URL(service.base);
    const size = 30 << 20;
    const sockets = Array.from({ length: 12 }, () => net.connect(Number(port), hostname));
    const answers = sockets.map(
      (socket) =>
        new Promise((resolve) => {
          let text = '';
          socket.on('data', (part) => {
            text += part;
          });
          socket.on('error', () => {});
          socket.on('close', () => resolve(text));
        }),
    );
    const head = `POST ${EXEC} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${TOKEN}\r\nContent-Length: ${size}\r\n\r\n`;
    const piece = Buffer.alloc(1 << 20, 32);
    for (const socket of sockets) {
      socket.write(head);
      for (let i = 0; i < 29; i++) socket.write(piece); // and never the rest
    }
    await waitFor(async () => (await service.metric('code_jail_requests_total{code="429"}')) >= 1, 20000);
    assert.ok((await service.metric('code_jail_held_bytes')) <= 256 << 20);
    for (const socket of sockets) socket.destroy();
    await Promise.all(answers);
    await waitFor(async () => (await service.metric('code_jail_held_bytes')) === 0);
    assert.equal((await service.post(js('return 1'))).status, 200);
    await service.stop();
  });
});

describe('connections that only sit there', () => {
  it(`${SLEEPERS} of them, in every phase: health within ${HEALTHY_MS} ms, code still runs, the oldest go`, async (t) => {
    const cap = Math.max(64, SLEEPERS >> 1);
    const service = await startService({ env: { CODE_SANDBOX_MAX_CONNECTIONS: String(cap) } });
    const { hostname, port } = new URL(service.base);
    const phases = [
      '',
      'P',
      `POST ${EXEC} HTTP/1.1\r\nHost: x\r\nAuthoriz`,
      `POST ${EXEC} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\nAuthorization: Bearer wrong\r\n\r\n{`,
      'GET /livez HTTP/1.1\r\nHost: x\r\n\r\n',
    ];
    const sockets = [];
    let closed = 0;
    for (let i = 0; i < SLEEPERS; i++) {
      const socket = net.connect(Number(port), hostname);
      socket.on('error', () => {});
      socket.on('close', () => closed++);
      socket.write(phases[i % phases.length]);
      sockets.push(socket);
      if (i % 100 === 99) await sleep(20);
    }
    const drip = setInterval(() => {
      for (const socket of sockets) if (socket.writable) socket.write('x'); // a byte a second
    }, 1000);
    const health = watchHealth(service.base);
    await sleep(3000);
    assert.equal((await service.post(js('return 1'))).json.result, 1);
    const seen = await health.end();
    t.diagnostic(`health ${JSON.stringify(seen)}, ${closed} of ${SLEEPERS} closed`);
    assert.ok(seen.count > 5 && isHealthy(seen), JSON.stringify(seen));
    assert.ok((await service.metric('code_jail_connections')) <= cap);
    await waitFor(() => closed >= SLEEPERS * 0.8, 20000); // headers have ten seconds
    clearInterval(drip);
    for (const socket of sockets) socket.destroy();
    await service.stop();
  });

  it('a body that comes a byte at a time, or stops, is given up', async () => {
    const service = await startService();
    const { hostname, port } = new URL(service.base);
    const began = performance.now();
    const text = await new Promise((resolve) => {
      let seen = '';
      const socket = net.connect(Number(port), hostname, () =>
        socket.write(
          `POST ${EXEC} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${TOKEN}\r\nContent-Length: 100\r\n\r\n{`,
        ),
      );
      socket.on('data', (part) => {
        seen += part;
      });
      socket.on('close', () => resolve(seen));
      socket.on('error', () => {});
    });
    assert.match(text, /^HTTP\/1.1 408/);
    assert.ok(performance.now() - began < 14000);
    await service.stop();
  });

  it('a run in progress is not among those that go', async () => {
    const service = await startService({ env: { CODE_SANDBOX_MAX_CONNECTIONS: '16' } });
    const { hostname, port } = new URL(service.base);
    const running = service.post(py('import time\ntime.sleep(1.5)\nresult = "kept"'), { agent: false });
    await waitFor(async () => (await service.metric('code_jail_slots_used')) === 1);
    const crowd = Array.from({ length: 100 }, () => net.connect(Number(port), hostname).on('error', () => {}));
    assert.equal((await running).json.result, 'kept');
    for (const socket of crowd) socket.destroy();
    await service.stop();
  });
});
