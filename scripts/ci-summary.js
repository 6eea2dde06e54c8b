'use strict';
// Adds up the reports of all test runs of a CI run (.cache/ci/*.txt), and fails
// where a test was skipped that this kind of machine can run. Last line:
// `N passed, N failed`.

const fs = require('node:fs');
const path = require('node:path');

// What may be skipped in CI (Linux x86_64, root, Debian), and why.
const ALLOWED = [
  // [pattern of the test's name, pattern of its reason]
];

const folder = path.join(__dirname, '..', '.cache', 'ci');
const counts = { pass: 0, fail: 0, skip: 0 };
const surprises = [];
for (const name of fs.readdirSync(folder).filter((one) => one.endsWith('.txt'))) {
  const lines = fs.readFileSync(path.join(folder, name), 'utf8').split('\n').filter(Boolean);
  if (lines.length === 0) surprises.push(`${name}: no test ran`);
  for (const line of lines) {
    const [kind, test, reason] = line.split('\t');
    counts[kind]++;
    const allowed = ALLOWED.some(([which, why]) => which.test(test) && why.test(reason));
    if (kind === 'skip' && !allowed) surprises.push(`${name}: skipped "${test}": ${reason}`);
  }
}
for (const line of surprises) console.log(`unexpected: ${line}`);
console.log(`${counts.pass} passed, ${counts.fail + surprises.length} failed, ${counts.skip} skipped`);
process.exitCode = counts.fail + surprises.length > 0 || counts.pass === 0 ? 1 : 0;
