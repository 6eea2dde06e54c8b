'use strict';
// What is told of runs, on channels and in spans: once for each, with what the
// documents name, and with nothing of the run's content.

const assert = require('node:assert/strict');
const { subscribe, unsubscribe } = require('node:diagnostics_channel');
const fs = require('node:fs');
const path = require('node:path');
const { afterEach, beforeEach, describe, it } = require('node:test');
const { trace, SpanKind, SpanStatusCode } = require('@opentelemetry/api');
const { createJail } = require('../lib/index.js');
const { errorOf, send, startPeer, TOKEN } = require('./helpers/peer.js');
const { openJail } = require('./helpers/run.js');

const NAMES = ['code-jail.run.start', 'code-jail.run.end', 'code-jail.run.error'];
const text = fs.readFileSync(path.join(__dirname, '..', 'docs', 'observability.md'), 'utf8');
const jail = openJail();

let told = [];
const listeners = new Map(NAMES.map((name) => [name, (message) => told.push([name.split('.').pop(), message])]));
const listen = () => {
  for (const [name, listener] of listeners) subscribe(name, listener);
};
beforeEach(() => {
  told = [];
});
afterEach(() => {
  for (const [name, listener] of listeners) unsubscribe(name, listener);
});

// Content of every kind, which must be nowhere but in the result.
const secret = {
  language: 'javascript',
  code: "console.log(input.a, process.env.B); console.error('canary-err'); throw new TypeError('canary-message')",
  input: { a: 'canary-input' },
  env: { B: 'canary-env' },
  tenant: 'canary-tenant',
};

describe('diagnostics channels', () => {
  it('a start and an end for each run, with the fields that are documented', async () => {
    listen();
    const run = await jail.runCode({ language: 'python', code: 'result = 1', timeoutMs: 3000 });
    assert.deepEqual(
      told.map(([name]) => name),
      ['start', 'end'],
    );
    const [[, start], [, end]] = told;
    assert.equal(start.id, run.id);
    assert.equal(end.id, run.id);
    assert.deepEqual([start.language, start.backend, start.timeoutMs], ['python', 'local', 3000]);
    assert.deepEqual([end.status, end.exitCode, end.usage], ['ok', 0, run.usage]);
    assert.deepEqual([end.isolation, end.runtime, end.start], [run.jail.isolation, run.jail.runtime, run.jail.start]);
    assert.ok(end.durationMs > 0);
  });

  it('nothing of the content', async () => {
    listen();
    const run = await jail.runCode(secret);
    for (const canary of ['input', 'env', 'err', 'message'])
      assert.match(JSON.stringify(run), new RegExp(`canary-${canary}`), 'it is in the result: the control');
    assert.deepEqual(
      told.map(([name, { status }]) => [name, status]),
      [
        ['start', undefined],
        ['end', 'error'],
      ],
    );
    assert.doesNotMatch(JSON.stringify(told), /canary/);
  });

  it('an error where the jail fails or is closed, and where the caller aborts', async () => {
    listen();
    const peer = await startPeer(({ response }) => send(response, 429, { error: { message: 'canary' } }));
    const remote = createJail({ url: peer.url, token: TOKEN });
    await errorOf(remote.runCode({ ...secret, id: 'mine' }));
    await remote.close();
    await peer.close();
    const closed = await errorOf(remote.runCode(secret));
    const controller = new AbortController();
    const aborted = jail.runCode({ language: 'javascript', code: 'for (;;);' }, { signal: controller.signal });
    controller.abort(new Error('canary'));
    await errorOf(aborted);
    const errors = told.filter(([name]) => name === 'error').map(([, message]) => message);
    assert.equal(closed.code, 'ERR_JAIL_CLOSED');
    assert.deepEqual(
      errors.map(({ code, aborted, retryable, backend }) => [code, aborted, retryable, backend]),
      [
        ['ERR_JAIL_OVERLOADED', false, true, 'http'],
        ['ERR_JAIL_CLOSED', false, false, 'http'],
        [null, true, false, 'local'],
      ],
    );
    assert.equal(errors[0].id, 'mine');
    assert.equal(told.length, 6);
    assert.doesNotMatch(JSON.stringify(told), /canary/);
  });

  it('a request that is none is told to its caller alone', async () => {
    listen();
    assert.equal((await errorOf(jail.runCode({ language: 'cobol', code: '' }))).code, 'ERR_JAIL_INVALID_REQUEST');
    assert.deepEqual(told, []);
  });

  it('each name and field is in the documents', async () => {
    listen();
    await jail.runCode({ language: 'javascript', code: '1' });
    await errorOf(jail.runCode({ language: 'javascript', code: '1', minIsolation: 'microvm' }));
    const seen = Object.fromEntries(told.map(([name, message]) => [`code-jail.run.${name}`, Object.keys(message)]));
    assert.deepEqual(Object.keys(seen).sort(), [...NAMES].sort());
    for (const [name, fields] of Object.entries(seen)) {
      const row = text.split('\n').find((line) => line.startsWith(`| \`${name}\``));
      const documented = [
        ...row
          .split(' | ')[2]
          .replace(/\([^)]*\)/g, '')
          .matchAll(/`(\w+)`/g),
      ].map((one) => one[1]);
      assert.deepEqual(documented, fields, name);
    }
  });
});

describe('spans', () => {
  const spans = [];
  let recording = true;
  const provider = {
    getTracer: () => ({
      startSpan(name, options) {
        const span = { name, ...options, attributes: { ...options.attributes }, ended: 0 };
        spans.push(span);
        return {
          isRecording: () => recording,
          setAttribute(key, value) {
            span.attributes[key] = value;
          },
          setStatus(status) {
            span.status = status;
          },
          end: () => span.ended++,
        };
      },
    }),
  };
  trace.setGlobalTracerProvider(provider);

  it('one for each run, with attributes that are documented, and no content', async () => {
    spans.length = 0;
    const run = await jail.runCode(secret);
    const [span] = spans;
    assert.deepEqual([spans.length, span.name, span.kind, span.ended], [1, 'code-jail.run', SpanKind.INTERNAL, 1]);
    assert.equal(span.status, undefined, 'the code has failed, not the jail');
    assert.equal(span.attributes['code_jail.status'], 'error');
    assert.equal(span.attributes['code_jail.run_ms'], run.usage.runMs);
    assert.doesNotMatch(JSON.stringify(spans), /canary/);
    for (const [name, value] of Object.entries(span.attributes)) {
      assert.ok(text.includes(`\`${name}\``), name);
      assert.ok(value !== null && value !== undefined, name);
    }
  });

  it('where the jail fails, with its code', async () => {
    spans.length = 0;
    await errorOf(jail.runCode({ ...secret, minIsolation: 'microvm' }));
    assert.deepEqual(spans[0].status, { code: SpanStatusCode.ERROR, message: 'ERR_JAIL_ISOLATION' });
    assert.equal(spans[0].attributes['error.type'], 'ERR_JAIL_ISOLATION');
    assert.equal(spans[0].ended, 1);
  });

  it('a tracer that fails, or records nothing, is none of a run’s concern', async () => {
    recording = false;
    assert.equal((await jail.runCode({ language: 'javascript', code: 'return 1' })).result, 1);
    recording = true;
    const { getTracer } = provider;
    provider.getTracer = () => {
      throw new Error('broken');
    };
    trace.disable();
    trace.setGlobalTracerProvider(provider);
    assert.equal((await jail.runCode({ language: 'javascript', code: 'return 2' })).result, 2);
    provider.getTracer = getTracer;
  });
});
