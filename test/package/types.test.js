'use strict';
// What publint, attw and the compiler say of the packed package.

const fs = require('node:fs');
const path = require('node:path');
const { test } = require('node:test');
const { ROOT, tarball, project, must, tool } = require('./lab.js');

const TYPED = `import { createJail, runCode, JailError, type IsolatedRunResult } from 'code-jail';
const run: IsolatedRunResult = await runCode({ language: 'python', code: 'result = 1', timeoutMs: 100 });
const status: 'ok' | string = run.status;
const jail = createJail({ maxConcurrent: 2, minIsolation: 'process' });
// @ts-expect-error no such language
await jail.runCode({ language: 'cobol', code: '' });
// @ts-expect-error a number
await runCode({ language: 'javascript', code: '', timeoutMs: '1' });
// @ts-expect-error code is required
await runCode({ language: 'javascript' });
export const told = (error: unknown) => (error instanceof JailError ? error.code : status);
`;

test('publint and attw find nothing', () => {
  const dir = project();
  must(dir, process.execPath, [tool('publint', '0.3', 'src/cli.js'), 'run', tarball().file, '--strict']);
  must(dir, process.execPath, [tool('@arethetypeswrong/cli', '0.18', 'dist/index.js', 'attw'), tarball().file]);
});

test('a typed program compiles under node16, nodenext and bundler, with the errors it expects', () => {
  const dir = project();
  fs.mkdirSync(path.join(dir, 'node_modules'));
  must(dir, 'tar', ['-xzf', tarball().file, '-C', 'node_modules']);
  fs.renameSync(path.join(dir, 'node_modules', 'package'), path.join(dir, 'node_modules', 'code-jail'));
  fs.symlinkSync(path.join(ROOT, 'node_modules', '@types'), path.join(dir, 'node_modules', '@types'));
  fs.writeFileSync(path.join(dir, 'app.mts'), TYPED);
  for (const [module, resolution] of [
    ['node16', 'node16'],
    ['nodenext', 'nodenext'],
    ['esnext', 'bundler'],
  ]) {
    const kinds = ['--module', module, '--moduleResolution', resolution, '--target', 'es2022'];
    const tsc = path.join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc');
    must(dir, process.execPath, [tsc, '--noEmit', '--strict', ...kinds, 'app.mts']);
  }
});
