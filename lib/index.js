'use strict';
// code-jail: runs code a program does not trust. See index.d.ts.

const { JailError, bundled } = require('./errors.js');

// Only in an ES module that a bundler has made; often there is no require either.
if (typeof __filename === 'undefined') throw bundled('an ES module');

const { checkCode, createJail, runCode } = require('./run-code.js');

module.exports = {
  runCode,
  checkCode,
  createJail,
  doctor: (config) => require('./doctor.js').doctor(config),
  JailError,
};
