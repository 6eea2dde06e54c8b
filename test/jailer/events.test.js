'use strict';
// Live output within the jailer: the line's field, and agents that tell of output
// which is none, as one that was taken over may.

const assert = require('node:assert/strict');
const { once } = require('node:events');
const net = require('node:net');
const { after, before, describe, it } = require('node:test');
const { exchange } = require('../../lib/jailer/guest-channel.js');
const { Events, EventReader } = require('../../lib/server/events.js');
const { ask, startJailer } = require('../helpers/jailer.js');
const { socketPath } = require('../helpers/socket-peer.js');

const LIMIT = 100;
const event = (text, name = 'stdout') => `${JSON.stringify({ [name]: text })}\n`;

describe('the field `stream`', () => {
  let jailer;
  before(async () => {
    jailer = await startJailer();
  });
  after(() => jailer?.stop());
  const lines = async (job) =>
    (await ask(jailer.file, `${JSON.stringify(job)}\n`)).trimEnd().split('\n').map(JSON.parse);
  const job = { language: 'python', code: 'import sys\nprint("é")\nprint("b", file=sys.stderr)\nresult = {"a": 1}' };

  it('brings what the run writes before the answer; without it there is one line', async () => {
    const all = await lines({ ...job, stream: true });
    const answer = all.pop();
    assert.deepEqual([answer.status, answer.result, answer.stdout], ['ok', { a: 1 }, 'é\n']);
    const heard = (name) => all.map((one) => one[name] ?? '').join('');
    assert.deepEqual([heard('stdout'), heard('stderr')], ['é\n', 'b\n']);
    for (const more of [{}, { stream: false }]) assert.equal((await lines({ ...job, ...more })).length, 1);
  });

  it('is a boolean, and means nothing to a check', async () => {
    const [refusal] = await lines({ ...job, stream: 'yes' });
    assert.match(refusal.error.message, /stream must be true or false/);
    assert.equal(refusal.error.code, 'ERR_JAIL_INVALID_REQUEST');
    const { code, ...rest } = job;
    assert.equal((await lines({ ...rest, check: code, stream: true })).length, 1);
  });
});

describe('the agent of a microVM', () => {
  /** What an agent that says `text` becomes. */
  async function answerOf(text, { listens = true } = {}) {
    const { file, remove } = socketPath('agent.sock');
    const server = net.createServer((socket) => socket.on('error', () => {}).once('data', () => socket.end(text)));
    await once(server.listen(file), 'listening');
    const heard = [];
    const events = listens ? new EventReader(new Events((line) => heard.push(line)), LIMIT) : null;
    try {
      const job = { line: Buffer.from('{}\n'), maxAnswerBytes: 1000, events };
      const answer = await exchange(net.connect(file), job, AbortSignal.timeout(60000));
      return { answer: answer.toString(), heard };
    } catch (error) {
      return { code: error.code, heard };
    } finally {
      server.close();
      remove();
    }
  }

  it('is heard as it comes, and its answer is the line behind', async () => {
    const told = [event('a'), event('é"\n', 'stderr'), event('c')];
    assert.deepEqual(await answerOf(`${told.join('')}{"id":1}\n`), { answer: '{"id":1}', heard: told });
    const many = event('x').repeat(3 * LIMIT);
    assert.equal((await answerOf(`${many}{"id":1}\n`)).heard.length, 3 * LIMIT);
  });

  const bad = {
    'something behind the answer': `{"id":1}\n${event('a')}`,
    'more than the output may be': event('x'.repeat(3 * LIMIT + 1)),
    'an empty event': event(''),
    'no end of them': event('x').repeat(3 * LIMIT + 1),
  };
  for (const [name, text] of Object.entries(bad))
    it(`${name}: ERR_JAIL_PROTOCOL`, async () => {
      assert.equal((await answerOf(text)).code, 'ERR_JAIL_PROTOCOL');
    });

  it('what is nearly an event is an answer, for the daemon to refuse', async () => {
    for (const text of ['{"stdout":5}', '{"stdout":"a","more":1}', '{"stdout":"a', '{"stdin":"a"}'])
      assert.deepEqual(await answerOf(`${text}\n`), { answer: text, heard: [] });
    assert.deepEqual(await answerOf(event('a'), { listens: false }), { answer: '{"stdout":"a"}', heard: [] });
  });
});
