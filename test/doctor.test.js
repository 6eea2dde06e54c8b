'use strict';
// `doctor` of a sandbox service: it asks and runs nothing, and says what is wrong
// in the codes that runs would have. (Of this host: test/cli.test.js.)

const assert = require('node:assert/strict');
const { after, describe, it } = require('node:test');
const { isReady } = require('../lib/doctor.js');
const { doctor } = require('../lib/index.js');
const { doctorText } = require('../lib/doctor-text.js');
const { startJailer } = require('./helpers/jailer.js');
const { answerTo, send, startPeer, TOKEN } = require('./helpers/peer.js');
const { startSocketPeer } = require('./helpers/socket-peer.js');
const { startService, TOKEN: SERVICE_TOKEN } = require('./helpers/service.js');

const CAPABILITIES = {
  protocol: 1,
  version: '9.8.7',
  languages: ['javascript', 'python'],
  features: ['check', 'stream', 'files'],
  isolation: 'gvisor',
  maxTimeoutMs: 10000,
  maxMemoryMb: 512,
};

/** @param {(exchange: any) => void} handler */
async function examine(handler, config = {}) {
  const peer = await startPeer(handler);
  after(() => peer.close());
  const report = await doctor({ url: peer.url, token: TOKEN, ...config });
  return { report, text: doctorText(report), requests: peer.requests };
}

describe('doctor, of a service', () => {
  it('asks it for what it says of itself, and runs nothing', async () => {
    const { report, text, requests } = await examine(({ request, response }) =>
      request.url === '/readyz' ? send(response, 200, '') : send(response, 200, CAPABILITIES),
    );
    assert.equal(report.ok, true);
    assert.deepEqual([report.selects.backend, report.runtimes, report.error], ['http', [], null]);
    const { url: _, ready, ...said } = report.service;
    assert.equal(ready, true);
    assert.deepEqual(said, CAPABILITIES);
    assert.match(text, /languages: javascript, python; also: check, stream, files/);
    assert.match(text, /^Ready, as it says: javascript and python at http.*isolation gvisor/);
    assert.deepEqual(
      requests.map(({ method, url, job }) => [method, url, job]),
      [
        ['GET', '/capabilities', null],
        ['GET', '/readyz', null],
      ],
    );
    assert.equal(requests[0].headers.authorization, `Bearer ${TOKEN}`);
    assert.equal(requests[1].headers.authorization, undefined);
  });

  it('of ours, as it is', async () => {
    const service = await startService();
    const before = await service.metric('code_jail_runs_total');
    const report = await doctor({ url: service.base, token: SERVICE_TOKEN });
    assert.equal(report.ok, true);
    assert.equal(report.service.version, report.version);
    assert.deepEqual(await service.metric('code_jail_runs_total'), before);
    await service.stop();
  });

  it('is not ready where the service is not', async () => {
    const { report, text } = await examine(({ request, response }) =>
      request.url === '/readyz' ? send(response, 503, '') : send(response, 200, CAPABILITIES),
    );
    assert.deepEqual([report.ok, report.service.ready], [false, false]);
    assert.match(text, /^Not ready: the service is starting, or going down/);
  });

  const broken = {
    'a wrong token': [({ response }) => send(response, 401, {}), 'ERR_JAIL_UNAUTHORIZED', /401/],
    'a platform that lets nobody in': [({ response }) => send(response, 403, '<p>'), 'ERR_JAIL_UNAUTHORIZED', /403/],
    'another program': [({ response }) => send(response, 404, '<p>'), 'ERR_JAIL_PROTOCOL', /404.*another program/],
    'a page': [({ response }) => send(response, 200, '<p>hello'), 'ERR_JAIL_PROTOCOL', /capabilities/],
    'one that hangs up': [({ request }) => request.socket.destroy(), 'ERR_JAIL_UNAVAILABLE', /ECONNRESET|hang up/],
  };
  for (const [name, [handler, code, says]] of Object.entries(broken))
    it(`${name}: ${code}`, async () => {
      const { report, text } = await examine(handler);
      assert.equal(report.ok, false);
      assert.equal(report.error.code, code);
      assert.match(report.error.message, says);
      assert.ok(!JSON.stringify(report).includes(TOKEN));
      assert.match(text, new RegExp(`^Not ready: ${code}`));
    });

  it('what it says does no harm on a terminal', async () => {
    const { text } = await examine(({ response }) =>
      send(response, 200, { ...CAPABILITIES, version: '\x1b[2J', isolation: '\x1b]0;x\x07' }),
    );
    assert.ok(!text.includes('\x1b[2J') && !text.includes('\x1b]') && !text.includes('\x07'));
    assert.match(text, /\\x1b/);
  });
});

describe('doctor, of a jailer', () => {
  it('shows what it says of itself, beside its runs', async () => {
    const jailer = await startJailer({ env: { CODE_JAIL_MAX_MEMORY_MB: '300' } });
    const report = await doctor({ socket: jailer.file });
    assert.equal(report.ok, true, JSON.stringify(report.error));
    assert.deepEqual([report.jailer.socket, report.jailer.version], [jailer.file, report.version]);
    assert.deepEqual(report.jailer.features, ['check', 'stream', 'files']);
    assert.match(doctorText(report), /The jailer\n.*protocol 1\n.*also: check, stream, files\n.*memoryMb up to 300/);
    for (const more of [{ capabilities: 1 }, { capabilities: true, code: '1', language: 'python' }])
      assert.equal((await jailer.post(more)).error.code, 'ERR_JAIL_INVALID_REQUEST');
    assert.equal((await jailer.stop()).code, 0);
  });

  it('one that does not tell is examined by its runs all the same', async () => {
    const peer = await startSocketPeer(({ job, socket }) =>
      socket.end(
        job.capabilities
          ? '{"error":{"code":"ERR_JAIL_INVALID_REQUEST"}}\n'
          : JSON.stringify(answerTo(job, { result: 42 })),
      ),
    );
    const report = await doctor({ socket: peer.file });
    assert.deepEqual([report.jailer, report.ok], [null, true]);
    assert.ok(!doctorText(report).includes('The jailer'));
    await peer.close();
  });
});

describe('ready', () => {
  const without = (language) =>
    ['javascript', 'python', 'typescript'].map((one) => ({ language: one, ok: one !== language }));
  it('is a host that runs JavaScript and Python; TypeScript may need a package more', () => {
    assert.deepEqual(
      ['', 'typescript', 'python', 'javascript'].map((one) => isReady(without(one))),
      [true, true, false, false],
    );
  });
});
