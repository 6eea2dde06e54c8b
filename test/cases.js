'use strict';
// What people who run code nodes have reported as broken elsewhere, each as one
// run with one outcome. A table without a backend: cases.test.js runs it
// over the local jail, and others may run the same over theirs.
//
// { id, name, language, code, input, options, expect }
//   expect   fields of the result, compared as helpers/run.js `matches` does;
//            `maxMs` bounds the call. Where a report allows several outcomes,
//            the one chosen here is the contract.
//   repeat, parallel, hostEnv   how it is run

const { slack } = require('./helpers/baseline.js');

const js = (id, name, code, expect, more) => ({ id, name, language: 'javascript', code, expect, ...more });
const py = (id, name, code, expect, more) => ({ id, name, language: 'python', code, expect, ...more });
const ts = (id, name, code, expect, more) => ({ id, name, language: 'typescript', code, expect, ...more });
const ok = { status: 'ok', ok: true, exitCode: 0, signal: null, timedOut: false, error: null };

const SEPARATED = '\u{1F385}\u{1F3FB} na\u00efve \u4e2d\u6587 \u2028end';
const BODY_UNIT = '"q\\n\u00e9';

module.exports = [
  // ---- what a result may hold ----
  py(
    'O01',
    'NaN and infinities become null, and the same letters inside text stay',
    'result = {"note": "banana\\nnan, NaN, -Infinity and beyond", "bad": float("nan"), "up": float("inf")}\n',
    { ...ok, result: { note: 'banana\nnan, NaN, -Infinity and beyond', bad: null, up: null } },
  ),
  py(
    'O02',
    'bytes in a result are refused by name and path',
    'print("so far")\ndef main(input):\n    return {"ok": 1, "body": b"\\x00\\xffraw"}\n',
    {
      status: 'not_serializable',
      exitCode: 1,
      stdout: 'so far\n',
      result: null,
      error: { message: /bytes/, path: '$.body' },
    },
    { input: {} },
  ),
  js('O03', 'a BigInt arrives as its exact decimal text', 'return { n: 2n ** 64n, ok: true };', {
    ...ok,
    result: { n: '18446744073709551616', ok: true },
  }),
  js(
    'O04',
    'a circular result is refused by path, and the output is kept',
    'console.log("before");\nconst a = { name: "root" };\na.self = a;\nreturn a;',
    { status: 'not_serializable', exitCode: 1, stdout: 'before\n', error: { message: /circular/i, path: '$.self' } },
  ),
  py(
    'O05',
    'integers beyond 2^53 arrive as decimal text, never rounded',
    'big = 9007199254740993\nresult = {"id": big, "text": str(big), "neg": -big, "safe": 2**53 - 1}\n',
    {
      ...ok,
      result: {
        id: '9007199254740993',
        text: '9007199254740993',
        neg: '-9007199254740993',
        safe: 9007199254740991,
      },
    },
  ),
  js(
    'O06',
    'no return is null',
    'const unused = input.items.length;\n',
    { ...ok, stdout: '', result: null },
    { input: { items: [1, 2] } },
  ),
  py('O07', 'NUL characters survive in output and result', 's = "a\\0b"\nprint(s)\nresult = {"s": s, "n": len(s)}\n', {
    ...ok,
    stdout: 'a\0b\n',
    result: { s: 'a\0b', n: 3 },
  }),

  // ---- text and its encoding ----
  py(
    'O08',
    'a lone surrogate in a result survives',
    'bad = "ok " + chr(0xD83D)\nresult = {"bad": bad, "len": len(bad)}\n',
    { ...ok, result: { bad: 'ok \ud83d', len: 4 } },
  ),
  py(
    'O09',
    'every code point of the input arrives and returns',
    't = input["t"]\nresult = {"same": t == "\\U0001F385\\U0001F3FB na\\u00efve \\u4e2d\\u6587 \\u2028end", "n": len(t), "echo": t}\n',
    { ...ok, result: { same: true, n: 16, echo: SEPARATED } },
    { input: { t: SEPARATED } },
  ),
  js(
    'O10',
    'a character written byte by byte is decoded whole',
    'const fs = require("fs");\nconst b = Buffer.from("caf\u00e9 \u2264 \u{1F600}\\n");\nfor (const x of b) {\n  fs.writeSync(1, Buffer.from([x]));\n  await new Promise(r => setTimeout(r, 5));\n}\nreturn b.length;',
    { ...ok, stdout: 'caf\u00e9 \u2264 \u{1F600}\n', result: 15 },
  ),

  // ---- large input, output and result ----
  py(
    'O11',
    '600 kB of three-byte characters cross the pipe unharmed',
    'import sys\nsys.stdout.write("x" + "\\u4f60" * 200000)\nresult = 200001\n',
    { ...ok, stdout: (text) => text === `x${'\u4f60'.repeat(200000)}`, stdoutDropped: 0, result: 200001 },
  ),
  py(
    'O12',
    'a result of 400 kB arrives whole',
    'def main(input):\n    rows = [("item-%04d-" % i) + "z" * 390 for i in range(1000)]\n    return {"n": len(rows), "last": rows[-1][:9], "rows": rows}\n',
    {
      ...ok,
      result: (value) =>
        value.n === 1000 && value.last === 'item-0999' && value.rows.every((row) => row.length === 400),
    },
    { input: {} },
  ),
  js(
    'O13',
    'an input of 1.25 million characters full of quotes and backslashes',
    'return { n: input.body.length, tail: input.body.slice(-4) };',
    { ...ok, result: { n: 1250000, tail: BODY_UNIT.slice(-4) } },
    { input: { body: BODY_UNIT.repeat(250000) } },
  ),
  js(
    'O14',
    'nothing printed is lost when process.exit follows at once',
    'console.log("y".repeat(300000));\nprocess.exit(0);',
    { ...ok, stdout: (text) => text === `${'y'.repeat(300000)}\n`, result: null },
  ),
  py(
    'O15',
    'text on stderr is not a failure',
    'import logging\nlogging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")\nlogging.info("fetching")\nprint("done")\nresult = "fine"\n',
    { ...ok, result: 'fine', stdout: 'done\n', stderr: 'INFO fetching\n' },
  ),
  py(
    'O16',
    'output that looks like a result envelope is just output',
    'import sys\nsys.stdout.write(\'{"result": "not me", "exitCode": 9}\')\nresult = 42\n',
    { ...ok, stdout: '{"result": "not me", "exitCode": 9}', result: 42 },
  ),
  py(
    'O17',
    'endless output is ended by the output limit, its beginning kept',
    'while True:\n    print("0123456789" * 10)\n',
    {
      status: 'output_limit',
      exitCode: null,
      signal: 'SIGKILL',
      timedOut: false,
      stdout: (text) => text.startsWith('0123456789') && text.length < 1.1 * 2 ** 20,
      stdoutDropped: (bytes) => bytes > 32 * 2 ** 20,
      maxMs: 13000,
    },
  ),

  // ---- time ----
  py(
    'O18',
    'what was printed before a time-out is kept, flushed or not',
    'print("step 1")\nprint("step 2", end="")\nwhile True:\n    pass\n',
    { status: 'timeout', timedOut: true, exitCode: null, signal: 'SIGKILL', stdout: 'step 1\nstep 2', maxMs: 3000 },
    { options: { timeoutMs: 400 } },
  ),
  js(
    'O19',
    'the time limit holds after an await as well',
    'await Promise.resolve();\nfor (;;) {}',
    { status: 'timeout', timedOut: true, exitCode: null, signal: 'SIGKILL', maxMs: 3000 },
    { options: { timeoutMs: 400 }, hostLagMs: 250 },
  ),
  py(
    'O18b',
    'a time-out says where the code was, also one that catches everything',
    'def spin(n):\n    while True:\n        try:\n            while True:\n                n += 1  # here\n        except BaseException:\n            pass\n\nspin(1)\n',
    {
      status: 'timeout',
      error: {
        name: 'TimeoutError',
        message: /1500 ms/,
        line: (line) => line === 4 || line === 5,
        sourceLine: /^ +(while True:|n \+= 1 {2}# here)$/,
        stack:
          /line 9, in <module>\n {4}spin\(1\)\n {2}File "code.py", line [45], in spin\n[\s\S]*\nTimeoutError: .* 1500 ms/,
      },
      maxMs: 5000,
    },
    { options: { timeoutMs: 1500 } },
  ),
  py(
    'O18c',
    'a time-out says which task waits',
    'import asyncio\n\nasync def fetch():\n    await asyncio.sleep(3600)\n\nasync def main(input):\n    await fetch()\n',
    {
      status: 'timeout',
      error: {
        line: 4,
        sourceLine: '    await asyncio.sleep(3600)',
        stack: /line 7, in main\n[\s\S]*line 4, in fetch\n/,
      },
      maxMs: 5000,
    },
    { options: { timeoutMs: 1500 } },
  ),
  js(
    'O19b',
    'a time-out shows the stack of a busy loop',
    'function spin(n) {\n  try {\n    for (;;) n++;\n  } finally {\n    n = 0;\n  }\n}\nspin(1);',
    {
      status: 'timeout',
      error: {
        name: 'TimeoutError',
        message: /1500 ms/,
        line: 3,
        column: (column) => column > 0,
        sourceLine: '    for (;;) n++;',
        stack: /^TimeoutError: .* 1500 ms [\s\S]*\n {4}at spin \(code\.js:3:\d+\)\n {4}at code\.js:8:1$/,
      },
      maxMs: 5000,
    },
    { options: { timeoutMs: 1500 } },
  ),
  js(
    'O20',
    'a timer left running does not hold the result back',
    'setInterval(() => console.log("tick"), 5000);\nreturn "done";',
    { ...ok, result: 'done', stdout: '', maxMs: 4000 },
  ),
  js(
    'O21',
    'a delayed promise is awaited',
    'const later = ms => new Promise(r => setTimeout(() => r({ ok: true }), ms));\nconst v = await later(400);\nconsole.log("got", v.ok);\nreturn v;',
    { ...ok, stdout: 'got true\n', result: { ok: true } },
  ),

  // ---- errors of the code ----
  js(
    'O22',
    'a rejection nobody awaited fails the run, with its line',
    'async function save() {\n  throw new Error("late boom");\n}\nsave();\nawait new Promise(r => setTimeout(r, 100));\nreturn "finished";',
    { status: 'error', ok: false, exitCode: 1, error: { name: 'Error', message: 'late boom', line: 2 } },
  ),
  js(
    'O23',
    'a syntax error has the line of the user, and nothing of a wrapper',
    'const a = 1;\nconst b = 2;\nconst c = = 3;\nreturn a + b + c;',
    {
      status: 'error',
      exitCode: 1,
      error: { name: 'SyntaxError', line: 3, column: 11, sourceLine: 'const c = = 3;', stack: (s) => !/node:/.test(s) },
    },
  ),
  py(
    'O24',
    'an exception has its line, and the call\u2019s line in the stack',
    'def check(n):\n    if n > 2:\n        raise ValueError("too big: %d" % n)\n\ncheck(input["n"])\n',
    {
      status: 'error',
      exitCode: 1,
      error: {
        name: 'ValueError',
        message: 'too big: 7',
        line: 3,
        sourceLine: '        raise ValueError("too big: %d" % n)',
        stack: (s) => /line 3/.test(s) && /line 5/.test(s) && !/python\.py|<frozen/.test(s),
      },
    },
    { input: { n: 7 } },
  ),
  js('O25', 'throwing null is reported as what it is', 'console.log("a");\nthrow null;', {
    status: 'error',
    exitCode: 1,
    stdout: 'a\n',
    error: { message: /null/, stack: (s) => !/Cannot read/.test(s) },
  }),
  py(
    'O26',
    'a text of comments only succeeds with null',
    '# nothing here yet\n',
    { ...ok, result: null, stdout: '' },
    { input: { a: 1 } },
  ),
  py('O27', 'sys.exit with a message keeps the message', 'import sys\nprint("part")\nsys.exit("quota used up")\n', {
    status: 'error',
    exitCode: 1,
    stdout: 'part\n',
    error: { name: 'SystemExit', message: /quota used up/ },
  }),

  // ---- memory and processes ----
  js(
    'O28',
    'a filled heap is told as out of memory',
    'const keep = [];\nfor (;;) keep.push(new Array(100000).fill(Math.random()));',
    { status: 'out_of_memory', ok: false, timedOut: false, maxMs: 13000 },
    { options: { memoryMb: 64 }, destructive: true },
  ),
  py(
    'O29',
    'a loop of forks stops at the first',
    'import os, time\nn = 0\ntry:\n    for _ in range(3000):\n        if os.fork() == 0:\n            time.sleep(120)\n            os._exit(0)\n        n += 1\n    result = {"stopped": False, "n": n}\nexcept OSError as e:\n    result = {"stopped": True, "n": n}\n',
    { ...ok, result: { stopped: true, n: 0 } },
    { destructive: true },
  ),
  py(
    'O30',
    'a sub-process is refused with a PermissionError on its line',
    'import subprocess\nsubprocess.Popen(["sleep", "45"])\nprint("started", flush=True)\nresult = "back"\n',
    { status: 'error', exitCode: 1, stdout: '', error: { name: 'PermissionError', line: 2 }, maxMs: 6000 },
  ),
  py(
    'O31',
    'standard input is at its end',
    'import sys\ndata = sys.stdin.read()\nprint(repr(data))\nname = sys.stdin.readline()\nresult = [data, name]\n',
    { ...ok, stdout: "''\n", result: ['', ''], maxMs: 4000 },
    { input: { x: 1 } },
  ),

  // ---- modules ----
  py(
    'O32',
    'the standard library imports, C extensions too',
    'import json, re, math, hashlib, datetime, decimal, urllib.parse, uuid, zlib, sqlite3, ssl\nresult = {\n    "h": hashlib.sha256(b"abc").hexdigest()[:8],\n    "q": urllib.parse.quote("a b&c"),\n    "d": (datetime.date(2024, 2, 28) + datetime.timedelta(days=1)).isoformat(),\n    "z": len(zlib.compress(b"0" * 1000)) < 100,\n    "m": math.isclose(math.sqrt(2) ** 2, 2),\n    "s": sqlite3.connect(":memory:").execute("select 1 + 1").fetchone()[0],\n}\n',
    { ...ok, result: { h: 'ba7816bf', q: 'a%20b%26c', d: '2024-02-29', z: true, m: true, s: 2 } },
  ),
  py(
    'O33',
    'a package that is not there is named, with the line',
    'x = 1\nimport surely_not_installed as np\nresult = int(np.arange(4).sum())\n',
    { status: 'error', error: { name: 'ModuleNotFoundError', message: /surely_not_installed/, line: 2 } },
  ),
  js(
    'O34',
    'built-in modules load with and without node:',
    'const crypto = require("crypto");\nconst fs = require("node:fs");\nconst h = crypto.createHash("sha256").update("abc").digest("hex");\nreturn { h: h.slice(0, 8), fs: typeof fs.readFileSync, buf: Buffer.from("hi").toString("base64") };',
    { ...ok, result: { h: 'ba7816bf', fs: 'function', buf: 'aGk=' } },
  ),
  js(
    'O35',
    'a module with a return at top level is a SyntaxError with a hint',
    'import { basename } from "node:path";\nreturn basename("/a/b.txt");',
    { status: 'error', exitCode: 1, error: { name: 'SyntaxError', message: /require|import\(|export/, line: 1 } },
  ),
  js(
    'O35b',
    'a module with a default export works',
    'import { basename } from "node:path";\nexport default (input) => basename(input);',
    { ...ok, result: 'b.txt' },
    { input: '/a/b.txt' },
  ),

  // ---- the text of the code ----
  js(
    'O36',
    'template, shell and markup characters stay as written',
    'const s = "$& $\' $` $$ </script> EOF \\\\ \\"q\\"";\nconst t = `n=${1 + 1} \\`tick\\``;\nconst u = \'%s {{x}} <%= y %> #{z} $(id)\';\nreturn [s, t, u];',
    { ...ok, result: ['$& $\' $` $$ </script> EOF \\ "q"', 'n=2 `tick`', '%s {{x}} <%= y %> #{z} $(id)'] },
  ),
  js('O37', 'a comment at the very end swallows nothing', 'return 5 // the answer, almost', { ...ok, result: 5 }),
  py(
    'O38',
    'text within triple quotes is not re-indented',
    'text = """first\n  second\n\tthird\n"""\ntotal = (1 +\n2)\nresult = [text, total]\n',
    { ...ok, result: ['first\n  second\n\tthird\n', 3] },
  ),
  py(
    'O39',
    'a byte order mark and CRLF do no harm',
    '\ufeffdef main(input):\r\n    s = """a\r\nb"""\r\n    return [s, input["k"]]\r\n',
    { ...ok, result: ['a\nb', 'v'] },
    { input: { k: 'v' } },
  ),
  js(
    'O40',
    'TypeScript is a SyntaxError on the line of its first annotation',
    'const rows = [1, 2];\nfunction add(a: number, b: number): number {\n  return a + b;\n}\nreturn add(rows[0], rows[1]);',
    { status: 'error', exitCode: 1, error: { name: 'SyntaxError', line: 2 } },
  ),
  py(
    'O41',
    'a script of 300 kB runs',
    `x = 1\n${'# padding line to make this file long\n'.repeat(8000)}result = x + 1\n`,
    { ...ok, result: 2 },
  ),

  // ---- what of the host is seen ----
  js(
    'O42',
    'the environment of the host is not there',
    'return { secret: process.env.PROBE_TOKEN ?? null, keys: Object.keys(process.env).filter(k => /TOKEN|SECRET|KEY/i.test(k)) };',
    { ...ok, result: { secret: null, keys: [] } },
    { hostEnv: { PROBE_TOKEN: 't-123', AWS_SECRET_ACCESS_KEY: 'zzz' } },
  ),
  py(
    'O43',
    'named time zones resolve',
    'from datetime import datetime, timezone\nfrom zoneinfo import ZoneInfo\nt = datetime(2024, 7, 1, 12, 0, tzinfo=timezone.utc)\nresult = [t.astimezone(ZoneInfo(z)).isoformat() for z in ("Asia/Shanghai", "America/New_York", "UTC")]\n',
    { ...ok, result: ['2024-07-01T20:00:00+08:00', '2024-07-01T08:00:00-04:00', '2024-07-01T12:00:00+00:00'] },
  ),
  py(
    'O44',
    'temporary files and a cache below HOME work',
    'import os, tempfile\nwith tempfile.NamedTemporaryFile("w+", suffix=".txt") as f:\n    f.write("hello")\n    f.seek(0)\n    body = f.read()\nhome = os.path.expanduser("~")\ncache = os.path.join(home, ".cache", "demo-lib")\nos.makedirs(cache, exist_ok=True)\nopen(os.path.join(cache, "x"), "w").close()\nresult = {"body": body, "home": bool(home)}\n',
    { ...ok, result: { body: 'hello', home: true } },
  ),

  // ---- many at once, and the host's own health ----
  py(
    'O45',
    'sixty runs at once each get their own input, and waiting is not run time',
    'import time\ntime.sleep(0.5)\nresult = input["i"]\n',
    { ...ok, usage: { runMs: (ms) => ms >= 400 && ms < 3000 * slack() } },
    { parallel: 60, hostLagMs: 250, maxTotalMs: 20000 },
  ),
  py(
    'O46',
    'code that ends before reading a large input',
    'import os\nos._exit(7)\n',
    { status: 'error', exitCode: 7, stdout: '', timedOut: false },
    { input: { blob: 'k'.repeat(4 * 2 ** 20) }, repeat: 50 },
  ),

  // ---- ends of its own choice ----
  js(
    'O53',
    'process.exit keeps its code and what was printed',
    'console.log("partial");\nprocess.exit(3);\nreturn "unreached";',
    { status: 'error', exitCode: 3, stdout: 'partial\n', timedOut: false, result: null, error: { message: /exit/ } },
  ),
  js(
    'O54',
    'child_process is refused by policy',
    'const { execFileSync } = require("child_process");\nreturn execFileSync("echo", ["hi"]).toString();',
    {
      status: 'error',
      exitCode: 1,
      error: { message: /EPERM|EACCES|not permitted|restricted|ERR_ACCESS_DENIED/, line: 2 },
      maxMs: 5000,
    },
  ),

  // ---- types ----
  ts(
    'T01',
    'types are erased from the body of a function, and input is there',
    'interface Item { price: number; note?: string }\nconst items = input.items as Item[];\nconst sum = <T,>(list: T[], of: (one: T) => number): number => list.reduce((all, one) => all + of(one), 0);\nconst total: number = sum<Item>(items!, (one) => one.price);\nreturn { total } satisfies Record<string, number>;',
    { ...ok, result: { total: 5 }, stderr: '' },
    { input: { items: [{ price: 2 }, { price: 3 }] } },
  ),
  ts(
    'T02',
    'a module, a part of whose imports are types',
    'import type { Order } from "./orders";\nimport { basename, type ParsedPath } from "node:path";\nexport default async (input: { file: string }): Promise<string> => basename(input.file);',
    { ...ok, result: 'b.txt' },
    { input: { file: '/a/b.txt' } },
  ),
  ts(
    'T03',
    'a text that imports and exports types alone is no module: it may return',
    'import type { Order } from "./orders";\nexport interface Total { sum: number }\nexport type { Order };\nreturn { sum: await Promise.resolve(input.n as number) } as Total;',
    { ...ok, result: { sum: 4 } },
    { input: { n: 4 } },
  ),
  ts(
    'T04',
    'main, with its types',
    'abstract class Base<T> { abstract get(): T }\nclass One extends Base<number> { get(): number { return 1 } }\nexport async function main(this: void, input: { a: number }): Promise<number> {\n  return new One().get() + input.a!;\n}',
    { ...ok, result: 3 },
    { input: { a: 2 } },
  ),
  ts(
    'T05',
    'an error has the line and the column of the text as it was sent',
    'type Row = {\n  name: string;\n};\nconst 名: string = "😀", row: Row | null = null; return (row as any).name;',
    {
      status: 'error',
      error: { name: 'TypeError', line: 4, column: 69, sourceLine: /^const 名: string = "😀"/, stack: /code\.js:4:69/ },
    },
  ),
  ts('T06', 'an enum cannot be erased, and the error says what can', 'const a = 1;\n  enum Colour { Red }\nreturn a;', {
    status: 'error',
    error: { name: 'SyntaxError', message: /enum is not supported.*erasable.*as const/, line: 2, column: 3 },
  }),

  // ---- files ----
  js(
    'F01',
    'files are there before the text runs, and what it leaves is collected, whole folders too',
    'const fs = require("node:fs");\nfs.mkdirSync("out/deep", { recursive: true });\nfs.writeFileSync("out/deep/a.txt", fs.readFileSync("in/a.txt", "utf8") + "!");\nfs.writeFileSync("out/__proto__", fs.readFileSync("b.bin"));\nprocess.chdir("/tmp");',
    {
      ...ok,
      files: { 'out/deep/a.txt': Buffer.from('ho\u0308 \u{1F385}!'), ['out/__proto__']: Buffer.from([0, 255, 10]) },
      filesMissing: [],
    },
    {
      options: {
        files: { 'in/a.txt': 'ho\u0308 \u{1F385}', 'b.bin': new Uint8Array([0, 255, 10]) },
        collect: ['out'],
      },
    },
  ),
  py(
    'F02',
    'the same in Python, whose text may import a file that it was given',
    'import os, helper\ndef main(input):\n    os.makedirs("out/deep")\n    with open("out/deep/a.txt", "w") as f:\n        f.write(helper.shout(open("in/a.txt").read()))\n    with open("out/__proto__", "wb") as f:\n        f.write(open("b.bin", "rb").read())\n    os.chdir("/tmp")\n',
    {
      ...ok,
      files: { 'out/deep/a.txt': Buffer.from('H\u00d6!'), ['out/__proto__']: Buffer.from([0, 255, 10]) },
      filesMissing: [],
    },
    {
      options: {
        files: {
          'helper.py': 'def shout(text):\n    return text.upper() + "!"\n',
          'in/a.txt': 'h\u00f6',
          'b.bin': new Uint8Array([0, 255, 10]),
        },
        collect: ['out'],
      },
    },
  ),
  js(
    'F03',
    'links are not followed, and what is not there or too large is told as missing',
    'const fs = require("node:fs");\nfs.mkdirSync("real");\nfs.writeFileSync("real/a", "a");\nfs.symlinkSync("/etc/passwd", "passwd");\nfs.symlinkSync("real", "folder");\nfs.writeFileSync("one", "1");\nfs.linkSync("one", "two");\nfs.ftruncateSync(fs.openSync("big", "w"), 9 << 20);\nfs.writeFileSync(Buffer.from([0x72, 0x65, 0x61, 0x6c, 0x2f, 0xff]), "x");\nreturn 1;',
    {
      ...ok,
      result: 1,
      files: { 'real/a': Buffer.from('a') },
      filesMissing: [
        { path: 'passwd', reason: 'link' },
        { path: 'folder/a', reason: 'link' },
        { path: 'two', reason: 'link' },
        { path: 'big', reason: 'too_large' },
        { path: 'nowhere/at/all', reason: 'absent' },
        { path: 'real', reason: 'bad_name' },
      ],
    },
    { options: { collect: ['passwd', 'folder/a', 'two', 'big', 'nowhere/at/all', 'real'] } },
  ),
  py(
    'F04',
    'the same in Python',
    'import os\nos.mkdir("real")\nopen("real/a", "w").write("a")\nos.symlink("/etc/passwd", "passwd")\nos.symlink("real", "folder")\nopen("one", "w").write("1")\nos.link("one", "two")\nopen("big", "wb").truncate(9 << 20)\nopen(b"real/\\xff", "w").close()\nresult = 1\n',
    {
      ...ok,
      result: 1,
      files: { 'real/a': Buffer.from('a') },
      filesMissing: [
        { path: 'passwd', reason: 'link' },
        { path: 'folder/a', reason: 'link' },
        { path: 'two', reason: 'link' },
        { path: 'big', reason: 'too_large' },
        { path: 'nowhere/at/all', reason: 'absent' },
        { path: 'real', reason: 'bad_name' },
      ],
    },
    { options: { collect: ['passwd', 'folder/a', 'two', 'big', 'nowhere/at/all', 'real'] } },
  ),
  js(
    'F05',
    'a run that does not end by itself leaves nothing, and says so',
    'require("node:fs").writeFileSync("a", "a");\nthrow new Error("no");',
    { status: 'error', files: {}, filesMissing: [{ path: 'a', reason: 'not_ended' }] },
    { options: { collect: ['a'] } },
  ),
];
