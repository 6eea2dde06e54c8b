'use strict';
// The engine `gvisor` around a sandbox that has been taken over, or fails: a
// program of ours in the place of runsc. Nothing it says may end the daemon.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { after, describe, it } = require('node:test');
const { EventReader } = require('../../lib/server/events.js');
const { until } = require('../helpers/baseline.js');
const { answerTo } = require('../helpers/peer.js');

const skip = process.getuid?.() === 0 ? false : 'the engine needs root';
const FRAMES = path.join(__dirname, '..', '..', 'lib', 'jailer', 'frames.js');
const SANDBOX = `#!${process.execPath}
const fs = require('node:fs');
const { Frames, frame, TYPES } = require(${JSON.stringify(FRAMES)});
if (process.argv.includes('kill')) process.kill(Number(fs.readFileSync(__dirname + '/pid')), 'SIGKILL');
if (!process.argv.includes('run')) process.exit(0);
fs.writeFileSync(__dirname + '/pid', String(process.pid));
const say = (type, number, text) => frame(type, number, [Buffer.from(text)]).forEach((part) => process.stdout.write(part));
const HELLO = JSON.stringify({ isolation: 'gvisor' });
const acts = {
  answer: (number, job) => say(TYPES.answer, number, JSON.stringify({ id: job.id })),
  hello: (number, job) => (say(TYPES.hello, 0, 'not JSON'), say(TYPES.hello, 0, 'null'), acts.answer(number, job)),
  others: (number, job) => (say(TYPES.answer, 4242, 'x'), say(99, number, 'x'), acts.answer(number, job)),
  told: (number, job) => (say(TYPES.event, number, job.event), acts.answer(number, job)),
  flood: () => (process.stdout.write(Buffer.alloc(1 << 20, 255)), process.stdout.write(Buffer.alloc(1 << 20, 255))),
  end: () => process.exit(1),
};
const frames = new Frames(1 << 20, (type, number, body) => {
  const job = JSON.parse(body.toString() || '{}');
  acts[job.code]?.(number, job);
});
process.stdin.on('data', (part) => frames.add(part)).on('end', () => process.exit(0));
say(TYPES.hello, 0, fs.existsSync(__dirname + '/mute') ? 'null' : HELLO);
`;

const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'taken-over-'));
const { PATH } = process.env;
after(() => {
  process.env.PATH = PATH;
  fs.rmSync(scratch, { recursive: true, force: true });
});

const log = Object.fromEntries(['info', 'warn', 'error'].map((level) => [level, () => {}]));

/** An engine whose root, like one that it made itself, lies in its folder. */
async function open() {
  const folder = fs.mkdtempSync(path.join(scratch, 'engine-'));
  const root = path.join(folder, 'root');
  fs.mkdirSync(path.join(root, 'app/lib/jailer'), { recursive: true });
  fs.writeFileSync(path.join(root, 'app/lib/jailer/agent.js'), '');
  fs.writeFileSync(path.join(scratch, 'runsc'), SANDBOX, { mode: 0o755 });
  process.env.PATH = `${scratch}:${PATH}`;
  const { createEngine } = require('../../lib/jailer/gvisor.js');
  const env = { CODE_JAIL_GVISOR_ROOTFS: root };
  const engine = await createEngine({ slots: 2, maxTimeoutMs: 1000, maxMemoryMb: 256, folder, env, log });
  const run = async (code, more = {}, events = null) => {
    const line = Buffer.from(JSON.stringify({ ...answerTo({ id: code }), code, ...more }));
    const job = { line, maxAnswerBytes: 1000, events };
    const { answer } = await engine.run(job, { signal: AbortSignal.timeout(60000), deadlineMs: 60000 });
    return JSON.parse(answer.toString());
  };
  return { engine, run, folder, root };
}

describe('a sandbox that has been taken over', { skip }, () => {
  it('says hello as often as it likes, and answers for others: its jobs are answered all the same', async () => {
    const { engine, run } = await open();
    for (const code of ['answer', 'hello', 'others', 'answer']) assert.deepEqual(await run(code), { id: code });
    await engine.close();
  });

  it('tells of output that is none, that nobody asked for, or of too much: the job fails, and it alone', async () => {
    const { engine, run } = await open();
    const heard = [];
    const reader = () => new EventReader({ flags: 0, give: (_, text) => heard.push(text), end: () => {} }, 100);
    const bad = ['', '5', '{"stdout":5}', '{"stdin":"x"}', '{"stdout":""}', `{"stdout":"${'x'.repeat(301)}"}`];
    for (const event of bad) await assert.rejects(run('told', { event }, reader()), { code: 'ERR_JAIL_PROTOCOL' });
    await assert.rejects(run('told', { event: '{"stdout":"x"}' }), { code: 'ERR_JAIL_PROTOCOL' });
    assert.deepEqual(heard, []);
    assert.deepEqual(await run('told', { event: '{"stdout":"x"}' }, reader()), { id: 'told' });
    assert.deepEqual(heard, ['x']);
    await engine.close();
  });

  it('that is none by its first word is not used', async () => {
    fs.writeFileSync(path.join(scratch, 'mute'), '');
    await assert.rejects(open(), { code: 'ERR_JAIL_ISOLATION' }).finally(() => fs.rmSync(path.join(scratch, 'mute')));
  });

  for (const code of ['flood', 'end'])
    it(`ends by "${code}": its job is told, the next is refused at once or served, and another starts`, async () => {
      const { engine, run, folder, root } = await open();
      await assert.rejects(run(code), { code: 'ERR_JAIL_UNAVAILABLE', retryable: false });
      await assert.rejects(run('answer'), { code: 'ERR_JAIL_UNAVAILABLE', retryable: true });
      await until(() => engine.stats().starts === 2 && engine.stats().ready === 1, 60000);
      assert.ok(fs.existsSync(root), 'what it starts from is still there');
      assert.deepEqual(await run('answer'), { id: 'answer' });
      // The folder is a file now: not even its bundle can be written.
      fs.rmSync(folder, { recursive: true });
      fs.writeFileSync(folder, '');
      await assert.rejects(run(code), { code: 'ERR_JAIL_UNAVAILABLE' });
      await until(() => engine.stats().failures >= 3, 60000);
      await engine.close();
    });
});
