'use strict';
// Deadlines under a clock that may leap: what took how long, by the clock that does not.
const { createJail } = require('../../lib/index.js');

async function main() {
  const jail = createJail({ maxConcurrent: 1, queueTimeoutMs: 300 });
  const timed = async (request) => {
    const start = performance.now();
    const outcome = await jail.runCode(request).then(
      (result) => result.status,
      (error) => error.code,
    );
    return { outcome, ms: Math.round(performance.now() - start) };
  };
  const busy = { language: 'python', code: 'while True: pass', timeoutMs: 600 };
  const fine = { language: 'python', code: 'import time\ntime.sleep(0.3)\nresult = 1', timeoutMs: 5000 };
  await timed(fine);
  const [deadline, queued] = await Promise.all([timed(busy), timed(fine)]);
  const whole = await timed(fine);
  const walls = new Set(Array.from({ length: 5 }, () => Math.round(Date.now() / 1e6)));
  console.log(`timed ${JSON.stringify({ deadline, queued, whole, leaps: walls.size > 1 })}`);
  await jail.close();
}
main();
