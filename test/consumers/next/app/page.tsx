import { runCode } from 'code-jail';

export const dynamic = 'force-dynamic';

/** A run from a server component. */
export default async function Page() {
  const { result } = await runCode({ language: 'javascript', code: 'return 6 * 7' });
  return <p>answer {String(result)}</p>;
}
