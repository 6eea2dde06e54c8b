// The jail of this process: chosen by the environment alone, made at the first use, made anew if the
// environment changes. Next loads each route as a bundle of its own, so it hangs on globalThis.

import { createJail, type Isolation, type Jail, type JailConfig, type RunJail } from 'code-jail';
import type { JailFailure } from './types';

const KEPT_FAILURES = 20;

interface Shared {
  made: string;
  jail: Jail | null;
  failures: JailFailure[];
  /** Of the last run that gave a result. */
  last: RunJail | null;
}

const holder = globalThis as typeof globalThis & { codeJailDashboard?: Shared };
holder.codeJailDashboard ??= { made: '', jail: null, failures: [], last: null };
const shared: Shared = holder.codeJailDashboard;

/** FIRECRACKER_SOCKET (Linux) before CODE_SANDBOX_URL before the local jail, as `runCode` itself chooses. */
export function jailConfig(env: NodeJS.ProcessEnv = process.env): JailConfig {
  const minIsolation = deploymentIsolation(env);
  const common = minIsolation ? { minIsolation } : {};
  if (process.platform === 'linux' && env.FIRECRACKER_SOCKET) return { ...common, socket: env.FIRECRACKER_SOCKET };
  if (!env.CODE_SANDBOX_URL) return common;
  return {
    ...common,
    url: env.CODE_SANDBOX_URL,
    token: env.CODE_SANDBOX_TOKEN,
    ...(env.CODE_SANDBOX_IDENTITY && { identity: env.CODE_SANDBOX_IDENTITY as 'metadata' }),
    ...(env.CODE_SANDBOX_IDENTITY_TOKEN && {
      headers: { 'x-serverless-authorization': `Bearer ${env.CODE_SANDBOX_IDENTITY_TOKEN}` },
    }),
    ...(env.CODE_SANDBOX_AUDIENCE && { audience: env.CODE_SANDBOX_AUDIENCE }),
  };
}

/** The least that this deployment runs behind; a wrong value is refused by code-jail with its name. */
export function deploymentIsolation(env: NodeJS.ProcessEnv = process.env): Isolation | null {
  return (env.MIN_ISOLATION as Isolation | undefined) || null;
}

/** Throws ERR_JAIL_CONFIG where the environment is wrong. */
export function theJail(): Jail {
  const config = jailConfig();
  const made = JSON.stringify(config);
  if (shared.jail === null || shared.made !== made) {
    const jail = createJail(config);
    void shared.jail?.close();
    shared.jail = jail;
    shared.made = made;
  }
  return shared.jail;
}

/** For tests, and for a host that ends. */
export async function closeJail(): Promise<void> {
  const { jail } = shared;
  shared.jail = null;
  await jail?.close();
}

export const jailStats = () => shared.jail?.stats() ?? null;
export const lastJail = () => shared.last;
export const lastFailures = (): JailFailure[] => [...shared.failures];

export function rememberJail(jail: RunJail): void {
  shared.last = jail;
}

export function rememberFailure(failure: JailFailure): void {
  shared.failures = [failure, ...shared.failures].slice(0, KEPT_FAILURES);
}
