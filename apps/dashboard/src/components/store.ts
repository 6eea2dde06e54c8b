// Edits are kept in this browser alone.
import type { Workflow } from '@/lib/workflows/types';
import { EXAMPLE } from './example';

const KEY = 'code-jail.workflow.1';

const LANGUAGES = ['javascript', 'typescript', 'python'];

/** What another version, or somebody's hand, left there is not taken on trust. */
function isWorkflow(value: unknown): value is Workflow {
  const nodes = (value as Workflow | null)?.nodes;
  return (
    Array.isArray(nodes) &&
    nodes.length === EXAMPLE.nodes.length &&
    nodes.every(
      (node, i) =>
        node?.id === EXAMPLE.nodes[i]?.id &&
        node.kind === EXAMPLE.nodes[i]?.kind &&
        typeof node.name === 'string' &&
        (node.kind !== 'code' || (typeof node.code === 'string' && LANGUAGES.includes(node.language))),
    )
  );
}

export function load(): Workflow {
  try {
    const value: unknown = JSON.parse(localStorage.getItem(KEY) ?? 'null');
    return isWorkflow(value) ? value : EXAMPLE;
  } catch {
    return EXAMPLE;
  }
}

/** Without room, or where storing is forbidden, edits last as long as the page. */
export function save(workflow: Workflow) {
  try {
    if (workflow === EXAMPLE) localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, JSON.stringify(workflow));
  } catch {}
}
