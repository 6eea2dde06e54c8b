// What the status page shows. Looking costs a boot of both runtimes where the jail is local, so that
// what was found holds for some seconds, and all who ask meanwhile share one look.

import { type Doctor, doctor } from 'code-jail';
import { deploymentIsolation, jailStats, lastFailures, lastJail } from './jail';
import { publicError } from './outcomes';
import type { StatusReport } from './types';

const HOLDS_MS = 10000;

let last: { at: number; found: Promise<Doctor> } | null = null;

function look(): Promise<Doctor> {
  if (last === null || Date.now() - last.at > HOLDS_MS) {
    const minIsolation = deploymentIsolation();
    last = { at: Date.now(), found: doctor(minIsolation ? { minIsolation } : {}) };
  }
  return last.found;
}

function verifiedBy(found: Doctor): StatusReport['verified'] {
  const run = found.runtimes.find((one) => one.ok && one.isolation);
  if (run?.isolation) return { isolation: run.isolation, layers: run.layers, missing: run.missing };
  // A service is only asked; the last run's answer says more, if there was one.
  const ran = lastJail();
  if (found.service && ran?.backend === 'http')
    return { isolation: ran.isolation, layers: ran.layers, missing: ran.missing };
  return found.service && { isolation: found.service.isolation, layers: [], missing: [] };
}

function languagesOf(found: Doctor): StatusReport['languages'] {
  if (found.service)
    return found.service.languages.map((language) => ({ language, ok: true, runtime: null, error: null }));
  return found.runtimes.map(({ language, ok, runtime, error }) => ({
    language,
    ok,
    runtime,
    error: error && publicError(error).message,
  }));
}

export async function readStatus(): Promise<StatusReport> {
  const rest = {
    minIsolation: deploymentIsolation(),
    queue: jailStats(),
    failures: lastFailures(),
    checkedAt: new Date(last?.at ?? Date.now()).toISOString(),
  };
  try {
    const found = await look();
    const failure = found.error ?? found.runtimes.find((one) => one.error)?.error ?? null;
    return {
      ...rest,
      selects: found.selects,
      reachable: found.service !== null || found.runtimes.some((one) => one.ok),
      verified: verifiedBy(found),
      ready: found.ok,
      version: found.version,
      languages: languagesOf(found),
      checkedAt: new Date(last?.at ?? Date.now()).toISOString(),
      error: failure && publicError(failure),
    };
  } catch (error) {
    const { code = 'ERR_INTERNAL' } = error as Error & { code?: string };
    return {
      ...rest,
      selects: null,
      reachable: false,
      verified: null,
      ready: false,
      version: '',
      languages: [],
      error: publicError({ code }),
    };
  }
}
