'use strict';
// The engine `local`: cells of this host's own local jail, and told as such. See engines.js.

const { openLocal } = require('../server/exec.js');
const { resultParts } = require('../server/answer.js');
const { WARMED } = require('../options.js');

/** @param {import('./engines.js').EngineSettings} settings @returns {Promise<import('./engines.js').Engine>} */
async function createEngine({ slots, maxTimeoutMs, maxMemoryMb }) {
  const { local } = openLocal({ slots, maxTimeoutMs, maxMemoryMb }, null);
  let failures = 0;
  try {
    await local.warm(WARMED);
  } catch (error) {
    await local.close();
    throw error;
  }
  return {
    isolation: 'process',
    async run({ request }, { signal }) {
      signal.throwIfAborted();
      try {
        const run = await new Promise((resolve, reject) => local.run(request, signal, resolve, reject));
        const parts = resultParts(run, { isolation: null, asText: false, queuedMs: 0 });
        return { answer: Buffer.from(parts.join('')), isolation: null };
      } catch (error) {
        failures++;
        throw error;
      }
    },
    stats() {
      const { running, parked, zygoteStarts } = local.stats();
      return { ready: 1, running, warm: parked.javascript + parked.python, starts: zygoteStarts, failures };
    },
    close: () => local.close(),
  };
}

module.exports = { createEngine };
