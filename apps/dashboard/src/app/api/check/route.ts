import { JailError } from 'code-jail';
import { Refusal, readJson, refused } from '@/lib/api';
import { checkNode } from '@/lib/workflows/code-execution';
import { outcomeOfFailure } from '@/lib/workflows/outcomes';
import { BodyError, readCheckBody } from '@/lib/workflows/read-body';

export const runtime = 'nodejs';

const STATUS = { invalid: 400, overloaded: 429 } as const;

export async function POST(request: Request): Promise<Response> {
  try {
    const body = readCheckBody(await readJson(request));
    return Response.json(await checkNode(body, request.signal));
  } catch (error) {
    if (error instanceof Refusal) return refused(error.status, error.code, error.message);
    if (error instanceof BodyError) return refused(400, 'bad_request', error.message);
    if (request.signal.aborted) return refused(499, 'cancelled', 'the client has gone');
    if (!(error instanceof JailError)) throw error;
    const outcome = outcomeOfFailure('', error);
    const status = STATUS[outcome.state as keyof typeof STATUS] ?? 503;
    return refused(status, error.code, outcome.error?.message ?? error.code);
  }
}
