'use strict';
// code-jail: runs code a program does not trust. See index.d.ts.

const { JailError } = require('./errors.js');
const { checkCode, createJail, runCode } = require('./run-code.js');

module.exports = {
  runCode,
  checkCode,
  createJail,
  doctor: (config) => require('./doctor.js').doctor(config),
  JailError,
};
