'use strict';
// The built dashboard's API on loopback, as a browser and as a stranger use it.

const assert = require('node:assert/strict');
const http = require('node:http');
const { after, before, describe, it } = require('node:test');
const { serve } = require('./served.js');

const workflow = (code, more) => ({
  workflow: {
    id: 'w',
    name: 'W',
    nodes: [{ id: 'a', kind: 'code', name: 'A', language: 'javascript', code, ...more }],
  },
});

describe('the API', () => {
  let app;
  before(async () => {
    app = await serve();
  });
  after(() => app?.stop());

  const post = (path, body, headers = {}, signal = undefined) =>
    fetch(app.url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: typeof body === 'string' ? body : JSON.stringify(body),
      signal,
    });

  it('streams events before the run has ended', async () => {
    const stop = new AbortController();
    // It ends by itself only long after the test's patience.
    const answer = await post(
      '/api/workflows/run',
      workflow('console.log("early"); await new Promise((r) => setTimeout(r, 50000)); return 1', { timeoutMs: 60000 }),
      {},
      stop.signal,
    );
    assert.match(answer.headers.get('content-type') ?? '', /ndjson/);
    let text = '';
    for await (const part of answer.body) {
      text += Buffer.from(part).toString();
      if (text.includes('early')) break;
    }
    assert.doesNotMatch(text, /"outcome"/);
    stop.abort();
    // The connection is closed: the run is no longer there.
    for (let running = 1; running > 0; ) running = (await (await fetch(`${app.url}/api/status`)).json()).queue.running;
  });

  it('runs a workflow, and ends with its state', async () => {
    const answer = await post('/api/workflows/run', { ...workflow('return input + 1'), input: 1 });
    const events = (await answer.text())
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    assert.equal(events.find((one) => one.type === 'outcome').outcome.output, 2);
    assert.deepEqual(events.at(-1), { type: 'end', state: 'succeeded' });
  });

  it('checks a text without running it', async () => {
    const good = await (await post('/api/check', { language: 'python', code: 'x = 1' })).json();
    assert.deepEqual(good, { ok: true, errors: [] });
    const bad = await (await post('/api/check', { language: 'python', code: 'x = 1\ny = (' })).json();
    assert.equal(bad.errors[0].line, 2);
  });

  it('says which jail it has, and what stands', async () => {
    const status = await (await fetch(`${app.url}/api/status`)).json();
    assert.equal(status.selects.backend, 'local');
    assert.equal(status.ready, true);
    assert.ok(status.verified.layers.includes('seccomp'));
  });

  it('refuses pages of other origins, and takes its own', async () => {
    const check = { language: 'javascript', code: 'return 1' };
    assert.equal((await post('/api/check', check, { origin: app.url })).status, 200);
    assert.equal((await post('/api/check', check, { origin: 'http://evil.example' })).status, 403);
    assert.equal((await post('/api/check', check, { origin: 'null' })).status, 403);
    assert.equal((await post('/api/check', check, { 'sec-fetch-site': 'cross-site' })).status, 403);
    assert.equal((await post('/api/check', JSON.stringify(check), { 'content-type': 'text/plain' })).status, 415);
  });

  it('refuses a name that was rebound to loopback', async () => {
    const status = await new Promise((resolve, reject) => {
      http
        .get(`${app.url}/api/status`, { headers: { host: 'evil.example' } }, (answer) => {
          answer.resume();
          resolve(answer.statusCode);
        })
        .on('error', reject);
    });
    assert.equal(status, 421);
  });

  it('refuses what is too large, no JSON, or no workflow', async () => {
    assert.equal((await post('/api/check', 'x'.repeat(21 * 1024 * 1024))).status, 413);
    assert.equal((await post('/api/check', '{')).status, 400);
    const answer = await post('/api/workflows/run', { workflow: { id: 'w', name: 'W', nodes: [] } });
    assert.equal(answer.status, 400);
    assert.match((await answer.json()).error.message, /workflow\.nodes/);
  });
});
