'use strict';
// Fetches source packages of the distribution, for build-curl.js: from the mirrors
// that this machine already uses, checked by apt's signatures, without root and
// without a change to the machine's own lists.

const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');

class CurlBuildError extends Error {}

function run(command, args, options = {}) {
  const done = spawnSync(command, args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    encoding: 'utf8',
    maxBuffer: 256 << 20,
    ...options,
    env: { ...process.env, LC_ALL: 'C', ...options.env },
  });
  return {
    ok: done.status === 0,
    stdout: done.stdout ?? '',
    output: `${done.stdout ?? ''}${done.stderr ?? done.error}`,
  };
}

function must(step, command, args, options) {
  const done = run(command, args, options);
  if (!done.ok) {
    const tail = done.output.split('\n').slice(-40).join('\n');
    throw new CurlBuildError(`libcurl: ${step} failed (${command} ${args.join(' ')}):\n${tail}`);
  }
  return done.stdout;
}

function codename() {
  const text = fs.readFileSync('/etc/os-release', 'utf8');
  const match = /^VERSION_CODENAME=(\S+)$/m.exec(text);
  if (!match) throw new CurlBuildError('libcurl: /etc/os-release names no release to take sources from.');
  return match[1].replace(/"/g, '');
}

// The machine's own entries for this release, as source entries. Third parties'
// entries are left out: they have no sources, and none of ours.
function sourceEntries() {
  const release = codename();
  const isOurs = (suite) =>
    suite.replace(/[-/](updates|security|backports)$/, '') === release && !/backports/.test(suite);
  const dirs = ['/etc/apt/sources.list.d'];
  const files = ['/etc/apt/sources.list'];
  for (const dir of dirs) {
    if (fs.existsSync(dir))
      files.push(
        ...fs
          .readdirSync(dir)
          .sort()
          .map((name) => path.join(dir, name)),
      );
  }
  const entries = new Set();
  for (const file of files) {
    if (!fs.existsSync(file)) continue;
    const text = fs.readFileSync(file, 'utf8');
    if (file.endsWith('.sources')) for (const entry of deb822(text, isOurs)) entries.add(entry);
    else if (file.endsWith('.list')) for (const entry of oneLine(text, isOurs)) entries.add(entry);
  }
  return [...entries];
}

function deb822(text, isOurs) {
  const entries = [];
  for (const stanza of text.split(/\n\s*\n/)) {
    const field = (name) => {
      const match = new RegExp(`^${name}:[ \\t]*(.*(?:\\n[ \\t]+.*)*)`, 'im').exec(stanza.replace(/^#.*\n?/gm, ''));
      return match ? match[1].trim() : '';
    };
    if (/^no$/i.test(field('Enabled'))) continue;
    const key = field('Signed-By');
    const options = key && !key.includes('\n') ? `[signed-by=${key}] ` : '';
    for (const uri of field('URIs').split(/\s+/).filter(Boolean)) {
      for (const suite of field('Suites').split(/\s+/).filter(isOurs)) {
        entries.push(`deb-src ${options}${uri} ${suite} ${field('Components')}`);
      }
    }
  }
  return entries;
}

function oneLine(text, isOurs) {
  const entries = [];
  for (const line of text.split('\n')) {
    const match = /^\s*deb(?:-src)?\s+(\[[^\]]*\]\s+)?(\S+)\s+(\S+)\s+(.+)$/.exec(line);
    if (!match || !isOurs(match[3])) continue;
    const options = (match[1] ?? '').replace(/\barch=\S+\s*/g, '').trim();
    entries.push(`deb-src ${options && options !== '[]' ? `${options} ` : ''}${match[2]} ${match[3]} ${match[4]}`);
  }
  return entries;
}

// Everything of apt's that is written lies in `work`: the machine's own lists
// and sources stay as they are, and no root is needed.
function privateApt(work, name, entries, more = {}) {
  if (entries.length === 0) {
    throw new CurlBuildError(
      'libcurl: no entry of this distribution was found in apt’s sources; cannot fetch its source.',
    );
  }
  const state = path.join(work, name);
  for (const dir of ['lists/partial', 'cache/archives/partial'])
    fs.mkdirSync(path.join(state, dir), { recursive: true });
  fs.writeFileSync(path.join(state, 'sources.list'), `${entries.join('\n')}\n`);
  const options = {
    'Dir::Etc::sourcelist': path.join(state, 'sources.list'),
    'Dir::Etc::sourceparts': '-',
    'Dir::State::lists': path.join(state, 'lists'),
    'Dir::Cache': path.join(state, 'cache'),
    'APT::Sandbox::User': os.userInfo().username,
    'Acquire::Languages': 'none',
    'Acquire::Retries': '3',
    ...more,
  };
  const flags = Object.entries(options).flatMap(([key, value]) => ['-o', `${key}=${value}`]);
  must('reading the package lists', 'apt-get', [...flags, 'update'], { cwd: work });
  return flags;
}

function fetchSources(work) {
  const flags = privateApt(work, 'apt', sourceEntries());
  must('fetching the sources', 'apt-get', [...flags, 'source', '--download-only', 'curl', 'nghttp2'], { cwd: work });
}

/** A binary package of another processor, unpacked but not installed. @returns {string} where */
function fetchPackage(work, arch, name) {
  const status = path.join(work, `status-${arch}`);
  fs.writeFileSync(status, '');
  const entries = sourceEntries().map((entry) => entry.replace(/^deb-src/, 'deb'));
  const of = { 'APT::Architecture': arch, 'APT::Architectures::': arch, 'Dir::State::status': status };
  const flags = privateApt(work, `apt-${arch}`, entries, of);
  must(`fetching ${name}`, 'apt-get', [...flags, 'download', name], { cwd: work });
  const file = fs.readdirSync(work).find((one) => one.startsWith(`${name}_`) && one.endsWith('.deb'));
  const into = path.join(work, `${name}-${arch}`);
  must(`unpacking ${name}`, 'dpkg-deb', ['-x', String(file), into], { cwd: work });
  return into;
}

module.exports = { CurlBuildError, fetchPackage, fetchSources, must, run };
