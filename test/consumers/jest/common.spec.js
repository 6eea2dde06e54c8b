// CommonJS, as Babel leaves it.
const { createJail, JailError, runCode } = require('code-jail');

const RUNS = [
  { language: 'javascript', code: 'return { list: [input, 2] }', input: 1 },
  { language: 'python', code: 'result = {"list": [input, 2]}', input: 1 },
];

test.each(RUNS)('$language', async (request) => {
  const run = await runCode(request);
  expect(run).toMatchObject({ ok: true, result: { list: [1, 2] } });
  // Of this realm, all of it.
  expect(run.result).toStrictEqual({ list: [1, 2] });
  expect(run.jail.layers).toBeInstanceOf(Array);
  expect(run.jail.layers).toStrictEqual([...run.jail.layers]);
  expect(run.jail.missing).toStrictEqual([...run.jail.missing]);
});

test('errors keep their class', async () => {
  const error = await runCode({ language: 'cobol', code: '' }).catch((reason) => reason);
  expect(error).toBeInstanceOf(JailError);
  expect(error).toBeInstanceOf(Error);
  await expect(runCode({ language: 'javascript', code: '', input: 1n })).rejects.toThrow(JailError);
  const jail = createJail();
  await jail.close();
  await expect(jail.runCode(RUNS[0])).rejects.toMatchObject({ name: 'JailError', code: 'ERR_JAIL_CLOSED' });
});

test('an abort rejects with its reason', async () => {
  const controller = new AbortController();
  const run = runCode({ language: 'javascript', code: 'for (;;) {}' }, { signal: controller.signal });
  controller.abort(new Error('enough'));
  await expect(run).rejects.toThrow('enough');
});

describe('after resetModules', () => {
  beforeEach(() => jest.resetModules());

  test.each([1, 2, 3])('a registry of its own: %d', async (input) => {
    const again = require('code-jail');
    expect(again.JailError).not.toBe(JailError);
    const [own, old] = await Promise.all([
      again.runCode({ language: 'javascript', code: 'return input', input }),
      runCode({ language: 'javascript', code: 'return -input', input }), // of the first one
    ]);
    expect([own.result, old.result]).toEqual([input, -input]);
    const error = await again.runCode({ language: 'cobol', code: '' }).catch((reason) => reason);
    expect(error).toBeInstanceOf(again.JailError);
  });
});
