'use strict';
// What was thrown, as the error object of a result: { name, message, line,
// column, sourceLine, stack, path }, in the user's own lines. Everything read
// from a thrown value may run the guest's code, and may throw again.

const { inspect } = require('node:util');
const { isNativeError } = require('node:util').types;

const { isArray } = Array;
const toNumber = Number;
const uncurry = (method) => Function.prototype.call.bind(method);
const slice = uncurry(String.prototype.slice);
const indexOf = uncurry(String.prototype.indexOf);
const charCodeAt = uncurry(String.prototype.charCodeAt);
const exec = uncurry(RegExp.prototype.exec);

const NAME_MAX = 200;
const MESSAGE_MAX = 8 * 1024;
const STACK_MAX = 16 * 1024;
const SOURCE_LINE_MAX = 500;
const CAUSES_MAX = 5;

// A line of a V8 stack that lies in the user's text: "    at f (code.js:3:7)".
const FRAME = /^ {4}at (?:.*[ (])?code\.m?js:(\d+):(\d+)/;
const ALLOCATION =
  /^(?:Array buffer allocation failed|WebAssembly\.\w+\(\): (?:could not allocate memory|Out of memory)|Failed to allocate memory)/;

/** @param {string} text @param {number} length */
function cap(text, length) {
  if (text.length <= length) return text;
  const last = charCodeAt(text, length - 2);
  return `${slice(text, 0, length - (last >= 0xd800 && last < 0xdc00 ? 2 : 1))}…`;
}

function read(object, key) {
  try {
    return object[key];
  } catch {
    return undefined;
  }
}

function isErrorLike(thrown) {
  try {
    return isNativeError(thrown) || thrown instanceof Error;
  } catch {
    return false;
  }
}

function show(value) {
  try {
    return inspect(value, {
      depth: 2,
      breakLength: Infinity,
      customInspect: false,
      maxStringLength: 1000,
      maxArrayLength: 20,
    });
  } catch {
    return 'a value that cannot be shown';
  }
}

// Node's advice here is to start it with another flag, which is not the user's to do.
function denial(thrown, message) {
  const what = { ChildProcess: 'child_process (starting a program)', WorkerThreads: 'worker_threads' };
  const permission = read(thrown, 'permission');
  return typeof permission !== 'string'
    ? message
    : `Access to this API has been restricted: ${what[permission] ?? permission} is not permitted here`;
}

/** @returns {{ name: string, message: string }} */
function headline(thrown) {
  if (isErrorLike(thrown)) {
    const name = read(thrown, 'name');
    let message = read(thrown, 'message');
    if (read(thrown, 'code') === 'ERR_ACCESS_DENIED') message = denial(thrown, message);
    return {
      name: typeof name === 'string' && name !== '' ? cap(name, NAME_MAX) : 'Error',
      message: typeof message === 'string' ? cap(message, MESSAGE_MAX) : cap(show(message), MESSAGE_MAX),
    };
  }
  if (typeof thrown === 'string') return { name: 'ThrownValue', message: cap(thrown, MESSAGE_MAX) };
  if (typeof thrown === 'object' && thrown !== null) {
    const message = read(thrown, 'message');
    if (typeof message === 'string') return { name: 'ThrownValue', message: cap(message, MESSAGE_MAX) };
  }
  return { name: 'ThrownValue', message: cap(`The code threw ${show(thrown)}, which is not an Error`, MESSAGE_MAX) };
}

/** The user's frames of a stack, and where the innermost one is. */
function framesOf(thrown) {
  const stack = isErrorLike(thrown) ? read(thrown, 'stack') : undefined;
  const found = { text: '', line: null, column: null };
  if (typeof stack !== 'string') return found;
  for (let from = 0; from < stack.length && found.text.length < STACK_MAX; ) {
    let to = indexOf(stack, '\n', from);
    if (to < 0) to = stack.length;
    const row = slice(stack, from, to);
    from = to + 1;
    const match = row.length < 2000 ? exec(FRAME, row) : null;
    if (match === null) continue;
    found.text += `\n${row}`;
    if (found.line === null) {
      found.line = toNumber(match[1]);
      found.column = toNumber(match[2]);
    }
  }
  return found;
}

// One error's part of the stack text, then those of its cause and its parts.
function stackOf(thrown, left, seen) {
  const { name, message } = headline(thrown);
  const code = isErrorLike(thrown) ? read(thrown, 'code') : undefined;
  const label = typeof code === 'string' && code.length < 100 ? `${name} [${code}]` : name;
  let text = message === '' ? label : `${label}: ${message}`;
  text += framesOf(thrown).text;
  if (left === 0 || typeof thrown !== 'object' || thrown === null) return text;
  const cause = read(thrown, 'cause');
  const errors = read(thrown, 'errors');
  if (cause !== undefined && cause !== seen) text += `\nCaused by: ${stackOf(cause, left - 1, thrown)}`;
  let isList = false;
  try {
    isList = isArray(errors);
  } catch {}
  for (let i = 0; isList && i < CAUSES_MAX && text.length < STACK_MAX; i++) {
    const part = read(errors, i);
    if (part !== undefined) text += `\n[${i}] ${stackOf(part, left - 1, thrown)}`;
  }
  return text;
}

// Calls see(line, from, to) for each line of source, by what V8 takes for line ends, until it is told true.
function eachLine(source, see) {
  let line = 1;
  let from = 0;
  for (let i = 0; i <= source.length; i++) {
    const code = i < source.length ? charCodeAt(source, i) : 10;
    if (code !== 10 && code !== 13 && code !== 0x2028 && code !== 0x2029) continue;
    if (see(line, from, i)) return;
    if (code === 13 && charCodeAt(source, i + 1) === 10) i++;
    line++;
    from = i + 1;
  }
}

function sourceLine(source, number) {
  let found = null;
  eachLine(source, (line, from, to) => {
    if (line === number) found = cap(slice(source, from, to), SOURCE_LINE_MAX);
    return line === number;
  });
  return found;
}

/** @returns {{ line: number, column: number }} of the character at `offset` */
function positionOf(source, offset) {
  let found = { line: 1, column: 1 };
  eachLine(source, (line, from, to) => {
    if (to >= offset || to === source.length) found = { line, column: offset - from + 1 };
    return to >= offset;
  });
  return found;
}

/**
 * @param {unknown} thrown
 * @param {string} source the user's text
 * @param {{ line?: number, column?: number, hint?: string }} [place] where it is
 *   known from elsewhere: a syntax error has no frame in the text
 */
function describe(thrown, source, place) {
  const { name, message } = headline(thrown);
  const frames = framesOf(thrown);
  const line = place?.line ?? frames.line;
  const column = place?.column ?? frames.column;
  const text = line === null ? null : sourceLine(source, line);
  const hinted = place?.hint ? cap(`${message}. ${place.hint}`, MESSAGE_MAX) : message;
  let stack = place
    ? `${name}: ${hinted}${line === null ? '' : `\n    at ${place.file}:${line}:${column}`}`
    : stackOf(thrown, CAUSES_MAX, undefined);
  stack = cap(stack, STACK_MAX);
  // No prototype: a toJSON on Object.prototype is not asked.
  return {
    __proto__: null,
    name,
    message: hinted,
    line: text === null ? null : line,
    column: text === null ? null : column,
    sourceLine: text,
    stack,
    path: null,
  };
}

/** Whether it tells that memory could not be had, rather than a wrong length. */
function isOutOfMemory(thrown) {
  if (!isErrorLike(thrown)) return false;
  if (read(thrown, 'code') === 'ERR_MEMORY_ALLOCATION_FAILED') return true;
  const message = read(thrown, 'message');
  return read(thrown, 'name') === 'RangeError' && typeof message === 'string' && exec(ALLOCATION, message) !== null;
}

module.exports = { describe, isOutOfMemory, positionOf, sourceLine };
