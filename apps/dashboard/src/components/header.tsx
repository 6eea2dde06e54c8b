'use client';
import Link from 'next/link';
import type { ReactNode } from 'react';

function toggleTheme() {
  const root = document.documentElement;
  const dark =
    getComputedStyle(root).colorScheme === 'dark' ||
    (!root.dataset.theme && matchMedia('(prefers-color-scheme: dark)').matches);
  root.dataset.theme = dark ? 'light' : 'dark';
  try {
    localStorage.setItem('code-jail.theme', root.dataset.theme);
  } catch {}
}

export function Header({ page, children }: { page: 'workflow' | 'status'; children?: ReactNode }) {
  return (
    <header className="top">
      <nav aria-label="Pages">
        <Link className="brand" href="/">
          <svg viewBox="0 0 20 20" aria-hidden="true">
            <rect x="1" y="1" width="18" height="18" rx="5" />
            <path d="M6 5v10M10 5v10M14 5v10" />
          </svg>
          <span>code-jail</span>
        </Link>
        <Link href="/" aria-current={page === 'workflow' ? 'page' : undefined}>
          Workflow
        </Link>
        <Link href="/status" aria-current={page === 'status' ? 'page' : undefined}>
          Status
        </Link>
      </nav>
      <div className="actions">
        {children}
        <button type="button" className="quiet square" onClick={toggleTheme} aria-label="Switch between light and dark">
          <svg className="icon" viewBox="0 0 16 16" aria-hidden="true">
            <circle cx="8" cy="8" r="5.5" />
            <path d="M8 2.5a5.5 5.5 0 0 1 0 11z" fill="currentColor" />
          </svg>
        </button>
      </div>
    </header>
  );
}
