'use strict';
// Erases a text's types, each character of them by a blank: what is left is
// JavaScript in which everything has kept its line and column. A stripper is
// loaded in the zygote; only cells give it a text of the user's.

const module_ = require('node:module');
const v8 = require('node:v8');

const uncurry = (method) => Function.prototype.call.bind(method);
const slice = uncurry(String.prototype.slice);
const indexOf = uncurry(String.prototype.indexOf);
const replace = uncurry(String.prototype.replace);
const exec = uncurry(RegExp.prototype.exec);

// What to write in place of what cannot be erased.
const INSTEAD = [
  [/enum/, 'write an object, `{ … } as const`'],
  [/namespace|module/, 'write an object or a function'],
  [/parameter property/, 'declare a field, and set it in the constructor'],
  [/import equals/, 'write `import name from`, or `const name = require()`'],
  [/export assignment/, 'write export default'],
  [/angle-bracket/, 'write `value as T`'],
];
const ERASABLE = 'Types are erased, and nothing is made of them (erasable syntax only)';
const RETURN_IN_MODULE =
  'A text with import or export is a module, where return is not allowed at top level:' +
  ' use export default instead of return, or await import() instead of import';

// As around a body of JavaScript (javascript-run.js), on one line more.
const PREFIX = '(async function () {\n';
const TRAILER = '\n})';

const OUTSIDE_MODULE = /^'import', and 'export' cannot be used outside of module code/;
const UNSUPPORTED = /^ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX$|^UnsupportedSyntax$/;
const INVALID = /^ERR_INVALID_TYPESCRIPT_SYNTAX$|^InvalidSyntax$/;

// What makes no module of a text: all of it is a type.
const CLAUSE = String.raw`(?:[\w$]+|\*\s*as\s+[\w$]+|\*|\{[^{}]*\})`;
const FROM = String.raw`\s*from\s*(?:"[^"\n]*"|'[^'\n]*')(?:\s*with\s*\{[^{}]*\})?`;
const TYPE_ONLY = new RegExp(
  String.raw`^(?:import\s+type\s+(?!from\b)${CLAUSE}${FROM}|export\s+type\s+(?:${CLAUSE}${FROM}|\{[^{}]*\}))[ \t]*;?`,
);
const EXPORTED_TYPE = /^export(?=\s+(?:interface|type|declare|namespace)\b)/;
const TYPE_ONLY_MAX = 1000;

/** @type {(text: string) => string} */
let erase;

/**
 * @param {string} file of @swc/wasm-typescript; empty: none
 * @param {boolean} whole compiled at once, which takes longer than a text, and spares each fork its part
 */
function loadStripper(file, whole) {
  if (whole) v8.setFlagsFromString('--no-wasm-lazy-compilation');
  erase = stripperOf(file);
  erase(''); // Node's own is loaded now
  if (whole) v8.setFlagsFromString('--wasm-lazy-compilation'); // for what a text compiles
}

function stripperOf(file) {
  const { stripTypeScriptTypes } = module_;
  if (typeof stripTypeScriptTypes === 'function') return stripTypeScriptTypes;
  if (file === '')
    throw new Error(
      `config: Node.js ${process.versions.node} cannot erase types: use 22.13 or newer,` +
        ' or install @swc/wasm-typescript beside code-jail (npm install @swc/wasm-typescript)',
    );
  const { transformSync } = require(file);
  delete require.cache[require.resolve(file)];
  return (text) => transformSync(text, { mode: 'strip-only', filename: 'code.ts' }).code;
}

/** A fault of the text; `line` and `column` from 1, null at its end. */
class Fault {
  constructor(error, line, column, hint) {
    this.error = error;
    this.line = line;
    this.column = column;
    this.hint = hint;
  }
}

/**
 * @param {string} text
 * @returns {string | Fault} JavaScript, as long as the text
 */
function strip(text) {
  let body = text;
  for (let i = 0; ; i++) {
    const found = attempt(PREFIX + body + TRAILER, body, 1);
    if (typeof found === 'string') return slice(found, PREFIX.length, found.length - TRAILER.length);
    if (exec(OUTSIDE_MODULE, found.error.message) === null || found.line === null) return found;
    const at = offsetOf(body, found.line, found.column);
    const rest = slice(body, at);
    const match = i < TYPE_ONLY_MAX ? (exec(TYPE_ONLY, rest) ?? exec(EXPORTED_TYPE, rest)) : null;
    if (match === null) break;
    body = slice(body, 0, at) + replace(match[0], /[^\n\r]/g, ' ') + slice(rest, match[0].length);
  }
  const found = attempt(text, text, 0); // a module
  if (typeof found !== 'string' && exec(/^Return statement/, found.error.message) !== null)
    found.hint = RETURN_IN_MODULE;
  return found;
}

/** @param {string} whole @param {string} text @param {number} above how many lines of the whole stand above the text's */
function attempt(whole, text, above) {
  try {
    return erase(whole);
  } catch (error) {
    return faultOf(error, text, above);
  }
}

function faultOf(error, text, above) {
  const code = `${error?.code}`;
  const message = `${error?.message ?? error}`;
  const unsupported = exec(UNSUPPORTED, code) !== null;
  // An overflow of its stack, which leaves it broken: nothing more is asked of it here.
  if (!unsupported && exec(INVALID, code) === null)
    return new Fault(new SyntaxError('The types cannot be erased: the text is nested too deeply, or too large'), 1, 1);
  const snippet = typeof error.snippet === 'string' ? error.snippet : `${error.stack}`;
  const first = error.startLine ?? Number(exec(/^.*:(\d+)\n/, snippet)?.[1]);
  const said = replace(message, / (?:is|are) not supported in (?:type )?strip(?:-only)? mode\b.*/, ' is not supported');
  const line = first - above;
  const own = line >= 1 ? lineOf(text, line) : null;
  if (own === null)
    return new Fault(new SyntaxError('Unexpected end of input: a brace is missing, or is one too many'), null, null);
  const hint = unsupported ? hintFor(message) : undefined;
  return new Fault(new SyntaxError(said), line, columnOf(own, snippet), hint);
}

function hintFor(message) {
  for (let i = 0; i < INSTEAD.length; i++)
    if (exec(INSTEAD[i][0], message) !== null) return `${ERASABLE}: ${INSTEAD[i][1]}`;
  return ERASABLE;
}

// ---- places ----

/** @returns {string | null} */
function lineOf(text, number) {
  const at = offsetOf(text, number, 1);
  if (at < 0) return null;
  const end = indexOf(text, '\n', at);
  return slice(text, at, end < 0 ? text.length : end);
}

function offsetOf(text, line, column) {
  let at = 0;
  for (let i = 1; i < line; i++) {
    at = indexOf(text, '\n', at) + 1;
    if (at === 0) return -1;
  }
  return at + column - 1;
}

// Strippers say the line in numbers, and the column by carets below it, in columns of a terminal.
const TAB = 4;
const WIDE =
  /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|\p{Emoji_Presentation}|[\u{20000}-\u{3fffd}]/u;
const NO_WIDTH = /[\p{Mn}\p{Cf}\p{Me}]/u;

function columnOf(line, snippet) {
  const carets = exec(/^( *)\^+ *$/m, snippet);
  if (carets === null) {
    // Several lines are marked, and this is their first; or none is, where the text has ended too early.
    const start = exec(/^ {2}> /m, snippet) === null ? null : exec(/\S/, line);
    return (start === null ? line.length : start.index) + 1;
  }
  let width = 0;
  let column = 1;
  for (const character of line) {
    if (width >= carets[1].length) break;
    if (character === '\t') width += TAB - (width % TAB);
    else if (exec(NO_WIDTH, character) === null) width += exec(WIDE, character) === null ? 1 : 2;
    column += character.length;
  }
  return column;
}

module.exports = { loadStripper, strip };
