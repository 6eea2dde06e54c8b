// Which jail ran it and which walls stood: what the result says, and nothing more.
import type { NodeOutcome, StatusReport } from '@/lib/workflows/types';
import { Icon } from './icons';
import { BACKENDS, ISOLATION, layerText, STARTS } from './words';

type Walls = NonNullable<StatusReport['verified']>;

export const standing = ({ isolation, missing }: Pick<Walls, 'isolation' | 'missing'>) =>
  isolation === 'unverified' ? 'unverified' : missing.length > 0 ? 'partly' : 'whole';

const plural = (n: number, word: string) => `${n} ${word}${n === 1 ? '' : 's'}`;

export function WallList({ layers, missing }: Pick<Walls, 'layers' | 'missing'>) {
  return (
    <ul className="walls">
      {missing.map(({ layer, reason }) => (
        <li key={layer} className="missing">
          <span className="mark">missing</span>
          <span>
            <code>{layer}</code>
            <small>{reason}</small>
          </span>
        </li>
      ))}
      {layers.map((layer) => (
        <li key={layer}>
          <span className="mark">verified</span>
          <span>
            <code>{layer}</code>
            <small>{layerText(layer)}</small>
          </span>
        </li>
      ))}
    </ul>
  );
}

export function JailBadge({ jail }: { jail: NonNullable<NodeOutcome['jail']> }) {
  const isolation = ISOLATION[jail.isolation];
  return (
    <details className={`jail ${standing(jail)}`}>
      <summary>
        <Icon name="shield" />
        <strong>{isolation.label}</strong>
        <span className="walls-count">
          {plural(jail.layers.length, 'wall')} verified
          {jail.missing.length > 0 && <em>, {jail.missing.length} missing</em>}
        </span>
        <span className="facts">
          {BACKENDS[jail.backend]}
          {jail.runtime && ` · ${jail.runtime}`}
          {jail.start && ` · ${jail.start}`}
        </span>
      </summary>
      <p>
        {isolation.text} {jail.start && `For this run ${STARTS[jail.start]}.`}
      </p>
      <WallList layers={jail.layers} missing={jail.missing} />
    </details>
  );
}
