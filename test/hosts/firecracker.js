'use strict';
// A daemon's engine firecracker in a process of its own, with one job under way that
// never answers. Arguments: its settings as JSON.

const { createEngine } = require('../../lib/jailer/firecracker.js');

const quiet = () => {};

(async () => {
  const settings = JSON.parse(process.argv[2]);
  const engine = await createEngine({ ...settings, log: { info: quiet, warn: quiet, error: quiet } });
  const job = { line: Buffer.from('{}\n'), maxAnswerBytes: 1000 };
  engine.run(/** @type {any} */ (job), { signal: new AbortController().signal, deadlineMs: 60000 });
  while (engine.stats().warm === 0) await new Promise((resolve) => setTimeout(resolve, 10));
  console.log('running');
})();
