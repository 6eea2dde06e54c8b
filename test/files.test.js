'use strict';
// Files in and out: what is refused before a run, what a guest may say of its own
// files, and the ways over a wire. What a run does with files is in the table (cases.js, F01...).

const assert = require('node:assert/strict');
const { after, before, describe, it } = require('node:test');
const { FILES, readCollected } = require('../lib/files.js');
const { readConfig } = require('../lib/config.js');
const { readRequest } = require('../lib/options.js');
const { createJail, JailError } = require('..');
const cases = require('./cases.js');
const { answerTo, send, startPeer, TOKEN: PEER_TOKEN } = require('./helpers/peer.js');
const { matches } = require('./helpers/run.js');
const { startService, TOKEN } = require('./helpers/service.js');

const { limits } = readConfig({});
const good = { language: 'javascript', code: 'return 1' };
const refuses = (request, pattern, config = {}) =>
  assert.throws(
    () => readRequest({ ...good, ...request }, readConfig(config).limits),
    (error) => {
      assert.ok(error instanceof JailError);
      assert.equal(error.code, 'ERR_JAIL_INVALID_REQUEST');
      assert.match(error.message, pattern);
      return true;
    },
  );

describe('files of a request', () => {
  it('travel as members of JSON text', () => {
    const { files } = readRequest(
      { ...good, files: { a: '"\u2028', 'b/c': new Uint8Array([1, 2]) }, collect: ['d'] },
      limits,
    );
    const read = JSON.parse(`{${files}}`);
    assert.deepEqual(read, { files: { a: '"\u2028', 'b/c': { base64: 'AQI=' } }, collect: ['d'] });
    assert.equal(readRequest({ ...good, files: {} }, limits).files, '');
    assert.equal(readRequest({ ...good, collect: [] }, limits).files, '"collect":[]');
  });

  it('travel in no more than base64 takes, whatever a text holds', () => {
    const { files } = readRequest({ ...good, files: { a: '\0'.repeat(FILES.bytes - 2) + '\u00e9' } }, limits);
    assert.ok(files.length < 1.4 * FILES.bytes, `${files.length}`);
    const bytes = Buffer.from(JSON.parse(`{${files}}`).files.a.base64, 'base64');
    assert.ok(bytes.equals(Buffer.concat([Buffer.alloc(FILES.bytes - 2), Buffer.from('\u00e9')])));
  });

  it('takes a view of a larger buffer as what it shows', () => {
    const { files } = readRequest({ ...good, files: { a: new Uint8Array([1, 2, 3]).subarray(1, 2) } }, limits);
    assert.equal(files, '"files":{"a":{"base64":"Ag=="}}');
  });

  for (const path of [
    '',
    '/a',
    'a/',
    'a//b',
    '.',
    '..',
    'a/../b',
    './a',
    'a\\b',
    'a\0b',
    '\ud800',
    'x'.repeat(256),
    'a/'.repeat(16) + 'a',
  ])
    it(`refuses the path ${JSON.stringify(path.slice(0, 20))}`, () => {
      refuses({ files: { [path]: '' } }, /^files has the path /);
      refuses({ collect: [path] }, /^collect has /);
    });

  it('takes paths up to their limits', () => {
    const paths = ['x'.repeat(255), `${'a/'.repeat(15)}a`, '...', 'a b', '\u00e9', '__proto__', '-rf'];
    readRequest({ ...good, files: Object.fromEntries(paths.map((path) => [path, ''])), collect: paths }, limits);
  });

  it('refuses what is no file', () => {
    for (const value of [null, 1, {}, [], { base64: '' }, new Date()])
      refuses({ files: { a: value } }, /^files\["a"\] must be/);
    for (const files of [null, 1, [], 'x']) refuses({ files }, /^files must be/);
    for (const collect of [null, 1, {}, 'x']) refuses({ collect }, /^collect must be/);
    refuses({ files: { a: '\udc00' } }, /half a surrogate pair/);
    refuses({ files: { a: '', 'a/b': '' } }, /"a" as a file and as a folder/);
  });

  it('has its limits', () => {
    const many = (count) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`f${i}`, '']));
    readRequest({ ...good, files: many(FILES.count) }, limits);
    refuses({ files: many(FILES.count + 1) }, /257 entries; the limit is 256/);
    readRequest({ ...good, files: { a: Buffer.alloc(FILES.bytes) } }, limits);
    refuses({ files: { a: Buffer.alloc(FILES.bytes), b: 'x' } }, /over 8388608 bytes/);
    refuses({ files: { a: '\u00e9\u00e9' } }, /over 3 bytes/, { caps: { filesBytes: 3 } });
    refuses({ collect: Array.from({ length: 65 }, (_, i) => `f${i}`) }, /65 paths; the limit is 64/);
  });
});

describe('what came back', () => {
  const text = (files, filesMissing = []) => JSON.stringify({ files, filesMissing });
  it('is taken where it was asked for', () => {
    const { files } = readCollected(text({ a: { base64: 'AQI=' }, 'b/c': { base64: '' } }), ['a', 'b'], false);
    assert.deepEqual(files, { a: Buffer.from([1, 2]), 'b/c': Buffer.alloc(0) });
  });

  for (const [what, forged] of Object.entries({
    'a file that nobody asked for': text({ b: { base64: '' } }),
    'a path beside the one asked for': text({ ab: { base64: '' } }),
    'a path out of the folder': text({ 'a/../../b': { base64: '' } }),
    'an absolute path': text({ '/a': { base64: '' } }),
    'no base64': text({ a: { base64: 'A*==' } }),
    'base64 cut short': text({ a: { base64: 'AQI' } }),
    'more than there may be': text({ a: { base64: Buffer.alloc(FILES.bytes + 1).toString('base64') } }),
    'a reason of its own': text({}, [{ path: 'a', reason: 'because' }]),
    'a path of its own that is missing': text({}, [{ path: 'etc', reason: 'absent' }]),
  }))
    it(`is not taken: ${what}`, () => assert.equal(readCollected(forged, ['a'], false), null));
});

describe('in a cell', () => {
  const jail = createJail({ maxConcurrent: 2 });
  after(() => jail.close());
  const run = (code, more, language = 'javascript') => jail.runCode({ language, code, ...more });

  for (const [language, code] of [
    [
      'javascript',
      'const fs = require("node:fs");\nfs.mkdirSync("out");\nfor (let i = 0; i < 300; i++) fs.writeFileSync("out/" + i, "x");\nfs.writeFileSync("last", "y");',
    ],
    [
      'python',
      'import os\nos.mkdir("out")\nfor i in range(300):\n    open("out/%d" % i, "w").write("x")\nopen("last", "w").write("y")\n',
    ],
  ])
    it(`${language}: more files than may come are told once`, async () => {
      const { status, files, filesMissing } = await run(code, { collect: ['out', 'last'] }, language);
      assert.equal(status, 'ok');
      assert.equal(Object.keys(files).length, FILES.count);
      assert.deepEqual(filesMissing, [
        { path: 'out', reason: 'too_many' },
        { path: 'last', reason: 'too_many' },
      ]);
    });

  const LINKS = {
    javascript:
      'const fs = require("node:fs");\nfs.mkdirSync("o");\nfor (let i = 0; i < 600; i++) fs.symlinkSync("/x", "o/" + i);\nfs.writeFileSync("big", Buffer.alloc(9 << 20));',
    python:
      'import os\nos.mkdir("o")\nfor i in range(600):\n    os.symlink("/x", "o/%d" % i)\nopen("big", "wb").write(bytes(9 << 20))\n',
  };
  const SHUT = {
    javascript:
      'const fs = require("node:fs");\nfor (const name of ["shut", "bare"]) {\n  fs.mkdirSync(name);\n  fs.writeFileSync(name + "/a", "");\n}\nfs.writeFileSync("b", "");\nfs.chmodSync("shut", 0);\nfs.chmodSync("bare", 0o444);\nreturn 7;',
    python:
      'import os\nfor name in ("shut", "bare"):\n    os.mkdir(name)\n    open(name + "/a", "w")\nopen("b", "w")\nos.chmod("shut", 0)\nos.chmod("bare", 0o444)\nresult = 7\n',
  };
  const FULL = {
    javascript:
      'const fs = require("node:fs");\nfs.mkdirSync("o");\nfor (let i = 0; i < 256; i++) fs.writeFileSync("o/" + i, "");',
    python: 'import os\nos.mkdir("o")\nfor i in range(256):\n    open("o/%d" % i, "w")\n',
  };
  for (const language of ['javascript', 'python']) {
    it(`${language}: however much is missing, of each name that was asked for something is told`, async () => {
      const { status, filesMissing } = await run(LINKS[language], { collect: ['o', 'big', 'none'] }, language);
      assert.equal(status, 'ok');
      assert.deepEqual(filesMissing.slice(-3), [
        { path: 'o', reason: 'too_many' },
        { path: 'big', reason: 'too_large' },
        { path: 'none', reason: 'absent' },
      ]);
    });

    it(`${language}: a folder that cannot be read costs neither the result nor the other files`, async () => {
      const got = await run(SHUT[language], { collect: ['shut', 'bare', 'shut/a', 'b'] }, language);
      assert.deepEqual([got.status, got.result, Object.keys(got.files)], ['ok', 7, ['b']]);
      assert.deepEqual(
        got.filesMissing,
        ['shut', 'bare/a', 'shut/a'].map((path) => ({ path, reason: 'unreadable' })),
      );
    });

    it(`${language}: a file that is there already is not missing where no more may come`, async () => {
      const { files, filesMissing } = await run(FULL[language], { collect: ['o', 'o/1'] }, language);
      assert.deepEqual([Object.keys(files).length, filesMissing], [256, []]);
    });
  }

  it('8 MiB go in and come out again, and the text form of the result stays apart', async () => {
    const bytes = Buffer.alloc(FILES.bytes, 'abc');
    const got = await run('return 1.5;', { files: { 'a/b': bytes }, collect: ['a'], resultAs: 'text', memoryMb: 512 });
    assert.equal(got.resultText, '1.5');
    assert.ok(bytes.equals(got.files['a/b']));
  });

  it('files that do not fit into memoryMb end as out_of_memory or an error, never as a success', async () => {
    const got = await run('return 1;', { files: { a: Buffer.alloc(FILES.bytes) }, memoryMb: 16, timeoutMs: 5000 });
    assert.ok(['ok', 'out_of_memory', 'error'].includes(got.status));
    if (got.status === 'ok') assert.ok(got.usage.peakMemoryBytes >= 0);
  });

  it('what was not asked for is not there', async () => {
    const got = await run('return 1;', { files: { a: 'x' } });
    assert.equal('files' in got, false);
    assert.equal('filesMissing' in got, false);
  });

  it('a guest that writes the frame itself is stopped, and nothing of its files is believed', async () => {
    const code = `
import os, struct
files = b'{"files":{"etc/passwd":{"base64":""}},"filesMissing":[]}'
frame = struct.pack('<IIII', 0x31464a43, ord('R'), len(files), 1) + files + b'1'
os.write(3, frame)
while True: pass
`;
    const forged = await run(code, { collect: ['a'] }, 'python');
    assert.equal(forged.status, 'killed');
    assert.equal(forged.ok, false);
    assert.equal(forged.result, null);
    assert.deepEqual(forged.files, {});
    assert.deepEqual(forged.filesMissing, [{ path: 'a', reason: 'not_ended' }]);
    // Not asked for files at all: such a frame is none.
    const plain = await run(code, {}, 'python');
    assert.equal(plain.status, 'killed');
    // The control: the same bytes for a path that was asked for are a result like any other.
    const honest = await run(code.replace('etc/passwd', 'a'), { collect: ['a'] }, 'python');
    assert.equal(honest.status, 'ok');
    assert.deepEqual(Object.keys(honest.files), ['a']);
  });

  it('a check takes neither', async () => {
    await assert.rejects(jail.checkCode({ ...good, files: {} }), { code: 'ERR_JAIL_INVALID_REQUEST' });
    await assert.rejects(jail.checkCode({ ...good, collect: [] }), { code: 'ERR_JAIL_INVALID_REQUEST' });
  });
});

describe('over HTTP', () => {
  let service;
  let jail;
  before(async () => {
    service = await startService();
    jail = createJail({ url: service.base, token: TOKEN });
  });
  after(async () => {
    await jail?.close();
    await service?.stop();
  });

  for (const { id, name, language, code, options, expect } of cases.filter((one) => /^F/.test(one.id)))
    it(`${id} ${language}: ${name}`, async () =>
      matches(await jail.runCode({ language, code, ...options }), { ...expect, jail: { backend: 'http' } }));

  it('8 MiB go there and come back, twice', async () => {
    const bytes = Buffer.alloc(FILES.bytes, 'abc');
    const request = { language: 'javascript', code: 'return 1;', files: { a: bytes }, collect: ['a'], memoryMb: 512 };
    for (const { files, result } of await Promise.all([jail.runCode(request), jail.runCode(request)])) {
      assert.equal(result, 1);
      assert.ok(bytes.equals(files.a));
    }
  });

  it('a text of control characters is as long as it may be', async () => {
    const code = 'return require("fs").statSync("a").size;';
    const request = { language: 'javascript', code, files: { a: '\0'.repeat(FILES.bytes) }, memoryMb: 512 };
    assert.equal((await jail.runCode(request)).result, FILES.bytes);
  });

  it('base64 of more than files may have is refused before it is read', async () => {
    const { json } = await service.post(
      `{"language":"javascript","code":"return 1","files":{"a":{"base64":"${'*'.repeat(16 << 20)}"}}}`,
    );
    assert.match(json.error.message, /^files are over 8388608 bytes in all/);
  });

  it('a body whose files are none is refused, naming the field', async () => {
    const body = (files) => `{"language":"javascript","code":"return 1","files":${files}}`;
    const wrong = [
      ['{"a":{"base64":"A"}}', /files\["a"\]/],
      ['{"a":{"base64":"AA==","more":1}}', /files\["a"\]/],
      [`{"a":{"other":"${'A'.repeat(8000)}"}}`, /files\["a"\]/],
      ['{"a":[[[]]]}', /files\["a"\]/],
      ['{"a":1}', /files\["a"\]/],
      ['{"a":"","a":""}', /twice/],
      ['{"../a":""}', /"\.\.\/a"/],
      ['[]', /^files must be/],
      [`{${Array.from({ length: 257 }, (_, i) => `"f${i}":""`).join(',')}}`, /256/],
    ];
    for (const [files, message] of wrong) {
      const { status, json } = await service.post(body(files));
      assert.equal(status, 400, files);
      assert.match(json.error.message, message);
    }
    const { status, json } = await service.post(body('{ "a": { "base64" : "AA==" } }'));
    assert.deepEqual([status, json.status], [200, 'ok']);
  });
});

describe('a peer', () => {
  const asked = { language: 'javascript', code: 'return 1', files: { a: 'x' }, collect: ['a'] };
  const through = async (answer, check) => {
    const peer = await startPeer((call) => send(call.response, 200, answer(call.job)));
    const jail = createJail({ url: peer.url, token: PEER_TOKEN });
    try {
      await check(jail);
    } finally {
      await jail.close();
      await peer.close();
    }
  };

  it('that answers with files gives them, and one that leaves them out has none', async () => {
    const found = { files: { a: { base64: 'eA==' } }, filesMissing: [] };
    await through(
      (body) => ({ ...answerTo(body), ...found }),
      async (jail) => {
        assert.deepEqual((await jail.runCode(asked)).files, { a: Buffer.from('x') });
      },
    );
    await through(answerTo, async (jail) => {
      const { files, filesMissing } = await jail.runCode(asked);
      assert.deepEqual([files, filesMissing], [{}, [{ path: 'a', reason: 'not_ended' }]]);
    });
  });

  for (const [what, lie] of Object.entries({
    'names a file that nobody asked for': { files: { b: { base64: '' } }, filesMissing: [] },
    'says a file is a number': { files: { a: 1 }, filesMissing: [] },
    'says files are a list': { files: [], filesMissing: [] },
    'leaves out what is missing': { files: {} },
    'has base64 that is none': { files: { a: { base64: '*' } }, filesMissing: [] },
  }))
    it(`that ${what} is not believed`, () =>
      through(
        (body) => ({ ...answerTo(body), ...lie }),
        (jail) => assert.rejects(jail.runCode(asked), { code: 'ERR_JAIL_PROTOCOL' }),
      ));
});
