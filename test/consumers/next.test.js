'use strict';
// A Next.js app: its standalone output, away from its project, and its development server.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const http = require('node:http');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');
const { after, before, describe, it } = require('node:test');
const { descendants, slack, until } = require('../helpers/baseline.js');
const { project } = require('./helpers/package.js');
const { runs, start } = require('./helpers/program.js');

const DOOMED = { language: 'javascript', code: "process.title = 'doomed'; for (;;) {}", timeoutMs: 60000 };
const LAST = {
  language: 'javascript',
  code: "process.title = 'last'; return new Promise((resolve) => setTimeout(resolve, 1000, 'late'))",
};
const LONG_MS = 60000;

const named = (server, comm) => descendants(server.pid).filter((one) => one.comm === comm).length;

function freePort() {
  return new Promise((resolve) => {
    const server = net.createServer().listen(0, '127.0.0.1', () => {
      const { port } = /** @type {net.AddressInfo} */ (server.address());
      server.close(() => resolve(port));
    });
  });
}

/** A server that answers, and how it is asked. */
async function serve(folder, command, more = {}) {
  const port = await freePort();
  const env = { PORT: String(port), HOSTNAME: '127.0.0.1', NODE_ENV: '', ...more };
  const server = start(folder, command, { env, limitS: 240 });
  const url = `http://127.0.0.1:${port}`;
  const get = async (where) => (await fetch(url + where)).text();
  const post = async (request) => {
    const answer = await fetch(`${url}/api/run`, { method: 'POST', body: JSON.stringify(request) });
    assert.match(answer.headers.get('content-type') ?? '', /json/, server.heard.output);
    return answer.json();
  };
  const isThere = () =>
    get('/api/run').then(
      () => true,
      () => false,
    );
  assert.ok(await until(isThere, LONG_MS * slack(), 100), server.heard.output);
  /** SIGTERM, as a supervisor sends it. */
  const stop = async () => {
    server.stop();
    const end = await server.ended;
    assert.equal(end.hung, false);
    assert.deepEqual(end.left, [], 'nothing of it is left');
  };
  return { ...server, url, get, post, stop };
}

async function answersBoth(server) {
  const javascript = await server.post({ language: 'javascript', code: 'return input.n * 2', input: { n: 21 } });
  assert.equal(javascript.result, 42, JSON.stringify(javascript));
  assert.equal(javascript.jail.isolation, 'process');
  const python = await server.post({ language: 'python', code: 'result = [input, "py"]', input: 1 });
  assert.deepEqual(python.result, [1, 'py']);
  const refused = await server.post({ language: 'cobol', code: '' });
  assert.equal(refused.code, 'ERR_JAIL_INVALID_REQUEST');
}

describe('Next.js', () => {
  let folder = '';
  const away = fs.mkdtempSync(path.join(os.tmpdir(), 'code-jail-next-'));
  const next = path.join('node_modules', 'next', 'dist', 'bin', 'next');
  before(() => {
    folder = project('next');
  });
  after(() => fs.rmSync(away, { recursive: true }));

  it('builds, and its standalone output runs by itself elsewhere', async () => {
    await runs(folder, [process.execPath, next, 'build'], { limitS: 240 });
    fs.cpSync(path.join(folder, '.next', 'standalone'), away, { recursive: true, verbatimSymlinks: true });
    const traced = path.join(away, 'node_modules', 'code-jail', 'prebuilds');
    const parts = fs.readdirSync(traced, { recursive: true }).map(String);
    for (const one of [/code_jail[^/]*\.node$/, /guest_node\.node$/, /guest_python\.so$/])
      assert.ok(
        parts.some((part) => one.test(part)),
        `${one} is traced: ${parts}`,
      );
    fs.accessSync(
      path.join(traced, String(parts.find((part) => part.endsWith('code-jail-keeper')))),
      fs.constants.X_OK,
    );

    const server = await serve(away, [process.execPath, 'server.js']);
    await answersBoth(server);
    assert.match(await server.get('/'), /answer (<!-- -->)?42/);

    const request = http.request(`${server.url}/api/run`, { method: 'POST' }).on('error', () => {});
    request.end(JSON.stringify(DOOMED));
    assert.ok(await until(() => named(server, 'doomed') === 1, LONG_MS), 'it runs');
    request.destroy();
    assert.ok(await until(() => named(server, 'doomed') === 0, LONG_MS / 2), 'a closed request kills its run');
    await answersBoth(server);

    // Told to end, it answers what it has begun.
    const last = server.post(LAST);
    assert.ok(await until(() => named(server, 'last') === 1, LONG_MS), 'it runs');
    await server.stop();
    assert.equal((await last).result, 'late');
  });

  it('keeps one jail through the hot reloads of a development server', async () => {
    const server = await serve(folder, [process.execPath, next, 'dev']);
    await answersBoth(server);
    const keepers = named(server, 'code-jail');
    assert.ok(keepers > 0, 'its processes are seen');
    const route = path.join(folder, 'app', 'api', 'run', 'route.ts');
    const text = fs.readFileSync(route, 'utf8');
    for (const version of ['second', 'third']) {
      fs.writeFileSync(route, text.replace("'first'", `'${version}'`));
      const isNew = async () => (await server.post({ language: 'python', code: '' })).version === version;
      assert.ok(await until(isNew, LONG_MS * slack(), 100), `reloaded: ${version}`);
      await answersBoth(server);
      assert.equal(named(server, 'code-jail'), keepers, 'no second jail');
    }
    await server.stop();
  });

  it('says what to set where serverExternalPackages was forgotten', async () => {
    const server = await serve(folder, [process.execPath, next, 'dev'], { FORGOTTEN: '1' });
    const refused = await server.post({ language: 'javascript', code: '' });
    assert.equal(refused.code, 'ERR_JAIL_CONFIG', server.heard.output);
    assert.match(refused.message, /bundled into .*serverExternalPackages/);
    await server.stop();
  });
});
