import type { Workflow, WorkflowNode } from '@/lib/workflows/types';
import { Icon } from './icons';
import { duration } from './text';
import type { NodeRun } from './use-run';
import { STATES } from './words';

const LANGUAGES = { javascript: 'JavaScript', typescript: 'TypeScript', python: 'Python' };

const kindOf = (node: WorkflowNode) =>
  node.kind === 'code' ? LANGUAGES[node.language] : node.kind === 'trigger' ? 'Trigger' : 'Output';

function badge(run: NodeRun | undefined): { label: string; tone: string } | null {
  if (!run) return null;
  if (run.state === 'waiting') return { label: 'Waiting', tone: 'calm' };
  if (run.state === 'running') return { label: 'Running', tone: 'live' };
  return run.outcome ? STATES[run.outcome.state] : { label: 'Not known', tone: 'jail' };
}

export function Chain(props: {
  workflow: Workflow;
  runs: Map<string, NodeRun>;
  selected: string;
  onSelect: (id: string) => void;
}) {
  return (
    <nav className="chain" aria-label="Nodes">
      <ol>
        {props.workflow.nodes.map((node) => {
          const run = props.runs.get(node.id);
          const state = badge(run);
          const ms = run?.outcome?.usage.runMs ?? null;
          return (
            <li key={node.id}>
              <button
                type="button"
                data-node={node.id}
                className="node"
                aria-current={node.id === props.selected ? 'step' : undefined}
                onClick={() => props.onSelect(node.id)}
              >
                <span className={`kind ${state?.tone ?? ''}`}>
                  <Icon name={node.kind === 'code' ? 'code' : node.kind === 'trigger' ? 'bolt' : 'flag'} />
                </span>
                <span className="title">{node.name}</span>
                <span className="sub">
                  {kindOf(node)}
                  {state && (
                    <>
                      {' · '}
                      <span className={`tone ${state.tone}`}>{state.label}</span>
                    </>
                  )}
                  {ms !== null && ` · ${duration(ms)}`}
                </span>
              </button>
            </li>
          );
        })}
      </ol>
    </nav>
  );
}
