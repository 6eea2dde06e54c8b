'use strict';
// `code-jail verify`: it says SHUT of jails that are (of the image under gVisor:
// test/server/gvisor.test.js), and each way of being open is noticed, by the check
// that is for it.

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { after, before, describe, it } = require('node:test');
const { verify } = require('../lib/verify.js');
const probes = require('../lib/verify-probes.js');
const { slack } = require('./helpers/baseline.js');
const { startLiar, startTargets, TOKEN } = require('./helpers/liar.js');
const { openJail } = require('./helpers/run.js');
const { startSocketPeer } = require('./helpers/socket-peer.js');
const { startService, TOKEN: SERVICE_TOKEN } = require('./helpers/service.js');

const QUICK = { loopMs: 500 };
const failed = (report) => report.checks.filter((one) => !one.ok).map((one) => `${one.group}: ${one.name}`);
const detailOf = (report, name) => report.checks.find((one) => one.name === name)?.detail;

function assertShut(report) {
  assert.deepEqual(
    report.checks.filter((one) => !one.ok),
    [],
  );
  assert.equal(report.ok, true);
  const groups = new Set(report.checks.map((one) => one.group));
  for (const group of ['control', 'network', 'environment', 'files', 'processes', 'time', 'isolation'])
    assert.ok(groups.has(group), group);
}

describe('what is shut', () => {
  it('the local jail', async () => {
    const report = await verify({}, QUICK);
    assertShut(report);
    assert.deepEqual([report.backend, report.isolation, report.where], ['local', 'process', null]);
    assert.match(detailOf(report, 'TCP to the internet (1.1.1.1:443)'), /^javascript E\w+, python E\w+$/);
  });

  it('the service on plain Linux', async () => {
    const service = await startService();
    const report = await verify({ url: service.base, token: SERVICE_TOKEN }, QUICK);
    assertShut(report);
    assert.ok(report.checks.some((one) => one.group === 'token'));
    const more = await verify({ url: service.base, token: SERVICE_TOKEN, expect: 'gvisor' }, QUICK);
    assert.deepEqual(failed(more), ['isolation: at least gvisor']);
    await service.stop();
  });
});

describe('what is not', () => {
  const jail = openJail();
  let targets;
  let folder;
  before(async () => {
    targets = await startTargets();
    folder = fs.mkdtempSync(path.join(os.tmpdir(), 'verify-'));
  });
  after(() => {
    targets.close();
    fs.rmSync(folder, { recursive: true });
  });

  // Where an open service can do no harm here.
  const near = (name) => ({
    folders: [folder],
    targets: [
      { name: 'TCP', program: probes.CONNECT, host: '127.0.0.1', port: targets.tcp },
      { name: 'UDP', program: probes.DATAGRAM, host: '127.0.0.1', port: targets.udp },
      { name: 'UDP, silent', program: probes.DATAGRAM, host: '127.0.0.1', port: targets.silent },
      { name: 'name', program: probes.RESOLVE, host: name, port: 0 },
    ],
  });
  const examine = async (lies, options = {}, name = 'example.com') => {
    const liar = await startLiar(jail, lies);
    try {
      return await verify({ url: liar.url, token: TOKEN, ...options }, { ...QUICK, waitMs: 1000, ...near(name) });
    } finally {
      await liar.close();
    }
  };

  it('an honest one is found shut: the control', async () => {
    const report = await examine({});
    assertShut(report);
    assert.equal(report.checks.filter((one) => one.group === 'network').length, 4);
  });

  it('one without walls: every probe of them gets through', async () => {
    process.env.VERIFY_TEST_CANARY = 'a value that is nobody’s business';
    const report = await examine({ openly: true }, {}, 'localhost');
    delete process.env.VERIFY_TEST_CANARY;
    assert.equal(report.ok, false);
    assert.deepEqual(failed(report), [
      'network: TCP',
      'network: UDP',
      'network: UDP, silent',
      'network: name',
      "environment: the server's, and of other processes",
      'files: writing outside its own folder',
      'processes: a shell, a program, a fork',
    ]);
    for (const name of ['TCP', 'UDP', 'name'])
      assert.match(detailOf(report, name), /^javascript \w+: allowed, python \w+: allowed$/);
    assert.match(detailOf(report, 'UDP, silent'), /^javascript send: silence, python send: silence$/);
    assert.doesNotMatch(JSON.stringify(report), /nobody’s business/);
    assert.match(detailOf(report, 'a shell, a program, a fork'), /a shell: allowed.*fork: allowed/);
    assert.match(detailOf(report, 'writing outside its own folder'), /: allowed.*: allowed/);
    assert.deepEqual(fs.readdirSync(folder), [], 'nothing is left of it');
  });

  it('one behind IAM is shut only if it asks for the identity token', async () => {
    const headers = { 'X-Serverless-Authorization': 'Bearer a.b.c' };
    const asks = await examine({ iam: true }, { headers });
    assertShut(asks);
    assert.equal(detailOf(asks, 'without an identity token it is refused'), '403');
    const not = await examine({}, { headers });
    assert.deepEqual(failed(not), ['token: without an identity token it is refused']);
    await assert.rejects(examine({ iam: true }), { code: 'ERR_JAIL_UNAUTHORIZED' });
  });

  it('a jailer’s socket likewise: shut, and with a loop that is kept', async () => {
    let keeps = false;
    const peer = await startSocketPeer(async ({ job, socket }) => {
      if (keeps && /for \(;;\)/.test(job.code)) return;
      socket.end(`${JSON.stringify(await jail.runCode(job))}\n`);
    });
    const how = { ...QUICK, ...near('example.com') };
    const shut = await verify({ socket: peer.file }, how);
    assertShut(shut);
    assert.deepEqual([shut.backend, shut.where], ['socket', peer.file]);
    keeps = true;
    assert.deepEqual(failed(await verify({ socket: peer.file }, how)), ['time: an endless loop is cut']);
    await peer.close();
    await assert.rejects(verify({ socket: peer.file }, how), { code: /ERR_JAIL_(CONFIG|UNAVAILABLE)/ });
  });

  it('one that lets anybody in', async () => {
    const report = await examine({ anyToken: true });
    assert.deepEqual(failed(report), [
      'token: none is refused',
      'token: a wrong one is refused',
      'token: a part of it is refused',
    ]);
  });

  it('one that claims more isolation than there is', async () => {
    const kernel = "isolation: the code's kernel is gVisor's";
    const says = 'isolation: the service says what its runs say';
    assert.deepEqual(failed(await examine({ isolation: 'gvisor' }, { expect: 'gvisor' })), [says, kernel]);
    const both = { isolation: 'gvisor', capabilities: 'gvisor' };
    assert.deepEqual(failed(await examine(both, { expect: 'gvisor' })), [kernel]);
    assert.deepEqual(failed(await examine({ capabilities: 'gvisor' })), [says]);
    const more = { isolation: 'microvm', capabilities: 'microvm' };
    assert.deepEqual(failed(await examine(more, { expect: 'gvisor' })), ['isolation: at least gvisor']);
  });

  it('one that has verified nothing, or less than is expected', async () => {
    const nothing = { isolation: 'unverified', capabilities: 'unverified' };
    assert.deepEqual(failed(await examine(nothing)), ['isolation: at least process']);
    assert.deepEqual(failed(await examine({}, { expect: 'microvm' })), ['isolation: at least microvm']);
  });

  it('one that cuts no loop, or says that it has ended', async () => {
    const kept = await examine({ loops: 'kept' });
    assert.deepEqual(failed(kept), ['time: an endless loop is cut']);
    assert.match(detailOf(kept, 'an endless loop is cut'), /still runs after/);
    const ended = await examine({ loops: 'ok' });
    assert.deepEqual(failed(ended), ['time: an endless loop is cut']);
    assert.match(detailOf(ended, 'an endless loop is cut'), /ended as ok/);
  });

  it('one that answers without running anything, however well', async () => {
    const canned = { proof: 'f'.repeat(64), allowed: { all: 'allowed' }, denied: { all: 'EPERM' }, found: [] };
    const report = await examine({ canned });
    assert.equal(report.ok, false);
    assert.match(detailOf(report, 'TCP'), /not of the code that was sent/);
    assert.equal(report.checks.find((one) => one.name === 'the right one is let in').ok, false);
  });

  it('one that answers another request', async () => {
    const report = await examine({ id: 'somebody-else' });
    assert.equal(report.ok, false);
    assert.ok(failed(report).includes("answers: a request's id comes back"));
  });

  it('one that refuses the right token, or is not there, gets no verdict', async () => {
    await assert.rejects(examine({ refuses: true }), { code: 'ERR_JAIL_UNAUTHORIZED' });
    await assert.rejects(verify({ url: 'http://127.0.0.1:9', token: TOKEN }, QUICK), { code: 'ERR_JAIL_UNAVAILABLE' });
  });
});

describe('code-jail verify', () => {
  const cli = (args, env = {}) => {
    const none = { FIRECRACKER_SOCKET: '', CODE_SANDBOX_URL: '', CODE_SANDBOX_TOKEN: '' };
    const file = path.join(__dirname, '..', 'bin', 'code-jail.js');
    const child = spawn(process.execPath, [file, 'verify', ...args], { env: { ...process.env, ...none, ...env } });
    const seen = { out: '', err: '' };
    child.stdout.on('data', (part) => {
      seen.out += part;
    });
    child.stderr.on('data', (part) => {
      seen.err += part;
    });
    return new Promise((resolve) => child.on('close', (code) => resolve({ code, ...seen })));
  };

  it('0 and a line for each check; 1 where one fails; a loop is cut within 12 s', async () => {
    const [shut, open] = await Promise.all([cli([]), cli(['--json', '--expect', 'gvisor'])]);
    assert.equal(shut.code, 0, shut.out);
    const lines = shut.out.trimEnd().split('\n');
    assert.match(lines.pop(), /^SHUT: local: all \d+ checks hold, isolation process/);
    for (const line of lines) assert.match(line, /^ok {3}\w+ +\S/);
    const seconds = Number(/endless loop is cut +javascript after ([\d.]+) s/.exec(shut.out)[1]);
    assert.ok(seconds >= 9.9 && seconds < 12 * slack(), `${seconds} s`);

    assert.equal(open.code, 1, open.out);
    const report = JSON.parse(open.out);
    assert.equal(report.ok, false);
    assert.deepEqual(failed(report), ['isolation: at least gvisor']);
  });

  it('2 where nothing could be asked, or the command line is wrong', async () => {
    const gone = await cli(['--url', 'http://127.0.0.1:9'], { CODE_SANDBOX_TOKEN: TOKEN });
    assert.equal(gone.code, 2);
    assert.match(gone.err, /^NO VERDICT: .*ERR_JAIL_UNAVAILABLE/);
    const json = await cli(['--url', 'http://127.0.0.1:9', '--json'], { CODE_SANDBOX_TOKEN: TOKEN });
    assert.equal(json.code, 2);
    assert.deepEqual([JSON.parse(json.out).ok, JSON.parse(json.out).error.code], [false, 'ERR_JAIL_UNAVAILABLE']);
    const tokenless = await cli(['--url', 'http://127.0.0.1:9']);
    assert.deepEqual([tokenless.code, /ERR_JAIL_CONFIG.*token/.test(tokenless.err)], [2, true], tokenless.err);
    for (const name of ['--url', '--socket']) {
      const empty = await cli([name, '']);
      assert.deepEqual([empty.code, empty.out], [2, ''], 'not the local jail');
      assert.match(empty.err, new RegExp(`${name} is empty`));
    }
    const wrong = await cli(['--expect', 'everything']);
    assert.deepEqual([wrong.code, /--expect everything: one of process, gvisor, microvm/.test(wrong.err)], [2, true]);
  });
});
