'use client';
// One run at a time: sends the workflow, and takes its events as they come.
import { useCallback, useEffect, useRef, useState } from 'react';
import type { NodeOutcome, RunBody, RunEvent } from '@/lib/workflows/types';
import { Log } from './log';

export interface NodeRun {
  state: 'waiting' | 'running' | 'done';
  outcome: NodeOutcome | null;
  log: Log;
}

export interface Trouble {
  code: string;
  message: string;
}

async function* eventsOf(response: Response): AsyncGenerator<RunEvent> {
  if (!response.body) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  // Pieces of a long line are joined once, when it is whole.
  let pieces: string[] = [];
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = value.split('\n');
    for (const part of parts.slice(0, -1)) {
      const line = pieces.join('') + part;
      pieces = [];
      if (line) yield JSON.parse(line) as RunEvent;
    }
    pieces.push(parts.at(-1) ?? '');
  }
}

async function troubleOf(response: Response): Promise<Trouble> {
  const body = await response.json().catch(() => null);
  const { code, message } = body?.error ?? {};
  return {
    code: String(code ?? `HTTP ${response.status}`),
    message: String(message ?? 'The server did not take the run.'),
  };
}

function take(runs: Map<string, NodeRun>, event: RunEvent) {
  if (event.type === 'start') runs.set(event.nodeId, { state: 'running', outcome: null, log: new Log() });
  else if (event.type === 'stdout' || event.type === 'stderr') runs.get(event.nodeId)?.log.push(event.type, event.text);
  else if (event.type === 'outcome') {
    const { outcome } = event;
    const log = runs.get(outcome.nodeId)?.log ?? new Log();
    // A jail that does not stream tells all at its end.
    for (const stream of ['stdout', 'stderr'] as const) {
      if (!log.heard[stream] && outcome[stream]) log.push(stream, outcome[stream]);
    }
    // The newest last.
    runs.delete(outcome.nodeId);
    runs.set(outcome.nodeId, { state: 'done', outcome, log });
  }
}

export function useRun() {
  const runs = useRef(new Map<string, NodeRun>());
  const abort = useRef<AbortController | null>(null);
  const [busy, setBusy] = useState(false);
  const [trouble, setTrouble] = useState<Trouble | null>(null);
  const [, draw] = useState(0);
  const frame = useRef(0);
  // However much is written, the page is drawn once a frame.
  const redraw = useCallback(() => {
    cancelAnimationFrame(frame.current);
    frame.current = requestAnimationFrame(() => draw((n) => n + 1));
  }, []);

  const cancel = useCallback(() => abort.current?.abort(), []);
  useEffect(() => cancel, [cancel]);

  const run = useCallback(
    async (body: RunBody, stale: string[] = []) => {
      if (abort.current) return;
      const controller = new AbortController();
      abort.current = controller;
      setBusy(true);
      setTrouble(null);
      for (const id of stale) runs.current.delete(id);
      const ids = body.only ? [body.only] : body.workflow.nodes.map((node) => node.id);
      for (const id of ids) runs.current.set(id, { state: 'waiting', outcome: null, log: new Log() });
      redraw();
      let ended = false;
      try {
        const response = await fetch('/api/workflows/run', {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify(body),
          signal: controller.signal,
        });
        if (!response.ok) setTrouble(await troubleOf(response));
        else {
          for await (const event of eventsOf(response)) {
            if (event.type === 'end') ended = true;
            else take(runs.current, event);
            redraw();
          }
          if (!ended)
            setTrouble({
              code: 'CUT OFF',
              message: 'The answer ended before the run did. What became of it is not known.',
            });
        }
      } catch (error) {
        if (!controller.signal.aborted)
          setTrouble({ code: 'NO ANSWER', message: `The dashboard’s server cannot be reached: ${String(error)}` });
      }
      for (const id of ids) {
        const one = runs.current.get(id);
        if (one?.state === 'running')
          runs.current.set(id, { ...one, state: 'done', outcome: controller.signal.aborted ? cancelled(id) : null });
        else if (one?.state === 'waiting') runs.current.delete(id);
      }
      abort.current = null;
      setBusy(false);
      redraw();
    },
    [redraw],
  );

  const forget = useCallback(() => {
    runs.current.clear();
    setTrouble(null);
    redraw();
  }, [redraw]);

  return { runs: runs.current, busy, trouble, run, cancel, forget };
}

/** The connection is closed by then: nothing more is heard of it. */
function cancelled(nodeId: string): NodeOutcome {
  return {
    nodeId,
    state: 'cancelled',
    output: null,
    stdout: '',
    stderr: '',
    stdoutDropped: 0,
    stderrDropped: 0,
    error: null,
    usage: { queueMs: null, startMs: null, runMs: null, cpuMs: null, peakMemoryBytes: null },
    jail: null,
    retryable: false,
  };
}
