import { guardOrigin, Refusal, refused } from '@/lib/api';
import { readStatus } from '@/lib/workflows/status';

export const runtime = 'nodejs';
export const dynamic = 'force-dynamic';

export async function GET(request: Request): Promise<Response> {
  try {
    guardOrigin(request.headers);
  } catch (error) {
    if (error instanceof Refusal) return refused(error.status, error.code, error.message);
    throw error;
  }
  return Response.json(await readStatus(), { headers: { 'cache-control': 'no-store' } });
}
