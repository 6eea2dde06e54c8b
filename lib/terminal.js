'use strict';
// Words for people: colours where a terminal shows them, units that read well.
// Used by the command line, the demo and the benchmarks.

const CODES = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, cyan: 36 };

/**
 * @param {{ isTTY?: boolean }} stream
 * @returns {Record<keyof typeof CODES, (text: string | number) => string>}
 */
function paint(stream) {
  const { NO_COLOR, TERM } = process.env;
  const colours = Boolean(stream.isTTY) && !NO_COLOR && TERM !== 'dumb';
  const one = (code) => (text) => (colours ? `\x1b[${code}m${text}\x1b[0m` : String(text));
  // @ts-expect-error: the keys are those of CODES
  return Object.fromEntries(Object.entries(CODES).map(([name, code]) => [name, one(code)]));
}

/** @param {number | null | undefined} ms */
function milliseconds(ms) {
  if (ms === null || ms === undefined) return 'unknown';
  if (ms >= 10000) return `${(ms / 1000).toFixed(1)} s`;
  return `${ms >= 100 ? ms.toFixed(0) : ms >= 10 ? ms.toFixed(1) : ms.toFixed(2)} ms`;
}

/** @param {number | null | undefined} count */
function bytes(count) {
  if (count === null || count === undefined) return 'unknown';
  const units = ['B', 'KiB', 'MiB', 'GiB'];
  let unit = 0;
  for (; count >= 1024 && unit < 3; unit++) count /= 1024;
  return `${unit === 0 || count >= 100 ? count.toFixed(0) : count.toFixed(1)} ${units[unit]}`;
}

/** Lines of words, none longer than `width`. @param {string[]} words @param {number} width */
function wrap(words, width) {
  const lines = [''];
  for (const word of words) {
    const last = lines[lines.length - 1];
    if (last && last.length + 1 + word.length > width) lines.push(word);
    else lines[lines.length - 1] = last ? `${last} ${word}` : word;
  }
  return lines;
}

/** Text of a guest, made harmless for a terminal: no escape sequences of its own. @param {string} text */
function printable(text) {
  return text.replace(/\p{Cc}/gu, (c) =>
    c === '\n' || c === '\t' ? c : `\\x${c.charCodeAt(0).toString(16).padStart(2, '0')}`,
  );
}

module.exports = { paint, milliseconds, bytes, wrap, printable };
