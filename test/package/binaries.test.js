'use strict';
// What the prebuilds bind to, export and tell, by readelf.

const assert = require('node:assert');
const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { test, before, after } = require('node:test');
const { BESIDE } = require('../../scripts/pack.js');
const { GLIBC } = require('../../scripts/prebuilds.js');
const { ROOT, tarball } = require('./lab.js');

const PACKED = 8e6;
// Sources, words and what is built; whatever else turns up is a mistake.
const EXPECTED = [
  /^(package\.json|README\.md|LICENSE|ARCHITECTURE\.md|SECURITY\.md|CHANGELOG\.md|binding\.gyp|index\.d\.m?ts)$/,
  /^bin\/code-jail\.js$/,
  /^lib\/([a-z]+\/)?[\w-]+\.(js|mjs|py)$/,
  /^src\/([a-z]+\/)?\w+\.[ch]$/,
  /^docs\/[\w-]+\.(md|png)$/,
  /^scripts\/(apt-source|build|build-curl)\.js$/,
  /^prebuilds\/linux-(x64|arm64)\/(code_jail\.glibc\.node|glibc\/(guest_node\.node|guest_python\.so|code-jail-(keeper|launcher|warden)))$/,
];

let folder = '';
const platforms = () => fs.readdirSync(path.join(folder, 'package', 'prebuilds'));
const file = (platform, name) => path.join(folder, 'package', 'prebuilds', platform, name);
const ADDON = 'code_jail.glibc.node';
const LIBRARIES = [ADDON, 'glibc/guest_node.node', 'glibc/guest_python.so'];
const PROGRAMS = BESIDE.filter((name) => !path.extname(name)).map((name) => `glibc/${name}`);
const readelf = (flags, name) =>
  execFileSync('readelf', ['-W', flags, name], { encoding: 'utf8', maxBuffer: 64 << 20 });

before(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'code-jail-binaries-'));
  execFileSync('tar', ['-xzf', tarball().file, '-C', folder]);
});
after(() => fs.rmSync(folder, { recursive: true, force: true }));

test('the tarball holds what it should, and little', (t) => {
  const { names, packed } = tarball();
  assert.deepStrictEqual(
    names.filter((name) => !EXPECTED.some((one) => one.test(name))),
    [],
  );
  assert.ok(names.includes(`prebuilds/linux-x64/${ADDON}`));
  t.diagnostic(`${packed} bytes packed for ${platforms().join(', ')}`);
  assert.ok(packed <= PACKED * platforms().length, `${packed} bytes`);
});

test('the addon exports what Node asks for, and nothing else', () => {
  for (const platform of platforms()) {
    const rows = readelf('--dyn-syms', file(platform, ADDON)).split('\n');
    const defined = rows
      .map((row) => row.trim().split(/\s+/))
      .filter((row) => row.length === 8 && /^(GLOBAL|WEAK)$/.test(row[4]) && row[6] !== 'UND');
    assert.deepStrictEqual(defined.map((row) => row[7]).sort(), [
      'napi_register_module_v1',
      'node_api_module_get_api_version_v1',
    ]);
  }
});

test('libraries: bound at once, read-only afterwards, no executable stack, no search path of their own', () => {
  for (const platform of platforms())
    for (const name of LIBRARIES) {
      const dynamic = readelf('-d', file(platform, name));
      const segments = readelf('-l', file(platform, name));
      assert.match(dynamic, /BIND_NOW|Flags:.*NOW/, name);
      assert.doesNotMatch(dynamic, /RPATH|RUNPATH/, name);
      assert.match(segments, /GNU_RELRO/, name);
      assert.match(segments, /GNU_STACK .* RW /, name);
    }
});

test(`libraries ask for no glibc newer than ${GLIBC}`, () => {
  for (const platform of platforms())
    for (const name of LIBRARIES) {
      const versions = [...readelf('-V', file(platform, name)).matchAll(/GLIBC_(\d+)\.(\d+)/g)].map((one) =>
        Number(one[2]),
      );
      assert.ok(versions.length > 0, `${name} names none: was it read?`);
      assert.ok(
        Math.max(...versions) <= Number(GLIBC.split('.')[1]),
        `${platform} ${name}: 2.${Math.max(...versions)}`,
      );
    }
});

test('programs are static, may be executed, and have no executable stack', () => {
  for (const platform of platforms())
    for (const name of PROGRAMS) {
      const segments = readelf('-l', file(platform, name));
      assert.doesNotMatch(segments, /INTERP/, name);
      assert.match(segments, /GNU_STACK .* RW /, name);
      assert.strictEqual(fs.statSync(file(platform, name)).mode & 0o111, 0o111, name);
    }
});

test('no path of the machine that built them', () => {
  const holds = (name) => [`${ROOT}/`, 'curl-work-'].some((one) => fs.readFileSync(name).includes(one));
  // The control: the build of a clone keeps what debuggers want.
  assert.ok(holds(path.join(ROOT, 'build', 'Release', 'code-jail-keeper')));
  for (const platform of platforms())
    for (const name of [...LIBRARIES, ...PROGRAMS]) assert.ok(!holds(file(platform, name)), `${platform} ${name}`);
});
