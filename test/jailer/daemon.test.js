'use strict';
// The jailer's front around an engine that does as it is told: who may ask, what
// a line may be, what an engine's answer may be, queue, cancelling, going down.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const net = require('node:net');
const { after, describe, it } = require('node:test');
const { setTimeout: sleep } = require('node:timers/promises');
const { Jailer } = require('../../lib/jailer/daemon.js');
const { readSettings } = require('../../lib/jailer/settings.js');
const { readConfig } = require('../../lib/config.js');
const { JailError } = require('../../lib/index.js');
const { parseBody } = require('../../lib/server/body.js');
const { readJob } = require('../../lib/server/job.js');
const { until } = require('../helpers/baseline.js');
const { ask, post } = require('../helpers/jailer.js');
const { answerTo } = require('../helpers/peer.js');
const { socketPath } = require('../helpers/socket-peer.js');
const { stamp } = require('../../lib/jailer/answer.js');

const JOB = { language: 'javascript', code: 'return 1', id: 'job' };
const logged = [];
const log = Object.fromEntries(
  ['info', 'warn', 'error'].map((level) => [level, (facts) => logged.push({ level, ...facts })]),
);

const open = [];
after(async () => {
  for (const one of open) await one.jailer.close();
  for (const one of open) one.remove();
});

/** A daemon in this process. run(job, how) is the engine's. */
async function daemon(run, over = {}, isolation = 'microvm') {
  const { file, remove } = socketPath();
  const settings = { ...readSettings({}, { engine: 'local', socket: file }), drainMs: 500, ...over };
  const engine = { isolation, run, stats: () => ({ ready: 1, running: 0 }), close: async () => {} };
  const jailer = new Jailer(settings, engine, log);
  await jailer.listen(file);
  open.push({ jailer, remove });
  return { file, jailer, post: (job = JOB, how) => post(file, job, how) };
}

const good =
  (over = {}) =>
  async ({ request }) => ({ answer: Buffer.from(JSON.stringify(answerTo(request, over))), isolation: 'microvm' });

describe('one line in', () => {
  it('a result on one line, stamped with what was verified', async () => {
    const { file } = await daemon(good({ jail: { ...answerTo({}).jail, isolation: 'process' } }));
    for (const half of [false, true]) {
      const text = await ask(file, `${JSON.stringify(JOB)}\n`, { half });
      assert.equal(text.indexOf('\n'), text.length - 1);
      const result = JSON.parse(text);
      assert.deepEqual(
        [result.id, result.result, result.jail.isolation, result.jail.backend],
        ['job', 2, 'microvm', 'socket'],
      );
      assert.deepEqual(result.jail.layers, ['own-root', 'seccomp']);
      assert.ok(result.usage.queueMs >= 0.25 && result.usage.runMs === 1.5);
    }
    assert.equal(JSON.parse(await ask(file, JSON.stringify(JOB), { half: true })).result, 2, 'without a line end');
  });

  it('line ends between the values of an answer become blanks, and its bytes stay those that came', async () => {
    const text = '{"id":"a","status":"ok","result":[1,\r\n2\n,"\\n"]}';
    const answer = Buffer.from(text);
    const { parts } = await stamp({ answer, isolation: null }, { id: 'a', asText: false, queuedMs: 0 });
    const line = Buffer.concat(parts).toString();
    assert.equal(line.search(/[\r\n]/), line.length - 1);
    assert.deepEqual(JSON.parse(line).result, [1, 2, '\n']);
    assert.equal(answer.toString(), text);
  });

  it('the engine gets the whole request, on one line, without what is judged here', async () => {
    let seen;
    const { file } = await daemon(async (job, how) => {
      seen = { line: job.line.toString(), deadlineMs: how.deadlineMs };
      return good()(job);
    });
    const job = { ...JOB, env: { A: 'x=y' }, tenant: 't', minIsolation: 'gvisor', timeoutMs: 77 };
    const text = JSON.stringify(job).replace('{', '{"input":{"a"\r:\r[1,\r2]},');
    assert.equal(JSON.parse(await ask(file, `${text}\n`)).status, 'ok');
    assert.equal(seen.line.indexOf('\n'), seen.line.length - 1);
    const { maxOutputBytes, maxResultBytes, maxResultNodes, memoryMb, ...line } = JSON.parse(seen.line);
    assert.deepEqual(line, { ...JOB, env: { A: 'x=y' }, timeoutMs: 77, input: { a: [1, 2] } });
    assert.deepEqual([memoryMb, maxOutputBytes, maxResultBytes, maxResultNodes], [256, 1 << 20, 4 << 20, 200000]);
    assert.equal(seen.deadlineMs, 5077);
  });

  it('the engine gets a check as one that its agent will read', async () => {
    let line = '';
    const { file } = await daemon(async (job) => {
      line = job.line.toString();
      return good({ result: [] })(job);
    });
    const check = { language: 'python', check: 'x =', id: 'c', timeoutMs: 77, memoryMb: 64 };
    assert.equal((await post(file, check)).status, 'ok');
    assert.deepEqual(JSON.parse(line), check);
    const { limits } = readConfig({});
    const again = readJob(await parseBody(Buffer.from(`${line}\0`)), limits, null, {});
    assert.deepEqual([again.isCheck, again.code, again.timeoutMs, again.memoryMb], [true, 'x =', 77, 64]);
  });

  it('resultAs text, which clients of ours never ask for', async () => {
    const { post: send } = await daemon(good({ result: { a: 1 } }));
    const result = await send({ ...JOB, resultAs: 'text' });
    assert.deepEqual([result.result, result.resultText], [null, '{"a":1}']);
  });

  const bad = {
    'no JSON': ['hello\n', 'ERR_JAIL_INVALID_REQUEST', /not JSON/],
    'an unknown field': [`${JSON.stringify({ ...JOB, x: 1 })}\n`, 'ERR_JAIL_INVALID_REQUEST', /"x" is not a field/],
    'a number over its cap': [`${JSON.stringify({ ...JOB, timeoutMs: 60001 })}\n`, 'ERR_JAIL_INVALID_REQUEST', /60000/],
    'a field twice': ['{"language":"python","code":"","code":""}\n', 'ERR_JAIL_INVALID_REQUEST', /twice/],
    'over the cap of a line': [`"${'x'.repeat(2000)}`, 'ERR_JAIL_INVALID_REQUEST', /over 1000 bytes/],
    'a line that does not come': ['{"language"', 'ERR_JAIL_INVALID_REQUEST', /in time/],
  };
  for (const [name, [text, code, message]] of Object.entries(bad))
    it(`refused: ${name}`, async () => {
      const { file } = await daemon(good(), { maxLineBytes: 1000, lineMs: 500 });
      const { error } = JSON.parse(await ask(file, text));
      assert.equal(error.code, code);
      assert.match(error.message, message);
      assert.equal((await post(file, JOB)).status, 'ok', 'the next one is served: the control');
    });

  it('who asks nothing gets nothing, and leaves no log', async () => {
    const { file } = await daemon(good());
    const before = logged.length;
    const socket = net.connect(file);
    await new Promise((resolve) => socket.on('connect', resolve));
    socket.destroy();
    await sleep(100);
    assert.equal(logged.length, before);
  });

  it('a connection that cannot be accepted is told, and is not the end', async () => {
    const { jailer, post: send } = await daemon(good());
    for (let i = 0; i < 3; i++) jailer.server.emit('error', Object.assign(new Error('full'), { code: 'ENFILE' }));
    assert.deepEqual(logged.at(-1), { level: 'warn', event: 'listener', code: 'ENFILE' });
    assert.equal((await send()).status, 'ok');
  });

  it('only uids that may', async () => {
    const { file } = await daemon(good(), { uids: new Set([4242]) });
    const { error } = JSON.parse(await ask(file, `${JSON.stringify(JOB)}\n`));
    assert.equal(error.code, 'ERR_JAIL_UNAUTHORIZED');
    assert.deepEqual(logged.at(-1), { level: 'warn', event: 'refused', uid: process.getuid() });
    assert.equal(fs.statSync(file).mode & 0o777, 0o600);
  });

  it('less isolation than was asked for is refused before it runs', async () => {
    let ran = 0;
    const { post: send } = await daemon(
      async (job) => {
        ran++;
        return { ...(await good()(job)), isolation: null };
      },
      {},
      'process',
    );
    assert.equal((await send({ ...JOB, minIsolation: 'gvisor' })).error.code, 'ERR_JAIL_ISOLATION');
    assert.equal(ran, 0);
    const allowed = await send({ ...JOB, minIsolation: 'process' });
    assert.equal(allowed.status, 'ok');
    assert.equal(allowed.jail.isolation, 'unverified', 'the cell claimed gvisor, and nobody vouches for that');
  });
});

describe('what an engine brings back is not believed', () => {
  const raw = (text) => async () => ({ answer: Buffer.from(text), isolation: 'microvm' });
  const whole = JSON.stringify(answerTo(JOB));
  const table = {
    nothing: ['', /not JSON/],
    'no JSON': ['<html>', /not JSON/],
    'two values': [`${whole}${whole}`, /not JSON/],
    'a list': ['[]', /not an object/],
    'no status': ['{"id":"job"}', /no status/],
    'another id': [JSON.stringify(answerTo({ id: 'other' })), /another job/],
    'a member twice': [whole.replace('{', '{"ok":true,'), /twice/],
    'a member twice, by an escape': [whole.replace('{', '{"\\u006fk":true,'), /twice/],
    'a status of its own': [JSON.stringify(answerTo(JOB, { status: 'owned' })), /`status` is none/],
    'a status that is an object': [JSON.stringify(answerTo(JOB, { status: { a: 1 } })), /`status` is none/],
    'a usage that is text': [JSON.stringify(answerTo(JOB, { usage: { runMs: 'owned' } })), /`usage.runMs` cannot be/],
    'an exit code that is text': [JSON.stringify(answerTo(JOB, { exitCode: 'owned' })), /`exitCode` cannot be/],
    'a runtime that is a story': [
      JSON.stringify(answerTo(JOB, { jail: { runtime: 'owned "}\n{' } })),
      /`jail.runtime` cannot be/,
    ],
    'a start of its own': [JSON.stringify(answerTo(JOB, { jail: { start: 'owned' } })), /`jail.start` cannot be/],
    'a refusal whose words are no text': ['{"error":{"code":"x","message":{"toString":1}}}', /does not say why/, true],
    'a long story of its place': [JSON.stringify(answerTo(JOB, { jail: { runtime: 'x'.repeat(70000) } })), /too long/],
  };
  for (const [name, [text, message, isRefusal]] of Object.entries(table))
    it(name, async () => {
      const { jailer, post: send } = await daemon(raw(text));
      const { error } = await send();
      assert.equal(error.code, isRefusal ? 'ERR_JAIL_UNAVAILABLE' : 'ERR_JAIL_PROTOCOL');
      assert.match(error.message, message);
      assert.ok(!/owned/.test(JSON.stringify(logged) + (await jailer.metrics.text())), 'none of its words are in ours');
    });

  it('of its usage what we know, and no more', async () => {
    const { post: send } = await daemon(raw(JSON.stringify(answerTo(JOB, { usage: { runMs: 2, more: 'owned' } }))));
    const { usage } = await send();
    assert.deepEqual([usage.runMs, usage.cpuMs, usage.more], [2, null, undefined]);
    assert.ok(!JSON.stringify(logged).includes('owned'));
  });

  it('a refusal of the agent stays one; what it cannot know is no code of its', async () => {
    const say = async (code) =>
      (await (await daemon(raw(JSON.stringify({ error: { code, message: 'no' } })))).post()).error;
    assert.deepEqual(await say('ERR_JAIL_INVALID_REQUEST'), { code: 'ERR_JAIL_INVALID_REQUEST', message: 'no' });
    assert.equal((await say('ERR_JAIL_UNAUTHORIZED')).code, 'ERR_JAIL_UNAVAILABLE');
  });

  it('a failure of our own says nothing of what happened', async () => {
    const { post: send } = await daemon(async () => {
      throw new TypeError('secret');
    });
    const { error } = await send();
    assert.deepEqual(error, { code: 'ERR_JAIL_UNAVAILABLE', message: 'the service has failed' });
    assert.ok(!JSON.stringify(logged).includes('secret'));
  });
});

describe('time and room', () => {
  /** An engine whose runs wait for `go`, and tell how they ended. */
  function held() {
    const runs = [];
    const run = (job, { signal }) =>
      new Promise((resolve, reject) => {
        const one = { id: job.request.id, go: () => resolve(good()(job)), ended: null };
        signal.addEventListener('abort', () => {
          one.ended = signal.reason;
          reject(signal.reason);
        });
        runs.push(one);
      });
    return { runs, run };
  }

  it('one slot, one that waits, and no more; then each in its turn', async () => {
    const { runs, run } = held();
    const { post: send, jailer } = await daemon(run, { slots: 1, maxQueue: 1 });
    const first = send({ ...JOB, id: 'a' });
    await until(() => runs.length === 1);
    const second = send({ ...JOB, id: 'b' });
    await until(() => jailer.queue.waiting === 1);
    const third = await send({ ...JOB, id: 'c' });
    assert.equal(third.error.code, 'ERR_JAIL_OVERLOADED');
    assert.ok(third.error.retryAfterMs > 0);
    runs[0].go();
    assert.equal((await first).id, 'a');
    await until(() => runs.length === 2);
    runs[1].go();
    assert.equal((await second).id, 'b');
  });

  it('no slot in time', async () => {
    const { runs, run } = held();
    const { post: send } = await daemon(run, { slots: 1, queueTimeoutMs: 100 });
    const first = send();
    await until(() => runs.length === 1);
    assert.equal((await send({ ...JOB, id: 'late' })).error.code, 'ERR_JAIL_QUEUE_TIMEOUT');
    runs[0].go();
    await first;
  });

  it('an engine that does not answer is given up', async () => {
    const { runs, run } = held();
    const { post: send } = await daemon(run, { startMs: 100 });
    assert.equal((await send({ ...JOB, timeoutMs: 1 })).error.code, 'ERR_JAIL_DEADLINE');
    assert.equal(runs[0].ended.code, 'ERR_JAIL_DEADLINE');
  });

  it('a client that goes away ends its run, also after it has closed its half', async () => {
    const { runs, run } = held();
    const { file, jailer } = await daemon(run);
    for (const half of [false, true]) {
      const socket = net.connect({ path: file, allowHalfOpen: true });
      const count = runs.length;
      if (half) socket.end(`${JSON.stringify(JOB)}\n`);
      else socket.write(`${JSON.stringify(JOB)}\n`);
      await until(() => runs.length > count);
      await sleep(200);
      assert.equal(runs.at(-1).ended, null, 'while it waits, it runs');
      socket.destroy();
      assert.ok(await until(() => runs.at(-1).ended !== null));
      assert.ok(await until(() => jailer.queue.used === 0 && jailer.heldBytes === 0));
    }
    assert.equal(logged.at(-1).status, 499);
  });

  it('going down: what runs may end, what is new is sent away, what does not end is stopped', async () => {
    const { runs, run } = held();
    const { post: send, jailer, file } = await daemon(run, { slots: 1, drainMs: 300 });
    const first = send({ ...JOB, id: 'a' });
    await until(() => runs.length === 1);
    const waiting = send({ ...JOB, id: 'b' });
    await until(() => jailer.queue.waiting === 1);
    const closed = jailer.close();
    const away = (await waiting).error;
    assert.deepEqual([away.code, away.retryAfterMs], ['ERR_JAIL_UNAVAILABLE', 1000]);
    const stopped = (await first).error;
    assert.deepEqual([stopped.code, stopped.retryAfterMs], ['ERR_JAIL_UNAVAILABLE', undefined]);
    assert.ok(runs[0].ended instanceof JailError);
    await closed;
    assert.ok(!fs.existsSync(file));
  });
});
