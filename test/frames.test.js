'use strict';
// What a cell may write to its result channel, and what becomes of everything
// else: status `killed`, never a JailError, a retry or a delay for others.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { fakeJail, frame, job } = require('./helpers/fake.js');
const { matches } = require('./helpers/run.js');

const jail = fakeJail();
const run = (code, more) => jail.runCode(job(code, more));
const raw = (parts, more) => run(`raw:${frame(parts)}`, more);

describe('an honest frame', () => {
  it('gives the result', async () => {
    matches(await raw({ result: ' {"a":[1,"é",null]} ' }), {
      status: 'ok',
      exitCode: 0,
      result: { a: [1, 'é', null] },
    });
  });

  it('as text, unparsed, where that was asked for', async () => {
    const result = await raw({ result: '{"a": 1.0}' }, { resultAs: 'text' });
    matches(result, { status: 'ok', result: null, resultText: '{"a": 1.0}' });
    assert.ok(!('resultText' in (await run('ok'))));
  });

  it('keeps __proto__ a plain member, and pollutes nothing', async () => {
    const { result } = await raw({ result: '{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}' });
    assert.ok(Object.hasOwn(result, '__proto__'));
    assert.equal(/** @type {any} */ ({}).polluted, undefined);
  });

  it('gives the error, with what it has', async () => {
    const meta = JSON.stringify({
      exitCode: 3,
      error: { name: 'X', message: '\ud800é', line: 2, column: null, stack: 's', sourceLine: 'x = 1' },
    });
    matches(await run(`frame:E:${meta}`), {
      status: 'error',
      exitCode: 3,
      error: { name: 'X', message: '\ud800é', line: 2, column: null, sourceLine: 'x = 1', stack: 's', path: null },
    });
  });

  for (const [kind, want] of Object.entries({
    N: { status: 'not_serializable', exitCode: 1, error: { path: '$.a' } },
    L: { status: 'result_too_large', exitCode: 1 },
    M: { status: 'out_of_memory', exitCode: 1, signal: null },
  }))
    it(`of kind ${kind} is ${want.status}`, async () => {
      matches(await run(`frame:${kind}:{"error":{"name":"X","message":"m","path":"$.a"}}`), want);
    });

  it('of kind M may have no meta', async () => {
    matches(await run('frame:M:'), {
      status: 'out_of_memory',
      error: { name: 'OutOfMemoryError', message: /256 MiB/ },
    });
  });

  it('of kind M has the words that the language has not', async () => {
    const { error } = await run('frame:M:{"error":{"name":"MemoryError","message":"","line":2}}');
    assert.deepEqual([error.name, error.line], ['MemoryError', 2]);
    assert.match(error.message, /the limit is 256 MiB/);
  });

  it('of kind A is an abort', async () => {
    matches(await run('frame:A:'), { status: 'killed', signal: 'SIGABRT', exitCode: null });
  });
});

describe('the place that a cell tells when its time is nearly over', () => {
  const meta = '{"error":{"line":3,"column":2,"sourceLine":"x = 1","stack":"s","name":"X","message":"m","path":"$"}}';
  const where = frame({ kind: 'W', meta });
  const late = { timeoutMs: 100 };

  it('is in a timeout, without what is not its to say', async () => {
    matches(await run(`raw:${where}`, late), {
      status: 'timeout',
      exitCode: null,
      signal: 'SIGKILL',
      error: {
        name: 'TimeoutError',
        message: /100 ms/,
        line: 3,
        column: 2,
        sourceLine: 'x = 1',
        stack: 's',
        path: null,
      },
    });
  });

  it('is nowhere else, and changes nothing there', async () => {
    matches(await run(`raw:${where}${frame({ result: '5' })}`), { status: 'ok', result: 5, error: null });
    matches(await run(`raw:${where}${frame({ kind: 'E', meta: '{"error":{"name":"Y","message":"n"}}' })}`), {
      status: 'error',
      error: { name: 'Y', message: 'n', line: null, stack: null },
    });
    matches(await run(`raw-exit:${where}`), { status: 'ok', result: null, error: null });
  });

  for (const [name, text] of Object.entries({
    'is no JSON': '{"error"',
    'is no object': '[3]',
    'has no line': '{"error":{"stack":"s"}}',
    'has text for a line': '{"error":{"line":"3"}}',
    'is no UTF-8': '{"error":{"line":3,"stack":"\u00e9"}}',
  }))
    it(`that ${name} is left out, and it stays a timeout`, async () => {
      const hex = frame({ kind: 'W', meta: text }).replace('c3a9', 'ffff');
      matches(await run(`raw:${hex}`, late), {
        status: 'timeout',
        error: { line: null, stack: null, message: /100 ms/ },
      });
    });

  it('that is told in part is left out', async () => {
    matches(await run(`raw:${where.slice(0, -4)}`, late), { status: 'timeout', error: { line: null, stack: null } });
  });

  for (const [name, hex] of Object.entries({
    'told twice': where + where,
    'over its cap': frame({ kind: 'W', metaBytes: 4097 }),
    'without a meta': frame({ kind: 'W' }),
    'with a result': frame({ kind: 'W', meta, result: '1' }),
  }))
    it(`${name} is killed`, async () => {
      matches(await run(`raw:${hex}`, { timeoutMs: 20000 }), {
        status: 'killed',
        error: { message: /result channel/ },
      });
    });
});

describe('a frame that no honest guest writes', () => {
  const meta = '{"error":{"name":"X","message":"m"}}';
  const bad = {
    'another magic': { magic: 1, result: '1' },
    'an unknown kind': { kind: 'Z', result: '1' },
    'kind 0': { kind: 0 },
    'a result that is no JSON': { result: '{"a"}' },
    'two values': { result: '{}{}' },
    'a result that is no UTF-8': null,
    'no result': { result: '' },
    'a result and a meta': { meta, result: '1' },
    'a result with an error': { kind: 'E', meta, result: '1' },
    'an error without meta': { kind: 'E' },
    'a meta that is no object': { kind: 'E', meta: '[]' },
    'a meta without an error': { kind: 'E', meta: '{}' },
    'an error that is text': { kind: 'E', meta: '{"error":"x"}' },
    'a name that is a number': { kind: 'E', meta: '{"error":{"name":5}}' },
    'a line that is text': { kind: 'E', meta: '{"error":{"line":"5"}}' },
    'a line below 0': { kind: 'E', meta: '{"error":{"line":-5}}' },
    'a member twice': { kind: 'E', meta: '{"error":{"name":"a","name":"b"}}' },
    'an exit code of 256': { kind: 'E', meta: '{"exitCode":256,"error":{}}' },
    'a meta of many values': { kind: 'E', meta: `{"error":{},"x":[${'1,'.repeat(100)}1]}` },
    'a meta over its cap': { kind: 'E', metaBytes: (1 << 18) + 1 },
    'a result over its cap': { resultBytes: 4194305 },
    'a result of 4 GiB': { resultBytes: 0xffffffff },
    'a deep result': { result: '['.repeat(513) + ']'.repeat(513) },
    'a byte behind it': { result: '1 ', resultBytes: 1 },
  };
  for (const [name, parts] of Object.entries(bad))
    it(`${name} is killed`, async () => {
      const code = parts ? frame(parts) : frame({ result: '""' }).slice(0, -4) + '22ff';
      const start = performance.now();
      matches(await run(`raw:${code}`, { timeoutMs: 20000 }), {
        status: 'killed',
        ok: false,
        result: null,
        exitCode: null,
        signal: 'SIGKILL',
        error: { name: 'KilledError', message: /result channel/ },
      });
      assert.ok(performance.now() - start < 5000, 'at once, not at the deadline');
      assert.equal((await run('ok')).status, 'ok');
    });

  it('too many values: killed; as many as allowed: fine', async () => {
    matches(await raw({ result: '[1,2,3]' }, { maxResultNodes: 3 }), { status: 'killed' });
    matches(await raw({ result: '[1,2,3]' }, { maxResultNodes: 4 }), { status: 'ok', result: [1, 2, 3] });
  });

  it('a part of one, then silence: the deadline', async () => {
    matches(await run(`raw:${frame({ result: '12345' }).slice(0, -4)}`, { timeoutMs: 50 }), { status: 'timeout' });
  });

  it('a part of one, then the end: killed', async () => {
    matches(await run(`raw-exit:${frame({ result: '12345' }).slice(0, -4)}`), { status: 'killed' });
    matches(await run('raw-exit:00'), { status: 'killed' });
  });

  it('a whole one, then the end: counts', async () => {
    for (let i = 0; i < 20; i++) matches(await run(`raw-exit:${frame({ result: '5' })}`), { status: 'ok', result: 5 });
  });
});

describe('the end without a frame', () => {
  it('exit 0 is ok without a value; what was printed is there', async () => {
    matches(await run('exit:0'), { status: 'ok', result: null, exitCode: 0, stdout: 'last words', error: null });
  });

  it('another exit code is an error with it, 137 too', async () => {
    for (const code of [1, 3, 137, 255])
      matches(await run(`exit:${code}`), {
        status: 'error',
        exitCode: code,
        signal: null,
        stdout: 'last words',
        error: { name: 'ExitError', message: new RegExp(`exit code ${code}$`) },
      });
  });

  it('a signal is killed, by its name', async () => {
    for (const [number, name] of [
      [11, 'SIGSEGV'],
      [6, 'SIGABRT'],
      [9, 'SIGKILL'],
    ])
      matches(await run(`signal:${number}`), { status: 'killed', exitCode: null, signal: name, timedOut: false });
  });

  it('the deadline is a timeout', async () => {
    const start = performance.now();
    const result = await run('sleep', { timeoutMs: 100 });
    const took = performance.now() - start;
    matches(result, {
      status: 'timeout',
      timedOut: true,
      exitCode: null,
      signal: 'SIGKILL',
      error: { name: 'TimeoutError', message: /100 ms/ },
    });
    assert.ok(took >= 100 && took < 1000, `after ${took} ms`);
  });

  it('a closed result channel is found out soon', async () => {
    const start = performance.now();
    matches(await run('mute', { timeoutMs: 20000 }), {
      status: 'killed',
      error: { message: /closed its result channel/ },
    });
    assert.ok(performance.now() - start < 3000);
  });
});

describe('output', () => {
  it('is whole up to the cap', async () => {
    matches(await run('out:1048576'), { stdout: (text) => text.length === 1048576, stdoutDropped: 0 });
  });

  it('past it loses its middle, and says how much', async () => {
    const result = await run('out:3000000', { maxOutputBytes: 1000 });
    assert.equal(result.status, 'ok');
    assert.equal(result.stdoutDropped, 3000000 - 1000);
    assert.equal(result.stdout, `${'x'.repeat(500)}\n[code-jail: 2999000 bytes left out]\n${'x'.repeat(500)}`);
    matches(await run('out:10', { maxOutputBytes: 0 }), { stdout: '', stdoutDropped: 10 });
  });

  it('past 64 MiB in all ends the run', async () => {
    const result = await run('flood', { timeoutMs: 30000 });
    matches(result, { status: 'output_limit', signal: 'SIGKILL', error: { name: 'OutputLimitError' } });
    assert.ok(result.stdoutDropped > 60 << 20);
  });

  it('is text, whatever the bytes are', async () => {
    matches(await run('err:e282acff41e282'), { stderr: '€\ufffdA\ufffd', stdout: '' });
    matches(await run('err:c3a9ff00'), { stderr: 'é\ufffd\0' });
  });

  it('floods do not delay the answers of others', async () => {
    const many = fakeJail('ok', { maxConcurrent: 16, parked: 4 });
    await many.warm(['javascript']);
    const floods = Array.from({ length: 8 }, () => many.runCode(job('flood', { timeoutMs: 30000 })));
    const times = [];
    for (let i = 0; i < 20; i++) {
      const { usage } = await many.runCode(job('ok'));
      times.push(usage.runMs);
    }
    for (const flood of floods) assert.equal((await flood).status, 'output_limit');
    assert.ok(
      times.every((ms) => ms < 500),
      String(times),
    );
  });
});
