// What the page, the API and the module that runs code agree on. Types alone: safe to import anywhere.

import type { Isolation, JsonValue, RunError, RunJail, RunUsage } from 'code-jail';

export type { Isolation, JsonValue };

export type CodeLanguage = 'javascript' | 'typescript' | 'python';

export interface TriggerNode {
  id: string;
  kind: 'trigger';
  name: string;
  payload: JsonValue;
}

export interface CodeNode {
  id: string;
  kind: 'code';
  name: string;
  language: CodeLanguage;
  code: string;
  /** Over the workflow's setting. */
  timeoutMs?: number;
  memoryMb?: number;
}

export interface OutputNode {
  id: string;
  kind: 'output';
  name: string;
}

export type WorkflowNode = TriggerNode | CodeNode | OutputNode;

/** What holds for each code node of a workflow that does not say otherwise; the jail's defaults where nothing is said. */
export interface WorkflowSettings {
  timeoutMs?: number;
  memoryMb?: number;
  /** Of stdout and of stderr, each. */
  maxOutputBytes?: number;
  maxResultBytes?: number;
  minIsolation?: Isolation;
}

/** A chain, in order: each node's output is the next one's input. */
export interface Workflow {
  id: string;
  name: string;
  nodes: WorkflowNode[];
  settings?: WorkflowSettings;
}

/** What became of the user's code. */
export type CodeState =
  | 'succeeded'
  /** It threw, or ended itself with an exit code other than 0. */
  | 'failed'
  | 'timed_out'
  | 'out_of_memory'
  /** It wrote without end. */
  | 'output_limit'
  /** What it returned is no JSON, or too large. */
  | 'bad_result'
  /** It ended itself by a signal. */
  | 'killed';

/** What kept it from running, or from being heard of; never the code's fault. */
export type JailState =
  /** The node's text, input or limits are over what a jail takes; nothing ran. */
  | 'invalid'
  /** The jail is weaker than the workflow or the deployment asks for; nothing ran. */
  | 'refused'
  /** Too much is waiting; nothing ran. */
  | 'overloaded'
  /** The jail is down, misconfigured, or answered something else than a result. */
  | 'unavailable';

export type OutcomeState = CodeState | JailState | 'cancelled';

export interface NodeError extends RunError {
  /** What to do about it, where that is known. */
  hint?: string;
}

export interface NodeOutcome {
  nodeId: string;
  state: OutcomeState;
  /** What the next node gets; null unless `state` is 'succeeded'. */
  output: JsonValue;
  stdout: string;
  stderr: string;
  /** Bytes left out of the middle. */
  stdoutDropped: number;
  stderrDropped: number;
  error: NodeError | null;
  /** null where nothing was measured, also for nodes that are not code. */
  usage: RunUsage;
  /** The walls that stood; null where nothing ran in a jail. */
  jail: RunJail | null;
  /** It never ran, and may succeed later. */
  retryable: boolean;
  /** The jail's error code, for `state` of JailState. */
  code?: string;
}

/** How a run of a workflow ended: as its last node did. */
export type RunEvent =
  | { type: 'start'; nodeId: string }
  | { type: 'stdout' | 'stderr'; nodeId: string; text: string }
  | { type: 'outcome'; outcome: NodeOutcome }
  | { type: 'end'; state: OutcomeState };

/** Body of POST /api/workflows/run; the answer is one RunEvent a line, as they come. */
export interface RunBody {
  workflow: Workflow;
  /** Only this node, with `input`. */
  only?: string;
  input?: JsonValue;
}

/** Body of POST /api/check. */
export interface CheckBody {
  language: CodeLanguage;
  code: string;
}

/** Body of any answer that is no 200. */
export interface ApiError {
  error: { code: string; message: string };
}

export interface StatusReport {
  /** null where the configuration is wrong. */
  selects: { backend: 'local' | 'http' | 'socket'; because: string } | null;
  reachable: boolean;
  /** What a run, or the service of itself, proved; null where nothing did. */
  verified: Pick<RunJail, 'isolation' | 'layers' | 'missing'> | null;
  /** Both languages can be run now. */
  ready: boolean;
  /** Of code-jail. */
  version: string;
  languages: { language: string; ok: boolean; runtime: string | null; error: string | null }[];
  minIsolation: Isolation | null;
  queue: {
    queued: number;
    running: number;
    settled: number;
    refused: number;
    parked: Record<string, number>;
  } | null;
  /** The last 20, newest first: nothing of the user's code, input, output or messages. */
  failures: JailFailure[];
  /** ISO 8601. */
  checkedAt: string;
  error: { code: string; message: string } | null;
}

export interface JailFailure {
  /** ISO 8601. */
  at: string;
  state: JailState;
  code: string;
  backend: 'local' | 'http' | 'socket' | null;
  /** A fixed sentence for the code. */
  message: string;
}
