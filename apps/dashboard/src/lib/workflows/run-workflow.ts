// Runs a workflow's nodes in order, each with the output of the one before, until one does not succeed.

import { executeCode } from './code-execution';
import { blank, cancelled } from './outcomes';
import type { JsonValue, NodeOutcome, OutcomeState, RunBody, RunEvent, WorkflowNode } from './types';

export interface RunOptions {
  signal?: AbortSignal;
  emit?: (event: RunEvent) => void;
}

export async function runWorkflow(body: RunBody, { signal, emit = () => {} }: RunOptions = {}): Promise<OutcomeState> {
  const { workflow, only } = body;
  const nodes = only === undefined ? workflow.nodes : workflow.nodes.filter((node) => node.id === only);
  let value: JsonValue = body.input ?? null;
  let state: OutcomeState = 'succeeded';
  for (const node of nodes) {
    emit({ type: 'start', nodeId: node.id });
    const outcome = signal?.aborted ? cancelled(node.id) : await runNode(node, body, value, signal, emit);
    emit({ type: 'outcome', outcome });
    state = outcome.state;
    if (state !== 'succeeded') break;
    value = outcome.output;
  }
  emit({ type: 'end', state });
  return state;
}

async function runNode(
  node: WorkflowNode,
  { workflow }: RunBody,
  input: JsonValue,
  signal: AbortSignal | undefined,
  emit: (event: RunEvent) => void,
): Promise<NodeOutcome> {
  if (node.kind === 'trigger') return { ...blank(node.id), output: node.payload };
  if (node.kind === 'output') return { ...blank(node.id), output: input };
  return executeCode(node, {
    workflow,
    input,
    signal,
    onStdout: (text) => emit({ type: 'stdout', nodeId: node.id, text }),
    onStderr: (text) => emit({ type: 'stderr', nodeId: node.id, text }),
  });
}
