// An ES module (NODE_OPTIONS=--experimental-vm-modules).

import { createRequire } from 'node:module';
import codeJail, { JailError, runCode } from 'code-jail';

test('runs, and is the same instance as CommonJS has', async () => {
  const { result } = await runCode({ language: 'python', code: 'result = input + 1', input: 1 });
  expect(result).toBe(2);
  expect(codeJail.JailError).toBe(JailError);
  await expect(runCode({ language: 'cobol', code: '' })).rejects.toBeInstanceOf(JailError);
});

test('require in an ES module', async () => {
  const common = createRequire(import.meta.url)('code-jail');
  await expect(common.runCode({ language: 'cobol', code: '' })).rejects.toBeInstanceOf(common.JailError);
});
