// What a client sent, as the types say, or a refusal that names the field. Limits of code, input, time
// and memory are the jail's own, and refused by it.

import type { CheckBody, CodeLanguage, CodeNode, RunBody, Workflow, WorkflowNode, WorkflowSettings } from './types';

const LANGUAGES: CodeLanguage[] = ['javascript', 'typescript', 'python'];
const MOST_NODES = 50;
const LONGEST_NAME = 128;
const SETTINGS = ['timeoutMs', 'memoryMb', 'maxOutputBytes', 'maxResultBytes', 'minIsolation'] as const;

export class BodyError extends Error {}

type Fields = Record<string, unknown>;

function fields(what: string, value: unknown, known: readonly string[]): Fields {
  if (value === null || typeof value !== 'object' || Array.isArray(value))
    throw new BodyError(`${what} must be an object`);
  for (const key of Object.keys(value))
    if (!known.includes(key))
      throw new BodyError(`${what} has no field ${JSON.stringify(key)}; it has ${known.join(', ')}`);
  return value as Fields;
}

function text(what: string, value: unknown, most = Number.POSITIVE_INFINITY): string {
  if (typeof value !== 'string') throw new BodyError(`${what} must be a string`);
  if (value.length > most) throw new BodyError(`${what} must have at most ${most} characters`);
  return value;
}

function name(what: string, value: unknown): string {
  const read = text(what, value, LONGEST_NAME);
  if (read === '') throw new BodyError(`${what} must not be empty`);
  return read;
}

function language(what: string, value: unknown): CodeLanguage {
  const known = LANGUAGES.find((one) => one === value);
  if (known === undefined) throw new BodyError(`${what} must be one of ${LANGUAGES.join(', ')}`);
  return known;
}

function readNode(value: unknown, at: number): WorkflowNode {
  const what = `workflow.nodes[${at}]`;
  const kind = (value as Fields | null)?.kind;
  const named = (node: Fields) => ({ id: name(`${what}.id`, node.id), name: name(`${what}.name`, node.name) });
  if (kind === 'trigger') {
    const node = fields(what, value, ['id', 'kind', 'name', 'payload']);
    return { ...named(node), kind, payload: (node.payload ?? null) as never };
  }
  if (kind === 'output') return { ...named(fields(what, value, ['id', 'kind', 'name'])), kind };
  if (kind !== 'code') throw new BodyError(`${what}.kind must be one of trigger, code, output`);
  const node = fields(what, value, ['id', 'kind', 'name', 'language', 'code', 'timeoutMs', 'memoryMb']);
  const { timeoutMs, memoryMb } = node as unknown as CodeNode;
  return {
    ...named(node),
    kind,
    language: language(`${what}.language`, node.language),
    code: text(`${what}.code`, node.code),
    timeoutMs,
    memoryMb,
  };
}

function readWorkflow(value: unknown): Workflow {
  const workflow = fields('workflow', value, ['id', 'name', 'nodes', 'settings']);
  const { nodes } = workflow;
  if (!Array.isArray(nodes) || nodes.length === 0 || nodes.length > MOST_NODES)
    throw new BodyError(`workflow.nodes must be an array of 1 to ${MOST_NODES} nodes`);
  const read = nodes.map(readNode);
  if (new Set(read.map((node) => node.id)).size < read.length) throw new BodyError('workflow.nodes: ids must differ');
  const settings =
    workflow.settings === undefined
      ? undefined
      : (fields('workflow.settings', workflow.settings, SETTINGS) as WorkflowSettings);
  return { id: name('workflow.id', workflow.id), name: name('workflow.name', workflow.name), nodes: read, settings };
}

export function readRun(value: unknown): RunBody {
  const body = fields('the body', value, ['workflow', 'only', 'input']);
  const workflow = readWorkflow(body.workflow);
  if (body.only !== undefined && !workflow.nodes.some((node) => node.id === body.only))
    throw new BodyError('only must be the id of a node of the workflow');
  return { workflow, only: body.only as string | undefined, input: (body.input ?? null) as never };
}

export function readCheckBody(value: unknown): CheckBody {
  const body = fields('the body', value, ['language', 'code']);
  return { language: language('language', body.language), code: text('code', body.code) };
}
