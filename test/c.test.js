'use strict';
// The C tests: test/c/*.c, each a program that prints TAP. Its first line names
// what it is linked with: `// sources: src/json.c src/buf.c`, and optionally
// `// libs: -lpthread` on the second. Each runs plain, and under the address and undefined-behaviour
// sanitizers.

const assert = require('node:assert/strict');
const { spawn, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { describe, it } = require('node:test');

const ROOT = path.join(__dirname, '..');
const OUT = path.join(ROOT, '.cache', 'c-tests');
const CC = process.env.CC || 'cc';
const BASE = ['-std=gnu11', '-D_GNU_SOURCE', '-DNAPI_VERSION=9', '-g', '-Wall', '-Wextra', '-Isrc', '-pthread'];
const KINDS = {
  plain: ['-O2'],
  sanitized: ['-O1', '-fsanitize=address,undefined', '-fno-sanitize-recover=all', '-fno-omit-frame-pointer'],
};

function run(command, args, options = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd: ROOT, stdio: ['ignore', 'pipe', 'pipe'], ...options });
    let out = '';
    let err = '';
    child.stdout.on('data', (chunk) => {
      out += chunk;
    });
    child.stderr.on('data', (chunk) => {
      err += chunk;
    });
    child.on('error', reject);
    child.on('close', (status, signal) => resolve({ status, signal, out, err }));
  });
}

function headers() {
  const prefix = path.dirname(path.dirname(process.execPath));
  return [prefix, '/usr', '/usr/local']
    .map((dir) => path.join(dir, 'include', 'node'))
    .filter((dir) => fs.existsSync(path.join(dir, 'node_api.h')))
    .slice(0, 1)
    .map((dir) => `-I${dir}`);
}

const directory = path.join(__dirname, 'c');
const programs = fs.existsSync(directory) ? fs.readdirSync(directory).filter((name) => name.endsWith('.c')) : [];
const canSanitize =
  spawnSync(CC, ['-x', 'c', '-', '-fsanitize=address,undefined', '-o', '/dev/null'], {
    input: 'int main(void) { return 0; }',
  }).status === 0;

describe('C', () => {
  fs.mkdirSync(OUT, { recursive: true });
  for (const program of programs) {
    for (const [kind, flags] of Object.entries(KINDS)) {
      const skip = kind === 'sanitized' && !canSanitize && 'the compiler has no sanitizers';
      it(`${program} (${kind})`, { skip }, async (t) => {
        const file = path.join('test', 'c', program);
        const text = fs.readFileSync(path.join(ROOT, file), 'utf8');
        const named = (what) =>
          text
            .match(new RegExp(`^// ${what}: (.*)$`, 'm'))?.[1]
            .trim()
            .split(/\s+/) ?? [];
        assert.ok(/^\/\/ sources:/.test(text), 'the first line must name the sources');
        const binary = path.join(OUT, `${program}-${kind}`);
        const inputs = [file, ...named('sources')];
        const cc = await run(CC, [...BASE, ...headers(), ...flags, ...inputs, '-o', binary, ...named('libs')]);
        assert.equal(cc.status, 0, cc.err);
        assert.equal(cc.err, '', 'no warnings');
        const ran = await run(binary, [], { env: { ...process.env, ASAN_OPTIONS: 'detect_leaks=1' } });
        const points = ran.out.match(/^(not )?ok\b.*$/gm) ?? [];
        for (const point of points) {
          await t.test(point.replace(/^(not )?ok \d*\s*-?\s*/, ''), () => assert.match(point, /^ok/));
        }
        assert.ok(points.length > 0, 'it printed no test point');
        assert.equal(ran.status, 0, `${ran.signal ?? ran.status}\n${ran.out}${ran.err}`);
      });
    }
  }
});
