import type { NextConfig } from 'next';

const config: NextConfig = {
  output: 'standalone',
  // Its native parts lie beside it. (Without it, for a test: what somebody reads who forgot.)
  serverExternalPackages: process.env.FORGOTTEN ? [] : ['code-jail'],
  // This project lies inside another one, which is not to be taken for its root.
  outputFileTracingRoot: process.cwd(),
  turbopack: { root: process.cwd() },
};

export default config;
