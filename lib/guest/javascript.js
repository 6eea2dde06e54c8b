'use strict';
// javascript.js <guest_node.node> [preloads...]: runs the user's JavaScript.
//
// In the zygote: loads what a text is likely to use, runs rehearsals until the
// path of a run is compiled and warm, then native.serve() forks. In each cell:
// re-seeds, rehearses twice more, so that the pages a run writes to are the
// cell's own already, then blocks for its one job. A cold start takes the same
// way, without the fork.
//
// From take() on, the user's code shares this realm. Nothing below relies on a
// built-in that it could have replaced, nor on a listener that it could remove.

const [, , libraryPath, ...preloads] = process.argv;
const library = { exports: {} };
process.dlopen(library, libraryPath); // not by require, whose cache the guest can read
const native = library.exports;

const fs = require('node:fs');
const v8 = require('node:v8');
const vm = require('node:vm');
const { describe, isOutOfMemory, positionOf, sourceLine } = require('./javascript-errors.js');
const { importDynamically, initializeMeta, link, makeRequire, preload } = require('./javascript-modules.js');
const { Refusal, serialize } = require('./javascript-values.js');

const { nextTick, _tickCallback: flushTicks, _fatalException: nodeFatal } = process;
const { emit, listenerCount } = process;
const { parse, stringify } = JSON;
const { apply } = Reflect;
const { defineProperty } = Object;
const { Script, SourceTextModule } = vm;
const { writeSync } = fs;
const AsyncFunction = (async () => {}).constructor;
const uncurry = (method) => Function.prototype.call.bind(method);
const then = uncurry(Promise.prototype.then);
const charCodeAt = uncurry(String.prototype.charCodeAt);
const slice = uncurry(String.prototype.slice);
const indexOf = uncurry(String.prototype.indexOf);
const exec = uncurry(RegExp.prototype.exec);
const hasOwn = uncurry(Object.prototype.hasOwnProperty);

const OK = charCodeAt('R', 0);
const ERROR = charCodeAt('E', 0);
const OUT_OF_MEMORY = charCodeAt('M', 0);

// What an import or export in a text brings about when it is read as a function body.
const IS_MODULE =
  /^(?:Cannot use import statement outside a module|Unexpected token 'export'|Cannot use 'import\.meta' outside a module)$/;

// The third argument is main's: nothing the text does to `input` changes it.
// Parameters, so that `var input = input || {}` does what it says; bare where the text has its own by const or let.
const PREFIX = '(async function (input, require) {\n';
const BARE_PREFIX = '(async function () {\n';
const HAS_ITS_OWN = /^Identifier '(?:input|require)' has already been declared$/;
const TRAILER = '\n;if (typeof main === "function") return main(arguments[2]);\n})';
const SCRIPT = { filename: 'code.js', lineOffset: -1, importModuleDynamically: importDynamically };
const MODULE = {
  identifier: 'code.mjs',
  initializeImportMeta: initializeMeta,
  importModuleDynamically: importDynamically,
};

// ---- one run ----

let source = ''; // the user's text, its lines as they were sent
let maxBytes = 0;
let maxNodes = 0;
let over = true; // a frame has been sent; what comes later is dropped
let placed = null; // an import that could not be linked, and where
let next; // what follows a rehearsal

/** @param {[string, string, string, number, number]} job as native.take gives it */
function run(job) {
  over = false;
  source = ownText(job[0]);
  maxBytes = job[3];
  maxNodes = job[4];
  setEnvironment(job[2]);
  let input;
  let start;
  try {
    input = parse(job[1]);
    start = compile(source);
  } catch (error) {
    return fail(error);
  }
  if (start === null) return; // it has been told
  globalThis.input = input;
  try {
    then(start(input, globalThis.require, input), finishSoon, fail);
  } catch (error) {
    fail(error); // a guest's species or then
  }
}

/** No byte order mark; a #! line becomes a comment of the same length. */
function ownText(text) {
  if (charCodeAt(text, 0) === 0xfeff) text = slice(text, 1);
  if (charCodeAt(text, 0) === 0x23 && charCodeAt(text, 1) === 0x21) text = `//${slice(text, 2)}`;
  return text;
}

// "K=V" NUL ...: plain variables. The runtime has read its own long before.
function setEnvironment(text) {
  for (let from = 0; from < text.length; ) {
    let to = indexOf(text, '\0', from);
    if (to < 0) to = text.length;
    const equals = indexOf(text, '=', from);
    if (equals > from && equals < to) process.env[slice(text, from, equals)] = slice(text, equals + 1, to);
    from = to + 1;
  }
}

function scriptOf(text) {
  try {
    return new Script(PREFIX + text + TRAILER, SCRIPT);
  } catch (error) {
    if (exec(HAS_ITS_OWN, `${error.message}`) === null) throw error;
    return new Script(BARE_PREFIX + text + TRAILER, SCRIPT);
  }
}

/**
 * @param {string} text
 * @returns {((input: unknown, require?: unknown, mains?: unknown) => Promise<unknown>) | null} null: not compiled, and reported
 */
function compile(text) {
  try {
    const script = scriptOf(text);
    // What closes the function around it must hold a brace. Where there is one, this is the proof that it does not.
    if (indexOf(text, '}', 0) < 0 || isBody(text)) return script.runInThisContext();
  } catch (error) {
    const place = placeOf(error, 'code.js');
    if (exec(IS_MODULE, `${error.message}`) !== null) return compileModule(text, place);
    if (place.line >= 1 && sourceLine(text, place.line) !== null) return report(ERROR, describe(error, text, place));
    return report(ERROR, describe(...outside(text, error)));
  }
  return report(ERROR, describe(...outside(text, new SyntaxError("Unexpected token '}'"))));
}

// V8 saw the fault in what stands around the text: there is a brace too many in
// it, or one too few.
function outside(text, fault) {
  const end = { file: 'code.js', ...positionOf(text, text.length) };
  for (let at = indexOf(text, '}', 0), tries = 0; at >= 0 && tries < 500; at = indexOf(text, '}', at + 1), tries++) {
    // The first brace that closes the function: without it the text is whole, with it it is not.
    if (isBody(slice(text, 0, at)) && !isBody(slice(text, 0, at + 1))) {
      return [new SyntaxError("Unexpected token '}'"), text, { file: 'code.js', ...positionOf(text, at) }];
    }
  }
  const vague = exec(/^(?:Unexpected token|missing \))/, `${fault.message}`) !== null;
  return [vague ? new SyntaxError('Unexpected end of input') : fault, text, end];
}

function isBody(text) {
  try {
    new AsyncFunction(text);
    return true;
  } catch {
    return false;
  }
}

function compileModule(text, first) {
  let module;
  try {
    module = new SourceTextModule(text, MODULE);
  } catch (error) {
    let place = placeOf(error, 'code.mjs');
    if (error.message === 'Illegal return statement') {
      place = {
        ...first,
        hint:
          'A text with import or export is a module, where return is not allowed at top level:' +
          ' use export default instead of return, or require() or await import() instead of import',
      };
    }
    return report(ERROR, describe(error, text, place));
  }
  return async (input) => {
    try {
      await module.link(link);
    } catch (error) {
      if (module.status === 'errored' || module.status === 'unlinked')
        placed = { error, ...placeOf(error, 'code.mjs') };
      throw error;
    }
    await module.evaluate();
    const { namespace } = module;
    const value = hasOwn(namespace, 'default')
      ? namespace.default
      : hasOwn(namespace, 'main')
        ? namespace.main
        : undefined;
    return typeof value === 'function' ? value(input) : value;
  };
}

function placeOf(error, file) {
  const found = native.locate(error);
  return found ? { file, line: found[0], column: found[1] } : { file };
}

// The value is there. Microtasks run out first, then rejections that nobody
// handled are told: a forgotten await is a failure, not a green run.
function finishSoon(value) {
  nextTick(finish, value);
}

function finish(value) {
  if (over) return;
  flushTicks();
  if (over) return;
  let text;
  try {
    text = serialize(value, maxBytes, maxNodes);
  } catch (error) {
    if (error instanceof Refusal) return refuse(error);
    return fail(error);
  }
  if (!runExitListeners()) return;
  send(OK, null, text);
}

/** @param {Refusal} refusal */
function refuse({ kind, name, message, path, cause }) {
  const error = cause === undefined ? describe(message, source) : describe(cause, source);
  error.message = cause === undefined ? message : `${message} Cause: ${error.name}: ${error.message}`;
  if (cause === undefined) error.stack = null;
  error.name = name;
  error.path = path;
  report(charCodeAt(kind, 0), error);
}

/** @param {unknown} thrown by the user's code, and not caught by it */
function fail(thrown) {
  if (over) return;
  const place = placed !== null && placed.error === thrown ? placed : undefined;
  report(isOutOfMemory(thrown) ? OUT_OF_MEMORY : ERROR, describe(thrown, source, place));
}

/** @returns {null} */
function report(kind, error) {
  send(kind, stringify({ __proto__: null, error }), null);
  return null;
}

function send(kind, meta, text) {
  if (over) return;
  over = true;
  native.send(kind, meta, text); // returns from a rehearsal only
  nextTick(next);
}

// process.on('exit') and process.exitCode act as they do in a script that ends.
function runExitListeners() {
  try {
    const code = process.exitCode;
    if (apply(listenerCount, process, ['exit']) > 0) {
      process._exiting = true;
      apply(emit, process, ['exit', code ?? 0]);
    }
    if (process.exitCode !== undefined && process.exitCode !== 0) native.leave(process.exitCode | 0);
    return true;
  } catch (error) {
    fail(error);
    return false;
  }
}

// ---- ends ----

// What Node calls for an error that nobody caught, promise or not.
function onFatal(error, fromPromise) {
  if (!booted) failBoot(error);
  try {
    const handled =
      apply(listenerCount, process, ['uncaughtException']) > 0 || process.hasUncaughtExceptionCaptureCallback();
    if (handled && apply(nodeFatal, process, [error, fromPromise])) return true;
  } catch (thrown) {
    error = thrown;
  }
  fail(error);
  return true;
}

function pin(object, key, value) {
  defineProperty(object, key, { value, writable: false, enumerable: true, configurable: false });
}

function pinEnds() {
  pin(process, '_fatalException', onFatal);
  pin(process, 'reallyExit', function reallyExit(code) {
    native.leave(code | 0);
  });
  pin(process, 'abort', function abort() {
    native.abort();
  });
}

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

let booted = false;

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

// Garbage would be copied page by page into every cell. queryObjects collects
// and, unlike gc(), also sweeps to the end; Node has it from 20.13 on.
function collectGarbage() {
  if (v8.queryObjects) return v8.queryObjects(class {}, { format: 'count' });
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

function rehearse(order, done) {
  let index = 0;
  next = () => {
    if (index === order.length) return done();
    const [code, input] = REHEARSALS[order[index++]];
    run(native.take(code, input));
  };
  next();
}

async function boot() {
  const giveRandomBack = withOwnRandom();
  await preload(preloads);
  touchGlobals();
  makeSynchronous(process.stdout, 1);
  makeSynchronous(process.stderr, 2);
  hideBoot();
  pinEnds();
  globalThis.require = makeRequire();
  setImmediate(rehearse, [0, 1, 2, 3, 4, 5, 6, 7, 8], () =>
    setImmediate(() => {
      giveRandomBack();
      collectGarbage();
      booted = true;
      // Once more behind the collection: what is compiled and allocated now is there in every cell.
      rehearse([1, 4, 0, 0], () =>
        setImmediate(() => {
          prepareCell();
          const cell = native.serve(`node ${process.versions.node}`);
          becomeCell(cell);
          // The trial cell shows what a run touches; the others have it, and go straight to work.
          if (cell[2]) return rehearse([0, 0], () => native.take());
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
