'use strict';
// Compiles and links what macOS would run, for both of its architectures, from
// Linux: zig has its headers and a linker for it. Called as `npm run lint -- darwin`,
// which throws the result away: it cannot be run on Linux. By hand, to try it on a Mac:
// `node scripts/darwin.js /path/to/include/node prebuilds`.

const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { zigBinary } = require('./from-npm.js');

const ROOT = path.join(__dirname, '..');
const all = (dir, names) => names.split(' ').map((name) => `${dir}/${name}.c`);

// Shared with binding.gyp's Linux targets, but for what src/darwin and backend_darwin* stand in for.
const ADDON = [
  ...all('src', 'addon addon_body addon_replace addon_submit addon_value addon_open jail engine engine_timer pool run'),
  ...all('src', 'wire files json json_scan text buf error live backend_darwin backend_darwin_cell backend_darwin_read'),
];
const TARGETS = {
  'code_jail.node': { kind: '-shared', sources: [...ADDON, ...all('src/darwin', 'host absent layers')] },
  'guest_node.node': { kind: '-shared', sources: all('src/guest', 'guest_node inmate_solo') },
  'guest_python.so': { kind: '-shared', sources: all('src/guest', 'guest_python inmate_solo') },
  'code-jail-keeper': { kind: '', sources: ['src/guest/guard.c', 'src/darwin/wall.c'] },
};
const FLAGS = ['-std=gnu11', '-O2', '-D_GNU_SOURCE', '-D_DARWIN_C_SOURCE', '-DNAPI_VERSION=9', '-DCODE_JAIL_PACKAGE'];
const WARNINGS = ['-Wall', '-Wextra', '-Werror', '-Wformat-security', '-fvisibility=hidden'];
const NODE_ARCH = { x86_64: 'x64', aarch64: 'arm64' };
// Of a Mach-O file, 64 bits, little-endian: its magic is before the type of its processor.
const CPU = { x86_64: 0x01000007, aarch64: 0x0100000c };

/** @param {string} include where node_api.h is @param {string} [keep] a folder for darwin-x64 and darwin-arm64 */
function build(include, keep) {
  const zig = zigBinary();
  const out = fs.mkdtempSync(path.join(os.tmpdir(), 'darwin-build-'));
  const env = { ...process.env, ZIG_GLOBAL_CACHE_DIR: out, ZIG_LOCAL_CACHE_DIR: out };
  try {
    // The folder of jsmn.h holds the headers of Linux as well.
    fs.mkdirSync(path.join(out, 'include'));
    fs.copyFileSync('/usr/include/jsmn.h', path.join(out, 'include', 'jsmn.h'));
    for (const arch of Object.keys(CPU))
      for (const [name, { kind, sources }] of Object.entries(TARGETS)) {
        const file = path.join(out, `${arch}-${name}`);
        const link = kind ? [kind, '-Wl,-undefined,dynamic_lookup'] : [];
        const headers = ['-include', 'src/darwin/port.h', '-Isrc', '-isystem', include];
        headers.push('-isystem', path.join(out, 'include'));
        const flags = ['cc', '-target', `${arch}-macos`, ...FLAGS, ...WARNINGS, ...headers, ...link];
        const { status, stderr } = spawnSync(zig, [...flags, ...sources, '-o', file], { cwd: ROOT, env });
        if (status !== 0) throw new Error(`${arch} ${name}:\n${stderr}`);
        const start = fs.readFileSync(file);
        if (start.readUInt32LE(0) !== 0xfeedfacf || start.readUInt32LE(4) !== CPU[arch])
          throw new Error(`${arch} ${name}: no Mach-O file of that processor`);
        console.log(`${arch} ${name}: ${start.length} bytes`);
        if (!keep) continue;
        const dir = path.join(keep, `darwin-${NODE_ARCH[arch]}`);
        fs.mkdirSync(dir, { recursive: true });
        fs.copyFileSync(file, path.join(dir, name));
      }
  } finally {
    fs.rmSync(out, { recursive: true, force: true });
  }
}

if (require.main === module) {
  try {
    build(process.argv[2], process.argv[3]);
  } catch (error) {
    console.error(error.message);
    process.exitCode = 1;
  }
}

module.exports = { build, TARGETS, FLAGS };
