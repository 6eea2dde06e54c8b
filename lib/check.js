'use strict';
// A check: the text is compiled where it would run, by the code that would
// compile it for a run, and nothing of it is run. What is wrong with it comes
// back as the result: a list, which a peer that only ran something does not give.

const { JailError } = require('./errors.js');

/** Ends that a hostile text may bring about in its compiler. */
const ENDS = ['timeout', 'out_of_memory', 'killed', 'output_limit'];

const isPosition = (value) => value === null || (Number.isInteger(value) && value >= 1);

/** @param {any} error */
function isFault(error) {
  return (
    error !== null &&
    typeof error === 'object' &&
    typeof error.name === 'string' &&
    typeof error.message === 'string' &&
    isPosition(error.line) &&
    isPosition(error.column) &&
    (error.sourceLine === null || typeof error.sourceLine === 'string')
  );
}

/** @param {any} error */
const pick = ({ name, message, line, column, sourceLine }) => ({ name, message, line, column, sourceLine });

/**
 * @param {any} run an IsolatedRunResult of a check
 * @returns {{ ok: boolean, errors: ReturnType<typeof pick>[] }}
 */
function toCheck(run) {
  const { status, result, error, jail } = run;
  if (status === 'ok' && Array.isArray(result) && result.every(isFault))
    return { ok: result.length === 0, errors: result.map(pick) };
  if (ENDS.includes(status) && isFault(error)) return { ok: false, errors: [pick(error)] };
  const message = 'the answer is none to a check: the peer does not know checks, and ran nothing of the code';
  throw new JailError('ERR_JAIL_PROTOCOL', message, { backend: jail.backend });
}

module.exports = { toCheck };
