import type { Metadata } from 'next';
import type { ReactNode } from 'react';
import './tokens.css';
import './layout.css';
import './parts.css';
import './result.css';

export const metadata: Metadata = {
  title: 'Workflows',
  description: 'Workflow code nodes, each run in a jail of its own.',
};

// Before the first paint, or the page would flash in the other theme.
const THEME =
  "try{const t=localStorage.getItem('code-jail.theme');if(t)document.documentElement.dataset.theme=t}catch{}";

export default function RootLayout({ children }: { children: ReactNode }) {
  return (
    <html lang="en" suppressHydrationWarning>
      <head>
        {/* biome-ignore lint/security/noDangerouslySetInnerHtml: the constant above */}
        <script dangerouslySetInnerHTML={{ __html: THEME }} />
      </head>
      <body>{children}</body>
    </html>
  );
}
