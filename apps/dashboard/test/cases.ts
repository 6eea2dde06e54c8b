// What holds of a workflow's runs, as one table for Jest and vitest: against the real local jail, and
// against peers that fail as real ones do.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { closeJail, jailConfig, lastFailures } from '@/lib/workflows/jail';
import { runWorkflow } from '@/lib/workflows/run-workflow';
import { readStatus } from '@/lib/workflows/status';
import type {
  CodeNode,
  JsonValue,
  NodeOutcome,
  OutcomeState,
  RunEvent,
  Workflow,
  WorkflowSettings,
} from '@/lib/workflows/types';

const NAMES = [
  'FIRECRACKER_SOCKET',
  'CODE_SANDBOX_URL',
  'CODE_SANDBOX_TOKEN',
  'CODE_SANDBOX_IDENTITY_TOKEN',
  'MIN_ISOLATION',
];
const ROOT = path.join(process.cwd(), '..', '..');

const js = (code: string, more: Partial<CodeNode> = {}): CodeNode => ({
  id: 'js',
  kind: 'code',
  name: 'JavaScript',
  language: 'javascript',
  code,
  ...more,
});
const py = (code: string, more: Partial<CodeNode> = {}): CodeNode => ({
  ...js(code, { id: 'py', name: 'Python', language: 'python' }),
  ...more,
});

interface Ran {
  state: OutcomeState;
  events: RunEvent[];
  outcomes: NodeOutcome[];
  last: NodeOutcome;
}

interface How {
  payload?: JsonValue;
  settings?: WorkflowSettings;
  signal?: AbortSignal;
  hear?: (event: RunEvent) => void;
}

async function run(nodes: CodeNode[], { payload = null, settings, signal, hear }: How = {}): Promise<Ran> {
  const workflow: Workflow = {
    id: 'a-workflow',
    name: 'A workflow',
    settings,
    nodes: [{ id: 'in', kind: 'trigger', name: 'In', payload }, ...nodes, { id: 'out', kind: 'output', name: 'Out' }],
  };
  const events: RunEvent[] = [];
  const emit = (event: RunEvent) => {
    events.push(event);
    hear?.(event);
  };
  const state = await runWorkflow({ workflow }, { signal, emit });
  const outcomes = events.flatMap((event) => (event.type === 'outcome' ? [event.outcome] : []));
  const last = outcomes.at(-1);
  assert.ok(last);
  return { state, events, outcomes, last };
}

type Answer = (request: http.IncomingMessage, response: http.ServerResponse, count: number) => void;

/** A peer at CODE_SANDBOX_URL that answers so; says how often it was asked. */
async function withPeer(answer: Answer, use: () => Promise<void>): Promise<number> {
  let count = 0;
  const server = http.createServer((request, response) => {
    request.resume().on('end', () => {
      count += 1;
      answer(request, response, count);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  process.env.CODE_SANDBOX_URL = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  process.env.CODE_SANDBOX_TOKEN = 'a-token-of-the-test-0123456789';
  try {
    await use();
    return count;
  } finally {
    await closeJail();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
}

/** `code-jail serve` on loopback, in a process of its own. */
async function withService(use: () => Promise<void>): Promise<void> {
  const token = 'a-token-of-the-test-0123456789';
  const user = process.getuid?.() === 0 ? ['--user', '65532'] : [];
  const serve = [process.execPath, path.join(ROOT, 'bin', 'code-jail.js'), 'serve', '--port', '0'];
  const service = spawn(path.join(ROOT, 'build', 'Release', 'code-jail-launcher'), [...user, '--', ...serve], {
    cwd: '/',
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { NODE_ENV: 'test', PATH: process.env.PATH, CODE_SANDBOX_TOKEN: token, CODE_SANDBOX_ALLOW_WEAK: '1' },
  });
  const exited = once(service, 'exit');
  try {
    for await (const line of createInterface(service.stdout)) {
      const { event, at } = JSON.parse(line);
      if (event !== 'listen') continue;
      process.env.CODE_SANDBOX_URL = String(at).startsWith('http') ? at : `http://${at}`;
      break;
    }
    process.env.CODE_SANDBOX_TOKEN = token;
    service.stdout.resume();
    await use();
  } finally {
    await closeJail();
    service.kill('SIGTERM');
    await exited;
  }
}

const json = (response: http.ServerResponse, status: number, body: unknown, headers = {}) =>
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));

const overloaded = (response: http.ServerResponse) =>
  json(response, 429, { error: { code: 'overloaded', message: 'the queue is full' } }, { 'retry-after': '0' });

export const CASES: Record<string, () => Promise<void>> = {
  'a chain hands each output on, and says which jail it was': async () => {
    const { state, events, last, outcomes } = await run(
      [js('console.log("hello"); return { n: input.n * 2 }'), py('result = input["n"] + 1')],
      { payload: { n: 20 } },
    );
    assert.equal(state, 'succeeded');
    assert.equal(last.output, 41);
    assert.equal(outcomes[1]?.jail?.backend, 'local');
    assert.ok(outcomes[1]?.jail?.layers.includes('seccomp'));
    assert.ok(events.some((event) => event.type === 'stdout' && event.text === 'hello\n'));
    assert.deepEqual(events.at(-1), { type: 'end', state: 'succeeded' });
  },
  'an error of the code has its line, and ends the chain': async () => {
    const { state, last } = await run([js('const a = 1;\nnull.field;'), py('result = 1')]);
    assert.equal(state, 'failed');
    assert.equal(last.nodeId, 'js');
    assert.equal(last.error?.name, 'TypeError');
    assert.equal(last.error?.line, 2);
    assert.equal(last.error?.sourceLine, 'null.field;');
    assert.equal(last.code, undefined);
  },
  'TypeScript hands on as the others do, and its errors are on the lines that were written': async () => {
    const ts = (code: string) => js(code, { id: 'ts', language: 'typescript' });
    const types = 'interface In { n: number }\nconst given = input as In | null;\n';
    const { last } = await run([ts(`${types}return given!.n + 1`)], { payload: { n: 41 } });
    assert.equal(last.output, 42);
    const failed = (await run([ts(`${types}return given!.n`)])).last;
    assert.equal(failed.state, 'failed');
    assert.equal(failed.error?.line, 3);
  },
  'a sandbox service runs both languages; its output comes, and its walls are said': async () => {
    await withService(async () => {
      const { state, last, events, outcomes } = await run(
        [js('console.log("there"); return input + 1'), py('result = input * 2')],
        { payload: 20 },
      );
      assert.equal(state, 'succeeded', JSON.stringify(last));
      assert.equal(last.output, 42);
      assert.equal(outcomes[1]?.jail?.backend, 'http');
      assert.ok(events.some((event) => event.type === 'stdout' && event.text.includes('there')));
      assert.equal((await run([js('throw new Error("mine")')])).state, 'failed');
    });
  },
  'the identity token of the environment goes to the platform before the service': async () => {
    const seen: unknown[] = [];
    const hear: Answer = (request, response) => {
      seen.push(request.headers['x-serverless-authorization']);
      response.writeHead(403).end();
    };
    await withPeer(hear, async () => {
      await run([js('return 1')]);
      process.env.CODE_SANDBOX_IDENTITY_TOKEN = 'an.identity.token';
      await run([js('return 1')]);
    });
    assert.deepEqual(seen, [undefined, 'Bearer an.identity.token']);
    assert.equal(jailConfig({ NODE_ENV: 'test' }).headers, undefined);
  },
  'the status names no host and no path': async () => {
    process.env.FIRECRACKER_SOCKET = '/nonexistent/jailer.sock';
    const status = await readStatus();
    assert.equal(status.reachable, false);
    assert.equal(status.error?.code, 'ERR_JAIL_UNAVAILABLE');
    assert.match(status.error?.message ?? '', /cannot be reached/);
    assert.doesNotMatch(JSON.stringify(status), /nonexistent|jailer\.sock/);
  },
  'a time-out is one, with what was written before': async () => {
    const { last } = await run([py('print("before", flush=True)\nwhile True: pass', { timeoutMs: 500 })]);
    assert.equal(last.state, 'timed_out');
    assert.equal(last.stdout, 'before\n');
    assert.match(last.error?.hint ?? '', /time limit/);
  },
  'a cancel in mid-run ends it at once': async () => {
    const stop = new AbortController();
    const start = Date.now();
    const { state, last } = await run(
      [js('console.log("runs"); await new Promise(() => setInterval(() => {}, 1e6))', { timeoutMs: 60000 })],
      {
        signal: stop.signal,
        hear: (event) => event.type === 'stdout' && stop.abort(),
      },
    );
    assert.equal(state, 'cancelled');
    assert.equal(last.stdout, 'runs\n');
    assert.ok(Date.now() - start < 40000);
  },
  'memory over the limit is out_of_memory': async () => {
    const { last } = await run([py('result = len(bytearray(400 * 1024 * 1024))', { memoryMb: 64 })]);
    assert.equal(last.state, 'out_of_memory');
    const enough = await run([py('result = len(bytearray(4 * 1024 * 1024))', { memoryMb: 64 })]);
    assert.equal(enough.state, 'succeeded');
  },
  'output and result are capped by the workflow': async () => {
    const settings = { maxOutputBytes: 1000, maxResultBytes: 100 };
    const { state, outcomes } = await run([js('console.log("x".repeat(50000)); return 1')], { settings });
    assert.equal(state, 'succeeded');
    assert.ok((outcomes[1]?.stdoutDropped ?? 0) > 40000);
    assert.ok((outcomes[1]?.stdout.length ?? 0) < 2000);
    assert.equal((await run([js('return "x".repeat(200)')], { settings })).state, 'bad_result');
  },
  'an input of megabytes arrives whole': async () => {
    const { last } = await run([js('return input.length')], { payload: 'x'.repeat(3_000_000) });
    assert.equal(last.output, 3_000_000);
  },
  'what no jail takes is invalid, and names the field': async () => {
    const { last } = await run([js('return 1', { timeoutMs: 10_000_000 })]);
    assert.equal(last.state, 'invalid');
    assert.match(last.error?.message ?? '', /timeoutMs/);
  },
  'a jail weaker than what is asked for is refused': async () => {
    assert.equal((await run([js('return 1')], { settings: { minIsolation: 'process' } })).state, 'succeeded');
    assert.equal((await run([js('return 1')], { settings: { minIsolation: 'gvisor' } })).state, 'refused');
    process.env.MIN_ISOLATION = 'microvm';
    const { state, last } = await run([js('return 1')], { settings: { minIsolation: 'process' } });
    assert.equal(state, 'refused', 'a workflow cannot lower it');
    assert.equal(last.code, 'ERR_JAIL_ISOLATION');
  },
  'a jail that is down is unavailable, and remembered without anything of the user': async () => {
    process.env.FIRECRACKER_SOCKET = '/nonexistent/jailer.sock';
    const { state, last } = await run([js('return "a secret of the user"')]);
    assert.equal(state, 'unavailable');
    assert.equal(last.jail, null);
    const [failure] = lastFailures();
    assert.equal(failure?.state, 'unavailable');
    assert.equal(failure?.backend, 'socket');
    assert.doesNotMatch(JSON.stringify(lastFailures()), /secret|nonexistent/);
  },
  'a token that is refused is the jail’s matter': async () => {
    await withPeer(
      (_, response) => json(response, 401, { error: { code: 'unauthorized', message: 'no' } }),
      async () => {
        const { last } = await run([js('return 1')]);
        assert.equal(last.state, 'unavailable');
        assert.equal(last.code, 'ERR_JAIL_UNAUTHORIZED');
      },
    );
  },
  'a gateway’s page is never the code’s fault, and is asked but once': async () => {
    const asked = await withPeer(
      (_, response) => response.writeHead(502, { 'content-type': 'text/html' }).end('<h1>Bad Gateway</h1>'),
      async () => {
        const { last } = await run([js('return 1')]);
        assert.equal(last.state, 'unavailable');
        assert.doesNotMatch(JSON.stringify(last), /Bad Gateway/);
      },
    );
    assert.equal(asked, 1);
  },
  'an overloaded jail is asked again, and then said to be overloaded': async () => {
    await withPeer(
      (_, response) => overloaded(response),
      async () => {
        const { last } = await run([js('return 1')]);
        assert.equal(last.state, 'overloaded');
        assert.equal(last.retryable, true);
      },
    );
  },
};

/** Between cases: no jail, and no setting. */
export async function reset(): Promise<void> {
  await closeJail();
  for (const name of NAMES) delete process.env[name];
}
