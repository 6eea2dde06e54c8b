'use strict';
// The way there and back: stalls in every phase, lies about lengths, connections
// that break, what is sent again and what never is.

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { after, before, describe, it } = require('node:test');
const { setTimeout: sleep } = require('node:timers/promises');
const { createJail } = require('../..');
const {
  TOKEN,
  answerTo,
  errorOf,
  good,
  jobOf,
  rawAnswer,
  send,
  startPeer,
  startRawPeer,
} = require('../helpers/peer.js');
const { measure, until } = require('../helpers/baseline.js');
const { startHost } = require('../helpers/host.js');

const JOB = { language: 'javascript', code: 'return 1 + 1' };
// Short limits, so that a deadline is seen: 50 + 200 + the grace of 5000 ms.
const QUICK = { ...JOB, timeoutMs: 50 };
const SHORT = { queueTimeoutMs: 200 };

/** Runs `work(jail, peer)` against the peer that `start` gives. */
async function against(start, config, work) {
  const peer = await start;
  const jail = createJail({ url: peer.url, token: TOKEN, ...config });
  try {
    return await work(jail, peer);
  } finally {
    await jail.close();
    await peer.close();
  }
}

/** A library of test/http/ to be preloaded; null, and the test skipped, where there is no compiler. */
function buildShim(t, source) {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'jail-test-shim-'));
  t.after(() => fs.rmSync(dir, { recursive: true, force: true }));
  const file = path.join(dir, 'shim.so');
  const args = ['-shared', '-fPIC', '-O1', '-o', file, path.join(__dirname, source), '-ldl'];
  const built = spawnSync(process.env.CC || 'cc', args, { encoding: 'utf8' });
  if (built.status === 0) return file;
  t.skip(`no C compiler for the shim: ${built.error?.message ?? built.stderr}`);
  return null;
}

const withHeaders = (headers, body = '') => `HTTP/1.1 200 OK\r\n${headers.join('\r\n')}\r\n\r\n${body}`;

describe('deadlines: every phase is bounded by one', { concurrency: 8 }, () => {
  const stalls = {
    'accepts and never answers': startRawPeer.bind(null, () => undefined),
    'a header byte now and then': startRawPeer.bind(null, (socket) => {
      const bytes = 'HTTP/1.1 200 OK\r\nx: ' + 'y'.repeat(1000);
      let at = 0;
      const timer = setInterval(() => socket.write(bytes[at++ % bytes.length]), 100);
      socket.on('close', () => clearInterval(timer));
    }),
    'a body byte now and then': startRawPeer.bind(null, (socket) => {
      socket.write('HTTP/1.1 200 OK\r\ncontent-length: 10000\r\n\r\n{');
      const timer = setInterval(() => socket.write(' '), 100);
      socket.on('close', () => clearInterval(timer));
    }),
    'half a body': startRawPeer.bind(null, (_, text) => rawAnswer(answerTo(jobOf(text))).slice(0, -20)),
    '100 Continue and nothing': startRawPeer.bind(null, () => 'HTTP/1.1 100 Continue\r\n\r\n'),
    'reads nothing of a large request': startRawPeer.bind(null, null, { onConnection: (socket) => socket.pause() }),
  };
  for (const [name, start] of Object.entries(stalls)) {
    it(name, () =>
      against(start(), SHORT, async (jail) => {
        const from = performance.now();
        const job = name.startsWith('reads') ? { ...QUICK, input: 'x'.repeat(8 << 20) } : QUICK;
        const error = await errorOf(jail.runCode(job));
        const took = performance.now() - from;
        assert.equal(error.code, 'ERR_JAIL_DEADLINE', error.message);
        assert.equal(error.retryable, false);
        assert.ok(took > 5000 && took < 7000, `took ${took} ms`);
      }),
    );
  }

  it('nobody reads the connection: no connection, and it may be tried again', async () => {
    // A listener whose queue is full never accepts: SYNs are dropped.
    const net = require('node:net');
    const server = net.createServer().listen({ port: 0, host: '127.0.0.1', backlog: 1 });
    await new Promise((resolve) => server.once('listening', resolve));
    server.close(); // the port is free now: refused at once
    const jail = createJail({ url: `http://127.0.0.1:${server.address()?.port ?? 1}`, token: TOKEN, ...SHORT });
    const error = await errorOf(jail.runCode(QUICK));
    assert.equal(error.code, 'ERR_JAIL_UNAVAILABLE');
    assert.equal(error.retryable, true);
    assert.match(error.message, /no connection/);
    await jail.close();
  });
});

describe('sizes', () => {
  const endless = (response, chunk) => {
    const push = () => {
      while (!response.destroyed && response.write(chunk));
      if (!response.destroyed) response.once('drain', push);
    };
    push();
  };
  const table = {
    'an endless chunked body': () =>
      startPeer(({ response }) => {
        response.writeHead(200, { 'content-type': 'application/json' });
        endless(response, Buffer.alloc(1 << 16, ' '));
      }),
    'a declared length of 10 GB': () => startRawPeer(() => withHeaders(['content-length: 10000000000'], ' ')),
    'a million headers': () =>
      startRawPeer((socket) => {
        socket.write('HTTP/1.1 200 OK\r\n');
        endless(socket, 'x: y\r\n'.repeat(10000));
      }),
    'one header of 100 MB': () =>
      startRawPeer((socket) => {
        socket.write('HTTP/1.1 200 OK\r\nx: ');
        endless(socket, 'y'.repeat(1 << 16));
      }),
    'a flood of 1xx': () =>
      startRawPeer((socket) => endless(socket, 'HTTP/1.1 103 Early Hints\r\nx: y\r\n\r\n'.repeat(1000))),
    'endless HTML behind a 502': () =>
      startPeer(({ response }) => {
        response.writeHead(502, { 'content-type': 'text/html' });
        endless(response, '<p>gateway</p>'.repeat(1000));
      }),
  };
  for (const [name, start] of Object.entries(table)) {
    it(name, () =>
      against(start(), SHORT, async (jail) => {
        const rss = process.memoryUsage.rss();
        const from = performance.now();
        const error = await errorOf(jail.runCode({ ...JOB, maxResultBytes: 1000, maxOutputBytes: 1000 }));
        assert.ok(['ERR_JAIL_PROTOCOL', 'ERR_JAIL_UNAVAILABLE'].includes(error.code), error.message);
        if (name.includes('502')) assert.equal(error.httpStatus, 502);
        assert.ok(performance.now() - from < 4000, `took ${performance.now() - from} ms`);
        assert.ok(process.memoryUsage.rss() - rss < 150e6);
      }),
    );
  }

  it('a large answer within its limits comes whole, and so does a large request', () =>
    against(
      startPeer(({ job, response }) => send(response, 200, answerTo(job, { result: job.input }))),
      {},
      async (jail) => {
        const input = 'é'.repeat(3 << 20);
        const result = await jail.runCode({ ...JOB, input, maxResultBytes: 16 << 20 });
        assert.ok(result.result === input);
      },
    ));

  it('a request that grows over 32 MiB on its way is refused', () =>
    against(startPeer(), {}, async (jail) => {
      // Each control character becomes six; 1 MiB of code alone cannot be too much.
      const big = await jail.runCode({ ...JOB, code: '\u0001'.repeat(1 << 20) });
      assert.equal(big.result, 2);
    }));
});

describe('answers that break off', () => {
  const cut = (text) => startRawPeer((socket) => socket.end(text, 'latin1'));
  const table = {
    'chunked, then the socket is destroyed (O49)': () =>
      startPeer(({ response }) => {
        response.writeHead(200, { 'content-type': 'application/json' });
        response.write('{"stdout":"par');
        setTimeout(() => response.destroy(), 30);
      }),
    'a declared length too long': () => cut(withHeaders(['content-length: 100'], '{"stdout":"par')),
    'no length, closed in the middle': () => cut(withHeaders(['connection: close'], '{"stdout":"par')),
    'a chunk size that is none': () => cut(withHeaders(['transfer-encoding: chunked'], 'zz\r\n{}\r\n0\r\n\r\n')),
    'headers cut off': () => cut('HTTP/1.1 200 OK\r\ncontent-ty'),
    'a declared length too short': () => cut(withHeaders(['content-length: 5'], '{"stdout":"par"}')),
    'two lengths': () => cut(withHeaders(['content-length: 2', 'content-length: 3'], '{}x')),
    'closed without a word': () => startRawPeer((socket) => void socket.end()),
    'reset without a word': () => startRawPeer((socket) => void socket.resetAndDestroy()),
    'HTTP/0.9': () => cut('{"stdout":""}'),
    'another protocol': () => cut('SSH-2.0-OpenSSH_9.2\r\n'),
    'HTTP/1.1 with a broken status': () => cut('HTTP/1.1 abc OK\r\n\r\n'),
    'status 999': () => cut('HTTP/1.1 999 What\r\ncontent-length: 0\r\n\r\n'),
    'an upgrade': () => cut('HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n'),
  };
  for (const [name, start] of Object.entries(table)) {
    it(name, () =>
      against(start(), SHORT, async (jail, peer) => {
        const error = await errorOf(jail.runCode(QUICK));
        assert.match(error.code, /^ERR_JAIL_(UNAVAILABLE|PROTOCOL)$/, error.message);
        assert.equal(error.retryable, false, 'it may have run');
        assert.match(error.message, /cut off|closed|proper HTTP|no result|answered \d+/);
        const count = peer.count?.() ?? peer.requests.length;
        assert.equal(count, 1, 'sent once');
      }),
    );
  }
});

describe('redirects are not followed (O48)', () => {
  let other;
  before(async () => {
    other = await startPeer();
  });
  after(() => other.close());
  const targets = () => [
    '/moved/run',
    `${other.url}/x`,
    '//evil.invalid/x',
    'http://user:pass@127.0.0.1/x',
    'file:///etc/passwd',
    'gopher://127.0.0.1/',
    'ldap://127.0.0.1/',
    'https://127.0.0.1:1/',
    '',
  ];
  for (const status of [300, 301, 302, 303, 305, 307, 308]) {
    it(`${status}`, async () => {
      for (const location of targets()) {
        await against(
          startPeer(({ response }) => send(response, status, '', location ? { location } : {})),
          {},
          async (jail, peer) => {
            const error = await errorOf(jail.runCode(JOB));
            assert.equal(error.code, 'ERR_JAIL_CONFIG');
            assert.match(error.message, new RegExp(`${status}.*redirects are not followed`));
            assert.equal(peer.requests.length, 1);
            assert.equal(error.httpStatus, status);
          },
        );
      }
      assert.equal(other.requests.length, 0, 'no other host has seen anything');
    });
  }
});

describe('what is sent again', () => {
  it('O51: the server closes idle connections; a fresh one is opened', () =>
    against(
      startPeer(({ job, request, response }) => {
        response.on('finish', () => setTimeout(() => request.socket.destroy(), 100));
        send(response, 200, answerTo(job));
      }),
      {},
      async (jail, peer) => {
        for (let i = 0; i < 3; i++) {
          assert.equal((await jail.runCode(JOB)).result, 2);
          await sleep(300);
        }
        assert.equal(peer.requests.length, 3);
        assert.equal(peer.connections(), 3);
      },
    ));

  it('connections are kept: a hundred runs, one connection', () =>
    against(startPeer(), {}, async (jail, peer) => {
      for (let i = 0; i < 100; i++) await jail.runCode(JOB);
      assert.equal(peer.connections(), 1);
    }));

  it('a kept connection that the server closes just before the request arrives: sent again', async (t) => {
    // The moment between curl's look at the connection and its sending is short:
    // a shim stretches it to 150 ms, in which the server's idle timer goes off.
    const shim = buildShim(t, 'slow-tcp-info.c');
    if (!shim) return;
    const host = startHost('http-race', [], {
      env: { ...process.env, LD_PRELOAD: [process.env.LD_PRELOAD, shim].filter(Boolean).join(' ') },
    });
    const { code, stdout, stderr } = await host.exited;
    assert.equal(code, 0, stderr);
    assert.deepEqual(JSON.parse(stdout), { results: [2, 2, 2], requests: 3, connections: 2 });
  });

  for (const [name, end] of [
    ['closes', (socket) => socket.end()],
    ['resets', (socket) => socket.resetAndDestroy()],
  ]) {
    it(`a kept connection whose server has read the request and ${name}: never sent again`, () => {
      const start = startRawPeer((socket, text, count) => {
        if (count === 1) return rawAnswer(answerTo(jobOf(text)));
        end(socket); // the run has killed its instance
        return undefined;
      });
      return against(start, {}, async (jail, peer) => {
        await jail.runCode(JOB);
        const error = await errorOf(jail.runCode(JOB));
        assert.equal(error.code, 'ERR_JAIL_UNAVAILABLE', error.message);
        assert.equal(error.retryable, false);
        assert.match(error.message, /may have been carried out/);
        await sleep(200);
        assert.equal(peer.count(), 2);
      });
    });
  }

  const refuseOnce = (status, headers, body) =>
    startPeer(({ job, response, count }) =>
      count === 1 ? send(response, status, body, headers) : send(response, 200, answerTo(job)),
    );
  const ours = { error: { code: 'ERR_JAIL_OVERLOADED', message: 'full' } };

  it('429 with Retry-After: again, that much later', () =>
    against(refuseOnce(429, { 'retry-after': '1' }, ours), {}, async (jail, peer) => {
      const from = performance.now();
      assert.equal((await jail.runCode(JOB)).result, 2);
      assert.ok(performance.now() - from >= 990);
      assert.equal(peer.requests.length, 2);
      const waits = peer.requests.map(({ headers }) => Number(headers['x-code-jail-wait-ms']));
      assert.ok(waits[1] < waits[0] - 900, 'the time that is left is told anew');
    }));

  it('503 with Retry-After in milliseconds, in our own words: again', () =>
    against(refuseOnce(503, {}, { error: { ...ours.error, retryAfterMs: 50 } }), {}, async (jail) => {
      assert.equal((await jail.runCode(JOB)).result, 2);
    }));

  it('503 with Retry-After of somebody else: not again', () =>
    against(refuseOnce(503, { 'retry-after': '1' }, '<html>'), {}, async (jail, peer) => {
      assert.equal((await errorOf(jail.runCode(JOB))).retryable, false);
      assert.equal(peer.requests.length, 1);
    }));

  it('no more than a tenth of all calls', () =>
    against(
      startPeer(({ response }) => send(response, 429, { error: { ...ours.error, retryAfterMs: 1 } })),
      {},
      async (jail, peer) => {
        for (let i = 0; i < 40; i++) await errorOf(jail.runCode(JOB));
        assert.ok(peer.requests.length <= 40 + 4 + 2, `${peer.requests.length} requests for 40 calls`);
      },
    ));

  it('not past the deadline', () =>
    against(refuseOnce(429, { 'retry-after': '6' }, ours), SHORT, async (jail) => {
      const from = performance.now();
      const error = await errorOf(jail.runCode(QUICK));
      assert.equal(error.code, 'ERR_JAIL_OVERLOADED');
      assert.equal(error.retryAfterMs, 6000);
      assert.ok(performance.now() - from < 1000);
    }));

  it('an abort ends the wait', () =>
    against(refuseOnce(429, { 'retry-after': '5' }, ours), {}, async (jail, peer) => {
      const call = jail.runCode(JOB, { signal: AbortSignal.timeout(100) });
      assert.equal((await errorOf(call)).name, 'TimeoutError');
      await sleep(100);
      assert.equal(peer.requests.length, 1);
    }));
});

describe('cancelling', () => {
  it('an abort rejects at once and closes the connection', () =>
    against(
      startPeer(({ response, request }) => {
        request.socket.on('close', () => response.emit('gone'));
      }),
      {},
      async (jail, peer) => {
        const controller = new AbortController();
        const call = errorOf(jail.runCode(JOB, { signal: controller.signal }));
        await until(() => peer.requests.length === 1);
        const reason = new Error('enough');
        const from = performance.now();
        controller.abort(reason);
        assert.equal(await call, reason);
        assert.ok(performance.now() - from < 50);
        assert.ok(await until(() => peer.sockets.size === 0, 1000), 'the peer has seen it');
      },
    ));

  it('close() rejects what is under way and leaves nothing', async () => {
    await against(startPeer(), {}, (jail) => jail.runCode(JOB)); // libcurl has started
    const peer = await startPeer(() => {});
    const before = measure();
    const jail = createJail({ url: peer.url, token: TOKEN });
    const calls = Array.from({ length: 20 }, () => errorOf(jail.runCode(JOB)));
    await until(() => peer.requests.length === 20);
    await jail.close();
    for (const error of await Promise.all(calls)) assert.equal(error.code, 'ERR_JAIL_CLOSED');
    await until(() => peer.sockets.size === 0);
    assert.ok(await until(() => measure().fds <= before.fds), `${measure().fds} descriptors, before ${before.fds}`);
    assert.equal((await errorOf(jail.runCode(JOB))).code, 'ERR_JAIL_CLOSED');
    await peer.close();
  });
});

describe('many at once', () => {
  it('500 concurrent over at most maxConnections', () =>
    against(
      startPeer(({ job, response }) => setTimeout(() => good({ job, response }), 5)),
      { maxConnections: 8 },
      async (jail, peer) => {
        const results = await Promise.all(Array.from({ length: 500 }, (_, i) => jail.runCode({ ...JOB, id: `r${i}` })));
        assert.deepEqual(
          results.map(({ id }) => id),
          Array.from({ length: 500 }, (_, i) => `r${i}`),
        );
        assert.ok(peer.connections() <= 8, `${peer.connections()} connections`);
      },
    ));

  it('the queue is bounded, in number and in time', () =>
    against(
      startPeer(() => {}),
      { maxConnections: 1, maxQueue: 2, queueTimeoutMs: 100 },
      async (jail, peer) => {
        const first = errorOf(jail.runCode(QUICK));
        await until(() => peer.requests.length === 1);
        const rest = await Promise.all([1, 2, 3].map(() => errorOf(jail.runCode(QUICK))));
        const codes = rest.map(({ code }) => code).sort();
        assert.deepEqual(codes, ['ERR_JAIL_OVERLOADED', 'ERR_JAIL_QUEUE_TIMEOUT', 'ERR_JAIL_QUEUE_TIMEOUT']);
        await jail.close();
        assert.equal((await first).code, 'ERR_JAIL_CLOSED');
      },
    ));

  it('2,000 runs leave no descriptor, no thread and little memory behind', () =>
    against(startPeer(), {}, async (jail) => {
      const batch = async () => {
        for (let i = 0; i < 20; i++) await Promise.all(Array.from({ length: 50 }, () => jail.runCode(JOB)));
      };
      await batch();
      global.gc?.();
      const before = measure();
      await batch();
      global.gc?.();
      const now = measure();
      assert.ok(now.fds <= before.fds + 2, `${before.fds} -> ${now.fds} descriptors`);
      assert.ok(now.threads <= before.threads, `${before.threads} -> ${now.threads} threads`);
      assert.ok(now.rss - before.rss < 40e6, `${(now.rss - before.rss) / 1e6} MB`);
    }));

  it('warm() opens a connection without the token, and the first run uses it', () =>
    against(startPeer(), {}, async (jail, peer) => {
      await jail.warm();
      assert.equal(peer.requests[0].url, '/livez');
      assert.equal(peer.requests[0].headers.authorization, undefined);
      await jail.runCode(JOB);
      assert.equal(peer.connections(), 1);
    }));

  it('warm() says when nobody is there', async () => {
    const jail = createJail({ url: 'http://127.0.0.1:1', token: TOKEN });
    assert.equal((await errorOf(jail.warm())).code, 'ERR_JAIL_UNAVAILABLE');
    await jail.close();
  });
});

describe('names and addresses', () => {
  it('IPv6', async (t) => {
    const peer = await startPeer(good, { host: '::1' }).catch((error) => t.skip(`no IPv6 here: ${error.code}`));
    if (!peer) return;
    const jail = createJail({ url: peer.url, token: TOKEN });
    assert.equal((await jail.runCode(JOB)).result, 2);
    await jail.close();
    await peer.close();
  });

  it('localhost', () =>
    against(startPeer(good, { name: 'localhost' }), {}, async (jail) =>
      assert.equal((await jail.runCode(JOB)).result, 2),
    ));

  it('a name that does not exist', async () => {
    const jail = createJail({ url: 'https://sandbox.invalid', token: TOKEN });
    const error = await errorOf(jail.runCode(JOB));
    assert.equal(error.code, 'ERR_JAIL_UNAVAILABLE');
    assert.equal(error.retryable, true);
    assert.match(error.message, /sandbox\.invalid/);
    await jail.close();
  });

  for (const [base, path] of [
    ['', '/internal/sandbox/exec'],
    ['/', '/internal/sandbox/exec'],
    ['/prefix', '/prefix/internal/sandbox/exec'],
    ['/prefix//', '/prefix/internal/sandbox/exec'],
    ['/internal/sandbox/exec', '/internal/sandbox/exec'],
    ['/p/internal/sandbox/exec/', '/p/internal/sandbox/exec'],
  ]) {
    it(`base URL with ${base || 'nothing'}`, async () => {
      const peer = await startPeer();
      const jail = createJail({ url: `${peer.url}${base}`, token: TOKEN });
      await jail.runCode(JOB);
      assert.equal(peer.requests[0].url, path);
      await jail.close();
      await peer.close();
    });
  }
});
