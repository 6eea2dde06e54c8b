import { JailError, type RunRequest, runCode } from 'code-jail';

const VERSION = 'first'; // the test changes it, for a hot reload

export async function POST(request: Request): Promise<Response> {
  const wanted = (await request.json()) as RunRequest;
  try {
    return Response.json({ version: VERSION, ...(await runCode(wanted, { signal: request.signal })) });
  } catch (error) {
    if (!(error instanceof JailError)) throw error;
    return Response.json({ code: error.code, message: error.message }, { status: 400 });
  }
}
