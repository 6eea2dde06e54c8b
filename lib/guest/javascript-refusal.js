'use strict';
// A value that cannot be sent, and where in the result it stands.

const { stringify } = JSON;
const uncurry = (method) => Function.prototype.call.bind(method);
const regExpExec = uncurry(RegExp.prototype.exec);
const PATH_MAX = 1000;
const objectToString = uncurry(Object.prototype.toString);
const slice = uncurry(String.prototype.slice);
const indexOf = uncurry(String.prototype.indexOf);
const { iterator } = Symbol;
const NAME = /^[A-Za-z_$][\w$]*$/;

// A value that cannot be sent: kind is the frame's, the rest its error object.
class Refusal {
  constructor(kind, name, message, path, cause) {
    this.kind = kind;
    this.name = name;
    this.message = message;
    this.path = path;
    this.cause = cause;
  }
}

/** @param {string[]} trail @returns {string} `$.items[3].body` */
function pathOf(trail) {
  let path = '$';
  for (let i = 0; i < trail.length && path.length < PATH_MAX; i++) {
    const step = trail[i];
    if (typeof step === 'number') path += `[${step}]`;
    else if (step.length < 200 && regExpExec(NAME, step) !== null) path += `.${step}`;
    else path += `[${stringify(cut(step, 200))}]`;
  }
  return path.length > PATH_MAX ? cut(path, PATH_MAX) : path;
}

function cut(text, length) {
  let kept = '';
  if (text.length <= length) return text;
  for (let i = 0; i < length; i++) kept += text[i];
  return `${kept}…`;
}

function tooLarge(what, trail) {
  return new Refusal('L', 'ResultTooLargeError', what, pathOf(trail));
}

function unfit(what, hint, trail, cause) {
  const path = pathOf(trail);
  return new Refusal('N', 'NotSerializableError', `${path} ${what}. ${hint}`, path, cause);
}

const HINTS = {
  __proto__: null,
  URLSearchParams: 'Return Object.fromEntries(value) or String(value) instead.',
  FormData: 'Return Object.fromEntries(value) instead.',
  Headers: 'Return Object.fromEntries(value) instead.',
  WeakRef: 'Return value.deref() instead.',
  Blob: 'Return await value.text() instead.',
  File: 'Return await value.text() instead.',
};

/**
 * An object without fields that is more than one: JSON would write {} and lose
 * what it holds. A class that only has no fields is not meant.
 * @param {object} value neither plain nor of a kind that is known
 * @param {(string | number)[]} trail
 * @returns {Refusal | null}
 */
function hollow(value, trail) {
  const tag = slice(objectToString(value), 8, -1);
  if (tag === 'Object') return null;
  const article = indexOf('AEIOUaeio', tag[0]) < 0 ? 'a' : 'an';
  const isIterable = typeof value[iterator] === 'function';
  const hint =
    HINTS[tag] ?? (isIterable ? 'Return [...value] instead.' : 'Return the data that you need of it instead.');
  return unfit(`is ${article} ${cut(tag, 100)}, which has no fields that JSON could carry`, hint, trail);
}

module.exports = { Refusal, cut, hollow, tooLarge, unfit };
