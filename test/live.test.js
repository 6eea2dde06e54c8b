'use strict';
// onStdout and onStderr: what a run writes, while it still runs.

const assert = require('node:assert/strict');
const { AsyncLocalStorage } = require('node:async_hooks');
const { once } = require('node:events');
const { after, before, describe, it } = require('node:test');
const { descendants, slack, until } = require('./helpers/baseline.js');
const { createJail } = require('..');
const { answerTo, errorOf, send, startPeer, TOKEN } = require('./helpers/peer.js');
const { openJail } = require('./helpers/run.js');
const { startJailer } = require('./helpers/jailer.js');
const { startService, TOKEN: SERVICE_TOKEN } = require('./helpers/service.js');

const MiB = 1 << 20;
let service;
let jailer;
const jails = { parked: openJail(), cold: openJail({ start: 'cold' }), http: null, socket: null };
before(async () => {
  jailer = await startJailer();
  jails.socket = createJail({ socket: jailer.file });
  service = await startService();
  jails.http = createJail({ url: service.base, token: SERVICE_TOKEN });
});
after(async () => {
  await jails.http?.close();
  await jails.socket?.close();
  await service?.stop();
  await jailer?.stop();
});

const TOO_MUCH = `{"stdout":"${'x'.repeat(3 * MiB + 1)}"}\n`;
const jail = jails.parked;
const py = (code, more) => ({ language: 'python', code, ...more });
const js = (code, more) => ({ language: 'javascript', code, ...more });

/** Runs it, and gives the run with what came meanwhile: out, err, and the pieces in order. */
async function listen(where, request, options = {}) {
  const seen = { out: '', err: '', pieces: [], over: false };
  const take = (stream) => (text) => {
    assert.equal(typeof text, 'string');
    assert.ok(text.length > 0 && !seen.over, 'a piece is never empty, and none comes behind the result');
    seen[stream] += text;
    seen.pieces.push(text);
  };
  const run = await where.runCode(request, { onStdout: take('out'), onStderr: take('err'), ...options });
  seen.over = true;
  return { run, ...seen };
}

for (const name of Object.keys(jails)) {
  describe(`live output, ${name}`, () => {
    let where;
    before(() => {
      where = jails[name];
    });

    it('both streams, whole, before the result', async () => {
      for (const request of [
        js('console.log("a é"); console.error("b"); console.log("c"); return 1'),
        py('import sys\nprint("a é")\nprint("b", file=sys.stderr)\nprint("c")\nresult = 1'),
      ]) {
        const { run, out, err } = await listen(where, request);
        assert.deepEqual([run.status, run.result, run.stdout, run.stderr], ['ok', 1, 'a é\nc\n', 'b\n']);
        assert.deepEqual([out, err], [run.stdout, run.stderr]);
      }
    });

    it('it comes while the code runs', async () => {
      const stop = new AbortController();
      const code = 'import sys, time\nsys.stdout.write("here")\ntime.sleep(60)\n';
      const reason = new Error('seen');
      const heard = [];
      const onStdout = (text) => {
        heard.push(text);
        stop.abort(reason); // only a piece that comes in time can end this run
      };
      const options = { signal: stop.signal, onStdout };
      assert.equal(await errorOf(where.runCode(py(code, { timeoutMs: 10000 }), options)), reason);
      assert.deepEqual(heard, ['here']);
    });

    it('what was written before a time-out, a kill or an exit has come', async () => {
      const head = 'import os, sys\nprint("before", flush=True)\n';
      const ends = {
        timeout: ['while True: pass\n', { timeoutMs: 300 }],
        killed: ['os.abort()\n', {}],
        error: ['os._exit(3)\n', {}],
        ok: ['sys.exit(0)\n', {}],
      };
      for (const [status, [code, more]] of Object.entries(ends)) {
        const { run, out } = await listen(where, py(head + code, more));
        assert.deepEqual([run.status, run.stdout, out], [status, 'before\n', 'before\n']);
      }
    });
  });
}

describe('live output', () => {
  it('no character is split, however its bytes are written', async () => {
    const text = 'aé中😀'.repeat(50);
    const code = `import os\nfor b in ${JSON.stringify(text)}.encode(): os.write(1, bytes([b]))\n`;
    const { run, out, pieces } = await listen(jail, py(code));
    assert.equal(run.stdout, text);
    assert.equal(out, text);
    assert.ok(pieces.every((piece) => piece.isWellFormed?.() ?? true));
    assert.ok(!pieces.some((piece) => piece.includes('\ufffd')));
  });

  it('bytes that are no UTF-8 become what they become in the result, however they are cut', async () => {
    const bytes =
      'b"\\xff\\xc3a\\xe2\\x82b\\xf0\\x9f\\x98\\xed\\xa0\\x80\\xf5\\x80\\x80\\xc0\\xaf\\xe4\\xb8\\xad\\xf0\\x9f" * 3';
    for (const step of [1, 2, 3, 5, 1000]) {
      const code = `import os, time\nt = ${bytes}\nfor i in range(0, len(t), ${step}):\n    os.write(1, t[i:i+${step}])\n    time.sleep(0.001)\n`;
      const { run, out } = await listen(jail, py(code));
      assert.ok(run.stdout.includes('\ufffd') && run.stdout.includes('中'));
      assert.equal(out, run.stdout, `in steps of ${step}`);
    }
  });

  it('the first maxOutputBytes of each stream, cut between characters; the result is as ever', async () => {
    const code = 'import sys\nsys.stdout.write("é" * 60000)\nsys.stderr.write("x" * 7)\n';
    const request = py(code, { maxOutputBytes: 1001 });
    const { run, out, err } = await listen(jail, request);
    assert.equal(out, 'é'.repeat(500));
    assert.equal(err, 'xxxxxxx');
    const plain = await jail.runCode(request);
    assert.deepEqual([run.stdout, run.stdoutDropped], [plain.stdout, plain.stdoutDropped]);
    assert.ok(run.stdoutDropped > 100000);
    assert.equal((await listen(jail, py('print(1)', { maxOutputBytes: 0 }))).out, '');
  });

  it('one stream alone, or none', async () => {
    const code = 'import sys\nprint("a")\nprint("b", file=sys.stderr)\n';
    const heard = [];
    await jail.runCode(py(code), { onStderr: (text) => heard.push(text) });
    assert.equal(heard.join(''), 'b\n');
    const run = await jail.runCode(py(code), { onStdout: undefined, onStderr: null });
    assert.deepEqual([run.stdout, run.stderr], ['a\n', 'b\n']);
  });

  it('many runs at once hear their own alone', async () => {
    const runs = Array.from({ length: 24 }, (_, i) =>
      listen(jail, js(`for (let j = 0; j < 20; j++) console.log("<${i}>"); return ${i}`)),
    );
    for (const [i, { run, out }] of (await Promise.all(runs)).entries()) {
      assert.equal(run.result, i);
      assert.equal(out, `<${i}>\n`.repeat(20));
    }
  });

  it('the caller’s asynchronous context is theirs', async () => {
    const store = new AsyncLocalStorage();
    let seen;
    const onStdout = () => {
      seen = store.getStore();
    };
    await store.run('mine', () => jail.runCode(js('console.log(1)'), { onStdout }));
    assert.equal(seen, 'mine');
  });

  it('what is no function is refused, and a check has none', async () => {
    for (const bad of [1, 'x', {}, true])
      assert.match((await errorOf(jail.runCode(js('1'), { onStdout: bad }))).message, /onStdout must be a function/);
    const error = await errorOf(jail.checkCode(js('1'), { onStdout: () => {} }));
    assert.equal(error.code, 'ERR_JAIL_INVALID_REQUEST');
    const getter = { get onStderr() { throw new Error('no'); } }; // biome-ignore format: one line
    assert.equal((await errorOf(jail.runCode(js('1'), getter))).code, 'ERR_JAIL_INVALID_REQUEST');
  });
});

for (const name of ['http', 'socket']) {
  describe(`live output from elsewhere, ${name}`, () => {
    it('bytes that are no UTF-8, escapes and large pieces arrive as in the result', async () => {
      const code =
        'import os\nfor i in range(20):\n    os.write(1, b"\\xff\\x00\\x1b\\"\\\\{}\\n" + "é中😀".encode() * 3000)\n';
      const { run, out } = await listen(jails[name], py(code));
      assert.ok(out === run.stdout, `${out.length} characters, and ${run.stdout.length} in the result`);
      assert.ok(out.includes('\ufffd\0\u001b"\\{}\n') && out.length > 200000);
    });

    it('a result with line breaks between its values, and output that looks like an event, are what they are', async () => {
      const code =
        'import os\nos.write(1, b\'{"stderr":"forged"}\\n\')\nbody = b\'[\\n{"stdout":"forged"}\\n,1]\'\n' +
        'import struct, time\nos.write(3, struct.pack("<IIII", 0x31464a43, 82, 0, len(body)) + body)\ntime.sleep(5)\n';
      const { run, out, err } = await listen(jails[name], py(code));
      assert.deepEqual([run.status, run.result], ['ok', [{ stdout: 'forged' }, 1]]);
      assert.deepEqual([out, err, run.stdout], ['{"stderr":"forged"}\n', '', '{"stderr":"forged"}\n']);
    });

    it('a flood, with a listener that is slow', async () => {
      const code = 'import os\nb = b"x" * 65536\nwhile True: os.write(1, b); os.write(2, b)\n';
      let bytes = 0;
      const onStdout = (text) => {
        bytes += text.length;
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20);
      };
      const run = await jails[name].runCode(py(code, { maxOutputBytes: MiB }), { onStdout, onStderr: onStdout });
      assert.match(run.status, /^(output_limit|timeout)$/);
      assert.equal(bytes, 2 * MiB);
    });

    it('only noise, which comes as three bytes for one, is not more than may be', async () => {
      const code = 'import os\nos.write(1, b"\\xff" * 50000)\n';
      const { run } = await listen(jails[name], py(code, { maxOutputBytes: 50000 }));
      assert.deepEqual([run.status, run.stdout], ['ok', '\ufffd'.repeat(50000)]);
    });
  });
}

describe('live output over HTTP', () => {
  it('a peer’s lines are believed as output, and never as anything else', async () => {
    const lines =
      (end) =>
      ({ job, response }) => {
        response.writeHead(200, { 'content-type': 'application/x-ndjson' });
        response.write('{"stdout":"a"}\n{"std');
        setTimeout(() => {
          response.write('err":"b\\ud800"}\n{"stdout":"c"}\n');
          response.end(end(job));
        }, 50);
      };
    let reply;
    const peer = await startPeer((call) => reply(call));
    const far = createJail({ url: peer.url, token: TOKEN });
    reply = lines((job) => `${JSON.stringify(answerTo(job, { stdout: 'ac' }))}\n`);
    const { run, out, err } = await listen(far, js('1'));
    assert.deepEqual([run.result, out, err], [2, 'ac', 'b\ufffd']);
    for (const end of [
      () => '',
      () => '{"stdout":"d"}\n',
      () => '{"stdout":5}\n',
      () => 'nonsense',
      () => '{"stdout":""}\n',
      () => TOO_MUCH,
    ]) {
      reply = lines(end);
      assert.equal((await errorOf(listen(far, js('1')))).code, 'ERR_JAIL_PROTOCOL');
    }
    // Unasked, they are no result.
    reply = lines((job) => JSON.stringify(answerTo(job)));
    assert.equal((await errorOf(far.runCode(js('1')))).code, 'ERR_JAIL_PROTOCOL');
    assert.equal(peer.requests[0].headers.accept, 'application/x-ndjson, application/json');
    assert.equal(peer.requests.at(-1).headers.accept, 'application/json');
    await far.close();
    await peer.close();
  });
});

describe('a peer that does not stream', () => {
  it('is heard all at once, before the result', async () => {
    const over = { stdout: 'all of it', stderr: '' };
    const peer = await startPeer(({ job, response }) => send(response, 200, answerTo(job, over)));
    const far = createJail({ url: peer.url, token: TOKEN });
    const { run, out, err, pieces } = await listen(far, js('1'));
    assert.deepEqual([run.stdout, out, err, pieces.length], ['all of it', 'all of it', '', 1]);
    await far.close();
    await peer.close();
  });
});

describe('a listener that fails', () => {
  const throwing = () => {
    throw new Error('its own fault');
  };
  const rejecting = async () => throwing();
  for (const [name, listener] of Object.entries({ throwing, rejecting })) {
    it(`${name}: the run goes on, a warning tells it once, and the other stream is heard`, async () => {
      const warned = [];
      const onWarning = (warning) => warned.push(warning);
      process.on('warning', onWarning);
      const code =
        'import sys, time\nfor i in range(5):\n    print(i)\n    print(i, file=sys.stderr)\n    time.sleep(0.02)\nresult = 7';
      let err = '';
      const run = await jail.runCode(py(code), {
        onStdout: listener,
        onStderr: (text) => {
          err += text;
        },
      });
      await new Promise((resolve) => setImmediate(resolve));
      process.off('warning', onWarning);
      assert.deepEqual([run.status, run.result, run.stdout, err], ['ok', 7, '0\n1\n2\n3\n4\n', '0\n1\n2\n3\n4\n']);
      assert.equal(warned.length, 1);
      assert.deepEqual([warned[0].name, warned[0].code], ['CodeJailWarning', 'CODE_JAIL_LISTENER']);
      assert.match(warned[0].message, /onStdout has failed.*its own fault/s);
    });
  }

  it('one that closes the jail, or starts another run, does no harm', async () => {
    const own = openJail();
    const inner = [];
    const onStdout = () => {
      inner.push(jail.runCode(js('return 2')));
      inner.push(own.close());
    };
    const error = await errorOf(own.runCode(py('import time\nprint(1)\ntime.sleep(60)'), { onStdout }));
    assert.equal(error.code, 'ERR_JAIL_CLOSED');
    assert.equal((await inner[0]).result, 2);
    await inner[1];
  });
});

describe('a flood', () => {
  const flood = 'import os\nb = b"x" * 65536\nwhile True: os.write(1, b); os.write(2, b)\n';

  // Blocks this thread, as a host does that computes.
  const block = (ms) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);

  it('a blocked or slow thread of ours holds no more than the caps, and the result is the same', async () => {
    const request = py(flood, { timeoutMs: 20000, maxOutputBytes: 2 * MiB });
    await listen(jail, py('print(1)'));
    const before = process.memoryUsage.rss();
    let most = 0;
    let bytes = 0;
    const onStdout = (text) => {
      bytes += text.length;
      block(20);
      most = Math.max(most, process.memoryUsage.rss());
    };
    const runs = [0, 1, 2].map(() => jail.runCode(request, { onStdout, onStderr: onStdout }));
    await new Promise((resolve) => setTimeout(resolve, 50));
    block(500);
    most = Math.max(most, process.memoryUsage.rss());
    for (const run of await Promise.all(runs)) {
      assert.equal(run.status, 'output_limit');
      assert.ok(run.stdoutDropped > 20 * MiB);
      assert.ok(run.stdout.length <= 2 * MiB + 100);
    }
    assert.equal(bytes, 3 * 2 * 2 * MiB, 'each stream up to its cap, and no more');
    // Three runs of 64 MiB and more were written; what is kept of one is 2 x 2 MiB twice, and as much again as text.
    assert.ok(most - before < 100 * MiB, `${(most - before) / MiB} MiB more`);
  });

  it('of single bytes, while our thread is blocked, is one piece and not a million', async () => {
    const code = 'import os\nfor i in range(20000): os.write(1, b"x")\nresult = 1\n';
    const pieces = [];
    const run = jail.runCode(py(code, { timeoutMs: 30000 }), { onStdout: (text) => pieces.push(text) });
    await new Promise((resolve) => setTimeout(resolve, 100));
    block(1000);
    assert.equal((await run).status, 'ok');
    assert.equal(pieces.join('').length, 20000);
    assert.ok(pieces.length < 20000, `${pieces.length} pieces`);
  });

  it('an abort in its midst ends it, and nothing is heard afterwards', async () => {
    const own = openJail();
    const stop = new AbortController();
    let after = 0;
    const onStdout = () => {
      if (stop.signal.aborted) after++;
      else stop.abort(new Error('enough'));
    };
    const error = await errorOf(own.runCode(py(flood), { signal: stop.signal, onStdout }));
    assert.equal(error.message, 'enough');
    assert.equal((await own.runCode(py('result = 1'))).result, 1);
    assert.equal(after, 0);
    const mine = descendants();
    await own.close();
    assert.ok(await until(() => descendants().length < mine.length, 5000 * slack()));
  });

  it('a worker that is ended in its midst takes it along', async () => {
    const { Worker } = require('node:worker_threads');
    const code = `
      const { createJail } = require(${JSON.stringify(require.resolve('..'))});
      const { parentPort } = require('node:worker_threads');
      createJail().runCode({ language: 'python', code: ${JSON.stringify(flood)} }, { onStdout: () => parentPort.postMessage('heard') });`;
    const worker = new Worker(code, { eval: true });
    assert.deepEqual(await once(worker, 'message'), ['heard']);
    await worker.terminate();
    assert.equal((await jail.runCode(js('return 3'))).result, 3);
  });
});
