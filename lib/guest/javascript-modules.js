'use strict';
// What the user's text may load: built-in modules, the preloaded packages, and
// files of its own working directory. By require(), import() or static import.

const { createRequire, isBuiltin } = require('node:module');
const { pathToFileURL } = require('node:url');
const vm = require('node:vm');

const own = createRequire(__filename);
const { cwd } = process;
const { defineProperty, keys } = Object;
const toURL = URL;
const uncurry = (method) => Function.prototype.call.bind(method);
const slice = uncurry(String.prototype.slice);
const indexOf = uncurry(String.prototype.indexOf);
const exec = uncurry(RegExp.prototype.exec);
const mapGet = uncurry(Map.prototype.get);
const mapHas = uncurry(Map.prototype.has);

// What costs nothing to load, because the zygote has it already.
const COMMON = [
  'assert',
  'assert/strict',
  'async_hooks',
  'buffer',
  'child_process',
  'console',
  'constants',
  'crypto',
  'diagnostics_channel',
  'dns',
  'dns/promises',
  'events',
  'fs',
  'fs/promises',
  'http',
  'https',
  'module',
  'net',
  'os',
  'path',
  'path/posix',
  'perf_hooks',
  'process',
  'punycode',
  'querystring',
  'readline',
  'readline/promises',
  'stream',
  'stream/promises',
  'stream/web',
  'string_decoder',
  'timers',
  'timers/promises',
  'tls',
  'url',
  'util',
  'util/types',
  'v8',
  'vm',
  'worker_threads',
  'zlib',
];

/** @type {Map<string, unknown>} preloaded packages; the value of those that only import() can load */
const packages = new Map();

const RELATIVE = /^(?:\.{1,2}(?:\/|$)|\/)/;
const ADDRESS = /^[A-Za-z][A-Za-z0-9+.-]+:/;

/** The package's own name: `@scope/name` of `@scope/name/part`. */
function packageOf(id) {
  const first = indexOf(id, '/');
  const end = id[0] === '@' && first >= 0 ? indexOf(id, '/', first + 1) : first;
  return end < 0 ? id : slice(id, 0, end);
}

async function preload(names) {
  for (const name of COMMON) if (isBuiltin(name)) own(name);
  for (const name of names) {
    try {
      packages.set(packageOf(name), null);
      own(name);
    } catch (error) {
      try {
        const code = error?.code;
        if (code !== 'ERR_REQUIRE_ESM' && code !== 'ERR_PACKAGE_PATH_NOT_EXPORTED') throw error;
        packages.set(name, await import(name));
      } catch (cause) {
        throw misconfigured(name, cause);
      }
    }
  }
}

/** The host's to mend: what it is and how, and no path of the cell's own. */
function misconfigured(name, cause) {
  const [line] = `${cause?.message ?? cause}`.split('\n');
  const why = line.replace(/ imported from .*/, '').replace(/\/rt\/(?:node_modules\/|guest\/)?/g, '');
  return new Error(
    `config: preload ${name}: ${why.slice(0, 1000)} ` +
      '(install it in the node_modules of the current folder, or name another with { node: { modules } })',
  );
}

function load(id) {
  if (typeof id !== 'string' || isBuiltin(id)) return own(id);
  if (mapHas(packages, packageOf(id))) return mapGet(packages, id) ?? own(id);
  return local()(id);
}

// A require of the working directory. Made when first asked for: it is the
// cell's directory, not the zygote's.
let localRequire;
const local = () => (localRequire ??= createRequire(`${cwd()}/code.js`));

function makeRequire() {
  const require = function require(id) {
    return load(id);
  };
  require.resolve = function resolve(id, options) {
    if (typeof id === 'string' && mapHas(packages, packageOf(id))) return own.resolve(id);
    return local().resolve(id, options);
  };
  defineProperty(require, 'cache', { configurable: true, enumerable: true, get: () => own.cache });
  return require;
}

/** import(specifier), for a text that has no address of its own. */
function importDynamically(specifier, _referrer, attributes) {
  let target = specifier;
  if (exec(RELATIVE, specifier) !== null) {
    target = new toURL(specifier, pathToFileURL(`${cwd()}/`)).href;
  } else if (!isBuiltin(specifier) && exec(ADDRESS, specifier) === null && !mapHas(packages, packageOf(specifier))) {
    const error = new Error(`Cannot find package '${specifier}' imported from code.js`);
    error.code = 'ERR_MODULE_NOT_FOUND';
    throw error;
  }
  return attributes !== undefined && keys(attributes).length > 0
    ? import(target, { with: attributes })
    : import(target);
}

/** Static imports: each becomes a module that hands on what is loaded already. */
async function link(specifier, referencing, extra) {
  const space = await importDynamically(specifier, referencing, extra?.attributes ?? extra?.assert);
  const names = keys(space);
  return new vm.SyntheticModule(
    names,
    function fill() {
      for (let i = 0; i < names.length; i++) this.setExport(names[i], space[names[i]]);
    },
    { identifier: specifier },
  );
}

function initializeMeta(meta) {
  meta.filename = `${cwd()}/code.mjs`;
  meta.dirname = cwd();
  meta.url = pathToFileURL(meta.filename).href;
}

module.exports = { preload, makeRequire, importDynamically, link, initializeMeta };
