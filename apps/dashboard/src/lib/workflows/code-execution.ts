// Runs one code node in the jail that the environment selects: a Firecracker jailer's socket, a gVisor
// sandbox service, or a walled process here (`FIRECRACKER_SOCKET`, `CODE_SANDBOX_URL` with
// `CODE_SANDBOX_TOKEN`, neither). A jail that fails is said to have failed; a weaker one is never taken instead.

import { setTimeout as wait } from 'node:timers/promises';
import { type CodeCheck, type Isolation, JailError, type RunRequest } from 'code-jail';
import { deploymentIsolation, rememberFailure, rememberJail, theJail } from './jail';
import { cancelled, failureRecord, outcomeOfFailure, outcomeOfResult } from './outcomes';
import type { CheckBody, CodeNode, JsonValue, NodeOutcome, Workflow } from './types';

const RETRY_MS = 250;
const LONGEST_RETRY_MS = 5000;
const STRENGTH: Isolation[] = ['process', 'gvisor', 'microvm'];

export interface Execution {
  workflow: Workflow;
  input: JsonValue;
  signal?: AbortSignal;
  /** Output as it comes. */
  onStdout?: (text: string) => void;
  onStderr?: (text: string) => void;
}

/** The stronger of what the workflow and the deployment ask for: a workflow cannot lower the latter. */
function leastIsolation(asked: Isolation | undefined): Isolation | undefined {
  const least = deploymentIsolation();
  if (least === null || asked === undefined) return least ?? asked;
  return STRENGTH.indexOf(asked) > STRENGTH.indexOf(least) ? asked : least;
}

export function requestFor(node: CodeNode, { workflow, input }: Pick<Execution, 'workflow' | 'input'>): RunRequest {
  const settings = workflow.settings ?? {};
  return {
    language: node.language as RunRequest['language'],
    code: node.code,
    input,
    tenant: workflow.id,
    timeoutMs: node.timeoutMs ?? settings.timeoutMs,
    memoryMb: node.memoryMb ?? settings.memoryMb,
    maxOutputBytes: settings.maxOutputBytes,
    maxResultBytes: settings.maxResultBytes,
    minIsolation: leastIsolation(settings.minIsolation),
  };
}

/** Never rejects for what code, jail or user do: each of them is an outcome. */
export async function executeCode(node: CodeNode, execution: Execution): Promise<NodeOutcome> {
  const { signal } = execution;
  const heard = { stdout: '', stderr: '' };
  const options = {
    signal,
    onStdout: (text: string) => {
      heard.stdout += text;
      execution.onStdout?.(text);
    },
    onStderr: (text: string) => {
      heard.stderr += text;
      execution.onStderr?.(text);
    },
  };
  try {
    const request = requestFor(node, execution);
    const run = await onceMore(() => theJail().runCode<JsonValue>(request, options), signal);
    rememberJail(run.jail);
    return outcomeOfResult(node.id, run);
  } catch (error) {
    if (signal?.aborted) return { ...cancelled(node.id), ...heard };
    if (!(error instanceof JailError)) throw error;
    rememberFailure(failureRecord(error));
    return { ...outcomeOfFailure(node.id, error), ...heard };
  }
}

/** Again where the code provably never ran, and but once. */
async function onceMore<T>(run: () => Promise<T>, signal?: AbortSignal): Promise<T> {
  try {
    return await run();
  } catch (error) {
    if (!(error instanceof JailError) || !error.retryable || signal?.aborted) throw error;
    await wait(Math.min(error.retryAfterMs ?? RETRY_MS, LONGEST_RETRY_MS), undefined, { signal });
    return run();
  }
}

/** Marks for an editor: the text is compiled, and not run. */
export function checkNode({ language, code }: CheckBody, signal?: AbortSignal): Promise<CodeCheck> {
  return theJail().checkCode({ language: language as RunRequest['language'], code }, { signal });
}
