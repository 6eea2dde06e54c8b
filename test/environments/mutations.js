'use strict';
// Takes one wall away at a time, or one rule of the filter, and looks which test
// misses it: `npm run test:mutations [-- NAME...]`. The build has the wall left
// out and believes that it stands (src/cell/internal.h, CODE_JAIL_WITHOUT), so that
// verification does not help. --quick: rules by the filter's own test alone.

const { execFile, execFileSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { promisify } = require('node:util');
const { ENVIRONMENTS, look, whyNot } = require('./environments.js');
const { FORBIDDEN_BY, untrue } = require('./probes.js');

const ROOT = path.join(__dirname, '..', '..');
const OUT = path.join(ROOT, '.cache', 'mutations');
const CC = process.env.CC || 'cc';
const FLAGS =
  '-std=gnu11 -O1 -fPIC -fvisibility=hidden -fno-strict-aliasing -pthread -D_GNU_SOURCE -DNAPI_VERSION=9'.split(' ');
const CELL = fs.readdirSync(path.join(ROOT, 'src', 'cell')).filter((name) => name.endsWith('.c'));
const TARGETS = {
  'code-jail-keeper': ['-static-pie', '-pthread'],
  'guest_python.so': ['-shared', '-ldl'],
};
const call = promisify(execFile);

/** From what lies in src/cell: the rules that an argument or a number decides. */
const RULES = [
  ...new Set(
    [
      ...fs
        .readFileSync(path.join(ROOT, 'src', 'cell', 'seccomp.c'), 'utf8')
        .matchAll(/^ {2}(DENY|ARG_(?!FIRST)\w+|FOREIGN|CLOSING)[, ]/gm),
    ].map((match) => match[1]),
  ),
];
const LAYERS = ENVIRONMENTS.root.layers;

// Seen by a name that a test has when it is red.
const UNIT = 'test/c/cell_seccomp.c';

/** The environments in which this layer is the only wall of a probe; first where little else stands. */
function whereAlone(layer) {
  const alone = ({ layers, gvisor, microvm }) =>
    !gvisor &&
    !microvm &&
    layers.includes(layer) &&
    Object.values(FORBIDDEN_BY).some(
      (walls) =>
        walls.includes(layer) && !walls.some((other) => other !== layer && layers.includes(other.split(' ')[0])),
    );
  const names = Object.keys(ENVIRONMENTS).filter((name) => alone(ENVIRONMENTS[name]));
  return names.sort((one, other) => ENVIRONMENTS[one].layers.length - ENVIRONMENTS[other].layers.length);
}

function headers() {
  const prefixes = [path.dirname(path.dirname(process.execPath)), '/usr', '/usr/local'];
  return prefixes
    .map((one) => path.join(one, 'include', 'node'))
    .filter((dir) => fs.existsSync(path.join(dir, 'node_api.h')));
}

/** The sources of a target outside src/cell, as binding.gyp lists them. */
function sources(target) {
  const gyp = fs.readFileSync(path.join(ROOT, 'binding.gyp'), 'utf8');
  const from = gyp.indexOf(`'target_name': '${path.parse(target).name}'`);
  const list = gyp.slice(gyp.indexOf("'sources'", from), gyp.indexOf('ls src/cell', from));
  return [...list.matchAll(/'(src\/guest\/\w+\.c)'/g)].map((match) => match[1]);
}

async function compile(folder, files, defines) {
  fs.mkdirSync(folder, { recursive: true });
  const one = async (file) => {
    const object = path.join(folder, file.replace(/\W/g, '_').concat('.o'));
    const include = headers().map((dir) => `-I${dir}`);
    await call(CC, [...FLAGS, ...include, ...defines, '-c', path.join(ROOT, file), '-o', object]);
    return object;
  };
  return Object.fromEntries(await Promise.all(files.map(async (file) => [file, await one(file)])));
}

/** A tree whose keeper and guests are without it; the rest is ours. */
async function build(name, defines, guests) {
  const tree = path.join(OUT, name);
  const release = path.join(tree, 'build', 'Release');
  fs.mkdirSync(release, { recursive: true });
  fs.cpSync(path.join(ROOT, 'lib'), path.join(tree, 'lib'), { recursive: true });
  for (const one of ['node_modules', 'package.json']) fs.symlinkSync(path.join(ROOT, one), path.join(tree, one));
  fs.copyFileSync(path.join(ROOT, 'build', 'Release', 'code_jail.node'), path.join(release, 'code_jail.node'));
  const cell = Object.values(
    await compile(
      path.join(tree, 'objects'),
      CELL.map((file) => `src/cell/${file}`),
      defines,
    ),
  );
  for (const [target, link] of Object.entries(TARGETS))
    await call(CC, [
      ...cell,
      ...sources(target).map((file) => guests[file]),
      '-o',
      path.join(release, target),
      ...link,
    ]);
  return tree;
}

/** What the probes say of a build, where nothing else stands in the way. */
async function missedThere(places, tree) {
  const refused = [];
  for (const where of places) {
    const environment = ENVIRONMENTS[where];
    const seen = await look(environment, { allowWeak: environment.weak, root: tree, brief: true });
    // No cell at all: red, but no word about the wall. The next place may say more.
    if (!seen.layers) refused.push(`${where}: no cell: ${seen.message}`);
    const wrong = seen.layers ? untrue(seen, environment) : [];
    if (wrong.length > 0) return wrong.map((one) => `${where}: ${one}`);
  }
  return refused;
}

/** Red points of the filter's unit test. */
async function missedByUnit(folder, define) {
  const binary = path.join(folder, 'cell_seccomp');
  const files = fs
    .readFileSync(path.join(ROOT, UNIT), 'utf8')
    .match(/^\/\/ sources: (.*)$/m)[1]
    .split(' ');
  fs.mkdirSync(folder, { recursive: true });
  await call(CC, [...FLAGS, ...define, '-Isrc', UNIT, ...files, '-o', binary], { cwd: ROOT });
  const { stdout } = await call(binary).catch((error) => error);
  return [...stdout.matchAll(/^not ok \d+ - (.*)$/gm)].map((match) => `${UNIT}: ${match[1]}`);
}

/**
 * The tests that miss each wall; none where a mutation survives.
 * @param {{ quick?: boolean, only?: string[], onDone?: (name: string, missed: string[]) => void }} options
 */
async function mutate({ quick = false, only = [], onDone = () => {} } = {}) {
  const wanted = (name) => only.length === 0 || only.includes(name);
  const found = {};
  fs.rmSync(OUT, { recursive: true, force: true });
  const all = [...new Set(Object.keys(TARGETS).flatMap(sources))];
  const guests = await compile(path.join(OUT, 'guests'), all, []);
  const done = (name, missed) => {
    found[name] = missed;
    onDone(name, missed);
    fs.rmSync(path.join(OUT, name), { recursive: true, force: true });
  };
  for (const layer of LAYERS.filter(wanted)) {
    const tree = await build(layer, [`-DCODE_JAIL_WITHOUT=CELL_${layer.toUpperCase().replaceAll('-', '_')}`], guests);
    done(layer, await missedThere(whereAlone(layer), tree));
  }
  for (const rule of RULES.filter(wanted)) {
    const define = [`-DCODE_JAIL_WITHOUT_RULE=${rule}`];
    const missed = await missedByUnit(path.join(OUT, rule), define);
    if (!quick) missed.push(...(await missedThere(['seccomp alone'], await build(rule, define, guests))));
    done(rule, missed);
  }
  return found;
}

/** What the compiler says where a package is to be built without a wall. */
function refusal(define) {
  const gyp = fs.readFileSync(path.join(ROOT, 'binding.gyp'), 'utf8');
  const defines = /'defines': \[(.*?)\]/
    .exec(gyp)[1]
    .match(/\w+(=\w+)?/g)
    .map((one) => `-D${one}`);
  try {
    execFileSync(CC, [...defines, define, '-fsyntax-only', 'src/cell/cell.c'], { cwd: ROOT, stdio: 'pipe' });
    return '';
  } catch (error) {
    return String(error.stderr);
  }
}

module.exports = { LAYERS, RULES, mutate, refusal, whereAlone, whyNot };

async function main() {
  const why = whyNot();
  if (why) throw new Error(why);
  const args = process.argv.slice(2);
  const onDone = (name, missed) => {
    const more = missed.length > 3 ? [`and ${missed.length - 3} more`] : [];
    console.log(`${missed.length > 0 ? 'caught' : 'SURVIVED'}  without ${name}`);
    for (const one of [...missed.slice(0, 3), ...more]) console.log(`          ${one}`);
  };
  const only = args.filter((arg) => !arg.startsWith('-'));
  const found = await mutate({ quick: args.includes('--quick'), only, onDone });
  const survivors = Object.values(found).filter((missed) => missed.length === 0).length;
  console.log(`${Object.keys(found).length} mutations, ${survivors} survived`);
  process.exitCode = survivors > 0 ? 1 : 0;
}

if (require.main === module)
  main().catch((error) => {
    console.error(error.message);
    process.exitCode = 1;
  });
