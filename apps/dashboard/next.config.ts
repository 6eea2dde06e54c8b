import path from 'node:path';
import type { NextConfig } from 'next';

// code-jail is the package around this folder: its files are traced from there.
const root = path.join(import.meta.dirname, '..', '..');
const isDevelopment = process.env.NODE_ENV === 'development';

// Next's own inline scripts and CodeMirror's styles need 'unsafe-inline'; nothing comes from elsewhere.
const contentSecurityPolicy = [
  "default-src 'self'",
  `script-src 'self' 'unsafe-inline'${isDevelopment ? " 'unsafe-eval'" : ''}`,
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "object-src 'none'",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
].join('; ');

const config: NextConfig = {
  output: 'standalone',
  // A native addon is loaded by Node itself, not bundled.
  serverExternalPackages: ['code-jail'],
  turbopack: { root },
  outputFileTracingRoot: root,
  // What the local jail starts by path, which no tracer can see.
  outputFileTracingIncludes: {
    '/api/**': ['node_modules/code-jail/**', '../../node_modules/@swc/wasm-typescript/**'],
  },
  poweredByHeader: false,
  async headers() {
    return [
      {
        source: '/:path*',
        headers: [
          { key: 'Content-Security-Policy', value: contentSecurityPolicy },
          { key: 'X-Content-Type-Options', value: 'nosniff' },
          { key: 'Referrer-Policy', value: 'no-referrer' },
          { key: 'Cross-Origin-Resource-Policy', value: 'same-origin' },
          { key: 'Cross-Origin-Opener-Policy', value: 'same-origin' },
        ],
      },
    ];
  },
};

export default config;
