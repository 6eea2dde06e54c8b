'use strict';
// The command line and the demo, as a user sees them: separate processes, pipes for streams.

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { after, describe, it } = require('node:test');
const { errorText } = require('../lib/cli-error.js');
const { descendants, survivors, until } = require('./helpers/baseline.js');

const ROOT = path.join(__dirname, '..');
const BIN = path.join(ROOT, 'bin', 'code-jail.js');
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cli-test-'));
after(() => fs.rmSync(folder, { recursive: true }));

function start(file, args, { input = '', env = {} } = {}) {
  const child = spawn(process.execPath, [file, ...args], { cwd: folder, env: { ...process.env, ...env } });
  const seen = { code: null, out: '', err: '' };
  child.stdout.on('data', (chunk) => {
    seen.out += chunk;
  });
  child.stderr.on('data', (chunk) => {
    seen.err += chunk;
  });
  child.stdin.on('error', () => {}); // it may end without reading
  child.stdin.end(input);
  const ended = new Promise((resolve) => child.on('close', (code) => resolve({ ...seen, code })));
  return { child, ended };
}
const cli = (args, options) => start(BIN, args, options).ended;

function file(name, text) {
  fs.writeFileSync(path.join(folder, name), text);
  return name;
}

describe('code-jail run', () => {
  it('tells the language by extension, prints the result, passes output on', async () => {
    const js = await cli([
      'run',
      file('a.js', 'console.log("hello"); console.error("aside"); return { a: input.n + 1 };'),
      '--input',
      '{"n":1}',
    ]);
    assert.deepEqual(js, { code: 0, out: 'hello\n{\n  "a": 2\n}\n', err: 'aside\n' });
    const python = await cli(['run', file('a.py', 'print("x", end="")\nresult = [input]')]);
    assert.deepEqual(python, { code: 0, out: 'x\n[\n  null\n]\n', err: '' });
    const module = await cli(['run', file('a.mjs', 'export default (n) => n * 2;'), '--input', '21']);
    assert.deepEqual(module, { code: 0, out: '42\n', err: '' });
  });

  it('takes the code from standard input, and the input from a file', async () => {
    file('input.json', '{"deep":[1,2]}');
    const seen = await cli(['run', '-', '--language', 'python', '--input', '@input.json'], {
      input: 'result = input["deep"][1]',
    });
    assert.deepEqual(seen, { code: 0, out: '2\n', err: '' });
  });

  it('prints nothing for no result', async () => {
    assert.deepEqual(await cli(['run', file('none.py', 'print("only this")')]), {
      code: 0,
      out: 'only this\n',
      err: '',
    });
  });

  it('--json prints the whole result and nothing else', async () => {
    const { code, out, err } = await cli(['run', file('j.js', 'console.log(1); return 2;'), '--json']);
    assert.equal(code, 0);
    assert.equal(err, '');
    const result = JSON.parse(out);
    assert.equal(result.result, 2);
    assert.equal(result.stdout, '1\n');
    assert.ok(result.jail.layers.length > 0);
  });

  it('ends with the code\u2019s exit code, 1 for an error, and says where it was', async () => {
    assert.equal((await cli(['run', file('three.js', 'process.exit(3)')])).code, 3);
    const seen = await cli(['run', file('bad.py', 'x = 1\nraise ValueError("no good")')]);
    assert.equal(seen.code, 1);
    assert.equal(seen.err, 'bad.py:2:1: ValueError: no good\n    raise ValueError("no good")\n    ^\n');
    assert.equal(seen.out, '');
  });

  it('ends with 124 for a time-out and 137 for out of memory', async () => {
    const late = await cli(['run', file('loop.js', 'console.log("first"); for (;;) {}'), '--timeout', '300ms']);
    assert.equal(late.code, 124);
    assert.equal(late.out, 'first\n');
    assert.match(late.err, /timeout/);
    const fat = await cli(['run', file('fat.py', 'a = bytearray(1 << 34)'), '--memory', '64']);
    assert.match(fat.err, /out_of_memory/);
    assert.equal(fat.code, 137);
  });

  it('hands files in, and writes what is collected into a new folder only', async () => {
    const code = 'import os\nos.mkdir("out")\nopen("out/a", "w").write(open("in.txt").read() * 2)\n';
    const args = ['run', file('files.py', code), '--file', `in.txt=${file('given.txt', 'hey')}`];
    const collect = ['--collect', 'out', '--collect', 'none'];
    const seen = await cli([...args, ...collect, '--out', 'new/folder']);
    assert.deepEqual([seen.code, seen.err], [0, 'none: not collected: absent\n']);
    assert.equal(fs.readFileSync(path.join(folder, 'new', 'folder', 'out', 'a'), 'utf8'), 'heyhey');
    const again = await cli([...args, ...collect, '--out', 'new/folder']);
    assert.equal(again.code, 2);
    assert.match(again.err, /--out new\/folder: it is not empty/);
    const { files } = JSON.parse((await cli([...args, ...collect, '--json'])).out);
    assert.deepEqual(files, { 'out/a': { base64: Buffer.from('heyhey').toString('base64') } });
    for (const [wrong, says] of [
      [collect, /--collect: where to/],
      [['--out', 'x'], /--out: what/],
      [['--file', 'a'], /--file a: NAME=PATH/],
      [['--file', 'a=nowhere'], /--file a=nowhere: ENOENT/],
      [['--file', 'in.txt=files.py'], /--file in\.txt=…: this name is there twice/],
      [['--file', '../a=given.txt'], /"\.\.\/a"/],
    ]) {
      const { code: exit, err } = await cli([...args, ...wrong]);
      assert.equal(exit, 2, err);
      assert.match(err, says);
    }
  });

  it('passes environment variables and nothing of its own', async () => {
    const seen = await cli(
      [
        'run',
        file('env.py', 'import os\nresult = [os.environ.get("A"), os.environ.get("SECRET")]'),
        '--env',
        'A=1=2',
        '--json',
      ],
      { env: { SECRET: 'x' } },
    );
    assert.deepEqual(JSON.parse(seen.out).result, ['1=2', null]);
  });

  it('Ctrl-C ends the run and everything below', async () => {
    const { child, ended } = start(BIN, ['run', file('long.py', 'import time\ntime.sleep(60)'), '--timeout', '60s']);
    const below = () => descendants(child.pid); // the run has been asked for, so it listens
    assert.ok(await until(() => below().length > 0, 20000));
    const seen = below();
    child.kill('SIGINT');
    assert.equal((await ended).code, 130);
    assert.deepEqual(await until(() => survivors(seen).length === 0 && [], 3000), []);
  });

  it('takes the input from standard input', async () => {
    const seen = await cli(['run', file('in.js', 'return input.a;'), '--input', '@-'], { input: '{"a":7}' });
    assert.deepEqual(seen, { code: 0, out: '7\n', err: '' });
  });

  it('ends quietly when nobody reads any more', async () => {
    const { child, ended } = start(BIN, ['run', file('much.js', 'console.log("x".repeat(1e6)); return 1;')]);
    child.stdout.destroy();
    assert.deepEqual(await ended, { code: 0, out: '', err: '' });
  });

  it('shows where an error is, with a caret, and what it comes from', async () => {
    const js = 'try {\n\tnull.x;\n} catch (cause) {\n\tthrow new Error("outer", { cause });\n}';
    assert.equal(
      (await cli(['run', file('chain.js', js)])).err,
      'chain.js:4:8: Error: outer\n    throw new Error("outer", { cause });\n          ^\n' +
        "Caused by: TypeError: Cannot read properties of null (reading 'x')\n",
    );
    const py = 'try:\n    {}["a"]\nexcept KeyError as e:\n    raise ValueError("x") from e';
    assert.match(
      (await cli(['run', file('chain.py', py)])).err,
      /^chain\.py:4:5: ValueError: x\n.*\n {4}\^\nCaused by: KeyError: 'a'\n$/,
    );
  });

  it('a long line is shown around the place, and no cause is made up', () => {
    const error = { name: 'E', message: '', line: 1, column: 301, sourceLine: `${'a'.repeat(300)}b${'c'.repeat(99)}` };
    const [head, line, caret] = errorText({ status: 'error', error }, 'f.js').split('\n');
    assert.equal(head, 'f.js:1:301: E');
    assert.ok(line.length < 110);
    assert.equal(line[caret.indexOf('^')], 'b');
    assert.equal(errorText({ status: 'killed', signal: 'SIGKILL', error: null }, 'f.js'), 'f.js: killed (SIGKILL)');
  });

  it('an unknown option is named plainly', async () => {
    assert.match((await cli(['run', 'a.js', '--fast'])).err, /^code-jail: --fast: there is no such option\n/);
    for (const args of [['jailer', '--engine', 'kvm'], ['jailer']]) {
      const { code, err } = await cli(args);
      assert.equal(code, 2);
      assert.match(err, /^code-jail: --engine is ("kvm"|missing); it must be one of firecracker, gvisor, local\n/);
    }
    assert.match((await cli(['run', 'a.js', '--input', '-5'])).err, /^code-jail: --input: write --input=VALUE/);
  });

  const wrong = {
    'code and input both from standard input': ['run', '-', '--language', 'python', '--input', '@-'],
    'no command': [],
    'an unknown command': ['walk', 'x.js'],
    'no file': ['run'],
    'two files': ['run', 'a.js', 'b.js'],
    'an unknown option': ['run', 'a.js', '--fast'],
    'a file that is not there': ['run', 'not-there.js'],
    'an unknown extension': ['run', 'a.rb'],
    'input that is not JSON': ['run', 'a.js', '--input', '{n:1}'],
    'a time-out without a unit': ['run', 'a.js', '--timeout', '5'],
    'a time-out over the cap': ['run', 'a.js', '--timeout', '2m'],
    'memory that is no number': ['run', 'a.js', '--memory', 'lots'],
    'a variable without a value': ['run', 'a.js', '--env', 'A'],
  };
  for (const [name, args] of Object.entries(wrong)) {
    it(`${name}: exit code 2 and a line that says so`, async () => {
      file('a.js', 'return 1');
      const seen = await cli(args);
      assert.equal(seen.code, 2, seen.err);
      assert.equal(seen.out, '');
      assert.match(seen.err, /^(code-jail: |ERR_JAIL_INVALID_REQUEST)/);
      assert.ok(!seen.err.includes('    at '), 'no stack');
    });
  }

  it('a runtime that is not there: 125, the code and where to look', async () => {
    const seen = await cli(['run', file('p.py', 'result = 1'), '--python', '/nowhere/python3']);
    assert.equal(seen.code, 125);
    assert.match(seen.err, /^ERR_JAIL_\w+: .*nowhere/);
    assert.match(seen.err, /doctor/);
  });
});

describe('code-jail check', () => {
  it('says nothing where nothing is wrong, and runs nothing', async () => {
    const code = 'print("ran")\nresult = 1\n';
    assert.deepEqual(await cli(['check', file('fine.py', code)]), { code: 0, out: '', err: '' });
    const json = await cli(['check', file('fine.py', code), '--json']);
    assert.deepEqual([json.code, JSON.parse(json.out)], [0, { ok: true, errors: [] }]);
  });

  it('names file, line and column as editors read them: exit code 1', async () => {
    const python = await cli(['check', file('bad.py', 'x = 1\ny = (2\n')]);
    assert.equal(python.code, 1);
    assert.match(python.out, /^bad\.py:2:5: SyntaxError: [^\n]+\n$/);
    const js = await cli(['check', '-', '--language', 'javascript', '--timeout', '5s'], { input: 'let a;\nlet a;' });
    assert.equal(js.code, 1);
    assert.match(js.out, /^\(standard input\):2:5: SyntaxError: [^\n]+\n$/);
    const json = await cli(['check', 'bad.py', '--json', '--start', 'cold']);
    const { ok, errors } = JSON.parse(json.out);
    assert.deepEqual([json.code, ok, errors[0].line, errors[0].column], [1, false, 2, 5]);
  });

  it('a wrong command line is 2, a jail that fails 125', async () => {
    for (const args of [[], ['not-there.py'], ['fine.py', 'more'], [file('x.txt', '')], ['fine.py', '--timeout', '0s']])
      assert.equal((await cli(['check', ...args])).code, 2, args.join(' '));
    const env = { FIRECRACKER_SOCKET: path.join(folder, 'nobody.sock') };
    assert.equal((await cli(['check', 'fine.py'], { env })).code, 125);
  });
});

describe('code-jail doctor', () => {
  it('--json tells each layer, each runtime, and which jail is selected', async () => {
    const { code, out } = await cli(['doctor', '--json'], { env: { FIRECRACKER_SOCKET: '', CODE_SANDBOX_URL: '' } });
    const report = JSON.parse(out);
    assert.equal(code, 0);
    assert.equal(report.ok, true);
    assert.equal(report.selects.backend, 'local');
    assert.deepEqual(
      report.runtimes.map((one) => one.language),
      ['javascript', 'python', 'typescript'],
    );
    for (const one of report.runtimes) assert.match(one.runtime, /^(node|python) \d/);
    assert.ok(report.layers.length >= 14);
    for (const { stands, reason } of report.layers) assert.ok(stands || reason.length > 5);
  });

  it('as text it is plain where it is not a terminal', async () => {
    const { code, out } = await cli(['doctor']);
    assert.equal(code, 0);
    assert.match(out, /Runtimes/);
    assert.match(out, /seccomp/);
    assert.match(out, /^Ready: node \d.* and python \d.* run in the local jail/);
    assert.ok(!out.includes('\x1b['));
  });

  it('is not ready where the environment selects a jail that cannot be used', async () => {
    const none = { FIRECRACKER_SOCKET: '', CODE_SANDBOX_URL: '', CODE_SANDBOX_TOKEN: '' };
    const bad = {
      'the jailer at /x': { FIRECRACKER_SOCKET: '/x' },
      CODE_SANDBOX_TOKEN: { CODE_SANDBOX_URL: 'http://127.0.0.1:9' },
      'the local jail|127.0.0.1|service': {
        CODE_SANDBOX_URL: 'http://127.0.0.1:9',
        CODE_SANDBOX_TOKEN: 'x'.repeat(32),
      },
    };
    for (const [says, env] of Object.entries(bad)) {
      const { code, out } = await cli(['doctor'], { env: { ...none, ...env } });
      assert.equal(code, 125, out);
      assert.match(out, new RegExp(`^Not ready: ERR_JAIL_\\w+: .*(${says})`));
    }
  });
});

describe('help, version, demo', () => {
  it('--help and --version', async () => {
    assert.match((await cli(['--help'])).out, /code-jail run FILE/);
    assert.equal((await cli(['--version'])).out, `${require('../package.json').version}\n`);
  });

  it('the demo shows both languages with their layers', async () => {
    const { code, out, err } = await start(path.join(ROOT, 'examples', 'demo.js'), []).ended;
    assert.equal(code, 0, err);
    assert.match(out, /"GB":120\.5/);
    assert.match(out, /"largest":310\.25/);
    assert.equal(out.match(/seccomp/g)?.length, 2);
    assert.match(out, /queue .* start .* run /);
  });
});
