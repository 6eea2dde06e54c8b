'use client';
import { useEffect, useRef } from 'react';

const KEYS: [string, string][] = [
  ['Ctrl Enter', 'Run this node'],
  ['Ctrl Shift Enter', 'Run the chain'],
  ['Esc', 'Cancel the run'],
  ['j or ↓', 'Next node'],
  ['k or ↑', 'Previous node'],
  ['Esc, then Tab', 'Leave the editor'],
  ['?', 'This sheet'],
];

export function Shortcuts({ open, onClose }: { open: boolean; onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (open) dialog.current?.showModal();
    else dialog.current?.close();
  }, [open]);
  return (
    <dialog ref={dialog} onClose={onClose} aria-labelledby="shortcuts-title">
      <h2 id="shortcuts-title">Keyboard</h2>
      <dl>
        {KEYS.map(([keys, what]) => (
          <div key={keys}>
            <dt>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <p className="empty">On a Mac, Cmd for Ctrl.</p>
      <button type="button" onClick={onClose}>
        Close
      </button>
    </dialog>
  );
}
