'use strict';
// A host with few descriptors: RUNS one after another, then CROWD at once. Prints
// what each came to, and the descriptors it has before and after.
const fs = require('node:fs');
const { setTimeout: sleep } = require('node:timers/promises');
const { createJail } = require('../../lib/index.js');
const [runs, crowd] = process.argv.slice(2).map(Number);

async function main() {
  const jail = createJail({});
  const counts = {};
  const one = async (i) => {
    const [language, code] = i % 2 ? ['python', 'result = input'] : ['javascript', 'return input'];
    const outcome = await jail.runCode({ language, code, input: i }).then(
      (result) => (result.ok && result.result !== i ? 'another\u2019s answer' : result.status),
      (error) => error.code ?? String(error),
    );
    counts[outcome] = (counts[outcome] ?? 0) + 1;
  };
  const open = () => fs.readdirSync('/proc/self/fd').length;
  const before = open();
  for (let i = 0; i < runs; i++) await one(i);
  await Promise.all(Array.from({ length: crowd }, (_, i) => one(i)));
  await jail.close();
  for (let i = 0; i < 100 && open() > before; i++) await sleep(10);
  console.log(`counts ${JSON.stringify({ counts, before, after: open() })}`);
}
main();
