'use strict';
// What may come back over a Unix socket, and what each answer becomes (probe 93):
// a result only where it is exactly one, and an error with a code in good time
// otherwise.

const assert = require('node:assert/strict');
const { after, before, describe, it } = require('node:test');
const { setTimeout: sleep } = require('node:timers/promises');
const { createJail, JailError } = require('../..');
const { slack } = require('../helpers/baseline.js');
const { answerTo, errorOf } = require('../helpers/peer.js');
const { startSocketPeer } = require('../helpers/socket-peer.js');

const JOB = { language: 'javascript', code: 'return 1 + 1' };

let peer;
let jail;
let reply;
before(async () => {
  peer = await startSocketPeer((call) => reply(call));
  jail = createJail({ socket: peer.file });
});
after(async () => {
  await jail?.close();
  await peer?.close();
});

const run = (with_, job = JOB, how = {}) => {
  reply = with_;
  return jail.runCode(job, how);
};
const text = (job, over) => JSON.stringify(answerTo(job, over));
const writing =
  (...parts) =>
  ({ socket }) =>
    socket.end(Buffer.concat(parts.map((part) => Buffer.from(part))));
/** The answer, changed as text. */
const changed =
  (change) =>
  ({ job, socket }) =>
    socket.end(change(text(job)));

describe('a good answer', () => {
  it('gives every field, with the path taken as the backend', async () => {
    const result = await run(({ job, socket }) =>
      socket.end(`${text(job, { result: { v: [1, null, 'é'] }, stdout: 'a\u0000é😀\ud800' })}\n`),
    );
    assert.deepEqual(result.result, { v: [1, null, 'é'] });
    assert.equal(result.stdout, 'a\u0000é😀\ud800');
    assert.deepEqual(
      [result.jail.backend, result.jail.isolation, result.jail.runtime],
      ['socket', 'gvisor', 'node 22.23.5'],
    );
    assert.equal(result.usage.runMs, 1.5);
  });

  it('the request is one line, with only what differs from the defaults', async () => {
    const input = { text: 'two\nlines\r\n\u2028', n: [1] };
    await run(({ job, socket }) => socket.end(text(job)), { ...JOB, input, id: 'mine', timeoutMs: 77 });
    const line = peer.lines.at(-1);
    assert.equal(line.indexOf('\n'), line.length - 1);
    assert.deepEqual(JSON.parse(line), { ...JOB, input, id: 'mine', timeoutMs: 77 });
  });

  const ends = {
    'a line, and the connection is kept open': ({ job, socket }) => socket.write(`${text(job)}\n`),
    'a line that ends with CRLF': ({ job, socket }) => socket.end(`${text(job)}\r\n`),
    'no line end, but the end of the connection': ({ job, socket }) => socket.end(text(job)),
    'many lines, until the end of the connection': ({ job, socket }) =>
      socket.end(JSON.stringify(answerTo(job), null, 2)),
    'byte by byte': async ({ job, socket }) => {
      for (const byte of Buffer.from(`${text(job, { stdout: 'é' })}\n`)) {
        socket.write(Buffer.of(byte));
        await new Promise((resolve) => setImmediate(resolve));
      }
    },
    'blank lines around it': ({ job, socket }) => socket.end(`\n\n${text(job)}\n\n`),
    'a body until its end that says it in lines': ({ job, socket }) =>
      socket.write(`${JSON.stringify(answerTo(job), null, 1)}\n`),
  };
  for (const [name, answer] of Object.entries(ends)) it(name, async () => assert.equal((await run(answer)).result, 2));

  it('megabytes, and their text as it came', async () => {
    const long = 'é'.repeat(1 << 20);
    const result = await run(({ job, socket }) => socket.end(`${text(job, { result: long })}\n`));
    assert.ok(result.result === long);
    const asText = await run(
      changed((whole) => whole.replace('"result":2', '"result":{"b": 1}')),
      { ...JOB, resultAs: 'text' },
    );
    assert.equal(asText.resultText, '{"b": 1}');
  });

  it('what an older jailer says', async () => {
    const older = await run(writing('{"stdout":"out","stderr":"","exitCode":3,"timedOut":false,"durationMs":12}\n'));
    assert.deepEqual(
      [older.status, older.stdout, older.exitCode, older.jail.isolation],
      ['error', 'out', 3, 'unverified'],
    );
  });
});

describe('a bad answer is an error with a code', () => {
  const PROTOCOL = 'ERR_JAIL_PROTOCOL';
  const deep = '['.repeat(100000) + ']'.repeat(100000);
  const many = `[${'1,'.repeat(1000000)}1]`;
  const table = [
    ['nothing, then the end', writing(''), 'ERR_JAIL_UNAVAILABLE', /without an answer; the run may have been/],
    ['part of one, then the end', changed((whole) => whole.slice(0, 40)), PROTOCOL, /cut off after 40 bytes/],
    ['two lines', changed((whole) => `${whole}\n${whole}\n`), PROTOCOL, /not JSON/],
    ['text behind it', changed((whole) => `${whole} x\n`), PROTOCOL, /not JSON/],
    ['a NUL within it', changed((whole) => whole.replace(',', ',\0')), PROTOCOL, /not JSON/],
    ['a NUL behind it', changed((whole) => `${whole}\0\n`), PROTOCOL, /not JSON/],
    ['a byte order mark', changed((whole) => `\ufeff${whole}\n`), PROTOCOL, /not JSON/],
    [
      'bad UTF-8',
      ({ socket }) => socket.end(Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d, 10])),
      PROTOCOL,
      /UTF-8/,
    ],
    [
      'raw control characters',
      changed((whole) => whole.replace('"stdout":""', '"stdout":"\u0007"')),
      PROTOCOL,
      /not JSON/,
    ],
    ['HTML', writing('<html>502 Bad Gateway</html>\n'), PROTOCOL, /not JSON/],
    ['an HTTP answer', writing('HTTP/1.1 400 Bad Request\r\n\r\n'), PROTOCOL, /not JSON/],
    ['{}{}', writing('{}{}\n'), PROTOCOL, /not JSON/],
    ['{"a"}', writing('{"a"}\n'), PROTOCOL, /not JSON/],
    [':,:{},:,', writing(':,:{},:,\n'), PROTOCOL, /not JSON/],
    ['{"a":::"b"}', writing('{"a":::"b"}\n'), PROTOCOL, /not JSON/],
    ['[1 "b"]', writing('[1 "b"]\n'), PROTOCOL, /not JSON/],
    ['a trailing comma', changed((whole) => whole.replace(/}$/, ',}')), PROTOCOL, /not JSON/],
    ['100,000 levels', changed((whole) => whole.replace('"result":2', `"result":${deep}`)), PROTOCOL, /deep/],
    [
      'a million values',
      changed((whole) => `${whole.replace('"result":2', `"result":${many}`)}\n`),
      PROTOCOL,
      /too many values/,
    ],
    ['a null', writing('null\n'), PROTOCOL, /not an object/],
    ['a list', writing('[]\n'), PROTOCOL, /not an object/],
    ['an empty object', writing('{}\n'), PROTOCOL, /neither status nor exitCode/],
    ['output alone', writing('{"stdout":"a","stderr":""}\n'), PROTOCOL, /neither status nor exitCode/],
    ['another run’s id', ({ job, socket }) => socket.end(text({ ...job, id: 'another' })), PROTOCOL, /`id`/],
    ['`ok` twice', changed((whole) => whole.replace('{', '{"ok":true,')), PROTOCOL, /twice/],
    ['ok that is not its status', ({ job, socket }) => socket.end(text(job, { ok: false })), PROTOCOL, /`ok`/],
    ['an unknown status', ({ job, socket }) => socket.end(text(job, { status: 'fine' })), PROTOCOL, /`status`/],
    ['a number for stdout', ({ job, socket }) => socket.end(text(job, { stdout: 1 })), PROTOCOL, /`stdout`/],
    [
      'an isolation that there is not',
      ({ job, socket }) => socket.end(text(job, { jail: { ...answerTo(job).jail, isolation: 'vault' } })),
      PROTOCOL,
      /isolation/,
    ],
  ]; // prettier-ignore
  for (const [name, answer, code, message] of table)
    it(name, async () => {
      const from = peer.lines.length;
      const start = performance.now();
      const error = await errorOf(run(answer));
      assert.ok(error instanceof JailError, String(error));
      assert.equal(error.code, code, error.message);
      assert.match(error.message, message);
      assert.deepEqual([error.backend, error.retryable], ['socket', false]);
      assert.ok(!error.message.includes('node 22.23.5'), 'nothing of the answer is told');
      assert.ok(performance.now() - start < 10000 * slack(), 'it did not wait for the deadline');
      assert.equal(peer.lines.length, from + 1, 'sent once');
    });

  it('what JSON allows is no error: half a surrogate pair, 1e999999', async () => {
    const result = await run(changed((whole) => whole.replace('"result":2', '"result":["\\ud800",1e999999]')));
    assert.deepEqual(result.result, ['\ud800', Number.POSITIVE_INFINITY]);
  });

  it('a line without end stops at what an answer may have', async () => {
    let sent = 0;
    const flood = ({ socket }) => {
      socket.write(`{"stdout":"${'x'.repeat(1 << 20)}`);
      const more = (error) => {
        if (error || sent > 100 << 20) return;
        sent += 1 << 20;
        socket.write('y'.repeat(1 << 20), more);
      };
      more();
    };
    const small = { ...JOB, maxOutputBytes: 1000, maxResultBytes: 1000 };
    const error = await errorOf(run(flood, small));
    assert.equal(error.code, 'ERR_JAIL_PROTOCOL');
    assert.match(error.message, /more than it may have/);
    assert.ok(sent < 20 << 20, `${sent} bytes went`);
  });

  it('a connection that ends with our line unread', async () => {
    const rude = await startSocketPeer(undefined, {
      onConnection: (socket) => {
        socket.pause();
        setTimeout(() => socket.destroy(), 100);
      },
    });
    const other = createJail({ socket: rude.file });
    const error = await errorOf(other.runCode(JOB));
    assert.deepEqual([error.code, error.retryable], ['ERR_JAIL_UNAVAILABLE', false]);
    await other.close();
    await rude.close();
  });

  it('less isolation than was asked for', async () => {
    const error = await errorOf(run(({ job, socket }) => socket.end(text(job)), { ...JOB, minIsolation: 'microvm' }));
    assert.equal(error.code, 'ERR_JAIL_ISOLATION');
    const enough = await run(({ job, socket }) => socket.end(text(job)), { ...JOB, minIsolation: 'gvisor' });
    assert.equal(enough.result, 2);
  });
});

describe('what the jailer refuses', () => {
  const refusing = (error) => writing(`${JSON.stringify({ error })}\n`);
  const table = [
    [
      'a full queue',
      { code: 'ERR_JAIL_OVERLOADED', message: 'full', retryAfterMs: 250 },
      'ERR_JAIL_OVERLOADED',
      true,
      250,
    ],
    ['no slot in time', { code: 'ERR_JAIL_QUEUE_TIMEOUT', message: 'late' }, 'ERR_JAIL_QUEUE_TIMEOUT', true, null],
    [
      'going down',
      { code: 'ERR_JAIL_UNAVAILABLE', message: 'down', retryAfterMs: 1000 },
      'ERR_JAIL_UNAVAILABLE',
      true,
      1000,
    ],
    ['it has failed', { code: 'ERR_JAIL_UNAVAILABLE', message: 'died' }, 'ERR_JAIL_UNAVAILABLE', false, null],
    [
      'a wrong request',
      { code: 'ERR_JAIL_INVALID_REQUEST', message: 'timeoutMs is 9' },
      'ERR_JAIL_INVALID_REQUEST',
      false,
      null,
    ],
    ['too little to prove', { code: 'ERR_JAIL_ISOLATION', message: 'none' }, 'ERR_JAIL_ISOLATION', false, null],
    ['what is not its to say', { code: 'ERR_JAIL_CLOSED', message: 'x' }, 'ERR_JAIL_UNAVAILABLE', false, null],
  ]; // prettier-ignore
  for (const [name, said, code, retryable, retryAfterMs] of table)
    it(name, async () => {
      const error = await errorOf(run(refusing(said)));
      assert.deepEqual([error.code, error.retryable, error.retryAfterMs], [code, retryable, retryAfterMs]);
      assert.equal(error.message, said.message);
    });

  it('a language it does not know yet: who said so, and the remedy', async () => {
    const message = 'language must be one of "javascript", "python"';
    const refusal = refusing({ code: 'ERR_JAIL_INVALID_REQUEST', message });
    const error = await errorOf(run(refusal, { ...JOB, language: 'typescript' }));
    assert.equal(JSON.parse(peer.lines.at(-1)).language, 'typescript');
    assert.deepEqual([error.code, error.retryable, error.backend], ['ERR_JAIL_INVALID_REQUEST', false, 'socket']);
    assert.equal(error.message, `${message}: the service or jailer that said so is older than this package, update it`);
  });

  it('before it has read the line', async () => {
    const hasty = await startSocketPeer(undefined, {
      onConnection: (socket) => socket.end('{"error":{"code":"ERR_JAIL_OVERLOADED","message":"go away"}}\n'),
    });
    const other = createJail({ socket: hasty.file });
    const error = await errorOf(other.runCode({ ...JOB, input: 'x'.repeat(8 << 20) }));
    assert.deepEqual([error.code, error.message], ['ERR_JAIL_OVERLOADED', 'go away']);
    await other.close();
    await hasty.close();
  });
});

describe('time', () => {
  const short = () => createJail({ socket: peer.file, queueTimeoutMs: 1 });
  const silences = {
    'no answer': () => {},
    'half an answer, then silence': ({ job, socket }) => socket.write(text(job).slice(0, 50)),
    'a byte now and then': ({ job, socket }) => {
      const whole = text(job);
      let at = 0;
      const timer = setInterval(() => (socket.destroyed ? clearInterval(timer) : socket.write(whole[at++])), 200);
    },
  };
  for (const [name, answer] of Object.entries(silences))
    it(`${name} ends at the deadline, and the connection with it`, async () => {
      const hurried = short();
      reply = answer;
      const start = performance.now();
      const error = await errorOf(hurried.runCode({ ...JOB, timeoutMs: 1 }));
      const tookMs = performance.now() - start;
      assert.equal(error.code, 'ERR_JAIL_DEADLINE');
      assert.equal(error.retryable, false);
      assert.ok(tookMs > 4900 && tookMs < 9000 * slack(), `after ${tookMs} ms`);
      for (let i = 0; i < 200 && peer.sockets.size > 0; i++) await sleep(20);
      await hurried.close();
    });
});
