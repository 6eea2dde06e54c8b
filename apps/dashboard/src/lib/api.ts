// What stands before each route. The dashboard has no login of its own: on loopback it must not be
// driven by a page of another site that its user happens to visit, and elsewhere an authenticating
// proxy stands before it.

import type { ApiError } from './workflows/types';

/** A workflow's code and input: the jail takes 16 MiB of input and 1 MiB of code a node. */
export const MOST_BODY_BYTES = 20 * 1024 * 1024;

const LOOPBACK = /^(localhost|127\.0\.0\.1|\[::1\])(:\d+)?$/i;

export class Refusal extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

/** Names that it answers to: without DASHBOARD_HOSTS those of loopback alone, so that a name rebound to it is refused. */
function isOurName(host: string): boolean {
  const more = (process.env.DASHBOARD_HOSTS ?? '').split(',').map((one) => one.trim().toLowerCase());
  return LOOPBACK.test(host) || more.includes('*') || more.includes(host.toLowerCase());
}

export function guardOrigin(headers: Headers): void {
  const host = headers.get('host') ?? '';
  if (!isOurName(host))
    throw new Refusal(
      421,
      'wrong_host',
      `this dashboard does not answer to that name; DASHBOARD_HOSTS lists those it does`,
    );
  const site = headers.get('sec-fetch-site');
  const origin = headers.get('origin');
  const isForeign =
    (site !== null && site !== 'same-origin' && site !== 'none') || (origin !== null && !isOf(origin, host));
  if (isForeign) throw new Refusal(403, 'foreign_origin', 'a page of another origin may not use this API');
}

function isOf(origin: string, host: string): boolean {
  try {
    return new URL(origin).host === host.toLowerCase();
  } catch {
    return false; // "null" of a sandboxed frame
  }
}

/** The body as JSON, refused as soon as it is too large. */
export async function readJson(request: Request): Promise<unknown> {
  guardOrigin(request.headers);
  const type = request.headers.get('content-type')?.split(';')[0]?.trim().toLowerCase();
  if (type !== 'application/json') throw new Refusal(415, 'not_json', 'the body must be of type application/json');
  const tooLarge = new Refusal(413, 'too_large', `the body must have at most ${MOST_BODY_BYTES} bytes`);
  if (Number(request.headers.get('content-length') ?? 0) > MOST_BODY_BYTES) throw tooLarge;
  const parts: Uint8Array[] = [];
  let bytes = 0;
  const reader = request.body?.getReader();
  for (let part = await reader?.read(); part?.value; part = await reader?.read()) {
    bytes += part.value.byteLength;
    if (bytes > MOST_BODY_BYTES) throw tooLarge;
    parts.push(part.value);
  }
  try {
    return JSON.parse(Buffer.concat(parts).toString());
  } catch {
    throw new Refusal(400, 'bad_json', 'the body is not JSON');
  }
}

export function refused(status: number, code: string, message: string): Response {
  const body: ApiError = { error: { code, message } };
  return Response.json(body, { status, headers: { 'cache-control': 'no-store' } });
}
