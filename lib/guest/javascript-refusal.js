'use strict';
// A value that cannot be sent, and where in the result it stands.

const { stringify } = JSON;
const uncurry = (method) => Function.prototype.call.bind(method);
const regExpExec = uncurry(RegExp.prototype.exec);
const PATH_MAX = 1000;
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

module.exports = { Refusal, cut, pathOf };
