import path from 'node:path';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  resolve: { alias: { '@': path.join(import.meta.dirname, 'src') } },
  test: { include: ['test/*.vitest.ts'], testTimeout: 60000, hookTimeout: 60000 },
});
