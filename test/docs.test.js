'use strict';
// What an operator reads is what the code does: every variable, every error code
// and every field of a log line is in its table, and nothing else; links lead somewhere.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { describe, it } = require('node:test');
const { requestFacts } = require('../lib/server/log.js');

const ROOT = path.join(__dirname, '..');
const read = (name) => fs.readFileSync(path.join(ROOT, name), 'utf8');
const files = (dir, pattern) =>
  fs
    .readdirSync(path.join(ROOT, dir), { recursive: true })
    .map((name) => path.join(dir, String(name)))
    .filter((name) => pattern.test(name));

/** The names in code type of a table's first column, under a heading. */
function firstColumn(text, heading) {
  const from = text.indexOf(`\n${heading}\n`);
  assert.ok(from > 0, `there is a heading ${heading}`);
  const section = text.slice(from + heading.length + 2).split(/\n#+ /)[0];
  const rows = section.split('\n').filter((line) => line.startsWith('| `'));
  return rows.flatMap((line) => [...line.split(' | ')[0].matchAll(/`([^`]+)`/g)].map((match) => match[1]));
}

/** Every variable that this text of code reads. */
function variablesOf(text) {
  const code = text.replace(/^\s*(\/\/|\*|\/\*).*$/gm, '');
  const found = [
    ...code.matchAll(/\benv\.([A-Z][A-Z0-9_]+)/g),
    ...code.matchAll(/\b((?:CODE_SANDBOX|FIRECRACKER)_[A-Z0-9_]+)\b/g),
    ...code.matchAll(/^ {2}\w+: \['([A-Z][A-Z0-9_]+)', /gm), // lib/server/settings.js: what is a number
  ].map((match) => match[1]);
  for (const [, names] of code.matchAll(/\{([^{}]+)\}\s*=\s*(?:process\.)?env\b/g))
    found.push(...[...names.matchAll(/\b([A-Z][A-Z0-9_]+)\b/g)].map((match) => match[1]));
  return found;
}

describe('docs/production.md', () => {
  it('has every variable that is read, and no other', () => {
    // What is read in a cell is the cell's own; a jailer is set up by its own page.
    const sources = [
      ...files('lib', /\.js$/),
      ...files('apps/sandbox', /\.js$/),
      ...files('apps/dashboard/src', /\.tsx?$/),
      ...files('bin', /\.js$/),
    ].filter((name) => !/^lib\/(guest|jailer)|node_modules|\.next/.test(name));
    assert.ok(sources.length > 30);
    const used = new Set(sources.flatMap((name) => variablesOf(read(name))));
    for (const known of ['PORT', 'CODE_SANDBOX_TOKEN', 'NO_COLOR', 'GCE_METADATA_HOST'])
      assert.ok(used.has(known), `the search finds ${known}`);
    assert.deepEqual([...used].sort(), firstColumn(read('docs/production.md'), '## Every variable').sort());
  });

  it('leaves none of a jailer’s to be guessed', () => {
    const pages = files('docs', /\.md$/).map(read).join('\n');
    const used = new Set(
      files('lib/jailer', /\.js$/).flatMap((name) => [
        ...variablesOf(read(name)),
        ...(read(name).match(/\bCODE_JAIL_[A-Z0-9_]+/g) ?? []),
      ]),
    );
    assert.ok(used.has('CODE_JAIL_FIRECRACKER_'), 'the search finds a prefix of many');
    // What the daemon sets itself for what it starts is nobody's to set.
    for (const own of ['CODE_JAIL_AGENT', 'CODE_JAIL_FOLDER']) assert.ok(used.delete(own), own);
    assert.deepEqual(
      [...used].filter((name) => !pages.includes(name)),
      [],
    );
  });

  it('has the defaults of the service', () => {
    const table = read('docs/production.md');
    for (const [, name, fallback] of read('lib/server/settings.js').matchAll(/\['([A-Z_]+)', (\d+), /g))
      assert.match(table, new RegExp(`\`${name}\` \\| service \\| ${fallback} \\|`), name);
  });
});

describe('docs/troubleshooting.md', () => {
  it('has every error code, each once, and no other', () => {
    const declared = /export type JailErrorCode =([\s\S]*?');\n/.exec(read('index.d.ts'))[1].match(/ERR_JAIL_[A-Z_]+/g);
    const explained = [...read('docs/troubleshooting.md').matchAll(/^### (\w+)$/gm)].map((match) => match[1]);
    assert.ok(declared.length >= 10);
    assert.deepEqual(explained.sort(), declared.sort());
    const named = files('lib', /\.js$/).flatMap((name) => read(name).match(/\bERR_JAIL_[A-Z]+[A-Z_]*\b/g) ?? []);
    assert.deepEqual(
      [...new Set(named)].filter((code) => !declared.includes(code)),
      [],
    );
  });
});

describe('docs/data.md', () => {
  it('names every field of a request’s line, and every event', () => {
    const text = read('docs/data.md');
    const run = { status: 'ok', exitCode: 0, usage: {}, jail: { start: 'parked', runtime: 'node' } };
    const all = requestFacts({
      status: 200,
      code: 'X',
      id: 'x',
      language: 'python',
      run,
      queuedMs: 0,
      tookMs: 1,
      bytes: 1,
    });
    const row = text.split('\n').find((line) => line.startsWith('| `request`'));
    const documented = [...row.matchAll(/`(\w+)`/g)].map((match) => match[1]).slice(1);
    assert.deepEqual(
      documented.sort(),
      Object.keys(all)
        .filter((name) => name !== 'event')
        .sort(),
    );
    const said = files('lib/server', /\.js$/).flatMap((name) =>
      [...read(name).matchAll(/\bevent: '(\w+)'/g)].map((match) => match[1]),
    );
    assert.deepEqual([...new Set(said)].sort(), firstColumn(text, '## What is logged').sort());
  });
});

describe('links', () => {
  const pages = ['README.md', 'ARCHITECTURE.md', 'SECURITY.md', 'CONTRIBUTING.md', ...files('docs', /\.md$/)];
  const linksOf = (name) =>
    [...read(name).matchAll(/\]\(([^)\s]+)\)/g)].map((match) => match[1]).filter((to) => !/^https?:/.test(to));
  /** GitHub's name for a heading. */
  const anchor = (heading) =>
    heading
      .toLowerCase()
      .replace(/[^\w\s-]/g, '')
      .trim()
      .replace(/\s/g, '-');

  it('lead to what is there', () => {
    const dead = pages.flatMap((name) =>
      linksOf(name)
        .filter((to) => {
          const [file, place] = to.split('#');
          const target = file ? path.join(path.dirname(name), file) : name;
          if (!fs.existsSync(path.join(ROOT, target))) return true;
          if (!place) return false;
          return ![...read(target).matchAll(/^#+ (.+)$/gm)].some((match) => anchor(match[1]) === place);
        })
        .map((to) => `${name}: ${to}`),
    );
    assert.deepEqual(dead, []);
  });

  it('lead from the README to each page of docs', () => {
    const linked = linksOf('README.md');
    assert.deepEqual(
      files('docs', /\.md$/).filter((name) => !linked.includes(name)),
      [],
    );
  });
});
