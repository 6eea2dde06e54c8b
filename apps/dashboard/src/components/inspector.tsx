'use client';
import Link from 'next/link';
import type { NodeOutcome, WorkflowNode } from '@/lib/workflows/types';
import { Console } from './console';
import { JailBadge } from './jail-badge';
import { ResultTree } from './result-tree';
import { cut } from './text';
import { Usage } from './usage';
import type { NodeRun, Trouble } from './use-run';
import { isJailTrouble, REMEDIES, STATES } from './words';

export function TroubleNote({ trouble }: { trouble: Trouble }) {
  return (
    <div className="problem jail-trouble" role="alert">
      <h3>
        The run was not taken <code>{trouble.code}</code>
      </h3>
      <p>{cut(trouble.message).text}</p>
    </div>
  );
}

function Problem({ outcome }: { outcome: NodeOutcome }) {
  const { error, state } = outcome;
  const trouble = isJailTrouble(outcome);
  if (!error && !trouble) return null;
  const remedy = error?.hint ?? REMEDIES[state];
  return (
    <div className={`problem ${trouble ? 'jail-trouble' : STATES[state].tone}`}>
      <h3>
        {trouble ? 'The jail, not your code' : cut(error?.name ?? '', 100).text}
        {outcome.code && <code>{outcome.code}</code>}
        {error?.line != null && <span className="place">line {error.line}</span>}
        {error?.path && <code>{cut(error.path, 200).text}</code>}
      </h3>
      {error && <p>{cut(error.message).text}</p>}
      {error?.sourceLine && <pre>{cut(error.sourceLine, 300).text}</pre>}
      {remedy && <p className="hint">{cut(remedy).text}</p>}
      {state === 'unavailable' && (
        <p>
          <Link href="/status">Open the status page</Link>
        </p>
      )}
      {error?.stack && (
        <details>
          <summary>Stack</summary>
          <pre>{cut(error.stack, 4000).text}</pre>
        </details>
      )}
    </div>
  );
}

export function Inspector({ node, run, trouble }: { node: WorkflowNode; run?: NodeRun; trouble: Trouble | null }) {
  const outcome = run?.outcome ?? null;
  const state = outcome ? STATES[outcome.state] : null;
  return (
    <section className="inspector" aria-label="Result">
      {trouble && <TroubleNote trouble={trouble} />}
      <h2>
        Result
        {state && <span className={`state ${state.tone}`}>{state.label}</span>}
        {run && run.state !== 'done' && (
          <span className="state live">{run.state === 'running' ? 'Running' : 'Waiting'}</span>
        )}
      </h2>
      {!run && (
        <p className="empty">
          Not run yet. <kbd>Ctrl</kbd> <kbd>Enter</kbd> runs this node, with <kbd>Shift</kbd> the whole chain.
        </p>
      )}
      {outcome && <Problem outcome={outcome} />}
      {outcome?.state === 'succeeded' && <ResultTree value={outcome.output} />}
      {outcome?.jail && <JailBadge jail={outcome.jail} />}
      {run && node.kind === 'code' && run.state !== 'waiting' && (
        <>
          <h2>Console</h2>
          <Console log={run.log} outcome={outcome} />
        </>
      )}
      {outcome?.jail && (
        <>
          <h2>Time and memory</h2>
          <Usage usage={outcome.usage} memoryMb={node.kind === 'code' ? node.memoryMb : undefined} />
        </>
      )}
    </section>
  );
}
