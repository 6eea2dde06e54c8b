'use client';
import { useEffect, useMemo, useRef, useState } from 'react';
import type { CodeNode, JsonValue, Workflow, WorkflowNode } from '@/lib/workflows/types';
import { Chain } from './chain';
import type { Mark } from './editor-marks';
import { EXAMPLE } from './example';
import { Header } from './header';
import { Icon } from './icons';
import { Inspector } from './inspector';
import { NodePane } from './node-pane';
import { Shortcuts } from './shortcuts';
import { load, save } from './store';
import { cut } from './text';
import { type NodeRun, useRun } from './use-run';
import { isJailTrouble, STATES } from './words';

function markOf(node: WorkflowNode, run: NodeRun | undefined): Mark | null {
  const outcome = run?.outcome;
  if (node.kind !== 'code' || !outcome?.error?.line || isJailTrouble(outcome)) return null;
  const { name, message, line } = outcome.error;
  const tone = STATES[outcome.state].tone === 'warn' ? 'warn' : 'bad';
  return { line, message: cut(`${name}: ${message}`, 300).text, tone };
}

/** One node's input is what the node before it gave last; without that, all up to this one run. */
function bodyOf(workflow: Workflow, index: number, runs: Map<string, NodeRun>) {
  const node = workflow.nodes[index] as WorkflowNode;
  const before = workflow.nodes[index - 1];
  let input: { value: JsonValue } | null = null;
  if (before?.kind === 'trigger') input = { value: before.payload };
  else if (before && runs.get(before.id)?.outcome?.state === 'succeeded')
    input = { value: runs.get(before.id)?.outcome?.output ?? null };
  if (node.kind === 'code' && input) return { workflow, only: node.id, input: input.value };
  return { workflow: { ...workflow, nodes: workflow.nodes.slice(0, index + 1) } };
}

/** Said to who cannot see the chain. */
function sayOf(workflow: Workflow, runs: Map<string, NodeRun>, busy: boolean): string {
  const running = workflow.nodes.find((node) => runs.get(node.id)?.state === 'running');
  if (running) return `${running.name} is running`;
  if (busy) return 'Starting';
  const outcome = [...runs.values()].findLast((one) => one.outcome)?.outcome;
  const last = workflow.nodes.find((node) => node.id === outcome?.nodeId);
  return outcome && last ? `${last.name}: ${STATES[outcome.state].label}` : 'Ready';
}

export function Studio() {
  const [workflow, setWorkflow] = useState<Workflow | null>(null);
  const [selected, setSelected] = useState('price');
  const [sheet, setSheet] = useState(false);
  const [version, setVersion] = useState(0);
  const { runs, busy, trouble, run, cancel, forget } = useRun();
  useEffect(() => setWorkflow(load()), []);

  const index = Math.max(0, workflow?.nodes.findIndex((node) => node.id === selected) ?? 0);
  const node = workflow?.nodes[index];
  const outcome = node && runs.get(node.id)?.outcome;
  // biome-ignore lint/correctness/useExhaustiveDependencies: a mark is of an outcome, not of a later text
  const mark = useMemo(() => (node ? markOf(node, runs.get(node.id)) : null), [outcome, selected]);

  const change = (changed: WorkflowNode) => {
    if (!workflow) return;
    const next = { ...workflow, nodes: workflow.nodes.map((one) => (one.id === changed.id ? changed : one)) };
    setWorkflow(next);
    save(next);
  };
  const reset = () => {
    cancel();
    forget();
    save(EXAMPLE);
    setWorkflow(EXAMPLE);
    setVersion(version + 1);
  };
  // What the nodes behind it gave was of another input.
  const behind = workflow?.nodes.slice(index + 1).map((one) => one.id);
  const runNode = () => workflow && void run(bodyOf(workflow, index, runs), behind);
  const runChain = () => workflow && void run({ workflow });

  const onKey = (event: KeyboardEvent) => {
    if (!workflow || event.isComposing || sheet) return;
    const typing = event.target instanceof Element && event.target.closest('.cm-editor, input, select, textarea');
    const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key];
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) event.shiftKey ? runChain() : runNode();
    else if (event.key === 'Escape' && busy) cancel();
    else if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    else if (event.key === '?') setSheet(true);
    else if (step && !(event.target instanceof Element && event.target.closest('.console'))) {
      const next = workflow.nodes[index + step];
      if (next) {
        setSelected(next.id);
        document.querySelector<HTMLElement>(`[data-node="${next.id}"]`)?.focus();
      }
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const keys = useRef(onKey);
  keys.current = onKey;
  useEffect(() => {
    const listener = (event: KeyboardEvent) => keys.current(event);
    // Before the editor, which has other uses for these.
    window.addEventListener('keydown', listener, true);
    return () => window.removeEventListener('keydown', listener, true);
  }, []);

  return (
    <>
      <Header page="workflow">
        <button type="button" className="quiet wide-only" onClick={reset}>
          Reset
        </button>
        <button type="button" className="quiet square" onClick={() => setSheet(true)} aria-label="Keyboard shortcuts">
          ?
        </button>
        {busy ? (
          <button type="button" className="danger" onClick={cancel}>
            <Icon name="stop" /> Cancel
          </button>
        ) : (
          <button type="button" className="primary" onClick={runChain} disabled={!workflow}>
            <Icon name="chain" /> Run chain
          </button>
        )}
      </Header>
      <main className="studio">
        {workflow && node && (
          <>
            <aside>
              <h1>{workflow.name}</h1>
              <Chain workflow={workflow} runs={runs} selected={node.id} onSelect={setSelected} />
              <p className="say" role="status">
                {sayOf(workflow, runs, busy)}
              </p>
            </aside>
            <NodePane
              key={`${node.id}.${version}`}
              node={node}
              mark={mark}
              busy={busy}
              onChange={(changed: WorkflowNode | CodeNode) => change(changed)}
              onRun={runNode}
            />
            <Inspector key={`result.${node.id}`} node={node} run={runs.get(node.id)} trouble={trouble} />
          </>
        )}
      </main>
      <Shortcuts open={sheet} onClose={() => setSheet(false)} />
    </>
  );
}
