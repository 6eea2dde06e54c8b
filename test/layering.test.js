'use strict';
// Who may know what (ARCHITECTURE.md), and how large a file may grow before it
// owes a reason.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { describe, it } = require('node:test');

const ROOT = path.join(__dirname, '..');

function files(dir, pattern) {
  const full = path.join(ROOT, dir);
  if (!fs.existsSync(full)) return [];
  return fs
    .readdirSync(full, { recursive: true })
    .map((name) => path.join(dir, String(name)))
    .filter((name) => pattern.test(name) && fs.statSync(path.join(ROOT, name)).isFile())
    .sort();
}
const read = (name) => fs.readFileSync(path.join(ROOT, name), 'utf8');
const includes = (name) => [...read(name).matchAll(/^\s*#\s*include\s*[<"]([^>"]+)[>"]/gm)].map((match) => match[1]);
// The text without comments and literals, so that only what is called counts.
const code = (name) =>
  read(name)
    .replace(/\/\*[\s\S]*?\*\//g, '')
    .replace(/"(?:\\.|[^"\\\n])*"/g, '""')
    .replace(/\/\/.*$/gm, '');

const SOURCES = files('src', /\.[ch]$/);

// A header of the outside, and the files that may include it.
const MAY_INCLUDE = {
  'node_api.h': /^src\/(addon\w*\.[ch]|guest\/guest_node\.c)$/,
  'js_native_api.h': /^src\/(addon\w*\.[ch]|guest\/guest_node\.c)$/,
  'uv.h': /^src\/(engine\w*\.[ch]|run\.c|backend_\w+\.[ch]|guest\/guest_node\.c)$/,
  'curl/curl.h': /^src\/backend_http\w*\.[ch]$/,
  'openssl/ssl.h': /^src\/backend_http_trust\.c$/,
  'jsmn.h': /^src\/json\.c$/,
};

// Files over 400 lines, each with its reason. Nothing else may grow so far.
const LONG = {
  'src/cell/seccomp.c': 'the rules, and the program that they become, are audited side by side',
};

const BANNED = /\b(strcpy|strcat|sprintf|vsprintf|gets|system|popen|alloca|strtok|tmpnam|mktemp|abort)\s*\(/;
// abort in the guest is how the runtime dies; nowhere else.
const EXCEPTIONS = { 'src/guest/zygote.c': /^abort$/, 'src/guest/guest_node.c': /^abort$/ };

describe('layering of src', () => {
  it('there is something to check', () => assert.ok(SOURCES.length > 3));

  for (const [header, where] of Object.entries(MAY_INCLUDE)) {
    it(`${header} is known only where it belongs`, () => {
      const elsewhere = SOURCES.filter((name) => includes(name).includes(header) && !where.test(name));
      assert.deepEqual(elsewhere, []);
    });
  }

  it('src/cell includes the kernel, the C library and itself', () => {
    const foreign = SOURCES.filter((name) => name.startsWith('src/cell/')).flatMap((name) =>
      includes(name)
        .filter((one) => one.startsWith('..') || /^(uv|node_api|jsmn|curl)/.test(one))
        .map((one) => `${name}: ${one}`),
    );
    assert.deepEqual(foreign, []);
  });

  it('src/guest knows the walls and the protocol, not the engine', () => {
    const allowed = /^(\.\.\/(protocol|solo|cell\/cell)\.h|[\w]+\.h)$/;
    const foreign = SOURCES.filter((name) => name.startsWith('src/guest/')).flatMap((name) =>
      includes(name)
        .filter((one) => one.startsWith('.') && !allowed.test(one))
        .map((one) => `${name}: ${one}`),
    );
    assert.deepEqual(foreign, []);
  });

  it('no banned function is called', () => {
    const calls = SOURCES.flatMap((name) =>
      code(name)
        .split('\n')
        .map((line) => [line, BANNED.exec(line)?.[1]])
        .filter(([, called]) => called && !EXCEPTIONS[name]?.test(called))
        .map(([line]) => `${name}: ${line.trim()}`),
    );
    assert.deepEqual(calls, []);
  });

  it('every source file opens with what it is for', () => {
    const silent = SOURCES.filter((name) => !/^(\/\/|\/\*)/.test(read(name)));
    assert.deepEqual(silent, []);
  });
});

describe('size', () => {
  const all = [...SOURCES, ...files('lib', /\.(js|py)$/), ...files('bin', /\.js$/), ...files('scripts', /\.js$/)];
  it('no file is over 400 lines without a written reason', () => {
    const long = all
      .map((name) => [name, read(name).split('\n').length])
      .filter(([name, lines]) => lines > 401 && !LONG[name])
      .map(([name, lines]) => `${name}: ${lines}`);
    assert.deepEqual(long, []);
  });

  it('ARCHITECTURE.md is one page', () => assert.ok(read('ARCHITECTURE.md').split('\n').length <= 151));
});

describe('the repository', () => {
  it('names no registry host, and no path of a developer\u2019s machine', () => {
    const tracked = [
      ...all(),
      'package.json',
      'package-lock.json',
      'README.md',
      'ARCHITECTURE.md',
      'SECURITY.md',
      'CONTRIBUTING.md',
      'CHANGELOG.md',
      '.ci/run',
    ].filter((name) => fs.existsSync(path.join(ROOT, name)));
    const bad = new RegExp(['registry\\.npm' + 'js', 'deb\\.deb' + 'ian', '/wo' + 'rk/', '/home/\\w+/'].join('|'));
    assert.deepEqual(
      tracked.filter((name) => bad.test(read(name))),
      [],
    );
  });
});

function all() {
  return [
    ...SOURCES,
    ...['lib', 'bin', 'scripts', 'test', 'bench', 'examples'].flatMap((dir) => files(dir, /\.(js|py|json|ts|sh)$/)),
  ];
}
