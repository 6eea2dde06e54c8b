'use strict';
// What a service or a jailer says that it can, for `code-jail doctor` and for clients of other makes.

const { LANGUAGES } = require('../options.js');
const { version } = require('../../package.json');
const { PROTOCOL } = require('./exec.js');
const { refusal } = require('./body.js');

/** Beyond runs: checkCode, and what a run writes as it comes. */
const FEATURES = ['check', 'stream', 'files'];

/** @param {{ isolation: string, maxTimeoutMs: number, maxMemoryMb: number }} of */
function capabilities({ isolation, maxTimeoutMs, maxMemoryMb }) {
  const protocol = Number(PROTOCOL);
  return { protocol, version, languages: LANGUAGES, features: FEATURES, isolation, maxTimeoutMs, maxMemoryMb };
}

/** Whether a line asks for them, and for nothing else. @param {any} fields */
function asksCapabilities(fields) {
  if (fields === null || typeof fields !== 'object' || !Object.hasOwn(fields, 'capabilities')) return false;
  if (fields.capabilities !== true || Object.keys(fields).length > 1)
    throw refusal(400, 'capabilities must be true, and alone');
  return true;
}

module.exports = { capabilities, asksCapabilities };
