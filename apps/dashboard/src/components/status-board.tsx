'use client';
import { useCallback, useEffect, useState } from 'react';
import type { StatusReport } from '@/lib/workflows/types';
import { Header } from './header';
import { standing, WallList } from './jail-badge';
import { cut } from './text';
import { BACKENDS, ISOLATION } from './words';

const timeOf = (iso: string) => new Date(iso).toLocaleString();

function Fact({ label, value, tone, wide }: { label: string; value: string | number; tone?: string; wide?: boolean }) {
  return (
    <div className={wide ? 'wide' : undefined}>
      <dt>{label}</dt>
      <dd className={tone && `tone ${tone}`}>{value}</dd>
    </div>
  );
}

function Report({ report }: { report: StatusReport }) {
  const { selects, verified, queue, error } = report;
  const isolation = verified && ISOLATION[verified.isolation];
  return (
    <>
      {error && (
        <div className="problem jail-trouble" role="alert">
          <h3>
            The jail cannot be used <code>{error.code}</code>
          </h3>
          <p>{cut(error.message).text}</p>
        </div>
      )}
      <section className="card" aria-labelledby="which">
        <h2 id="which">Which jail</h2>
        <dl className="facts">
          <Fact label="Configured" value={selects ? BACKENDS[selects.backend] : 'nothing usable'} />
          <Fact label="Reachable" value={report.reachable ? 'Yes' : 'No'} tone={report.reachable ? 'good' : 'jail'} />
          <Fact label="Ready" value={report.ready ? 'Yes' : 'No'} tone={report.ready ? 'good' : 'jail'} />
          <Fact label="At least" value={report.minIsolation ?? 'not asked for'} />
          <Fact label="code-jail" value={report.version} />
          {report.languages.map((one) => (
            <Fact
              key={one.language}
              label={one.language}
              value={one.runtime ?? (one.ok ? 'ready' : (one.error ?? 'not ready'))}
              tone={one.ok ? undefined : 'jail'}
            />
          ))}
          <Fact wide label="Because" value={selects?.because ?? 'the configuration is wrong'} />
        </dl>
      </section>
      <section className="card" aria-labelledby="queue">
        <h2 id="queue">Queue</h2>
        {queue ? (
          <dl className="facts">
            <Fact label="Waiting" value={queue.queued} />
            <Fact label="Running" value={queue.running} />
            <Fact label="Settled" value={queue.settled} />
            <Fact label="Refused" value={queue.refused} />
            {Object.entries(queue.parked).map(([language, n]) => (
              <Fact key={language} label={`Parked, ${language}`} value={n} />
            ))}
          </dl>
        ) : (
          <p className="empty">Not known.</p>
        )}
      </section>
      <section className="card tall" aria-labelledby="walls">
        <h2 id="walls">
          Walls
          {verified && isolation && <span className={`state ${standing(verified)}`}>{isolation.label}</span>}
        </h2>
        {verified ? (
          <>
            <p>{isolation?.text}</p>
            <WallList layers={verified.layers} missing={verified.missing} />
          </>
        ) : (
          <p className="empty">Nothing has been verified.</p>
        )}
      </section>
      <section className="card" aria-labelledby="failures">
        <h2 id="failures">Last failures of the jail</h2>
        {report.failures.length === 0 && <p className="empty">None since this server started.</p>}
        <ul className="failures">
          {report.failures.map((one, i) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: two may be of one moment
            <li key={`${one.at}.${i}`}>
              <code>{one.code}</code>
              <span>{cut(one.message, 300).text}</span>
              <time dateTime={one.at}>{timeOf(one.at)}</time>
            </li>
          ))}
        </ul>
      </section>
    </>
  );
}

export function StatusBoard() {
  const [report, setReport] = useState<StatusReport | null>(null);
  const [trouble, setTrouble] = useState('');
  const [busy, setBusy] = useState(true);
  const refresh = useCallback(async () => {
    setBusy(true);
    try {
      const response = await fetch('/api/status', { cache: 'no-store' });
      if (!response.ok) throw new Error(`HTTP ${response.status}`);
      setReport(await response.json());
      setTrouble('');
    } catch (error) {
      setReport(null);
      setTrouble(`The dashboard’s server does not answer: ${String(error)}`);
    }
    setBusy(false);
  }, []);
  useEffect(() => void refresh(), [refresh]);
  return (
    <>
      <Header page="status">
        <button type="button" onClick={() => void refresh()} disabled={busy}>
          Refresh
        </button>
      </Header>
      <main className="status">
        <div className="status-head">
          <h1>Status</h1>
          <p className="empty" role="status">
            {busy ? 'Asking the jail …' : report ? `As of ${timeOf(report.checkedAt)}` : trouble}
          </p>
        </div>
        {report && <Report report={report} />}
      </main>
    </>
  );
}
