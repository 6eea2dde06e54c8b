// Completes what `next build` leaves: its standalone server serves static files only if they lie beside it.
import { cpSync, existsSync } from 'node:fs';
import path from 'node:path';

const app = path.join(import.meta.dirname, '..');
const standalone = path.join(app, '.next', 'standalone', 'apps', 'dashboard');
cpSync(path.join(app, '.next', 'static'), path.join(standalone, '.next', 'static'), { recursive: true });
if (existsSync(path.join(app, 'public'))) {
  cpSync(path.join(app, 'public'), path.join(standalone, 'public'), { recursive: true });
}
