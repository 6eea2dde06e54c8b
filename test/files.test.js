'use strict';
// `files` of a request: what is refused, and with what words; what arrives, over
// HTTP and by the command line. What a run makes of them: cases.js, over every backend.

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { after, before, describe, it } = require('node:test');
const { createJail } = require('../lib/index.js');
const { packFiles, unpackFiles } = require('../lib/files.js');
const { openJail } = require('./helpers/run.js');
const { js, startService, TOKEN } = require('./helpers/service.js');

const MiB = 1 << 20;
const CLI = path.join(__dirname, '..', 'bin', 'code-jail.js');
const pack = (files, cap = 16 * MiB) => packFiles(files, cap, false);
const refuses = (files, words, cap) =>
  assert.throws(() => pack(files, cap), { code: 'ERR_JAIL_INVALID_REQUEST', message: words });
const deep = (levels) => Array(levels).fill('d').join('/');

describe('files of a request', () => {
  it('paths that could lead elsewhere are refused, each beside one that is allowed', () => {
    for (const [bad, words, good] of [
      ['', /empty/, 'a'],
      ['/a', /relative/, 'a/b'],
      ['a/', /relative/, 'a/b'],
      ['a//b', /relative/, 'a/b'],
      ['..', /\.\./, '...'],
      ['a/../b', /\.\./, 'a/..b'],
      ['./a', /\.\./, '.a'],
      ['a\0', /NUL/, 'a\n'],
      ['a\\b', /backslash/, 'a:b'],
      ['\ud800', /surrogate/, '\u{10000}'],
      ['\u00e9'.repeat(128), /255 bytes/, '\u00e9'.repeat(127)],
      [deep(17), /16 levels/, deep(16)],
    ]) {
      refuses({ [bad]: '' }, words);
      assert.ok(pack({ [good]: '' }), JSON.stringify(good));
    }
    refuses({ a: '', 'a/b': '' }, /both as file and folder/);
    refuses({ 'a/b/c': '', 'a/b': '' }, /both as file and folder/);
    assert.ok(pack({ 'a/b': '', 'a/c': '', ab: '' }));
  });

  it('counts, sizes and types are bounded', () => {
    const many = (count) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`f${i}`, '']));
    refuses(many(257), /257 entries; the limit is 256/);
    assert.ok(pack(many(256)));
    refuses({ a: 'x'.repeat(6), b: Buffer.alloc(5) }, /over 10 bytes/, 10);
    assert.ok(pack({ a: 'x'.repeat(5), b: Buffer.alloc(5) }, 10));
    assert.throws(() => packFiles({ a: 'xx' }, 1, true), /set by this host/);
    for (const value of [1, null, {}, [1], new ArrayBuffer(1), new Uint16Array(1)])
      refuses({ a: value }, /must be a string or a Uint8Array/);
    refuses({ a: '\udc00' }, /surrogate/);
    for (const files of [null, [], 'a', Buffer.alloc(1), new Uint8Array(1)]) refuses(files, /must be an object/);
    assert.equal(pack({}), null);
    assert.equal(pack(Object.create({ inherited: '' })), null);
  });

  it('what was packed is what travels', () => {
    const files = { a: 'h\u00e9', ['__proto__']: Uint8Array.of(0, 255), 'b/c': '' };
    assert.deepEqual(Object.entries(unpackFiles(pack(files))), [
      ['a', { base64: 'aMOp' }],
      ['__proto__', { base64: 'AP8=' }],
      ['b/c', { base64: '' }],
    ]);
  });

  it('checkCode has none; a host may lower the cap', async () => {
    const jail = openJail({ caps: { filesBytes: 3 } });
    const words = { code: 'ERR_JAIL_INVALID_REQUEST' };
    await assert.rejects(jail.checkCode({ language: 'python', code: '', files: {} }), { ...words, message: /"files"/ });
    await assert.rejects(jail.runCode(js('1', { files: { a: 'four' } })), { ...words, message: /set by this host/ });
    assert.equal((await jail.runCode(js('return 1', { files: { a: 'abc' } }))).result, 1);
  });

  it('they count as memory: what does not fit ends the run, and the next one works', async () => {
    const jail = openJail();
    const fill = Buffer.alloc(15 * MiB, 1);
    const code =
      'data = open("a", "rb").read()\nb = bytearray(8 << 20)\nimport time\ntime.sleep(5)\nresult = len(data)';
    const run = await jail.runCode({ language: 'python', code, files: { a: fill }, memoryMb: 16 });
    assert.equal(run.status, 'out_of_memory');
    assert.equal((await jail.runCode(js('return require("node:fs").readdirSync(".").length'))).result, 0);
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
  const read =
    'const fs = require("node:fs"); return fs.readdirSync(".").map((name) => [name, [...fs.readFileSync(name)]])';

  it('every name and every byte arrives', async () => {
    const every = Uint8Array.from({ length: 256 }, (_, i) => i);
    for (let size = 0; size < 4; size++) {
      const files = { ['__proto__']: every.subarray(0, size), '\n"\x01': '\u0000\u2028', every };
      const { status, result } = await jail.runCode(js(read, { files }));
      assert.equal(status, 'ok');
      assert.deepEqual(
        result.sort(),
        Object.entries(files)
          .map(([name, data]) => [name, [...Buffer.from(data)]])
          .sort(),
      );
    }
    const large = Buffer.alloc(16 * MiB, 'abcdefg');
    const code = 'return require("node:fs").statSync("a").size';
    assert.equal((await jail.runCode(js(code, { files: { a: large } }))).result, large.length);
  });

  it('a body may hold text or strict base64, and nothing else', async () => {
    const fine = await service.post(js(read, { files: { a: 'x', b: { base64: 'AP8=' } } }));
    assert.deepEqual(fine.json.result, [
      ['a', [120]],
      ['b', [0, 255]],
    ]);
    const bad = ['AP8', 'AP8=\n', 'AP9=', 'A?8=', 'AP8==', ' AP8='].map((base64) => ({ base64 }));
    for (const value of [
      ...bad,
      {},
      { base64: 1 },
      { base64: '', more: 1 },
      { text: 'x' },
      1,
      null,
      [],
      [['base64', '']],
    ]) {
      const answer = await service.post(js('return 1', { files: { a: value } }));
      assert.equal(answer.status, 400, `${JSON.stringify(value)}: ${answer.text}`);
      assert.match(answer.json.error.message, /files\["a"\]/);
    }
    for (const files of [[], 'x', 1, null, { '../a': '' }, { a: '', 'a/b': '' }])
      assert.equal((await service.post(js('return 1', { files }))).status, 400, JSON.stringify(files));
    const twice = await service.post('{"language":"javascript","code":"1","files":{"a":"","\\u0061":""}}');
    assert.match(twice.json.error.message, /twice/);
    const check = await service.post({ language: 'javascript', check: '1', files: {} });
    assert.equal(check.status, 400);
  });
});

describe('code-jail run --file', () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'code-jail-files-'));
  after(() => fs.rmSync(folder, { recursive: true }));
  const cli = (...args) => spawnSync(process.execPath, [CLI, 'run', '--quiet', ...args], { encoding: 'utf8' });

  it('the file is there under its name; a bad one is a wrong command line', () => {
    const code = path.join(folder, 'code.js');
    const data = path.join(folder, 'data');
    fs.writeFileSync(code, 'return require("node:fs").readFileSync("in/x.bin").toString("hex")');
    fs.writeFileSync(data, Buffer.from([0, 255]));
    const good = cli(code, '--file', `in/x.bin=@${data}`);
    assert.deepEqual([good.status, good.stdout], [0, '"00ff"\n'], good.stderr);
    for (const file of ['x', 'x=y', '=@y', `x=@${folder}/absent`]) {
      const bad = cli(code, '--file', file);
      assert.equal(bad.status, 2, bad.stderr);
    }
    assert.match(cli(code, '--file', `../x=@${data}`).stderr, /\.\. in it/);
  });
});
