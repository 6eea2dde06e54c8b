'use strict';
// One run of the user's JavaScript: from the job's text to its one frame.
//
// From take() on, the user's code shares this realm. Nothing below relies on a
// built-in that it could have replaced, nor on a listener that it could remove.

const vm = require('node:vm');
const { describe, isOutOfMemory, positionOf, sourceLine } = require('./javascript-errors.js');
const { collectFiles, writeFiles } = require('./javascript-files.js');
const { importDynamically, initializeMeta, link } = require('./javascript-modules.js');
const { Refusal, serialize } = require('./javascript-values.js');

const { nextTick, _tickCallback: flushTicks, _fatalException: nodeFatal } = process;
const { emit, listenerCount } = process;
const { parse, stringify } = JSON;
const { apply } = Reflect;
const { defineProperty } = Object;
const { Script, SourceTextModule } = vm;
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
const JOB_CHECK = 1; // see src/protocol.h

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
let root = ''; // its folder, where its files are
let collect = null; // the files that it was asked for
let isCheck = false; // the text is compiled, and not run
let over = true; // a frame has been sent; what comes later is dropped
let placed = null; // an import that could not be linked, and where
let strip = null; // of TypeScript: what makes JavaScript of it
let native; // guest_node.node
let next; // what follows a rehearsal
let atFatal; // until the boot is over: who hears of an error that belongs to no run

/** @param {[string, string, string, number, number, number, string]} job as native.take gives it */
function run(job) {
  over = false;
  source = ownText(job[0]);
  maxBytes = job[3];
  maxNodes = job[4];
  isCheck = (job[5] & JOB_CHECK) !== 0;
  setEnvironment(job[2]);
  let input;
  let start;
  try {
    if (job[6] !== '') takeFiles(parse(`{${job[6]}}`));
    input = parse(job[1]);
    start = strip === null ? compile(source) : compileTyped(source);
  } catch (error) {
    return fail(error);
  }
  if (start === null) return; // it has been told
  if (isCheck) return send(OK, null, '[]');
  globalThis.input = input;
  try {
    then(start(input, globalThis.require, input), finishSoon, fail);
  } catch (error) {
    fail(error); // a guest's species or then
  }
}

/** @param {{ files?: Record<string, string | { base64: string }>, collect?: string[] }} asked */
function takeFiles({ files, collect: paths }) {
  root = process.cwd();
  if (files !== undefined) writeFiles(root, files);
  if (paths !== undefined) collect = paths;
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
    if (place.line >= 1 && sourceLine(text, place.line) !== null) return report(ERROR, describe(error, source, place));
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
      return [new SyntaxError("Unexpected token '}'"), source, { file: 'code.js', ...positionOf(text, at) }];
    }
  }
  const vague = exec(/^(?:Unexpected token|missing \))/, `${fault.message}`) !== null;
  return [vague ? new SyntaxError('Unexpected end of input') : fault, source, end];
}

function isBody(text) {
  try {
    new AsyncFunction(text);
    return true;
  } catch {
    return false;
  }
}

function compileTyped(text) {
  const found = strip(text);
  if (typeof found === 'string') return compile(found);
  const place = found.line === null ? positionOf(text, text.length) : { line: found.line, column: found.column };
  return report(ERROR, describe(found.error, source, { file: 'code.js', ...place, hint: found.hint }));
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
    return report(ERROR, describe(error, source, place));
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
  let files = null;
  try {
    if (collect !== null) files = collectFiles(root, collect);
  } catch (error) {
    return fail(error);
  }
  send(OK, files, text);
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
  if (isCheck && kind === ERROR) send(OK, null, stringify([withoutStack(error)]));
  else send(kind, stringify({ __proto__: null, error }), null);
  return null;
}

function withoutStack({ name, message, line, column, sourceLine }) {
  return { __proto__: null, name, message, line, column, sourceLine };
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
    const left = process.exitCode & 0xff; // as much of it as a process can end with
    if (left !== 0) native.leave(left);
    return true;
  } catch (error) {
    fail(error);
    return false;
  }
}

// ---- ends ----

// What Node calls for an error that nobody caught, promise or not.
function onFatal(error, fromPromise) {
  if (atFatal) atFatal(error);
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

/** From here on every end of the process is one of ours. */
function pinEnds(library, failBoot) {
  native = library;
  atFatal = failBoot;
  pin(process, '_fatalException', onFatal);
  pin(process, 'reallyExit', function reallyExit(code) {
    native.leave(code | 0);
  });
  pin(process, 'abort', function abort() {
    native.abort();
  });
}

/** The language is TypeScript. @param {string} file @param {boolean} whole see loadStripper */
function useStripper(file, whole) {
  const typescript = require('./typescript.js');
  typescript.loadStripper(file, whole);
  strip = typescript.strip;
}

/** A rehearsal: as a run, but it ends in `then`. */
function rehearse(code, input, then) {
  next = then;
  run(native.take(code, input));
}

/** The boot is over: errors are the run's now. */
function endBoot() {
  atFatal = undefined;
}

module.exports = { endBoot, pinEnds, rehearse, run, useStripper };
