import type { NodeOutcome } from '@/lib/workflows/types';
import type { Log } from './log';
import { count, visible } from './text';

export function Console({ log, outcome }: { log: Log; outcome: NodeOutcome | null }) {
  const dropped = (outcome?.stdoutDropped ?? 0) + (outcome?.stderrDropped ?? 0);
  if (log.lines.length === 0) return <p className="empty">Nothing was printed.</p>;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, and keys must reach it
    <section className="console" aria-label="Console output" tabIndex={0}>
      {log.left > 0 && <p className="note">{count(log.left)} earlier lines left out</p>}
      {log.lines.map((line) => (
        <div key={line.id} className={`line ${line.stream}`}>
          {line.stream === 'stderr' && <span className="tag">err</span>}
          <bdi>{visible(line.text)}</bdi>
          {line.more > 0 && <span className="note"> … {count(line.more)} more characters</span>}
        </div>
      ))}
      {dropped > 0 && <p className="note">{count(dropped)} bytes left out of the middle</p>}
    </section>
  );
}
