'use strict';
// The input as JSON: the same text as JSON.stringify, or a refusal that names
// the path; nothing is lost in silence.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const vm = require('node:vm');
const { inputText } = require('../lib/input.js');

const refuses = (input, pattern) =>
  assert.throws(() => inputText(input), { code: 'ERR_JAIL_INVALID_REQUEST', message: pattern });

describe('input', () => {
  const shared = { x: 1 };
  class Point {
    x = 1;
    #secret = 2;
    get secret() {
      return this.#secret;
    }
  }
  const same = {
    primitives: [null, true, -0, 1e21, 'a\u2028"\\\0', ''],
    'half a surrogate pair': '\ud800',
    'NaN and infinities': [Number.NaN, Infinity, -Infinity],
    'holes and undefined': Object.assign(new Array(3), { 0: undefined, 2: { a: undefined, b: 1 } }),
    dates: { at: new Date(0), bad: new Date(Number.NaN) },
    'toJSON at any depth': [{ toJSON: () => ({ a: [1] }) }, { toJSON: (key) => key }],
    'a toJSON that gives nothing': { a: { toJSON() {} } },
    'the same object twice': [shared, shared, { again: shared }],
    'an instance of a class': [new Point()],
    boxes: [new Number(1), new String('x'), new Boolean(false)],
    'no prototype': Object.assign(Object.create(null), { a: 1 }),
    'a member __proto__': JSON.parse('{"__proto__":{"a":1}}'),
    'a Buffer, which has a toJSON': Buffer.from('ab'),
    'another realm': vm.runInNewContext('({ a: [1, { b: 2 }], d: new Date(0) })'),
    'keys that are numbers or empty': { 1: 1, '': 2, 'a.b': 3 },
    'a proxy': new Proxy({ a: [1] }, {}),
    deep: Array.from({ length: 400 }).reduce((inner) => [inner], 1),
  };
  for (const [name, input] of Object.entries(same))
    it(`${name}: as JSON.stringify`, () => assert.equal(inputText(input), JSON.stringify(input)));

  it('undefined, and what becomes it, is null', () => {
    assert.equal(inputText(undefined), 'null');
    assert.equal(inputText({ toJSON() {} }), 'null');
  });

  it('symbols as keys and what is not enumerable are left out, as in JSON', () => {
    assert.equal(inputText({ [Symbol('x')]: 1, a: 2 }), '{"a":2}');
  });

  it('what JSON would lose is refused, by its path', () => {
    refuses(() => 1, /^input is a function/);
    refuses({ a: [{ f() {} }] }, /^input\.a\[0\]\.f is a function/);
    refuses({ 'a b': Symbol('x') }, /^input\["a b"\] is a symbol/);
    refuses([1, 2n], /^input\[1\] is a BigInt.*String/);
    refuses({ m: new Map([[1, 2]]) }, /^input\.m is a Map.*fromEntries/);
    refuses([[new Set()]], /^input\[0\]\[0\] is a Set/);
    refuses({ p: Promise.resolve(1) }, /^input\.p is a Promise.*await/);
    refuses({ b: new Uint8Array(3) }, /^input\.b is binary data.*base64/);
    refuses({ b: new Float64Array(3) }, /^input\.b is binary data/);
    refuses({ b: new ArrayBuffer(3) }, /^input\.b is binary data/);
    refuses({ b: new SharedArrayBuffer(3) }, /^input\.b is binary data/);
    refuses({ b: new DataView(new ArrayBuffer(3)) }, /^input\.b is binary data/);
    refuses([/x/], /^input\[0\] is a RegExp/);
    refuses({ e: new Error('x') }, /^input\.e is an Error/);
    refuses({ w: new WeakMap() }, /^input\.w is a WeakMap/);
    refuses({ a: { toJSON: () => () => 1 } }, /^input\.a is a function/);
    refuses(vm.runInNewContext('({ a: new Map() })'), /^input\.a is a Map/);
    refuses({ a: new Date(0), f() {} }, /^input\.f is a function/);
  });

  it('circles are refused, quickly even with many branches', () => {
    const root = { children: [] };
    for (let i = 0; i < 20; i++) root.children.push({ parent: root, siblings: root.children });
    const start = performance.now();
    refuses(root, /^input\.children\[0\]\.parent is the same object as input \(circular\)/);
    const self = [];
    self.push(self);
    refuses({ self }, /^input\.self\[0\] is the same object as input\.self/);
    assert.ok(performance.now() - start < 1000);
  });

  it('more than 512 levels are refused, a million without a crash', () => {
    let deep = 1;
    for (let i = 0; i < 512; i++) deep = { a: deep };
    assert.equal(inputText(deep), JSON.stringify(deep));
    refuses([deep], /512 levels/);
    let list = [];
    for (let i = 0; i < 1000000; i++) list = [list];
    refuses(list, /512 levels/);
  });

  it('a BigInt with a toJSON of its own is honoured', () => {
    const { toJSON } = /** @type {any} */ (BigInt.prototype);
    /** @type {any} */ (BigInt.prototype).toJSON = function () {
      return String(this);
    };
    try {
      assert.equal(inputText([1n]), '["1"]');
    } finally {
      if (toJSON) /** @type {any} */ (BigInt.prototype).toJSON = toJSON;
      else delete (/** @type {any} */ (BigInt.prototype).toJSON);
    }
  });

  it('16 MiB of UTF-8 are the most', () => {
    assert.equal(inputText('x'.repeat((16 << 20) - 2)).length, 16 << 20);
    refuses('x'.repeat((16 << 20) - 1), /^input is over 16777216 bytes as JSON/);
    refuses('€'.repeat(6 << 20), /limit/);
  });

  it('what unfolds into more than that is refused while it is walked', () => {
    const doubled = (leaf, times) => Array.from({ length: times }).reduce((x) => [x, x], leaf);
    const huge = {
      holes: () => new Array(3e7),
      'holes beside a date': () => ({ at: new Date(0), list: new Array(3e7) }),
      'an array again and again': () => doubled(1, 40),
      'an object again and again': () => Array.from({ length: 60 }).reduce((x) => ({ a: x, b: x }), 1),
      'keys alone': () => Array(200).fill({ ['k'.repeat(100000)]: 1 }),
    };
    for (const [name, make] of Object.entries(huge)) {
      const input = make();
      const start = performance.now();
      refuses(input, /^input is over 16777216 bytes as JSON, which is the limit/);
      assert.ok(performance.now() - start < 5000, name);
    }
    assert.equal(inputText(doubled(1, 3), 29).length, 29, 'the bound is exact for the least of items');
    assert.throws(() => inputText(doubled(1, 3), 28), /limit/);
    assert.throws(() => inputText({ a: [undefined, { b: undefined }] }, 5), /limit/);
    assert.equal(inputText({ d: new Date(0), ['x'.repeat(999)]: undefined }, 99).length, 32, 'what is left out');
  });

  it('a toJSON that reads another input changes nothing of this one', () => {
    const inner = { toJSON: () => inputText({ at: new Date(0) }, 64) };
    assert.equal(JSON.parse(inputText({ inner, rest: 'x'.repeat(100) })).rest.length, 100);
  });
});
