'use strict';
// code-jail: runs code a program does not trust. See index.d.ts.

const { JailError } = require('./errors.js');
const { createJail, runCode } = require('./run-code.js');

module.exports = {
  runCode,
  createJail,
  doctor: (config) => require('./doctor.js').doctor(config),
  JailError,
};
