'use strict';
// Adds up the reports of all test runs of a CI run (.cache/ci/*.txt), names what failed or
// passed only the second time, and fails where a test was skipped that this kind of machine
// can run. Last line: `N passed, N failed, N skipped`.

const fs = require('node:fs');
const path = require('node:path');

// What may be skipped in CI (Linux x86_64, root, Debian), and why.
const ALLOWED = [
  [/./, /^(kubectl|gcloud) is not installed \(not in Debian\)/],
  // [pattern of the test's name, pattern of its reason]
];
// More than these are no bad luck of a shared machine.
const MOST_FLAKY = 4;

const folder = path.join(__dirname, '..', '.cache', 'ci');
const counts = { pass: 0, fail: 0, skip: 0, flaky: 0 };
const surprises = [];
for (const name of fs.readdirSync(folder).filter((one) => one.endsWith('.txt'))) {
  const lines = fs.readFileSync(path.join(folder, name), 'utf8').split('\n').filter(Boolean);
  if (lines.length === 0) surprises.push(`${name}: no test ran`);
  for (const line of lines) {
    const [kind, test, reason, file] = line.split('\t');
    counts[kind]++;
    if (kind === 'fail' || kind === 'flaky') console.log(`${kind}: ${name}: ${file}: "${test}": ${reason}`);
    const allowed = ALLOWED.some(([which, why]) => which.test(test) && why.test(reason));
    if (kind === 'skip' && !allowed) surprises.push(`${name}: skipped "${test}": ${reason}`);
  }
}
if (counts.flaky > MOST_FLAKY) surprises.push(`${counts.flaky} tests passed only the second time`);
for (const line of surprises) console.log(`unexpected: ${line}`);
const failed = counts.fail + surprises.length;
if (counts.flaky > 0) console.log(`${counts.flaky} passed only the second time`);
console.log(`${counts.pass + counts.flaky} passed, ${failed} failed, ${counts.skip} skipped`);
process.exitCode = failed > 0 || counts.pass === 0 ? 1 : 0;
