'use strict';
// Runs the tests: `npm test [-- FILE-PATTERN...]`; the suites that install hundreds of
// megabytes have scripts of their own (SUITES), and are meant by no pattern but their path. Everything is under node's
// own runner (test/c.test.js compiles and runs the C tests), so that its summary
// is the summary. What passed, failed or was skipped is also written to
// .cache/test-report.txt (or $CODE_JAIL_TEST_REPORT), for CI.
//
// With CODE_JAIL_TEST_AGAIN=1 (CI, on a shared machine) the few files that failed run once
// more, alone. What passes then is reported as `flaky`, with its first failure: it is
// counted and printed at the end, and too many of them fail the whole (ci-summary.js).
// A crash or a hang is never forgiven.

const { spawn } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');

const ROOT = path.join(__dirname, '..');
const REPORT = process.env.CODE_JAIL_TEST_REPORT ?? path.join(ROOT, '.cache', 'test-report.txt');
const MOST_AGAIN = 3;
/** `npm run test:package` and so on: below test/. */
const SUITES = ['package', 'consumers', 'dashboard', 'arm64'];

function testFiles(patterns) {
  const isOwn = (name) => SUITES.some((suite) => name.startsWith(path.join('test', suite, path.sep)));
  return fs
    .readdirSync(path.join(ROOT, 'test'), { recursive: true })
    .map((name) => path.join('test', String(name)))
    .filter((name) => /\.test\.js$/.test(name))
    .filter(
      (name) => !isOwn(name) || patterns.some((pattern) => pattern.startsWith('test/') && name.startsWith(pattern)),
    )
    .filter((name) => patterns.length === 0 || patterns.some((pattern) => name.includes(pattern)))
    .sort();
}

const args = process.argv.slice(2);

function run(files, atOnce, report) {
  const child = spawn(
    process.execPath,
    [
      '--test',
      `--test-concurrency=${atOnce}`,
      '--test-timeout=600000',
      '--test-reporter=spec',
      '--test-reporter-destination=stdout',
      '--test-reporter=./scripts/test-report.js',
      `--test-reporter-destination=${report}`,
      ...args.filter((arg) => arg.startsWith('-')),
      ...files,
    ],
    { cwd: ROOT, stdio: 'inherit', env: { ...process.env, NODE_OPTIONS: '' } },
  );
  // Who ends this ends the tests below as well; their end is this one's.
  const pass = (signal) => child.kill(signal);
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, pass);
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code) => {
      for (const signal of ['SIGINT', 'SIGTERM']) process.off(signal, pass);
      resolve(code ?? 1);
    });
  });
}

const linesOf = (report) =>
  fs
    .readFileSync(report, 'utf8')
    .split('\n')
    .filter(Boolean)
    .map((line) => line.split('\t'));
const failures = (report) => linesOf(report).filter(([kind]) => kind === 'fail');

async function again() {
  const first = failures(REPORT);
  const files = [...new Set(first.map(([, , , file]) => file))];
  // A file that failed itself crashed or hung: that is never bad luck.
  const crashed = first.some(([, name, , file]) => name === file || path.resolve(name) === path.resolve(file));
  if (files.length === 0 || files.length > MOST_AGAIN || crashed) return 1;
  console.log(`\nonce more, alone: ${files.join(' ')}`);
  const second = `${REPORT}.again`;
  const code = await run(files, 1, second);
  const still = failures(second).map(([, name, , file]) => `${file}\t${name}`);
  fs.rmSync(second);
  if (code !== 0 && still.length === 0) return code;
  const now = linesOf(REPORT).map(([kind, name, why, file]) =>
    [kind === 'fail' && !still.includes(`${file}\t${name}`) ? 'flaky' : kind, name, why, file].join('\t'),
  );
  for (const one of still) {
    const [file, name] = one.split('\t');
    if (!first.some(([, known, , where]) => known === name && where === file)) {
      now.push(['fail', name, 'failed when its file ran once more', file].join('\t'));
    }
  }
  fs.writeFileSync(REPORT, `${now.join('\n')}\n`);
  return code;
}

async function main() {
  // Two at a time: the soak and the timing tests bound only what two cores bear.
  const files = testFiles(args.filter((arg) => !arg.startsWith('-')));
  if (files.length === 0) {
    console.error('No test file matches.');
    return 1;
  }
  fs.mkdirSync(path.dirname(REPORT), { recursive: true });
  const code = await run(files, 2, REPORT);
  return code !== 0 && process.env.CODE_JAIL_TEST_AGAIN === '1' ? again() : code;
}

main().then((code) => process.exit(code));
