'use client';
import { useState } from 'react';
import type { CodeLanguage, CodeNode, TriggerNode, WorkflowNode } from '@/lib/workflows/types';
import { CodeEditor } from './code-editor';
import type { Mark } from './editor-marks';
import { Icon } from './icons';

function Limit(props: {
  label: string;
  unit: string;
  value?: number;
  least: number;
  most: number;
  onChange: (value?: number) => void;
}) {
  return (
    <label className="limit">
      <span>{props.label}</span>
      <input
        type="number"
        min={props.least}
        max={props.most}
        value={props.value ?? ''}
        placeholder="default"
        onChange={({ target }) => props.onChange(target.value === '' ? undefined : Math.round(target.valueAsNumber))}
      />
      <span>{props.unit}</span>
    </label>
  );
}

function CodePane({ node, mark, onChange }: { node: CodeNode; mark: Mark | null; onChange: (node: CodeNode) => void }) {
  return (
    <>
      <div className="settings">
        <label>
          <span className="hidden">Language</span>
          <select
            value={node.language}
            onChange={({ target }) => onChange({ ...node, language: target.value as CodeLanguage })}
          >
            <option value="javascript">JavaScript</option>
            <option value="typescript">TypeScript</option>
            <option value="python">Python</option>
          </select>
        </label>
        <Limit
          label="Time"
          unit="ms"
          least={1}
          most={60000}
          value={node.timeoutMs}
          onChange={(timeoutMs) => onChange({ ...node, timeoutMs })}
        />
        <Limit
          label="Memory"
          unit="MiB"
          least={16}
          most={4096}
          value={node.memoryMb}
          onChange={(memoryMb) => onChange({ ...node, memoryMb })}
        />
      </div>
      <CodeEditor
        label={`Code of ${node.name}`}
        language={node.language}
        code={node.code}
        mark={mark}
        onChange={(code) => onChange({ ...node, code })}
      />
    </>
  );
}

function TriggerPane({ node, onChange }: { node: TriggerNode; onChange: (node: TriggerNode) => void }) {
  const [text] = useState(() => JSON.stringify(node.payload, null, 2));
  const [wrong, setWrong] = useState('');
  const take = (changed: string) => {
    try {
      onChange({ ...node, payload: JSON.parse(changed) });
      setWrong('');
    } catch (error) {
      setWrong(`Not JSON, the last good payload stays: ${(error as Error).message}`);
    }
  };
  return (
    <>
      <p className="settings" role="status">
        {wrong ? (
          <span className="tone bad">{wrong}</span>
        ) : (
          <span className="empty">The payload that starts the chain, as JSON</span>
        )}
      </p>
      <CodeEditor label="Payload" language="json" code={text} mark={null} onChange={take} />
    </>
  );
}

export function NodePane(props: {
  node: WorkflowNode;
  mark: Mark | null;
  busy: boolean;
  onChange: (node: WorkflowNode) => void;
  onRun: () => void;
}) {
  const { node } = props;
  return (
    <section className="pane" aria-label="Node">
      <div className="pane-head">
        <h2>{node.name}</h2>
        <button type="button" onClick={props.onRun} disabled={props.busy} title="Ctrl+Enter">
          <Icon name="play" /> Run node
        </button>
      </div>
      {node.kind === 'code' && <CodePane node={node} mark={props.mark} onChange={props.onChange} />}
      {node.kind === 'trigger' && <TriggerPane node={node} onChange={props.onChange} />}
      {node.kind === 'output' && <p className="empty pad">What the chain gives, whole, beside this.</p>}
    </section>
  );
}
