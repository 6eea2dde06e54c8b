// Puts this repository's code-jail, as it is now, into node_modules as a folder. npm makes a link of
// `file:../..`, and what a link leads out of node_modules Next takes for sources of the app and bundles:
// an addon cannot be. An app of your own installs code-jail from a registry and needs none of this.
import { cpSync, existsSync, rmSync } from 'node:fs';
import path from 'node:path';

const ROOT = path.join(import.meta.dirname, '..', '..', '..');
const HERE = path.join(import.meta.dirname, '..', 'node_modules', 'code-jail');
const BUILD = path.join('build', 'Release');
const NATIVE = ['code_jail.node', 'code-jail-keeper', 'guest_node.node', 'guest_python.so'].map((name) =>
  path.join(BUILD, name),
);

if (!NATIVE.every((name) => existsSync(path.join(ROOT, name)))) {
  process.stderr.write('code-jail is not built: `npm run setup` in the repository’s root\n');
  process.exit(1);
}
rmSync(HERE, { recursive: true, force: true });
for (const name of ['package.json', 'index.d.ts', 'index.d.mts', 'lib', ...NATIVE]) {
  cpSync(path.join(ROOT, name), path.join(HERE, name), { recursive: true });
}
