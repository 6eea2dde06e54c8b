'use strict';
// Fuzzing: `npm run fuzz [-- TARGET [SECONDS]]`; without a TARGET each of them
// for an equal part of SECONDS (600), one after the other.
//
// Targets are test/fuzz/*.c, built by clang with libFuzzer and the sanitizers
// (Debian: clang). `json-parse` is not one of these: it compares json.c with
// JSON.parse on damaged texts, a new seed each time. What breaks a target is kept in
// .cache/fuzz/TARGET; what a target has found on its way, too. The seeds in
// test/fuzz/corpus are small and of the repository.

const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');

const ROOT = path.join(__dirname, '..');
const SOURCES = path.join(ROOT, 'test', 'fuzz');
const OUT = path.join(ROOT, '.cache', 'fuzz');
const FLAGS =
  '-std=gnu11 -D_GNU_SOURCE -DNAPI_VERSION=9 -g -O1 -Wall -Wextra -Werror -Isrc -pthread -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined';

const targets = fs
  .readdirSync(SOURCES)
  .filter((name) => name.endsWith('.c'))
  .map((name) => path.basename(name, '.c'));

function sourcesOf(target) {
  const file = path.join('test', 'fuzz', `${target}.c`);
  const [, names] = fs.readFileSync(path.join(ROOT, file), 'utf8').match(/^\/\/ sources: (.*)$/m) ?? [null, ''];
  const listed = names.split(' ').flatMap((name) => {
    if (!name.endsWith('/*.c')) return [name];
    const dir = path.dirname(name);
    const inside = fs.readdirSync(path.join(ROOT, dir)).filter((each) => each.endsWith('.c'));
    return inside.map((each) => path.join(dir, each));
  });
  return [file, ...listed];
}

function call(command, args, options = {}) {
  const run = spawnSync(command, args, { cwd: ROOT, encoding: 'utf8', maxBuffer: 64 << 20, ...options });
  if (run.error) throw run.error;
  return run;
}

/** @returns {boolean} whether nothing was found */
function fuzz(target, seconds) {
  const dir = path.join(OUT, target);
  const found = path.join(dir, 'corpus');
  const binary = path.join(dir, 'fuzz');
  fs.mkdirSync(found, { recursive: true });
  const cc = call('clang', [...FLAGS.split(' '), ...sourcesOf(target), '-o', binary]);
  if (cc.status !== 0) {
    console.log(cc.stderr);
    return false;
  }
  const seeds = path.join(SOURCES, 'corpus', target);
  const options = [`-max_total_time=${seconds}`, '-max_len=4096', '-timeout=10', '-print_final_stats=1'];
  const run = call(binary, [...options, `-artifact_prefix=${dir}/`, found, ...(fs.existsSync(seeds) ? [seeds] : [])]);
  const runs = run.stderr.match(/number_of_executed_units: *(\d+)/)?.[1] ?? '?';
  console.log(`${run.status === 0 ? 'ok    ' : 'broken'} ${target}: ${runs} inputs`);
  if (run.status !== 0) console.log(run.stderr.slice(-6000));
  return run.status === 0;
}

// The comparison of test/json.test.js, again and again.
function compareWithParse(seconds) {
  const end = Date.now() + seconds * 1000;
  let rounds = 0;
  do {
    const seed = String((Math.random() * 2 ** 31) | 0);
    const env = { ...process.env, CODE_JAIL_TEST_SEED: seed };
    const run = call(process.execPath, ['--test', path.join('test', 'json.test.js')], { env });
    rounds++;
    if (run.status !== 0) {
      console.log(`broken json-parse: seed ${seed}\n${run.stdout.slice(-3000)}`);
      return false;
    }
  } while (Date.now() < end);
  console.log(`ok     json-parse: ${rounds} x 60,000 texts`);
  return true;
}

function main([wanted, time = '600']) {
  const all = [...targets, 'json-parse'];
  const chosen = wanted && wanted !== 'all' ? [wanted] : all;
  if (!all.includes(chosen[0]) || !(Number(time) > 0)) {
    console.error(`usage: npm run fuzz [-- TARGET|all [SECONDS]]; targets: ${all.join(', ')}`);
    process.exitCode = 2;
    return;
  }
  if (chosen[0] !== 'json-parse' && spawnSync('clang', ['--version']).error) {
    console.error('clang is not installed (Debian: apt-get install clang)');
    process.exitCode = 1;
    return;
  }
  const each = Math.max(1, Math.floor(Number(time) / chosen.length));
  for (const target of chosen)
    if (!(target === 'json-parse' ? compareWithParse(each) : fuzz(target, each))) process.exitCode = 1;
}

main(process.argv.slice(2));
