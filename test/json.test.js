'use strict';
// src/json.c beside JSON.parse: they must agree on every text, whether it was
// made well and then damaged, or thrown together, and on the value of each that is JSON.

const assert = require('node:assert/strict');
const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { describe, it } = require('node:test');

const ROOT = path.join(__dirname, '..');

// A generator of its own, so that a failure can be repeated by its seed.
function random(seed) {
  return (below) => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % below;
  };
}

const PIECES =
  '{ } [ ] , : " "a" "\\n" "\\u00e9" "\\ud800" "\\x" \\ 0 -0 1 -1 1.5 1e5 1E-5 1e 01 . - + true false null tru nul é € 😀 \t \n \r \u2028'
    .split(' ')
    .concat('9007199254740993', '1e305', '-1e999', '1e-400', '5e-324', '0.1e1', `12${'0'.repeat(400)}e-400`)
    .concat(`0.${'0'.repeat(2000)}1e2001`, '123456789012345678901234567890.5e-3')
    .concat(' ', '""', '"a":1', '"a":', '[1]', '{}', '\0', '\x7f', '\ufeff', '\v');

function made(next, depth) {
  switch (next(depth > 5 ? 5 : 7)) {
    case 0:
      return null;
    case 1:
      return next(2) === 0;
    case 2:
      return [0, -1, 1.5, 1e300, -1e-7, 123456789][next(6)];
    case 3:
    case 4:
      return Array.from(
        { length: next(12) },
        () => ['a', '"', '\\', '\n', 'é', '€', '😀', '\ud800', '\0', '/'][next(10)],
      ).join('');
    case 5:
      return Array.from({ length: next(5) }, () => made(next, depth + 1));
    default:
      return Object.fromEntries(Array.from({ length: next(5) }, () => [made(next, 6) + '', made(next, depth + 1)]));
  }
}

function damaged(bytes, next) {
  const copy = Buffer.from(bytes);
  const at = next(copy.length);
  switch (next(4)) {
    case 0:
      copy[at] = next(256);
      return copy;
    case 1:
      return copy.subarray(0, at);
    case 2:
      return Buffer.concat([copy.subarray(0, at), copy.subarray(at + 1)]);
    default:
      return Buffer.concat([copy.subarray(0, at), Buffer.from(PIECES[next(PIECES.length)]), copy.subarray(at)]);
  }
}

// JSON.parse takes text; what is no UTF-8 can be none. `undefined`: no JSON.
function parsed(bytes) {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes));
  } catch {
    return undefined;
  }
}

// Numbers to fifteen digits: more is not promised.
function isSame(one, other) {
  if (typeof one === 'number' && typeof other === 'number') {
    const isNear = Math.abs(one - other) <= Math.abs(other) * 1e-15 + 1e-322;
    return Object.is(one, other) || (isNear && Math.sign(one) === Math.sign(other));
  }
  if (typeof one !== 'object' || typeof other !== 'object' || !one || !other) return one === other;
  const names = Object.keys(one);
  return (
    Array.isArray(one) === Array.isArray(other) &&
    names.length === Object.keys(other).length &&
    names.every((name) => Object.hasOwn(other, name) && isSame(one[name], other[name]))
  );
}

describe('json.c', () => {
  const dir = path.join(ROOT, '.cache', 'fixtures');
  const binary = path.join(dir, `json-check-${process.pid}`);
  const cc = process.env.CC || 'cc';
  const sources = ['test/fixtures/json-check.c', 'src/json.c', 'src/json_scan.c', 'src/text.c'].map((file) =>
    path.join(ROOT, file),
  );

  it('agrees with JSON.parse on 60,000 texts', (t) => {
    fs.mkdirSync(dir, { recursive: true });
    const sanitizers = ['-fsanitize=address,undefined', '-fno-sanitize-recover=all'];
    const args = ['-std=gnu11', '-D_GNU_SOURCE', '-O1', '-g', ...sources, '-o', binary];
    try {
      execFileSync(cc, [...args, ...sanitizers], { stdio: 'ignore' });
    } catch {
      t.diagnostic('without sanitizers: this compiler has none');
      execFileSync(cc, args);
    }
    t.after(() => fs.rmSync(binary, { force: true }));
    const seed = Number(process.env.CODE_JAIL_TEST_SEED) || 20240611;
    const next = random(seed);
    const texts = [];
    for (let i = 0; i < 20000; i++) {
      const whole = Buffer.from(JSON.stringify(made(next, 0), null, next(4) === 0 ? 1 : 0));
      texts.push(whole, damaged(whole, next));
      texts.push(Buffer.from(Array.from({ length: next(8) }, () => PIECES[next(PIECES.length)]).join('')));
    }
    const input = texts.flatMap((text) => {
      const size = Buffer.alloc(4);
      size.writeUInt32LE(text.length);
      return [size, text];
    });
    const answers = execFileSync(binary, { input: Buffer.concat(input), maxBuffer: 1 << 28 })
      .toString()
      .split('\n');
    assert.equal(answers.pop(), '');
    assert.equal(answers.length, texts.length);
    let accepted = 0;
    texts.forEach((text, i) => {
      const value = parsed(text);
      const what = `seed ${seed}: ${JSON.stringify(text.toString('latin1'))}`;
      assert.equal(answers[i][0] === '1', value !== undefined, what);
      if (value === undefined) return;
      accepted++;
      assert.ok(isSame(JSON.parse(answers[i].slice(1)), value), `${what} is read as ${answers[i].slice(1)}`);
    });
    t.diagnostic(`${accepted} of them are JSON`);
    assert.ok(accepted > 20000 && accepted < 50000);
  });
});
