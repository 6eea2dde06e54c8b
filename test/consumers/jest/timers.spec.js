// All that Jest can fake is faked, and runs settle all the same.
const { createJail, runCode } = require('code-jail');

describe.each([
  ['modern', {}],
  ['advancing', { advanceTimers: true }],
  ['but for ticks', { doNotFake: ['nextTick', 'queueMicrotask'] }],
])('fake timers: %s', (_name, options) => {
  beforeEach(() => jest.useFakeTimers({ now: 0, ...options }));
  afterEach(() => jest.useRealTimers());

  test('runs settle, and live output comes', async () => {
    const heard = [];
    const run = await runCode(
      { language: 'javascript', code: 'console.log("on"); return Date.now() > 1e12' },
      { onStdout: (text) => heard.push(text) },
    );
    expect(run.result).toBe(true); // the cell's own clock
    expect(heard.join('')).toBe('on\n');
    expect(run.usage.runMs).toBeGreaterThan(0);
    expect(jest.getTimerCount()).toBe(0);
  });

  test('a time-out is the engine’s, not Date’s', async () => {
    const jail = createJail({ parked: 1 });
    const run = await jail.runCode({ language: 'python', code: 'while True: pass', timeoutMs: 100 });
    expect(run.status).toBe('timeout');
    await jail.close();
  });
});
