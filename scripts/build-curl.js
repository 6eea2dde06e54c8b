'use strict';
// Builds the libcurl that goes into the addon: static, position independent,
// hidden, HTTP(S) only, with an nghttp2 and an OpenSSL of its own. Node exports
// its own OpenSSL and nghttp2; a libcurl linked plainly would bind to those.
//
//   node scripts/build-curl.js            build into .cache/curl-<hash>/ if it is not there
//   node scripts/build-curl.js --force    build again (picks up Debian's security updates)
//   node scripts/build-curl.js --print include|defines|libs|mode     for binding.gyp
//
// Sources are the distribution's own source packages, fetched with apt-get from
// the mirrors this machine already uses and checked by apt's signatures. No root
// is needed for that; only missing tools (cmake, libssl-dev) must be installed.
//
// CODE_JAIL_CURL=system links the machine's shared libcurl by pkg-config instead.
// That is also the way out where the static one cannot be had; `doctor` tells.

const crypto = require('node:crypto');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { CurlBuildError, fetchSources, must, run } = require('./apt-source.js');

const ROOT = path.join(__dirname, '..');
const CACHE = path.join(ROOT, '.cache');
const LIBS = ['libcurl.a', 'libnghttp2.a', 'libssl.a', 'libcrypto.a'];

const HIDDEN = '-O2 -fPIC -fvisibility=hidden -ffunction-sections -fdata-sections';

// Options that a version does not know are ignored by CMake, so that one list
// serves the curl of several distributions.
const NGHTTP2_OPTIONS = {
  ENABLE_LIB_ONLY: 'ON',
  ENABLE_STATIC_LIB: 'ON',
  ENABLE_SHARED_LIB: 'OFF',
  BUILD_STATIC_LIBS: 'ON',
  BUILD_SHARED_LIBS: 'OFF',
  BUILD_TESTING: 'OFF',
  ENABLE_DOC: 'OFF',
};
const CURL_OPTIONS = {
  HTTP_ONLY: 'ON',
  BUILD_CURL_EXE: 'OFF',
  BUILD_SHARED_LIBS: 'OFF',
  BUILD_STATIC_LIBS: 'ON',
  BUILD_TESTING: 'OFF',
  BUILD_LIBCURL_DOCS: 'OFF',
  BUILD_MISC_DOCS: 'OFF',
  ENABLE_CURL_MANUAL: 'OFF',
  ENABLE_MANUAL: 'OFF',
  CURL_USE_OPENSSL: 'ON',
  OPENSSL_USE_STATIC_LIBS: 'ON',
  USE_NGHTTP2: 'ON',
  ENABLE_THREADED_RESOLVER: 'ON',
  ENABLE_IPV6: 'ON',
  CURL_CA_BUNDLE: 'none',
  CURL_CA_PATH: 'none',
  CURL_CA_FALLBACK: 'OFF',
  CURL_ZLIB: 'OFF',
  CURL_BROTLI: 'OFF',
  CURL_ZSTD: 'OFF',
  CURL_USE_LIBPSL: 'OFF',
  CURL_USE_LIBSSH2: 'OFF',
  CURL_USE_LIBSSH: 'OFF',
  CURL_USE_GSSAPI: 'OFF',
  USE_LIBIDN2: 'OFF',
  USE_WIN32_IDN: 'OFF',
  CURL_LTO: 'OFF',
  CURL_DISABLE_OPENSSL_AUTO_LOAD_CONFIG: 'ON',
  CURL_DISABLE_ALTSVC: 'ON',
  CURL_DISABLE_COOKIES: 'ON',
  CURL_DISABLE_CRYPTO_AUTH: 'ON',
  CURL_DISABLE_DIGEST_AUTH: 'ON',
  CURL_DISABLE_KERBEROS_AUTH: 'ON',
  CURL_DISABLE_NEGOTIATE_AUTH: 'ON',
  CURL_DISABLE_NTLM: 'ON',
  CURL_DISABLE_AWS: 'ON',
  CURL_DISABLE_DOH: 'ON',
  CURL_DISABLE_HSTS: 'ON',
  CURL_DISABLE_MIME: 'ON',
  CURL_DISABLE_FORM_API: 'ON',
  CURL_DISABLE_NETRC: 'ON',
  CURL_DISABLE_LIBCURL_OPTION: 'ON',
  CURL_DISABLE_PROGRESS_METER: 'ON',
  CURL_DISABLE_WEBSOCKETS: 'ON',
  CURL_DISABLE_IPFS: 'ON',
};

// ---- where things are ----

// Debian's libssl.a and libcrypto.a are position independent, its libnghttp2.a is not.
function opensslDir() {
  const wanted = process.env.CODE_JAIL_OPENSSL_LIBDIR;
  const triplet = { x64: 'x86_64-linux-gnu', arm64: 'aarch64-linux-gnu' }[process.arch];
  const dirs = [wanted, triplet && `/usr/lib/${triplet}`, '/usr/lib64', '/usr/lib', '/usr/local/lib'];
  return dirs.find(
    (dir) => dir && fs.existsSync(path.join(dir, 'libssl.a')) && fs.existsSync(path.join(dir, 'libcrypto.a')),
  );
}

/** The folder the result belongs into: a hash of everything it depends on. */
function prefix() {
  const sum = crypto.createHash('sha256');
  const openssl = opensslDir();
  for (const part of [
    JSON.stringify([HIDDEN, NGHTTP2_OPTIONS, CURL_OPTIONS]),
    `${cmake}${buildInto}`, // their text
    process.arch,
    process.env.CC ?? '',
    openssl ?? '',
    openssl ? String(fs.statSync(path.join(openssl, 'libcrypto.a')).size) : '',
  ]) {
    sum.update(part).update('\0');
  }
  return path.join(CACHE, `curl-${sum.digest('hex').slice(0, 16)}`);
}

function isBuilt(dir) {
  return fs.existsSync(path.join(dir, 'versions.json'));
}

// ---- what must be installed ----

const TOOLS = [
  { package: 'libssl-dev', has: () => opensslDir() !== undefined && fs.existsSync('/usr/include/openssl/ssl.h') },
  { package: 'cmake', has: () => run('cmake', ['--version']).ok },
  { package: 'make', has: () => run('make', ['--version']).ok },
  { package: 'dpkg-dev', has: () => run('dpkg-source', ['--version']).ok },
];

function installTools() {
  const missing = TOOLS.filter((tool) => !tool.has()).map((tool) => tool.package);
  if (missing.length === 0) return;
  const install = ['install', '-y', '--no-install-recommends', ...missing];
  const advice =
    `To build libcurl these Debian packages are needed: ${missing.join(' ')}.\n` +
    `  Run:  sudo apt-get ${install.join(' ')}\n` +
    '  or set CODE_JAIL_CURL=system to link the shared libcurl that pkg-config finds.';
  if (process.getuid?.() !== 0) throw new CurlBuildError(`${advice}\n(Not root, so nothing was installed.)`);
  const env = { DEBIAN_FRONTEND: 'noninteractive' };
  if (!run('apt-get', install, { env }).ok) {
    run('apt-get', ['update'], { env });
    const again = run('apt-get', install, { env });
    if (!again.ok) throw new CurlBuildError(`${advice}\napt-get said:\n${again.output}`);
  }
}

function unpack(work, name) {
  const dsc = fs.readdirSync(work).find((file) => file.startsWith(`${name}_`) && file.endsWith('.dsc'));
  const version = /^[^_]+_(.+)\.dsc$/.exec(dsc)[1];
  must(`unpacking ${name}`, 'dpkg-source', ['--no-check', '-x', dsc, name], { cwd: work });
  return { version, dir: path.join(work, name) };
}

// ---- building ----

function cmake(step, source, target, options) {
  const build = `${source}-build`;
  const defines = Object.entries(options).map(([name, value]) => `-D${name}=${value}`);
  const common = [
    '-DCMAKE_BUILD_TYPE=Release',
    '-DCMAKE_POSITION_INDEPENDENT_CODE=ON',
    '-DCMAKE_C_FLAGS_RELEASE=-DNDEBUG',
    `-DCMAKE_INSTALL_PREFIX=${target}`,
    '-DCMAKE_INSTALL_LIBDIR=lib',
  ];
  const jobs = String(Math.max(1, Math.min(4, os.availableParallelism())));
  must(`configuring ${step}`, 'cmake', ['-S', source, '-B', build, ...common, ...defines]);
  must(`building ${step}`, 'cmake', ['--build', build, '--target', 'install', '--parallel', jobs]);
}

function findLibrary(dir, pattern) {
  const name = fs.readdirSync(path.join(dir, 'lib')).find((file) => pattern.test(file));
  if (!name) throw new CurlBuildError(`libcurl: the build left no ${pattern} in ${dir}`);
  return path.join(dir, 'lib', name);
}

function buildInto(target) {
  const work = fs.mkdtempSync(path.join(CACHE, 'curl-work-'));
  try {
    fetchSources(work);
    const nghttp2 = unpack(work, 'nghttp2');
    const curl = unpack(work, 'curl');
    const out = path.join(work, 'out');
    const flags = (extra) => ({ CMAKE_C_FLAGS: `${HIDDEN} ${extra}`.trim() });
    cmake('nghttp2', nghttp2.dir, out, { ...NGHTTP2_OPTIONS, ...flags('-DNGHTTP2_STATICLIB') });
    const library = findLibrary(out, /^libnghttp2.*\.a$/);
    const openssl = opensslDir();
    cmake('curl', curl.dir, out, {
      ...CURL_OPTIONS,
      ...flags('-DNGHTTP2_STATICLIB'),
      NGHTTP2_INCLUDE_DIR: path.join(out, 'include'),
      NGHTTP2_LIBRARY: library,
      OPENSSL_SSL_LIBRARY: path.join(openssl, 'libssl.a'),
      OPENSSL_CRYPTO_LIBRARY: path.join(openssl, 'libcrypto.a'),
    });
    const ready = path.join(work, 'ready');
    fs.mkdirSync(path.join(ready, 'lib'), { recursive: true });
    fs.cpSync(path.join(out, 'include', 'curl'), path.join(ready, 'include', 'curl'), { recursive: true });
    fs.copyFileSync(findLibrary(out, /^libcurl.*\.a$/), path.join(ready, 'lib', 'libcurl.a'));
    fs.copyFileSync(library, path.join(ready, 'lib', 'libnghttp2.a'));
    for (const name of ['libssl.a', 'libcrypto.a']) {
      fs.copyFileSync(path.join(openssl, name), path.join(ready, 'lib', name));
    }
    const versions = { curl: curl.version, nghttp2: nghttp2.version, openssl: opensslVersion() };
    fs.writeFileSync(path.join(ready, 'versions.json'), `${JSON.stringify(versions)}\n`);
    fs.rmSync(target, { recursive: true, force: true });
    fs.renameSync(ready, target);
  } finally {
    fs.rmSync(work, { recursive: true, force: true });
  }
}

function opensslVersion() {
  const done = run('dpkg-query', ['-W', '-f', '${Version}', 'libssl-dev']);
  return done.ok ? done.stdout.trim() : 'unknown';
}

// ---- what binding.gyp and setup ask ----

/** `static` or `system`: which libcurl the addon is linked with on this machine. */
function mode() {
  if (process.env.CODE_JAIL_CURL === 'system' || process.platform !== 'linux') return 'system';
  return isBuilt(prefix()) ? 'static' : 'system';
}

function pkgConfig(flag) {
  const done = run('pkg-config', [flag, 'libcurl']);
  if (done.ok) return done.stdout.trim();
  if (process.platform === 'darwin') return flag === '--libs' ? '-lcurl' : '';
  throw new CurlBuildError(
    'libcurl: neither the static one (npm run setup) nor a shared one (Debian: libcurl4-openssl-dev, pkg-config) is here.',
  );
}

function print(what) {
  if (what === 'mode') return mode();
  const dir = prefix();
  if (mode() === 'static') {
    if (what === 'include') return path.join(dir, 'include');
    if (what === 'defines') return 'CURL_STATICLIB CODE_JAIL_CURL_STATIC';
    return [...LIBS.map((name) => path.join(dir, 'lib', name)), '-ldl', '-lpthread'].join(' ');
  }
  if (what === 'libs') return pkgConfig('--libs');
  if (what === 'defines') return 'CODE_JAIL_CURL_SYSTEM';
  const include = /(?:^|\s)-I(\S+)/.exec(pkgConfig('--cflags'));
  return include ? include[1] : '.';
}

/**
 * Makes sure that the static libcurl is there, unless the machine's own is wanted.
 * @param {{ force?: boolean, onStart?: () => void, onFallback?: (why: string) => void }} [options]
 * @returns {boolean} whether anything had to be built
 */
function ensure({ force = false, onStart = () => {}, onFallback = undefined } = {}) {
  if (process.env.CODE_JAIL_CURL === 'system' || process.platform !== 'linux') return false;
  if (!force && isBuilt(prefix())) return false;
  onStart();
  fs.mkdirSync(CACHE, { recursive: true });
  try {
    installTools();
    buildInto(prefix()); // after installTools: the hash depends on libssl-dev
  } catch (error) {
    if (!(error instanceof CurlBuildError) || !onFallback || !run('pkg-config', ['--exists', 'libcurl']).ok)
      throw error;
    onFallback(error.message);
    return false;
  }
  return true;
}

module.exports = {
  ...{ ensure, mode, prefix, print, CurlBuildError },
  ...{ cmake, findLibrary, unpack, HIDDEN, NGHTTP2_OPTIONS, CURL_OPTIONS }, // for cross-curl.js
};

if (require.main === module) {
  const args = process.argv.slice(2);
  const at = args.indexOf('--print');
  try {
    if (at >= 0) {
      process.stdout.write(print(args[at + 1]));
    } else {
      const done = ensure({ force: args.includes('--force'), onStart: () => console.error('Building libcurl …') });
      console.error(done ? `Built ${path.relative(ROOT, prefix())}` : `Nothing to do (${mode()}).`);
    }
  } catch (error) {
    console.error(error instanceof CurlBuildError ? error.message : error.stack);
    process.exitCode = 1;
  }
}
