'use strict';
// Runs the tests: `npm test [-- FILE-PATTERN...]`. Everything is under node's
// own runner (test/c.test.js compiles and runs the C tests), so that its summary
// is the summary. What passed, failed or was skipped is also written to
// .cache/test-report.txt (or $CODE_JAIL_TEST_REPORT), for CI.

const { spawn } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');

const ROOT = path.join(__dirname, '..');
const REPORT = process.env.CODE_JAIL_TEST_REPORT ?? path.join(ROOT, '.cache', 'test-report.txt');

function testFiles(patterns) {
  return fs
    .readdirSync(path.join(ROOT, 'test'), { recursive: true })
    .map((name) => path.join('test', String(name)))
    .filter((name) => /\.test\.js$/.test(name))
    .filter((name) => patterns.length === 0 || patterns.some((pattern) => name.includes(pattern)))
    .sort();
}

const args = process.argv.slice(2);
const files = testFiles(args.filter((arg) => !arg.startsWith('-')));
if (files.length === 0) {
  console.error('No test file matches.');
  process.exit(1);
}
fs.mkdirSync(path.dirname(REPORT), { recursive: true });

// Two at a time: the soak and the timing tests bound only what two cores bear.
const run = spawn(
  process.execPath,
  [
    '--test',
    '--test-concurrency=2',
    '--test-timeout=180000',
    '--test-reporter=spec',
    '--test-reporter-destination=stdout',
    '--test-reporter=./scripts/test-report.js',
    `--test-reporter-destination=${REPORT}`,
    ...args.filter((arg) => arg.startsWith('-')),
    ...files,
  ],
  { cwd: ROOT, stdio: 'inherit', env: { ...process.env, NODE_OPTIONS: '' } },
);
// Who ends this ends the tests below as well; their end is this one's.
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => run.kill(signal));
run.on('error', (error) => {
  throw error;
});
run.on('close', (code) => process.exit(code ?? 1));
