import type { NodeOutcome } from '@/lib/workflows/types';
import { bytes, duration } from './text';

const PARTS = [
  ['queue', 'Queue', 'queueMs'],
  ['start', 'Start', 'startMs'],
  ['run', 'Run', 'runMs'],
] as const;

export function Usage({ usage, memoryMb }: { usage: NodeOutcome['usage']; memoryMb?: number }) {
  const all = PARTS.reduce((sum, [, , field]) => sum + (usage[field] ?? 0), 0);
  const limit = memoryMb === undefined ? null : memoryMb * 1024 * 1024;
  const peak = usage.peakMemoryBytes;
  return (
    <div className="usage">
      {all > 0 && (
        <div className="bar" aria-hidden="true">
          {PARTS.map(([name, , field]) => (
            <span key={name} className={name} style={{ flexGrow: (usage[field] ?? 0) / all }} />
          ))}
        </div>
      )}
      <dl>
        {PARTS.map(([name, label, field]) => (
          <div key={name} className={name}>
            <dt>{label}</dt>
            <dd>{duration(usage[field])}</dd>
          </div>
        ))}
        <div>
          <dt>CPU</dt>
          <dd>{duration(usage.cpuMs)}</dd>
        </div>
        <div>
          <dt>Memory peak</dt>
          <dd>
            {bytes(peak)}
            {limit !== null && peak !== null && (
              <>
                <small> of {memoryMb} MiB</small>
                <meter
                  min={0}
                  max={limit}
                  high={limit * 0.9}
                  value={Math.min(peak, limit)}
                  aria-label="Memory used of its limit"
                />
              </>
            )}
          </dd>
        </div>
      </dl>
    </div>
  );
}
