import { createRequire } from 'node:module';
import { createJail, JailError, runCode } from 'code-jail';
import { expect, test } from 'vitest';

test.each(['javascript', 'python'])('%s', async (language) => {
  const code = { javascript: 'return { list: [input, 2] }', python: 'result = {"list": [input, 2]}' }[language];
  const run = await runCode({ language, code, input: 1 });
  expect(run.ok).toBe(true);
  expect(run.result).toStrictEqual({ list: [1, 2] });
  expect(run.jail.layers).toStrictEqual([...run.jail.layers]);
});

test('errors keep their class, however it is loaded', async () => {
  const error = await runCode({ language: 'cobol', code: '' }).catch((reason) => reason);
  expect(error).toBeInstanceOf(JailError);
  expect(error).toBeInstanceOf(Error);
  const common = createRequire(import.meta.url)('code-jail');
  await expect(common.runCode({ language: 'cobol', code: '' })).rejects.toBeInstanceOf(common.JailError);
});

test('a jail that is closed, and one that is not', async () => {
  createJail({ parked: 1 }).warm(['javascript']);
  const jail = createJail({ parked: 1 });
  expect((await jail.runCode({ language: 'javascript', code: 'return 1' })).result).toBe(1);
  await jail.close();
  await expect(jail.runCode({ language: 'javascript', code: '' })).rejects.toMatchObject({ code: 'ERR_JAIL_CLOSED' });
});

test('a run left in flight does no harm', () => {
  runCode({ language: 'javascript', code: 'for (;;) {}', timeoutMs: 500 });
});
