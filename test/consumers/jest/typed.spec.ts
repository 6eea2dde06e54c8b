import { type IsolatedRunResult, JailError, runCode } from 'code-jail';

test('TypeScript', async () => {
  const run: IsolatedRunResult<number> = await runCode<number>({ language: 'javascript', code: 'return 1' });
  expect(run.result).toBe(1);
  const error: unknown = await runCode({ language: 'javascript', code: '', timeoutMs: -1 }).catch((reason) => reason);
  expect(error instanceof JailError && error.code).toBe('ERR_JAIL_INVALID_REQUEST');
});
