'use strict';
// The run's input as JSON text. JSON.stringify alone would lose functions,
// symbols, Maps and typed arrays without a word; here they are refused, named by
// their path. `undefined` in an object is left out, and NaN becomes null, as in JSON.

const types = require('node:util/types');
const { invalid } = require('./errors.js');

const MAX_BYTES = 16 * 1024 * 1024;
const MAX_DEPTH = 512;
const PLAIN_DEPTH = 100; // deeper ones take the slower way, which does not recurse

// What JSON would turn into {} or [], or an object with numbers for keys.
/** @type {[(value: unknown) => boolean, string, string][]} */
const LOST = [
  [types.isMap, 'a Map', 'Object.fromEntries(map)'],
  [types.isSet, 'a Set', '[...set]'],
  [types.isPromise, 'a Promise', 'await it first'],
  [types.isArrayBufferView, 'binary data', "Buffer.from(data).toString('base64')"],
  [types.isAnyArrayBuffer, 'binary data', "Buffer.from(data).toString('base64')"],
  [types.isRegExp, 'a RegExp', 'String(regexp)'],
  [types.isNativeError, 'an Error', '{ name: error.name, message: error.message }'],
  [types.isWeakMap, 'a WeakMap', 'a plain object'],
  [types.isWeakSet, 'a WeakSet', 'an array'],
];

const { stringify } = JSON;
const { isProxy } = types;
const { isArray } = Array;
const { getPrototypeOf, keys } = Object;

/** @param {string} path @param {string} what @param {string} [remedy] */
function refuse(path, what, remedy) {
  throw invalid(`${path} is ${what}, which JSON cannot hold${remedy ? ` (pass ${remedy})` : ''}`);
}

/** @param {string} path @param {string} key @param {boolean} inArray */
function step(path, key, inArray) {
  if (inArray) return `${path}[${key}]`;
  return /^[A-Za-z_$][\w$]*$/.test(key) ? `${path}.${key}` : `${path}[${stringify(key)}]`;
}

// What the text will have at least, in bytes: a value one, an item of an array
// with its comma two. Both walks stop as soon as that is over the cap, so that
// nothing small that unfolds into much holds up the event loop.
let size = 0;
let most = MAX_BYTES;

function tooLarge() {
  return invalid(`input is over ${most} bytes as JSON, which is the limit`);
}

/** @param {number} bytes */
function count(bytes) {
  size += bytes;
  if (size > most) throw tooLarge();
}

/** @param {number} items of an array, none of them looked at yet */
function expect(items) {
  if (size + 2 * items > most) throw tooLarge();
}

/**
 * Whether JSON.stringify loses nothing of it: plain objects and arrays of plain
 * values, no methods of their own to be called, not too deep, no circle. Quick; a
 * doubt is false. `above` holds the objects that this one lies in: without it a
 * circle with branches would be walked for ever, long before any depth is reached.
 * @param {any} value @param {object[]} above @returns {boolean}
 */
function isPlain(value, above) {
  count(1);
  switch (typeof value) {
    case 'string':
      count(value.length + 1);
      return true;
    case 'number':
    case 'boolean':
    case 'undefined':
      return true;
    case 'object':
      break;
    default:
      return false;
  }
  if (value === null) return true;
  if (above.length === PLAIN_DEPTH || above.includes(value) || typeof value.toJSON === 'function') return false;
  above.push(value);
  if (isArray(value)) {
    expect(value.length);
    for (let i = 0; i < value.length; i++) {
      count(1);
      if (!isPlain(value[i], above)) return false;
    }
  } else {
    const prototype = getPrototypeOf(value);
    if (prototype !== null && prototype !== Object.prototype && !isObjectPrototype(prototype)) return false;
    for (const key of keys(value)) {
      const one = value[key];
      if (one === undefined) continue;
      count(key.length + 4);
      if (!isPlain(one, above)) return false;
    }
  }
  above.pop();
  return true;
}

// Object.prototype of another realm (a test runner's context).
function isObjectPrototype(prototype) {
  return getPrototypeOf(prototype) === null && Object.hasOwn(prototype, 'isPrototypeOf');
}

/** Looks at each value as JSON.stringify meets it, after toJSON. @param {unknown} input */
function stringifyWithCare(input) {
  /** @type {object[]} */
  const holders = []; // from the root down to the holder of the current value
  /** @type {string[]} */
  const names = []; // what each of them is called in the one above
  const pathOf = (depth) => {
    let path = 'input';
    for (let i = 1; i <= depth; i++) path = step(path, names[i], isArray(holders[i - 1]));
    return path;
  };
  return stringify(input, function check(key, value) {
    // `this` holds the value; whatever is deeper in the list has been left.
    let depth = holders.length;
    while (depth > 0 && holders[depth - 1] !== this) depth--;
    holders.length = names.length = depth;
    names.push(key);
    if (value !== undefined && depth > 0) count(isArray(this) ? 1 : key.length + 4);
    switch (typeof value) {
      case 'function':
        return refuse(pathOf(depth), 'a function');
      case 'symbol':
        return refuse(pathOf(depth), 'a symbol');
      case 'bigint':
        return refuse(pathOf(depth), 'a BigInt', 'String(value)');
      case 'string':
        count(value.length + 2);
        return value;
      case 'undefined':
        if (isArray(this)) count(4);
        return value;
      case 'object':
        break;
      default:
        count(1);
        return value;
    }
    count(1);
    if (value === null) return value;
    if (isArray(value)) expect(value.length);
    const prototype = isProxy(value) ? undefined : getPrototypeOf(value);
    if (prototype !== Object.prototype && prototype !== Array.prototype)
      for (const [is, what, remedy] of LOST) if (is(value)) refuse(pathOf(depth), what, remedy);
    const above = holders.indexOf(value);
    if (above >= 0) refuse(pathOf(depth), `the same object as ${pathOf(above)} (circular)`);
    if (depth >= MAX_DEPTH)
      throw invalid(`${pathOf(depth).slice(0, 80)}… is nested more than ${MAX_DEPTH} levels deep`);
    holders.push(value);
    return value;
  });
}

/**
 * @param {unknown} input
 * @param {number} [cap] in bytes, where a host has set a lower one
 * @returns {string}
 */
function inputText(input, cap = MAX_BYTES) {
  if (input === undefined || input === null) return 'null';
  const outer = [size, most]; // a getter or a toJSON may ask for a run itself
  let text;
  try {
    [size, most] = [0, cap];
    const plain = isPlain(input, []);
    size = 0;
    text = plain ? stringify(input) : stringifyWithCare(input);
  } finally {
    [size, most] = outer;
  }
  if (text === undefined) return 'null'; // toJSON gave undefined
  if (text.length * 3 > cap) {
    const bytes = Buffer.byteLength(text);
    if (bytes > cap) throw invalid(`input is ${bytes} bytes as JSON; the limit is ${cap}`);
  }
  return text;
}

module.exports = { inputText, MAX_BYTES };
