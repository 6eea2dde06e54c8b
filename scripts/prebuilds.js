'use strict';
// `npm run prebuilds -- linux-x64|linux-arm64|darwin|all`: what goes into prebuilds/, from
// Linux x86_64. zig links the libraries for glibc 2.28 whatever this machine has; the programs
// are static, and its own C library is as good. darwin is compiled and linked, never run.

const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const darwin = require('./darwin.js');
const { targets } = require('./gyp-targets.js');
const { zigBinary } = require('./from-npm.js');
const { prebuiltCurl } = require('./prebuilt-curl.js');
const { layOut } = require('./pack.js');
const { install, runs } = require('./debian.js');

const ROOT = path.join(__dirname, '..');
const OUT = path.join(ROOT, 'prebuilds');
const GLIBC = '2.28';
const LINUX = {
  'linux-x64': { cpu: 'x86_64', cc: 'gcc', debian: 'amd64', strip: 'strip' },
  'linux-arm64': { cpu: 'aarch64', cc: 'aarch64-linux-gnu-gcc', debian: 'arm64', strip: 'aarch64-linux-gnu-strip' },
};
const FILES = { guest_python: 'guest_python.so', code_jail: 'code_jail.node', guest_node: 'guest_node.node' };
const NOT_SHIPPED = ['code-jail-agent', 'code-jail-initrd'];

// GNU ld's way to hide what archives define; zig's linker knows a list of what is to be seen.
const EXPORTS = '{ global: napi_register_module_v1; node_api_module_get_api_version_v1; local: *; };\n';

function headers() {
  const prefixes = [
    process.env.npm_config_nodedir ?? '',
    path.dirname(path.dirname(process.execPath)),
    '/usr',
    '/usr/local',
  ];
  const found = prefixes
    .map((prefix) => path.join(prefix, 'include', 'node'))
    .find((dir) => fs.existsSync(path.join(dir, 'uv.h')));
  if (!found)
    throw new Error(
      'Node’s headers (node_api.h, uv.h) are not here; set npm_config_nodedir to a folder with include/node.',
    );
  return found;
}

function must(command, args, env = {}) {
  const done = spawnSync(command, args, { cwd: ROOT, encoding: 'utf8', env: { ...process.env, ...env } });
  if (done.status !== 0) throw new Error(`${path.basename(command)}: ${done.stderr || done.error?.message}`);
}

// The addon defines curl_getenv itself, and zig's linker reads archives before our objects.
function libraries(prefix, work) {
  const own = path.join(work, 'libcurl.a');
  fs.copyFileSync(path.join(prefix, 'lib', 'libcurl.a'), own);
  const members = spawnSync('ar', ['t', own], { encoding: 'utf8' }).stdout.split('\n');
  must('ar', ['d', own, ...members.filter((name) => /getenv\.c\.o$/.test(name))]);
  return [own, ...['nghttp2', 'ssl', 'crypto'].map((name) => path.join(prefix, 'lib', `lib${name}.a`))];
}

function link(name, target, { cpu, cc }, prefix, work) {
  const include = [
    '-isystem',
    headers(),
    '-isystem',
    path.join(work, 'include'),
    '-isystem',
    path.join(prefix, 'include'),
  ];
  // No path of this machine is to be found in what comes out.
  const common = [...target.cflags.filter((flag) => flag !== '-g'), '-fPIC', '-s', ...include];
  const file = path.join(work, FILES[name] ?? name);
  if (target.isProgram) return must(cc, [...common, ...target.sources, ...target.ldflags, '-o', file]);
  const isAddon = name === 'code_jail';
  const flags = target.ldflags.filter((flag) => !flag.includes('exclude-libs'));
  const zig = ['cc', '-target', `${cpu}-linux-gnu.${GLIBC}`, ...common, '-fno-sanitize=all', '-shared', ...flags];
  if (isAddon)
    zig.push('-DCURL_STATICLIB', '-DCODE_JAIL_CURL_STATIC', `-Wl,--version-script=${path.join(work, 'exports')}`);
  zig.push(...target.sources, ...(isAddon ? libraries(prefix, work) : []), '-ldl', '-lpthread', '-o', file);
  const cache = path.join(work, 'zig');
  must(zigBinary(), zig, { ZIG_GLOBAL_CACHE_DIR: cache, ZIG_LOCAL_CACHE_DIR: cache });
}

function linux(platform) {
  const kind = LINUX[platform];
  if (platform === 'linux-arm64')
    install([
      { what: 'a compiler for arm64', packages: ['gcc-aarch64-linux-gnu'], has: () => runs(kind.cc, '--version') },
    ]);
  const prefix = prebuiltCurl(kind);
  const work = fs.mkdtempSync(path.join(os.tmpdir(), 'prebuild-'));
  try {
    fs.mkdirSync(path.join(work, 'include'));
    fs.copyFileSync('/usr/include/jsmn.h', path.join(work, 'include', 'jsmn.h'));
    fs.writeFileSync(path.join(work, 'exports'), EXPORTS);
    for (const [name, target] of Object.entries(targets()))
      if (!NOT_SHIPPED.includes(name)) link(name, target, kind, prefix, work);
    fs.rmSync(path.join(OUT, platform), { recursive: true, force: true });
    layOut(work, path.join(OUT, platform), 'glibc', kind.strip);
  } finally {
    fs.rmSync(work, { recursive: true, force: true });
  }
}

const KINDS = {
  ...Object.fromEntries(Object.keys(LINUX).map((name) => [name, () => linux(name)])),
  darwin: () => darwin.build(headers(), OUT),
};

if (require.main === module) {
  const [name] = process.argv.slice(2);
  const wanted = name === 'all' ? Object.keys(KINDS) : [name];
  try {
    if (!Object.hasOwn(KINDS, wanted[0])) throw new Error(`One of ${Object.keys(KINDS).join(', ')}, all is expected.`);
    if (process.platform !== 'linux' || process.arch !== 'x64') throw new Error('Prebuilds are made on Linux x86_64.');
    for (const one of wanted) {
      const start = Date.now();
      KINDS[one]();
      console.log(`${one}: ${((Date.now() - start) / 1000).toFixed(0)} s`);
    }
  } catch (error) {
    console.error(error.message);
    process.exitCode = 1;
  }
}

module.exports = { GLIBC };
