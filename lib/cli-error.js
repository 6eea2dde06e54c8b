'use strict';
// What went wrong in a run, for a person: where, what, the line with a caret
// under it, and what brought it about.

const { printable } = require('./terminal.js');

const WIDTH = 100; // of the source line

// What Python writes between two exceptions of a chain.
const CHAINED =
  /\n\n(?:The above exception was the direct cause of|During handling of the above exception, another exception)[^\n]*\n/;

/** @param {string} source @param {number | null} column from 1 @returns {string} */
function pointed(source, column) {
  let line = source.trimStart();
  let at = column === null ? -1 : column - 1 - (source.length - line.length);
  line = line.trimEnd().replaceAll('\t', ' ');
  if (line.length > WIDTH) {
    // A minified file: what lies around the place.
    const from = Math.max(0, Math.min(at - WIDTH / 2, line.length - WIDTH));
    line = `${from > 0 ? '…' : ''}${line.slice(from, from + WIDTH)}${from + WIDTH < line.length ? '…' : ''}`;
    if (at >= 0) at -= from - (from > 0 ? 1 : 0);
  }
  if (line === '') return '';
  const caret = at < 0 || at > line.length ? '' : `\n    ${' '.repeat(printable(line.slice(0, at)).length)}^`;
  return `\n    ${line}${caret}`;
}

/** The errors behind this one, nearest first. @param {string | null} stack @returns {string[]} */
function causes(stack) {
  if (!stack) return [];
  const named = stack.split('\n').filter((line) => line.startsWith('Caused by: '));
  const chained = stack
    .split(CHAINED)
    .slice(0, -1)
    .map((part) => `Caused by: ${part.trimEnd().split('\n').pop()}`);
  return [...named, ...chained.reverse()];
}

/** @param {any} result @param {string} file as the user named it @returns {string} '' where all is well */
function errorText(result, file) {
  const { error, status } = result;
  if (!error) return status === 'ok' ? '' : `${file}: ${status}${result.signal ? ` (${result.signal})` : ''}`;
  const where = error.line ? `:${error.line}${error.column ? `:${error.column}` : ''}` : '';
  const head = `${file}${where}: ${error.name}${error.message ? `: ${error.message}` : ''}`;
  const hint = status === 'error' || status === 'ok' ? '' : ` [${status}]`;
  const source = error.sourceLine ? pointed(error.sourceLine, error.column) : '';
  const path = error.path ? `\n    at ${error.path} of the result` : '';
  const behind = causes(error.stack).map((line) => `\n${line}`);
  return printable(head + hint + source + path + behind.join(''));
}

module.exports = { errorText };
