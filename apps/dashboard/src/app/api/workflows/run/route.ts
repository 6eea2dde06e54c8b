import { Refusal, readJson, refused } from '@/lib/api';
import { BodyError, readRun } from '@/lib/workflows/read-body';
import { runWorkflow } from '@/lib/workflows/run-workflow';
import type { RunBody, RunEvent } from '@/lib/workflows/types';

export const runtime = 'nodejs';

/** One RunEvent a line, as they come; closing the connection cancels the run. */
export async function POST(request: Request): Promise<Response> {
  let body: RunBody;
  try {
    body = readRun(await readJson(request));
  } catch (error) {
    if (error instanceof Refusal) return refused(error.status, error.code, error.message);
    if (error instanceof BodyError) return refused(400, 'bad_request', error.message);
    throw error;
  }
  const gone = new AbortController();
  const signal = AbortSignal.any([request.signal, gone.signal]);
  const encoder = new TextEncoder();
  const stream = new ReadableStream<Uint8Array>({
    async start(controller) {
      const emit = (event: RunEvent) => {
        if (!signal.aborted) controller.enqueue(encoder.encode(`${JSON.stringify(event)}\n`));
      };
      // What waits for a slow reader is bounded: the jail caps output and results.
      void runWorkflow(body, { signal, emit }).then(
        () => signal.aborted || controller.close(),
        (error) => signal.aborted || controller.error(error),
      );
    },
    cancel() {
      gone.abort();
    },
  });
  return new Response(stream, {
    headers: {
      'content-type': 'application/x-ndjson; charset=utf-8',
      'cache-control': 'no-store, no-transform',
      'x-accel-buffering': 'no',
    },
  });
}
