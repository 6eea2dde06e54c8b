'use strict';
// onStdout and onStderr over a Unix socket: what a jailer may send before its
// answer, and jailers that do not know how.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { createJail } = require('../..');
const { answerTo, errorOf } = require('../helpers/peer.js');
const { startSocketPeer } = require('../helpers/socket-peer.js');

const JOB = { language: 'javascript', code: 'return 1 + 1' };
const LIMIT = 1000;
const event = (text, name = 'stdout') => `${JSON.stringify({ [name]: text })}\n`;
const lineOf = (job, over) => `${JSON.stringify(answerTo(job, over))}\n`;

/** @param {(call: any) => void} reply @param {(jail: any, peer: any) => Promise<void>} use */
async function withPeer(reply, use) {
  const peer = await startSocketPeer(reply);
  const jail = createJail({ socket: peer.file });
  try {
    await use(jail, peer);
  } finally {
    await jail.close();
    await peer.close();
  }
}

async function listen(jail, job = JOB) {
  const heard = { out: '', err: '' };
  const onStdout = (text) => {
    heard.out += text;
  };
  const onStderr = (text) => {
    heard.err += text;
  };
  return { run: await jail.runCode(job, { onStdout, onStderr }), ...heard };
}

describe('events of a jailer', () => {
  it('it is asked for them only where somebody listens', async () => {
    const reply = ({ job, socket }) => socket.end(lineOf(job));
    await withPeer(reply, async (jail, peer) => {
      await jail.runCode(JOB);
      await jail.runCode(JOB, { onStderr: () => {} });
      assert.deepEqual(
        peer.lines.map((line) => JSON.parse(line).stream),
        [undefined, true],
      );
    });
  });

  it('come in any pieces, before an answer in any shape', async () => {
    const over = { stdout: 'ac', stderr: 'é' };
    const answers = [(job) => lineOf(job, over), (job) => JSON.stringify(answerTo(job, over), null, 2)];
    for (const answer of answers) {
      const reply = async ({ job, socket }) => {
        for (const byte of Buffer.from(event('a') + event('é', 'stderr') + event('c'))) {
          socket.write(Buffer.of(byte));
          await new Promise((resolve) => setImmediate(resolve));
        }
        socket.end(answer(job));
      };
      await withPeer(reply, async (jail) => {
        const { run, out, err } = await listen(jail);
        assert.deepEqual([run.result, out, err], [2, 'ac', 'é']);
      });
    }
  });

  const bad = {
    'nothing behind them': () => event('a'),
    'half of one': () => `${event('a')}{"stdout":"b`,
    'a whole one without its line end': () => `${event('a')}{"stdout":"b"}`,
    nonsense: () => `${event('a')}nonsense\n`,
    'one that is no text': () => '{"stdout":5}\n',
    'one of another name': () => '{"stdin":"x"}\n',
    'one behind the answer': (job) => lineOf(job) + event('late'),
    'one within the answer': (job) => lineOf(job).slice(0, 30) + event('x'),
    'bad UTF-8': () => Buffer.concat([Buffer.from('{"stdout":"'), Buffer.of(255), Buffer.from('"}\n')]),
    'an empty one': () => event(''),
    'more than the output may be': () => event('x'.repeat(3 * LIMIT + 1)),
    'many that are more': (job) => event('x'.repeat(50)).repeat(100) + lineOf(job),
    'an answer for another job': (job) => event('a') + lineOf({ ...job, id: 'another' }),
  };
  for (const [name, text] of Object.entries(bad))
    it(`${name}: ERR_JAIL_PROTOCOL`, async () => {
      const reply = ({ job, socket }) => socket.end(text(job));
      await withPeer(reply, async (jail, peer) => {
        assert.equal((await errorOf(listen(jail, { ...JOB, maxOutputBytes: LIMIT }))).code, 'ERR_JAIL_PROTOCOL');
        assert.equal(peer.lines.length, 1, 'nothing is sent twice');
      });
    });

  it('a line without end is given up at what an answer may be', async () => {
    const reply = ({ socket }) => {
      const part = Buffer.alloc(65536, 120);
      const more = () => {
        while (socket.writable && socket.write(part));
        if (socket.writable) socket.once('drain', more);
      };
      socket.write('{"stdout":"');
      more();
    };
    await withPeer(reply, async (jail) => {
      const job = { ...JOB, maxOutputBytes: LIMIT, maxResultBytes: LIMIT };
      assert.match((await errorOf(listen(jail, job))).message, /more than it may have/);
    });
  });

  it('unasked, they are no result; a failure behind them is what it says', async () => {
    const reply = ({ job, socket }) =>
      socket.end(event('a') + (job.stream ? '{"error":{"code":"ERR_JAIL_INVALID_REQUEST","message":"m"}}\n' : ''));
    await withPeer(reply, async (jail, peer) => {
      assert.equal((await errorOf(jail.runCode(JOB))).code, 'ERR_JAIL_PROTOCOL');
      assert.equal((await errorOf(listen(jail))).code, 'ERR_JAIL_INVALID_REQUEST');
      assert.equal(peer.lines.length, 2, 'what has written something is not sent again');
    });
  });
});

describe('a jailer that knows no events', () => {
  const refusal = '{"error":{"code":"ERR_JAIL_INVALID_REQUEST","message":"\\"stream\\" is not a field"}}\n';

  it('is asked again without, once, and everything is heard at the end', async () => {
    const over = { stdout: 'all of it' };
    const reply = ({ job, socket }) => socket.end('stream' in job ? refusal : lineOf(job, over));
    await withPeer(reply, async (jail, peer) => {
      for (const sent of [2, 3, 4]) {
        const { run, out } = await listen(jail);
        assert.deepEqual([run.result, out], [2, 'all of it']);
        assert.equal(peer.lines.length, sent, 'what it refused is remembered');
      }
    });
  });

  it('is not what one is taken for that refuses the request for another reason', async () => {
    const reply = ({ job, socket }) =>
      socket.end(job.code === 'bad' ? refusal.replace('stream', 'other') : event('a') + lineOf(job));
    await withPeer(reply, async (jail, peer) => {
      const error = await errorOf(listen(jail, { ...JOB, code: 'bad' }));
      assert.equal(error.code, 'ERR_JAIL_INVALID_REQUEST');
      assert.match(error.message, /other/);
      assert.equal(peer.lines.length, 2);
      assert.equal((await listen(jail)).out, 'a');
      assert.equal(JSON.parse(peer.lines.at(-1)).stream, true);
    });
  });

  it('may ignore the field', async () => {
    const over = { stdout: 'all of it', stderr: 'that too' };
    const reply = ({ job, socket }) => socket.end(lineOf(job, over));
    await withPeer(reply, async (jail, peer) => {
      const { out, err } = await listen(jail);
      assert.deepEqual([out, err, peer.lines.length], ['all of it', 'that too', 1]);
    });
  });
});
