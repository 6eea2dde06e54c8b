'use strict';
// What the user's code returned, as JSON text. Runs in a cell beside untrusted
// code: every built-in it needs is captured when the zygote boots, so a guest
// that patches prototypes spoils its own values only.
//
// Two walks. The first only looks: a value of plain objects, arrays, strings
// and safe numbers is then written by JSON.stringify, which is fastest. What
// is anything else is written by the second, which knows every rule and the
// path at each step.

const {
  isAnyArrayBuffer,
  isBoxedPrimitive,
  isGeneratorObject,
  isMap,
  isNativeError,
  isPromise,
  isRegExp,
  isSet,
  isWeakMap,
  isWeakSet,
} = require('node:util').types;

const { Refusal, cut, hollow, tooLarge, unfit } = require('./javascript-refusal.js');

const { isView } = ArrayBuffer;
const { isArray } = Array;
const { keys, getPrototypeOf } = Object;
const { apply } = Reflect;
const { stringify } = JSON;
const { byteLength, isBuffer } = Buffer;
const StringOf = String;
const BigIntOf = BigInt;
const ObjectPrototype = Object.prototype;
const ArrayPrototype = Array.prototype;

const uncurry = (method) => Function.prototype.call.bind(method);
const mapForEach = uncurry(Map.prototype.forEach);
const setForEach = uncurry(Set.prototype.forEach);
const setHas = uncurry(Set.prototype.has);
const setAdd = uncurry(Set.prototype.add);
const setDelete = uncurry(Set.prototype.delete);
const bigIntToString = uncurry(BigInt.prototype.toString);
const regExpToString = uncurry(RegExp.prototype.toString);
const unbox = {
  string: uncurry(String.prototype.valueOf),
  number: uncurry(Number.prototype.valueOf),
  boolean: uncurry(Boolean.prototype.valueOf),
  bigint: uncurry(BigInt.prototype.valueOf),
};

const DEPTH_MAX = 512;
const SAFE = Number.MAX_SAFE_INTEGER;

// One serialisation at a time: the state of the walk under way.
let nodes = 0;
let nodesMax = 0;
let size = 0; // never more than the bytes that the text will have
let sizeMax = 0;
let mayLook = false; // no toJSON has been given to all objects

// ---- looking ----

// Whether JSON.stringify gives what the contract says. False is no verdict.
function isPlain(value, depth) {
  switch (typeof value) {
    case 'string':
      size += value.length + 2;
      return true;
    case 'number':
      return !(value > SAFE || value < -SAFE);
    case 'boolean':
    case 'undefined':
      return true;
    case 'object':
      break;
    default:
      return false;
  }
  if (value === null) return true;
  if (depth > DEPTH_MAX) return false;
  const prototype = getPrototypeOf(value);
  if (prototype === ArrayPrototype) {
    if (!isArray(value)) return false;
    const { length } = value;
    nodes += length;
    if (nodes > nodesMax) return false;
    for (let i = 0; i < length; i++) if (!isPlain(value[i], depth + 1)) return false;
    return size <= sizeMax;
  }
  if ((prototype !== ObjectPrototype && prototype !== null) || isArray(value)) return false;
  const names = keys(value);
  nodes += names.length;
  if (nodes > nodesMax) return false;
  for (let i = 0; i < names.length; i++) {
    const name = names[i];
    size += name.length + 3;
    if (!isPlain(value[name], depth + 1)) return false;
  }
  return size <= sizeMax;
}

// ---- writing ----

function tooManyBytes(bytes, exact) {
  return new Refusal(
    'L',
    'ResultTooLargeError',
    `The result is ${exact ? '' : 'at least '}${bytes} bytes of JSON; maxResultBytes allows ${sizeMax}`,
    '$',
  );
}

// A step that runs the guest's own code (getter, toJSON, proxy), which may throw.
function guarded(step, argument, key, trail) {
  try {
    return step(argument, key);
  } catch (cause) {
    if (cause instanceof Refusal) throw cause;
    throw unfit('threw when it was read', 'See the cause.', trail, cause);
  }
}

const read = (object, key) => object[key];
const callToJSON = (object, key) => {
  const method = object.toJSON;
  return typeof method === 'function' ? { value: apply(method, object, [key]) } : null;
};

function account(bytes) {
  size += bytes;
  if (size > sizeMax) throw tooManyBytes(size, false);
}

function quote(text) {
  account(text.length + 2);
  return stringify(text);
}

/**
 * @param {unknown} value
 * @param {(string | number)[]} trail keys from the root to value
 * @param {Set<object>} above the objects that hold value
 * @returns {string | undefined} undefined where JSON leaves the key out
 */
function write(value, trail, above) {
  nodes++;
  if (nodes > nodesMax) {
    throw tooLarge(`The result has more than ${nodesMax} JSON values, which is what maxResultNodes allows`, trail);
  }
  switch (typeof value) {
    case 'string':
      return quote(value);
    case 'number':
      return writeNumber(value);
    case 'boolean':
      return value ? 'true' : 'false';
    case 'undefined':
      return undefined;
    case 'bigint': {
      const told = guarded(callToJSON, value, keyOf(trail), trail);
      if (told !== null && typeof told.value !== 'bigint') return writeTold(told.value, trail, above);
      return quote(bigIntToString(value));
    }
    case 'symbol':
      throw unfit('is a symbol, which JSON cannot carry', 'Return its description instead.', trail);
    case 'function':
      throw unfit('is a function, which JSON cannot carry', 'Call it, and return what it gives.', trail);
    default:
      if (value === null) return 'null';
      return writePlain(value, trail.length) ?? guarded(writeObject, value, { trail, above }, trail);
  }
}

// Most of a value that is not plain as a whole is plain in its parts. Asked near
// the root only, so that no part is looked at often.
function writePlain(value, depth) {
  if (!mayLook || depth < 1 || depth > 2) return undefined;
  const before = { nodes, size };
  try {
    if (isPlain(value, depth + 1)) return stringify(value);
  } catch {}
  nodes = before.nodes;
  size = before.size;
  return undefined;
}

// NaN and infinities
const isNoNumber = (value) => typeof value === 'number' && value - value !== 0;

function writeNumber(value) {
  if (isNoNumber(value)) return 'null';
  if (value > SAFE || value < -SAFE) return quote(bigIntToString(BigIntOf(value)));
  return stringify(value);
}

const keyOf = (trail) => (trail.length > 0 ? `${trail[trail.length - 1]}` : '');

// What toJSON gave is written in the place of the value, and not asked again.
function writeTold(value, trail, above) {
  nodes--;
  if (typeof value !== 'object' || value === null) return write(value, trail, above);
  nodes++;
  return writeBody(value, trail, above);
}

function writeObject(value, { trail, above }) {
  if (isView(value) || isAnyArrayBuffer(value)) throw bytesRefusal(value, trail);
  const told = guarded(callToJSON, value, keyOf(trail), trail);
  if (told !== null) {
    if (isAnyObject(told.value) && setHas(above, told.value)) throw circular(trail);
    return writeTold(told.value, trail, above);
  }
  return writeBody(value, trail, above);
}

const isAnyObject = (value) => typeof value === 'object' && value !== null;

function bytesRefusal(value, trail) {
  const name = isBuffer(value) ? 'a Buffer' : isView(value) ? 'a typed array' : 'an ArrayBuffer';
  return unfit(
    `is ${name} (bytes), which JSON cannot carry`,
    isBuffer(value)
      ? "Return text instead: .toString('base64') or .toString('utf8')."
      : "Return Array.from(value), or Buffer.from(value).toString('base64').",
    trail,
  );
}

function circular(trail) {
  return unfit('is a circular reference: it contains itself', 'Leave it out, or return an id instead.', trail);
}

function writeBody(value, trail, above) {
  if (isBoxedPrimitive(value)) return writeBoxed(value, trail, above);
  if (isRegExp(value)) return quote(regExpToString(value));
  if (isPromise(value)) throw unfit('is a promise', 'Await it first.', trail);
  if (isWeakMap(value) || isWeakSet(value)) throw unfit('is weak, and cannot be listed', 'Use a Map or a Set.', trail);
  if (isGeneratorObject(value)) throw unfit('is a generator', 'Return [...value] instead.', trail);
  if (isView(value) || isAnyArrayBuffer(value)) throw bytesRefusal(value, trail);
  if (setHas(above, value)) throw circular(trail);
  if (trail.length >= DEPTH_MAX) {
    throw tooLarge(`The result is nested more than ${DEPTH_MAX} levels deep`, trail);
  }
  setAdd(above, value);
  let text;
  if (isArray(value)) text = writeList(value, value.length, trail, above);
  else if (isSet(value)) text = writeSet(value, trail, above);
  else if (isMap(value)) text = writeMap(value, trail, above);
  else if (isNativeError(value)) text = writeError(value, trail, above);
  else text = writeRecord(value, keys(value), trail, above);
  setDelete(above, value);
  return text;
}

function writeBoxed(value, trail, above) {
  for (const type of ['string', 'number', 'boolean', 'bigint']) {
    try {
      value = unbox[type](value);
    } catch {
      continue;
    }
    nodes--;
    return write(value, trail, above);
  }
  throw unfit('is a symbol, which JSON cannot carry', 'Return its description instead.', trail);
}

function writeList(list, length, trail, above) {
  let text = '';
  if (nodes + length > nodesMax) nodes = nodesMax; // so that the next value says so
  for (let i = 0; i < length; i++) {
    trail[trail.length] = i;
    const item = write(guarded(read, list, i, trail), trail, above);
    trail.length--;
    account(2);
    text += (i === 0 ? '' : ',') + (item === undefined ? 'null' : item);
  }
  return `[${text}]`;
}

function writeSet(set, trail, above) {
  const list = [];
  setForEach(set, (item) => {
    list[list.length] = item;
  });
  return writeList(list, list.length, trail, above);
}

function writeRecord(object, names, trail, above) {
  let text = '';
  if (names.length === 0) {
    const prototype = getPrototypeOf(object);
    const refusal = prototype === ObjectPrototype || prototype === null ? null : hollow(object, trail);
    if (refusal !== null) throw refusal;
  }
  for (let i = 0; i < names.length; i++) {
    trail[trail.length] = names[i];
    const item = write(guarded(read, object, names[i], trail), trail, above);
    trail.length--;
    if (item !== undefined) text += `${text === '' ? '' : ','}${quote(names[i])}:${item}`;
  }
  return `{${text}}`;
}

function writeMap(map, trail, above) {
  const entries = [];
  const seen = new Set();
  let text = '';
  mapForEach(map, (item, key) => {
    entries[entries.length] = [key, item];
  });
  for (let i = 0; i < entries.length; i++) {
    const name = nameOf(entries[i][0], trail);
    if (setHas(seen, name)) {
      throw unfit(
        `is a Map with two keys that JSON writes as ${stringify(cut(name, 100))}`,
        'Use strings as keys.',
        trail,
      );
    }
    setAdd(seen, name);
    trail[trail.length] = name;
    const item = write(entries[i][1], trail, above);
    trail.length--;
    if (item !== undefined) text += `${text === '' ? '' : ','}${quote(name)}:${item}`;
  }
  return `{${text}}`;
}

function nameOf(key, trail) {
  switch (typeof key) {
    case 'string':
      return key;
    case 'number':
    case 'boolean':
    case 'bigint':
      return StringOf(key);
    default:
      if (key === null) return 'null';
      throw unfit(
        `is a Map with a key that is neither text nor a number (${typeof key})`,
        'Return [...map] instead.',
        trail,
      );
  }
}

// An Error has no enumerable properties of its own: JSON.stringify gives {}.
function writeError(error, trail, above) {
  const record = {
    __proto__: null,
    name: guarded(read, error, 'name', trail),
    message: guarded(read, error, 'message', trail),
  };
  const names = keys(error);
  for (let i = 0; i < names.length; i++) {
    if (names[i] !== 'stack') record[names[i]] = guarded(read, error, names[i], trail);
  }
  return writeRecord(record, keys(record), trail, above);
}

/**
 * @param {unknown} value
 * @param {number} maxBytes of UTF-8
 * @param {number} maxNodes JSON values in all
 * @returns {string} JSON text; throws a Refusal
 */
function serialize(value, maxBytes, maxNodes) {
  if (value === undefined || value === null || isNoNumber(value)) return 'null'; // whatever the limits
  nodes = 1;
  nodesMax = maxNodes;
  size = 0;
  sizeMax = maxBytes;
  let text;
  let plain = false;
  try {
    mayLook = !('toJSON' in ObjectPrototype) && !('toJSON' in ArrayPrototype);
    plain = mayLook && isPlain(value, 1) && nodes <= nodesMax && size <= sizeMax;
    if (plain) text = stringify(value);
  } catch {
    plain = false; // a getter or a proxy threw: the second walk tells where
  }
  if (!plain || typeof text !== 'string') {
    nodes = 0;
    size = 0;
    text = write(value, [], new Set());
    if (text === undefined || text === 'null') return 'null';
  }
  if (text.length * 3 > maxBytes) {
    const bytes = byteLength(text);
    if (bytes > maxBytes) throw tooManyBytes(bytes, true);
  }
  return text;
}

module.exports = { serialize, Refusal };
