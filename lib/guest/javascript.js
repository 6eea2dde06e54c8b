'use strict';
// javascript.js <guest_node.node> [--typescript=stripper] [preloads...]: boots into a zygote.
//
// In the zygote: loads what a text is likely to use, rehearses until the path
// of a run is compiled and warm, then native.serve() forks. In each cell:
// re-seeds, then blocks for its one job. A cold start takes the same way,
// without the fork.

const [, , libraryPath, ...rest] = process.argv;
const typescript = rest[0]?.startsWith('--typescript=') ? rest[0].slice('--typescript='.length) : null;
const preloads = typescript === null ? rest : rest.slice(1);
const library = { exports: {} };
process.dlopen(library, libraryPath); // not by require, whose cache the guest can read
const native = library.exports;

const fs = require('node:fs');
const v8 = require('node:v8');
const vm = require('node:vm');
const { makeRequire, preload } = require('./javascript-modules.js');
const { endBoot, pinEnds, rehearse, run, useStripper } = require('./javascript-run.js');

const { defineProperty } = Object;
const { writeSync } = fs;

// What boots for one run alone is cold (src/guest/spawner.h), or may have threads.
const isZygote = process.execArgv.includes('--single-threaded') && !process.env.CODE_JAIL_COLD;

// ---- standard streams ----

// Written at once and whole: what was printed before a kill is not lost.
function writeAll(fd, bytes) {
  for (let offset = 0; offset < bytes.length; ) {
    try {
      offset += writeSync(fd, bytes, offset);
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
    }
  }
}

function makeSynchronous(stream, fd) {
  stream._write = (chunk, encoding, done) => {
    try {
      writeAll(fd, typeof chunk === 'string' ? Buffer.from(chunk, encoding) : chunk);
    } catch (error) {
      return done(error);
    }
    done();
  };
}

// ---- boot ----

function failBoot(error) {
  native.fail(`${error?.message ?? error}`);
}

// Draws nothing from Math.random: V8 seeds it at its first draw, which must be
// in the cell. A package that keeps the function gets one that ends up there.
function withOwnRandom() {
  const { random } = Math;
  let serving = false;
  Math.random = function random_() {
    return serving ? random() : (process.hrtime()[1] % 1e6) / 1e6;
  };
  defineProperty(Math.random, 'name', { value: 'random' });
  return () => {
    serving = true;
    Math.random = random;
  };
}

// Globals that Node makes when they are first looked at. Not those that need a
// network (fetch and its kin): they are large, and of no use here.
function touchGlobals() {
  const lazy = [
    'AbortController',
    'Blob',
    'crypto',
    'CustomEvent',
    'Event',
    'MessageChannel',
    'performance',
    'structuredClone',
    'TextDecoder',
    'TextEncoder',
    'URL',
    'WebAssembly',
  ];
  for (const name of lazy) void globalThis[name];
}

// Garbage would be copied page by page into every cell. Not v8.queryObjects,
// which collects as well, but leaves the heap so tight that a failed allocation
// aborts where a RangeError should come.
function collectGarbage() {
  v8.setFlagsFromString('--expose-gc');
  vm.runInNewContext('gc')();
  v8.setFlagsFromString('--no-expose-gc');
}

const KEPT = { __proto__: null, HOME: 1, LANG: 1, LC_ALL: 1, PATH: 1, TMPDIR: 1, TZ: 1, USER: 1, LOGNAME: 1 };

function hideBoot() {
  for (const name of Object.keys(process.env)) if (!(name in KEPT)) delete process.env[name];
  process.argv.splice(1);
  process.execArgv.length = 0;
  for (const file of Object.keys(require.cache)) if (file.startsWith(__dirname)) delete require.cache[file];
  process.mainModule = undefined;
}

let pid = process.pid;

// What every cell has alike, done once for all of them.
function prepareCell() {
  Error.stackTraceLimit = 30; // the user's frame may lie below many of Node's
  defineProperty(process, 'pid', { get: () => pid, enumerable: true, configurable: true });
  process.argv[1] = 'code.js';
  process.chdir('.'); // forgets the zygote's directory, which Node keeps; nobody may ask for it before the fork
}

function becomeCell(cell) {
  pid = cell[0];
  v8.setFlagsFromString(`--random-seed=${cell[1]}`);
  // Without a root of its own there is one folder for everything.
  if (!process.env.HOME) process.env.HOME = process.env.TMPDIR = process.cwd();
  if (preloads.length > 0) drainRandom();
}

const REHEARSALS = [
  [
    'const { a } = input;\nfunction double(n) {\n  return n * 2;\n}\nreturn { a: double(a), list: [1, "x", null] };',
    '{"a":1}',
  ],
  ['console.log("line", input.a);\nconsole.error("line");\nreturn input;', '{"a":[1,{"b":"c"}]}'],
  ['async function main(input) {\n  await null;\n  return input.a + 1;\n}', '{"a":1}'],
  [
    'await new Promise((done) => setTimeout(done, 0));\nreturn [1n, new Map([["a", new Set([1.5])]]), new Date(0)];',
    '{}',
  ],
  ['const value = input.b.c;', '{"a":1}'],
  ['return 1 +;', '{}'],
  ['return () => 1;', '{}'],
  ['import { basename } from "node:path";\nexport default (input) => basename(input.a);', '{"a":"/x/y"}'],
  ['return (await import("node:os")).EOL + require("node:path").sep;', 'null'],
];

function rehearseAll(order, done) {
  let index = 0;
  const next = () => {
    if (index === order.length) return done();
    const [code, input] = REHEARSALS[order[index++]];
    rehearse(code, input, next);
  };
  next();
}

async function boot() {
  const giveRandomBack = withOwnRandom();
  if (typescript !== null) useStripper(typescript, isZygote);
  await preload(preloads);
  touchGlobals();
  makeSynchronous(process.stdout, 1);
  makeSynchronous(process.stderr, 2);
  hideBoot();
  pinEnds(native, failBoot);
  globalThis.require = makeRequire();
  setImmediate(rehearseAll, [0, 1, 2, 3, 4, 5, 6, 7, 8], () =>
    setImmediate(() => {
      giveRandomBack();
      collectGarbage();
      endBoot();
      // Once more behind the collection: what is compiled and allocated now is there in every cell.
      rehearseAll([1, 4, 0, 0], () =>
        setImmediate(() => {
          prepareCell();
          const cell = native.serve(`node ${process.versions.node}`);
          becomeCell(cell);
          // The trial cell shows what a run touches; the others have it, and go straight to work.
          if (cell[2]) return rehearseAll([0, 0], () => native.take());
          run(native.take());
        }),
      );
    }),
  );
}

// A package may have drawn from Node's own stores of random values, which
// would then be the same in every cell: draw until they have been refilled.
function drainRandom() {
  const { randomInt, randomUUID } = require('node:crypto');
  for (let i = 0; i < 128; i++) randomUUID();
  for (let i = 0; i < 1024; i++) randomInt(2);
}

boot().catch(failBoot);
