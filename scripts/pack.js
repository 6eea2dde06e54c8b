'use strict';
// `npm run pack [-- --out DIR]`: the package as it is published, made in a folder of its own.
// prebuilds/ (npm run prebuilds) is taken as it is; for this platform, where it has none,
// the build of this clone is. Last line: the tarball's path.

const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');

const ROOT = path.join(__dirname, '..');
/** Beside the addon, in a folder named by its C library: programs are static, guest libraries are not. */
const BESIDE = ['guest_node.node', 'guest_python.so', 'code-jail-keeper', 'code-jail-launcher', 'code-jail-warden'];

/**
 * The agent and the initrd belong into images, which are made in a clone: they stay behind.
 * @param {string} built @param {string} folder of a platform @param {string} libc @param {string} [strip] a program
 */
function layOut(built, folder, libc, strip = 'strip') {
  fs.mkdirSync(path.join(folder, libc), { recursive: true });
  const pairs = BESIDE.map((name) => [name, path.join(libc, name)]);
  for (const [from, to] of [['code_jail.node', `code_jail.${libc}.node`], ...pairs]) {
    const file = path.join(folder, to);
    fs.copyFileSync(path.join(built, from), file);
    const done = strip && spawnSync(strip, ['--strip-unneeded', file], { encoding: 'utf8' });
    if (done && done.status !== 0) throw new Error(`${strip} ${from}: ${done.stderr ?? done.error?.message}`);
    fs.chmodSync(file, path.extname(to) ? 0o644 : 0o755);
  }
}

// What only a clone can run is left out: its scripts, and what they need.
function manifest() {
  const { devDependencies: _, scripts, ...rest } = JSON.parse(fs.readFileSync(path.join(ROOT, 'package.json'), 'utf8'));
  return { ...rest, scripts: { build: scripts.build } };
}

// A build for a platform that package.json does not promise stays here.
const isPromised =
  ({ os: systems, cpu }) =>
  (name) => {
    const [system, arch] = name.split('-');
    return systems.includes(system) && cpu.includes(arch);
  };
const libc = () => (/** @type {any} */ (process.report.getReport()).header.glibcVersionRuntime ? 'glibc' : 'musl');

/** @param {string} out @returns {{ file: string, packed: number, unpacked: number, names: string[] }} */
function pack(out) {
  const stage = fs.mkdtempSync(path.join(os.tmpdir(), 'code-jail-pack-'));
  try {
    const own = manifest();
    const kept = own.files.filter((name) => name !== 'prebuilds' && !name.startsWith('!')); // npm leaves out what ! says
    for (const name of [...kept, 'README.md', 'LICENSE']) {
      fs.cpSync(path.join(ROOT, name), path.join(stage, name), { recursive: true });
    }
    fs.writeFileSync(path.join(stage, 'package.json'), `${JSON.stringify(own, null, 2)}\n`);
    const prebuilds = path.join(ROOT, 'prebuilds');
    for (const name of fs.existsSync(prebuilds) ? fs.readdirSync(prebuilds).filter(isPromised(own)) : [])
      fs.cpSync(path.join(prebuilds, name), path.join(stage, 'prebuilds', name), { recursive: true });
    const here = path.join(stage, 'prebuilds', `${process.platform}-${process.arch}`);
    if (!fs.existsSync(path.join(here, `code_jail.${libc()}.node`)))
      layOut(path.join(ROOT, 'build', 'Release'), here, libc());
    fs.mkdirSync(out, { recursive: true });
    const args = ['pack', '--json', '--ignore-scripts', '--loglevel=error', '--pack-destination', out];
    const done = spawnSync('npm', args, { cwd: stage, encoding: 'utf8' });
    if (done.status !== 0) throw new Error(`npm pack: ${done.stderr}`);
    const told = JSON.parse(done.stdout);
    const made = Array.isArray(told) ? told[0] : Object.values(told)[0];
    const file = path.join(out, made.filename);
    return { file, packed: made.size, unpacked: made.unpackedSize, names: made.files.map((one) => one.path) };
  } finally {
    fs.rmSync(stage, { recursive: true, force: true });
  }
}

module.exports = { pack, layOut, BESIDE };

if (require.main === module) {
  const at = process.argv.indexOf('--out');
  const made = pack(path.resolve(at > 0 ? process.argv[at + 1] : ROOT));
  const mb = (bytes) => `${(bytes / 1e6).toFixed(1)} MB`;
  const platforms = made.names.filter((name) => /code_jail[^/]*\.node$/.test(name));
  console.log(
    `${platforms.join('\n')}\n${made.names.length} files, ${mb(made.packed)} packed, ${mb(made.unpacked)} unpacked`,
  );
  console.log(made.file);
}
