'use client';
// A JSON value of any size and shape: only what is opened is drawn, in pieces.
import { useState } from 'react';
import type { JsonValue } from '@/lib/workflows/types';
import { Icon } from './icons';
import { count, cut } from './text';

const PIECE = 100;
const OPEN_AT_FIRST = 20;

type Branch = JsonValue[] | { [key: string]: JsonValue };

function Leaf({ value }: { value: Exclude<JsonValue, Branch> }) {
  if (typeof value !== 'string') return <span className={value === null ? 'null' : typeof value}>{String(value)}</span>;
  const { text, more } = cut(value);
  return (
    <bdi className="string">
      “{text}”{more > 0 && <span className="note"> … {count(more)} more characters</span>}
    </bdi>
  );
}

const isBranch = (value: JsonValue): value is Branch => typeof value === 'object' && value !== null;

function Row({ name, value, depth }: { name: string | null; value: JsonValue; depth: number }) {
  const branch = isBranch(value);
  const keys = branch && !Array.isArray(value) ? Object.keys(value) : null;
  const size = branch ? (keys?.length ?? (value as JsonValue[]).length) : 0;
  const [open, setOpen] = useState(depth < 2 && size <= OPEN_AT_FIRST);
  const [shown, setShown] = useState(PIECE);
  const label = name === null ? null : <bdi className="key">{cut(name, 200).text}</bdi>;
  if (!branch) {
    return (
      <li className="row">
        {label}
        <Leaf value={value} />
      </li>
    );
  }
  const what = keys ? `{ ${count(size)} ${size === 1 ? 'key' : 'keys'} }` : `[ ${count(size)} ]`;
  const indexes = open ? Array.from({ length: Math.min(shown, size) }, (_, i) => i) : [];
  return (
    <li className="row">
      <button type="button" className="fold" aria-expanded={open} onClick={() => setOpen(!open)}>
        {label}
        <span className="size">{what}</span>
      </button>
      {open && (
        <ul>
          {indexes.map((i) => {
            const key = keys ? (keys[i] as string) : String(i);
            const child = keys ? (value as { [key: string]: JsonValue })[key] : (value as JsonValue[])[i];
            return <Row key={key} name={key} value={child as JsonValue} depth={depth + 1} />;
          })}
          {size > shown && (
            <li>
              <button type="button" className="link" onClick={() => setShown(shown + PIECE)}>
                Show {count(Math.min(PIECE, size - shown))} more of {count(size - shown)}
              </button>
            </li>
          )}
        </ul>
      )}
    </li>
  );
}

export function ResultTree({ value }: { value: JsonValue }) {
  const [copied, setCopied] = useState('');
  const copy = () =>
    navigator.clipboard.writeText(JSON.stringify(value, null, 2)).then(
      () => setCopied('Copied'),
      () => setCopied('The browser refused'),
    );
  return (
    <div className="tree">
      <button type="button" className="quiet small copy" onClick={copy}>
        <Icon name="copy" />
        <span aria-live="polite">{copied || 'Copy JSON'}</span>
      </button>
      <ul>
        <Row name={null} value={value} depth={0} />
      </ul>
    </div>
  );
}
