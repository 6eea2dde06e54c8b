import { runCode } from 'code-jail';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';

const FAKED = ['setTimeout', 'setInterval', 'setImmediate', 'queueMicrotask', 'performance', 'Date'];

beforeEach(() => vi.useFakeTimers({ now: 0, toFake: FAKED }));
afterEach(() => vi.useRealTimers());

test('runs settle under fake timers, and live output comes', async () => {
  const heard = [];
  const run = await runCode(
    { language: 'javascript', code: 'console.log("on"); return Date.now() > 1e12' },
    { onStdout: (text) => heard.push(text) },
  );
  expect(run.result).toBe(true);
  expect(heard.join('')).toBe('on\n');
  expect(vi.getTimerCount()).toBe(0);
});

test('a time-out is the engine’s', async () => {
  const run = await runCode({ language: 'python', code: 'while True: pass', timeoutMs: 100 });
  expect(run.status).toBe('timeout');
});
