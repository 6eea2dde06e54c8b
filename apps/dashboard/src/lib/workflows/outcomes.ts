// Results and JailErrors as outcomes of nodes. What the user's code did and what befell the jail never mix.

import type { IsolatedRunResult, JailError, JailErrorCode, RunStatus, RunUsage } from 'code-jail';
import type { CodeState, JailFailure, JailState, JsonValue, NodeError, NodeOutcome } from './types';

const STATES: Record<RunStatus, CodeState> = {
  ok: 'succeeded',
  error: 'failed',
  timeout: 'timed_out',
  out_of_memory: 'out_of_memory',
  output_limit: 'output_limit',
  not_serializable: 'bad_result',
  result_too_large: 'bad_result',
  killed: 'killed',
};

const HINTS: Partial<Record<RunStatus, string>> = {
  timeout: 'Raise the node’s time limit, or do less at a time.',
  out_of_memory: 'Raise the node’s memory limit, or hold less at a time.',
  output_limit: 'Print less: it was stopped while it wrote without end.',
  not_serializable: 'Return what JSON can hold: objects, arrays, strings, numbers, booleans, null.',
  result_too_large: 'Return less, or raise the workflow’s limit of results.',
};

/** Fixed sentences: a jail's own messages may name hosts, paths and users' fields. */
const FAILURES: Record<JailErrorCode, { state: JailState; message: string; hint: string }> = {
  ERR_JAIL_INVALID_REQUEST: {
    state: 'invalid',
    message: 'The node asks for what the jail does not take.',
    hint: 'See the message: it names the field and the limit.',
  },
  ERR_JAIL_ISOLATION: {
    state: 'refused',
    message: 'The jail is weaker than what is asked for, so nothing was run.',
    hint: 'Use a stronger jail, or ask for less in the workflow or in MIN_ISOLATION.',
  },
  ERR_JAIL_OVERLOADED: {
    state: 'overloaded',
    message: 'Too much is waiting for the jail; nothing was run.',
    hint: 'Try again in a moment.',
  },
  ERR_JAIL_QUEUE_TIMEOUT: {
    state: 'overloaded',
    message: 'It waited too long for its turn; nothing was run.',
    hint: 'Try again in a moment.',
  },
  ERR_JAIL_CONFIG: {
    state: 'unavailable',
    message: 'The jail is not set up rightly.',
    hint: 'See the status page, or run `code-jail doctor` on the server.',
  },
  ERR_JAIL_UNAUTHORIZED: {
    state: 'unavailable',
    message: 'The jail does not accept this dashboard’s token.',
    hint: 'Check CODE_SANDBOX_TOKEN on both sides.',
  },
  ERR_JAIL_PROTOCOL: {
    state: 'unavailable',
    message: 'What answered is no jail: a gateway, perhaps, or another program.',
    hint: 'Check CODE_SANDBOX_URL or FIRECRACKER_SOCKET.',
  },
  ERR_JAIL_DEADLINE: {
    state: 'unavailable',
    message: 'The jail gave no answer in time; the code may have run.',
    hint: 'See the status page.',
  },
  ERR_JAIL_CLOSED: {
    state: 'unavailable',
    message: 'The jail has been closed: the server is going down.',
    hint: 'Try again in a moment.',
  },
  ERR_JAIL_UNAVAILABLE: {
    state: 'unavailable',
    message: 'The jail cannot be reached, or could not be started.',
    hint: 'See the status page, or run `code-jail doctor` on the server.',
  },
};

const NOTHING_MEASURED: RunUsage = { queueMs: null, startMs: null, runMs: null, cpuMs: null, peakMemoryBytes: null };

export function blank(nodeId: string): NodeOutcome {
  return {
    nodeId,
    state: 'succeeded',
    output: null,
    stdout: '',
    stderr: '',
    stdoutDropped: 0,
    stderrDropped: 0,
    error: null,
    usage: NOTHING_MEASURED,
    jail: null,
    retryable: false,
  };
}

export function plainError(name: string, message: string, hint?: string): NodeError {
  return { name, message, line: null, column: null, sourceLine: null, stack: null, path: null, ...(hint && { hint }) };
}

export function outcomeOfResult(nodeId: string, run: IsolatedRunResult<JsonValue>): NodeOutcome {
  const hint = HINTS[run.status];
  const error = run.error ?? (run.ok ? null : plainError(run.status, `The code ended as ${run.status}.`));
  return {
    nodeId,
    state: STATES[run.status],
    output: run.ok ? run.result : null,
    stdout: run.stdout,
    stderr: run.stderr,
    stdoutDropped: run.stdoutDropped,
    stderrDropped: run.stderrDropped,
    error: error && { ...error, ...(hint && { hint }) },
    usage: run.usage,
    jail: run.jail,
    retryable: false,
  };
}

const factsOf = ({ code }: { code: string }) => FAILURES[code as JailErrorCode] ?? FAILURES.ERR_JAIL_UNAVAILABLE;

/** What a browser may read of a jail's error. */
export const publicError = (error: { code: string }) => ({ code: error.code, message: factsOf(error).message });

export function outcomeOfFailure(nodeId: string, error: JailError): NodeOutcome {
  const { state, message, hint } = factsOf(error);
  // What is wrong with the request is the reader's own; the rest may tell of the server.
  const text = state === 'invalid' ? error.message : message;
  return {
    ...blank(nodeId),
    state,
    error: plainError(error.name, text, hint),
    retryable: error.retryable,
    code: error.code,
  };
}

/** For the status page and the log: nothing of the user. */
export function failureRecord(error: JailError): JailFailure {
  const { state, message } = factsOf(error);
  return { at: new Date().toISOString(), state, code: error.code, backend: error.backend, message };
}

export function cancelled(nodeId: string): NodeOutcome {
  return { ...blank(nodeId), state: 'cancelled', error: plainError('Cancelled', 'The run was cancelled.') };
}
