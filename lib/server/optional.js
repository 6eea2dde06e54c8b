'use strict';
// Packages that only the service needs: optional dependencies, so that a program
// that runs code need not install them.

const { misconfigured } = require('../errors.js');

/** @param {'pino' | 'prom-client'} name @returns {any} */
function optional(name) {
  try {
    return require(name);
  } catch (error) {
    if (error.code !== 'MODULE_NOT_FOUND') throw error;
    throw misconfigured(`the service needs the package ${name}, which was left out: npm install ${name}`, error);
  }
}

module.exports = { optional };
