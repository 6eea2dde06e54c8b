'use strict';
// How the two languages are run and what their results become, as data: one
// entry, one run, one outcome. No backend is named here, so that the same table
// can be run over each of them.
//
// { name, language, code, input, options, expect }
//   expect   fields of the result, compared as helpers/run.js `matches` does

const js = (name, code, expect, more) => ({ name, language: 'javascript', code, expect, ...more });
const py = (name, code, expect, more) => ({ name, language: 'python', code, expect, ...more });

/** Ends well, with this result. */
const gives = (result, more) => ({ status: 'ok', exitCode: 0, error: null, result, ...more });
/** Ends as an error of the code. */
const fails = (error, more) => ({ status: 'error', exitCode: 1, result: null, error, ...more });
/** Has a result that JSON cannot carry. */
const unfit = (path, message, more) => ({
  status: 'not_serializable',
  exitCode: 1,
  result: null,
  error: { name: 'NotSerializableError', path, message, ...more },
});
const tooLarge = (message) => ({
  status: 'result_too_large',
  exitCode: 1,
  result: null,
  error: { name: 'ResultTooLargeError', message },
});

const javascript = [
  // ---- the text ----
  js('return and await work at top level', 'return (await Promise.resolve(input.a)) + 1;', gives(2), {
    input: { a: 1 },
  }),
  js('no return is null', 'const a = 1;', gives(null)),
  js('an empty text is null', '', gives(null)),
  js('a comment alone is null', '// nothing', gives(null)),
  js('input may be shadowed', 'const input = 5;\nreturn input;', gives(5)),
  js('input may have a default by var', 'var input = input || 7;\nreturn input;', gives(3), { input: 3 }),
  js(
    'a shadowed input is not what main gets',
    'const input = 5;\nfunction main(given) {\n  return [given, input];\n}',
    gives([1, 5]),
    { input: 1 },
  ),
  js('the line of an error is right beside a shadowed input', 'const input = 5;\nnull.x;', {
    status: 'error',
    error: { name: 'TypeError', line: 2 },
  }),
  js('require may be shadowed', 'const require = 5;\nreturn require;', gives(5)),
  js('input is null where there is none', 'return input;', gives(null)),
  js(
    'a strict text stays strict',
    '"use strict";\nreturn (function () { return this === undefined; })();',
    gives(true),
  ),
  js('a sloppy text stays sloppy', 'return (function () { return this === globalThis; })();', gives(true)),
  js('functions are hoisted', 'return f();\nfunction f() { return 3; }', gives(3)),
  js('a comment without a line end', 'return 5 // five', gives(5)),
  js('a byte order mark', '\ufeffreturn 1;', gives(1)),
  js('a hash-bang line', '#!/usr/bin/env node\nreturn 1;', gives(1)),
  js('a mark and a hash-bang line', '\ufeff#!/usr/bin/env node\nthrow new Error("x");', fails({ line: 2 })),
  js('CRLF', 'const a = 1;\r\n\r\nthrow new Error("x");', fails({ line: 3, sourceLine: 'throw new Error("x");' })),
  js('NUL, U+2028 and surrogates in a string', 'return "a\0b\u2028c\u{1f600}";', gives('a\0b\u2028c\u{1f600}')),
  js('nothing is expanded', 'return "$& $\' </script> `" + `${1}`;', gives("$& $' </script> `1")),

  // ---- main ----
  js('main is called with the input', 'function main(input) { return input.a; }', gives(7), { input: { a: 7 } }),
  js('main may be async', 'const main = async ({ a }) => a;', gives(7), { input: { a: 7 } }),
  js('a value that was returned wins', 'function main() { return 1; }\nreturn 2;', gives(2)),
  js('main gets the input that was sent', 'input = 1;\nfunction main(a) { return a; }', gives(7), { input: 7 }),

  // ---- modules ----
  js(
    'a module with a default value',
    'import path from "node:path";\nexport default path.basename("/a/b");',
    gives('b'),
  ),
  js('a module with a default function', 'export default async (a) => a * 2;', gives(6), { input: 3 }),
  js('a module with an exported main', 'export function main(a) { return a + 1; }', gives(4), { input: 3 }),
  js('a module that exports nothing', 'import "node:fs";', gives(null)),
  js(
    'named, namespace and default imports, top-level await',
    'import { join } from "path";\nimport * as os from "os";\nimport fs, { readFileSync } from "node:fs";\n' +
      'const a = await Promise.resolve(join("a", "b"));\nexport default [a, os.EOL, fs.readFileSync === readFileSync];',
    gives(['a/b', '\n', true]),
  ),
  js('require and input in a module', 'export default [require("node:os").EOL, input];', gives(['\n', 1]), {
    input: 1,
  }),
  js('import.meta', 'export default typeof import.meta.url;', gives('string')),
  js('dynamic import in a text', 'const { sep } = await import("node:path");\nreturn sep;', gives('/')),
  js('dynamic import in a module', 'const { sep } = await import("path");\nexport default sep;', gives('/')),
  js(
    'a module with a return is told what to write',
    '\nimport { sep } from "node:path";\nreturn sep;',
    fails({ name: 'SyntaxError', line: 2, message: /export default.*require/ }),
  ),
  js('a fault in a module', 'import "node:fs";\nlet a = = 1;', fails({ name: 'SyntaxError', line: 2, column: 9 })),
  js(
    'an import that is not there',
    'import { nope } from "node:fs";\n',
    fails({ name: 'SyntaxError', message: /nope/ }),
  ),
  js('a package that is not there', 'import x from "no-such";\n', fails({ message: /no-such/ })),
  js('an error in a module', 'import "node:fs";\nthrow new TypeError("x");', fails({ name: 'TypeError', line: 2 })),
  js(
    'files of its own',
    'require("fs").writeFileSync("own.js", "module.exports = 4");\n' +
      'require("fs").writeFileSync("own.mjs", "export default 5");\n' +
      'return [require("./own"), (await import("./own.mjs")).default];',
    gives([4, 5]),
  ),
  js('a module that require does not find', 'require("no-such");', fails({ message: /no-such/, line: 1 })),
  js('a package that import() does not find', 'await import("no-such");', fails({ message: /no-such/ })),

  // ---- faults in the text ----
  js(
    'the place of a syntax error',
    'const a = 1;\nconst b = = 2;',
    fails({ name: 'SyntaxError', line: 2, column: 11, sourceLine: 'const b = = 2;', stack: /code\.js:2:11/ }),
  ),
  js(
    'a text that closes what is around it',
    '});\nprocess.exit(9);\n(() => {',
    fails({ name: 'SyntaxError', line: 1 }),
  ),
  js('a brace too many', 'if (1) {\n}\n}', fails({ name: 'SyntaxError', line: 3, column: 1 })),
  js('a brace too many after one in a comment', '// }\nreturn "}" }', fails({ name: 'SyntaxError', line: 2 })),
  js('a brace too few', 'if (1) {\n  f();\n', fails({ name: 'SyntaxError', message: /end of input/ })),
  js('TypeScript', 'const a = 1;\nfunction f(b: number) {}', fails({ name: 'SyntaxError', line: 2 })),

  // ---- errors ----
  js(
    'the place of an error',
    'function f() {\n  throw new RangeError("far");\n}\nf();',
    fails({ name: 'RangeError', message: 'far', line: 2, column: 9, sourceLine: '  throw new RangeError("far");' }),
  ),
  js(
    'a stack holds the frames of the user alone',
    'function f() { throw new Error("x"); }\nf();',
    fails({ stack: (text) => /^Error: x\n +at f \(code\.js:1:\d+\)\n +at code\.js:2:1$/.test(text) }),
  ),
  js('an error of a built-in', 'require("fs").readFileSync("/none");', fails({ message: /ENOENT/, line: 1 })),
  js(
    'an error class of its own',
    'class Own extends Error { name = "Own"; }\nthrow new Own("x");',
    fails({ name: 'Own' }),
  ),
  js('null', 'throw null;', fails({ name: 'ThrownValue', message: /null/ })),
  js('undefined', 'throw undefined;', fails({ message: /undefined/ })),
  js('text', 'throw "spent";', fails({ message: 'spent' })),
  js('an object', 'throw { code: 7 };', fails({ message: /code: 7/ })),
  js('an object with a message', 'throw { message: "m" };', fails({ message: 'm' })),
  js(
    'what caused it',
    'throw new Error("outer", { cause: new TypeError("inner") });',
    fails({ message: 'outer', stack: /Caused by: TypeError: inner/ }),
  ),
  js(
    'several errors',
    'await Promise.any([Promise.reject(new Error("one"))]);',
    fails({ name: 'AggregateError', stack: /one/ }),
  ),
  js(
    'an error whose parts throw',
    'const e = new Error("x");\nObject.defineProperty(e, "message", { get() { throw 1; } });\nthrow e;',
    fails({ name: 'Error' }),
  ),
  js(
    'a long message is cut',
    'throw new Error("é".repeat(100000));',
    fails({ message: (text) => text.length <= 8192 }),
  ),
  js(
    'a long line is cut',
    `/*${'x'.repeat(1000)}*/ throw new Error("x");`,
    fails({ sourceLine: (text) => text.length === 500 }),
  ),
  js(
    'in a timer',
    'setTimeout(() => { throw new Error("late"); }, 1);\nawait new Promise((r) => setTimeout(r, 500));',
    fails({ message: 'late', line: 1 }),
  ),
  js(
    'in a promise nobody waits for',
    'Promise.reject(new Error("lost"));\nawait new Promise((r) => setTimeout(r, 500));',
    fails({ message: 'lost', line: 1 }),
  ),
  js(
    'in one that is lost at the end',
    'Promise.reject(new Error("lost"));\nreturn 1;',
    fails({ message: 'lost', line: 1 }),
  ),
  js(
    'in one that is caught in time',
    'const p = Promise.reject(new Error("x"));\nsetTimeout(() => {}, 1);\nawait p.catch(() => {});\nreturn 1;',
    gives(1),
  ),
  js(
    'a listener of its own',
    'process.on("uncaughtException", (e) => console.log(e.message));\nsetTimeout(() => { throw new Error("x"); }, 1);\nawait new Promise((r) => setTimeout(r, 50));\nreturn 1;',
    gives(1, { stdout: 'x\n' }),
  ),
  js('too deep a recursion', 'const f = () => f() + 1;\nf();', fails({ name: 'RangeError', line: 1 })),
  js(
    'starting a program',
    'require("child_process").execFileSync("id");',
    fails({ message: /restricted|EPERM/, line: 1 }),
  ),
  js('never', 'await new Promise(() => {});', fails({ name: 'NeverSettledError' })),
  js('never, in a module', 'await new Promise(() => {});\nexport default 1;', fails({ name: 'NeverSettledError' })),
  js(
    'never, and no listener is left',
    'process.removeAllListeners();\nprocess.emit = null;\nawait new Promise(() => {});',
    fails({ name: 'NeverSettledError' }),
  ),

  // ---- ends ----
  js('exit with a code', 'console.log("p");\nprocess.exit(3);', {
    status: 'error',
    exitCode: 3,
    stdout: 'p\n',
    result: null,
  }),
  js('exit without one', 'process.exit();', gives(null)),
  js(
    'exit listeners',
    'process.on("exit", (code) => console.log("exit", code));\nreturn 1;',
    gives(1, { stdout: 'exit 0\n' }),
  ),
  js('exit listeners at process.exit', 'process.on("exit", (code) => console.log("exit", code));\nprocess.exit(4);', {
    status: 'error',
    exitCode: 4,
    stdout: 'exit 4\n',
  }),
  js('process.exitCode', 'process.exitCode = 5;\nreturn 1;', { status: 'error', exitCode: 5, result: null }),
  js('process.exitCode that a process ends with as 0', 'process.exitCode = 256;\nreturn 5;', gives(5)),
  js('exit cannot be taken away', 'process.reallyExit = () => {};\nprocess.exit(6);', { status: 'error', exitCode: 6 }),
  js('abort', 'process.abort();', { status: 'killed', signal: 'SIGABRT', exitCode: null, stderr: '' }),
  js('timers are dropped', 'setInterval(() => {}, 1);\nreturn 1;', gives(1)),

  // ---- streams ----
  js(
    'both streams',
    'console.log("a", { b: 1 });\nconsole.error("c");\nreturn 1;',
    gives(1, { stdout: 'a { b: 1 }\n', stderr: 'c\n' }),
  ),
  js(
    'a large output and exit',
    'console.log("y".repeat(300000));\nprocess.exit(0);',
    gives(null, { stdout: (t) => t.length === 300001 }),
  ),
  js(
    'a write with a callback',
    'await new Promise((r) => process.stdout.write("x", r));\nreturn 1;',
    gives(1, { stdout: 'x' }),
  ),
  js('standard input is empty', 'return require("fs").readFileSync(0, "utf8");', gives('')),
  js('so is process.stdin', 'let n = 0;\nfor await (const c of process.stdin) n += c.length;\nreturn n;', gives(0)),

  // ---- surroundings ----
  js('variables', 'return [process.env.A, process.env.NODE_OPTIONS];', gives(['é=1', '--nope']), {
    options: { env: { A: 'é=1', NODE_OPTIONS: '--nope' } },
  }),
  js('the time zone', 'return new Date(0).getHours();', gives(9), { options: { env: { TZ: 'Asia/Tokyo' } } }),
  js(
    'its folder',
    'return [process.cwd() === process.env.HOME, require("fs").readdirSync(".").length];',
    gives([true, 0]),
  ),
  js(
    'what Node has',
    'const seen = [];\n' +
      'seen.push(await new Promise((r) => setImmediate(r, 1)), await require("timers/promises").setTimeout(1, 2));\n' +
      'seen.push(structuredClone({ a: 3 }).a, new TextDecoder().decode(new TextEncoder().encode("4")));\n' +
      'seen.push(new URL("http://a/5").pathname, Buffer.from("6").toString("hex"), performance.now() > 0);\n' +
      'seen.push(AbortSignal.abort().aborted, typeof fetch, await new Promise((r) => queueMicrotask(() => r(7))));\n' +
      'const m = await WebAssembly.instantiate(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0]));\n' +
      'seen.push(typeof m.instance, require("zlib").gunzipSync(require("zlib").gzipSync("8")).toString());\n' +
      'await require("fs/promises").writeFile("a", "9");\nseen.push(await require("fs/promises").readFile("a", "utf8"));\n' +
      'seen.push(require("crypto").createHash("md5").update("").digest("hex").length, process.memoryUsage().rss > 0);\n' +
      'return seen;',
    gives([1, 2, 3, '4', '/5', '36', true, true, 'function', 7, 'object', '8', '9', 32, true]),
  ),
  js('Intl', 'return new Intl.NumberFormat("de").format(1234.5);', gives('1.234,5')),
  js('process.pid is its own', 'return process.pid === Number(require("fs").readlinkSync("/proc/self"));', {
    status: 'ok',
  }),
  js(
    'a second load of the guest gives nothing',
    'return Object.keys(require.cache).filter((f) => /javascript|\\.node$/.test(f));',
    gives([]),
  ),

  // ---- values ----
  js(
    'plain values',
    'return [null, true, "x", 1.5, -1, {}, [], { a: { b: [1] } }];',
    gives([null, true, 'x', 1.5, -1, {}, [], { a: { b: [1] } }]),
  ),
  js('undefined inside', 'return { a: undefined, b: [undefined, , 1] };', gives({ b: [null, null, 1] })),
  js(
    'NaN, infinities, minus zero',
    'return [NaN, Infinity, -Infinity, -0];',
    gives((v) => JSON.stringify(v) === '[null,null,null,0]'),
  ),
  js('BigInt', 'return [1n, -(2n ** 64n)];', gives(['1', '-18446744073709551616'])),
  js(
    'large integers',
    'return [2 ** 53 - 1, 2 ** 53, -(2 ** 60)];',
    gives([2 ** 53 - 1, '9007199254740992', '-1152921504606846976']),
  ),
  js('an iterator', 'return [1].values();', unfit('$', /^\$ is an Array Iterator, .*\[\.\.\.value\]/)),
  js('URLSearchParams', 'return { q: new URLSearchParams("a=1") };', unfit('$.q', /fromEntries/)),
  js('WeakRef', 'return [new WeakRef({})];', unfit('$[0]', /a WeakRef.*deref/)),
  js('Blob', 'return new Blob(["x"]);', unfit('$', /a Blob/)),
  js('AbortController', 'return new AbortController();', unfit('$', /an AbortController/)),
  js('an Intl object', 'return new Intl.NumberFormat("de");', unfit('$', /an Intl\.NumberFormat/)),
  js('a Map\u2019s keys', 'return { m: new Map().keys() };', unfit('$.m', /a Map Iterator/)),
  js('a tag that throws', 'return new (class { get [Symbol.toStringTag]() { throw 1; } })();', unfit('$', /threw/)),
  js('classes without fields', 'class A { #x = 1; }\nreturn [new A(), Object.create({})];', gives([{}, {}])),
  js('dates', 'return [new Date(0), new Date(NaN)];', gives(['1970-01-01T00:00:00.000Z', null])),
  js(
    'Map and Set',
    'return [new Map([["a", new Set([1])], [2, 3], [true, 4]]), new Set()];',
    gives([{ a: [1], 2: 3, true: 4 }, []]),
  ),
  js('a Map with objects as keys', 'return { m: new Map([[{}, 1]]) };', unfit('$.m', /Map/)),
  js('a Map with two keys alike', 'return new Map([["1", 1], [1, 2]]);', unfit('$', /two keys/)),
  js(
    'toJSON',
    'return { a: { toJSON(key) { return { key, b: 1n }; } }, u: new URL("http://a/") };',
    gives({ a: { key: 'a', b: '1' }, u: 'http://a/' }),
  ),
  js('instances', 'class P { x = 1; #y = 2; get z() { return 3; } }\nreturn new P();', gives({ x: 1 })),
  js(
    'boxed values',
    'return [new String("a"), new Number(1), new Boolean(false), Object(2n)];',
    gives(['a', 1, false, '2']),
  ),
  js(
    'an Error inside',
    'return { e: Object.assign(new TypeError("x"), { code: 7 }) };',
    gives({ e: { name: 'TypeError', message: 'x', code: 7 } }),
  ),
  js('a regular expression', 'return [/a\\/b/g];', gives(['/a\\/b/g'])),
  js('a value without prototype', 'return Object.assign(Object.create(null), { a: 1n });', gives({ a: '1' })),
  js('the same value twice', 'const a = { x: 1n };\nreturn [a, a];', gives([{ x: '1' }, { x: '1' }])),
  js(
    'a key named __proto__',
    'return JSON.parse(\'{"__proto__": 1n}\'.replace("n", ""));',
    gives((v) => JSON.stringify(v) === '{"__proto__":1}'),
  ),
  js(
    'a key named __proto__ on the long way',
    'return [1n, JSON.parse(\'{"__proto__":{"a":1}}\')];',
    gives((v) => JSON.stringify(v) === '["1",{"__proto__":{"a":1}}]'),
  ),
  js('half of a surrogate pair', 'return ["\\ud83d", { "\\udc00": 1n }];', gives(['\ud83d', { '\udc00': '1' }])),
  js(
    'a Buffer',
    'return { items: [0, 1, 2, { body: Buffer.from("a") }] };',
    unfit('$.items[3].body', /Buffer.*bytes.*base64/),
  ),
  js('typed arrays', 'return { "a b": new Float64Array(2) };', unfit('$["a b"]', /bytes/)),
  js('an ArrayBuffer', 'return new ArrayBuffer(2);', unfit('$', /bytes/)),
  js('a function', 'return { f() {} };', unfit('$.f', /function/)),
  js('a function as a whole', 'return () => 1;', unfit('$', /function/)),
  js('a symbol', 'return [Symbol("x")];', unfit('$[0]', /symbol/)),
  js('a promise', 'return { p: Promise.resolve(1) };', unfit('$.p', /Await/)),
  js('a generator', 'return (function* () {})();', unfit('$', /generator/)),
  js('a circle', 'const a = { b: [] };\na.b.push({ a });\nreturn a;', unfit('$.b[0].a', /circular/)),
  js('a circle through a Map', 'const m = new Map();\nm.set("m", m);\nreturn m;', unfit('$.m', /circular/)),
  js(
    'a getter that throws',
    'return { a: {\n  get b() { throw new TypeError("no"); } } };',
    unfit('$.a.b', /TypeError: no/, { line: 2 }),
  ),
  js('a toJSON that throws', 'return { a: { toJSON() { throw new Error("no"); } } };', unfit('$.a', /no/)),
  js(
    'a proxy that throws',
    'return { a: new Proxy({}, { ownKeys() { throw new Error("no"); } }) };',
    unfit('$.a', /no/),
  ),
  js('512 levels', 'let a = 1;\nfor (let i = 0; i < 512; i++) a = [a];\nreturn a;', { status: 'ok' }),
  js('513 levels', 'let a = 1;\nfor (let i = 0; i < 513; i++) a = [a];\nreturn a;', tooLarge(/512/)),
  js('too many bytes', 'return "é".repeat(60);', tooLarge(/122 .*maxResultBytes.* 100/), {
    options: { maxResultBytes: 100 },
  }),
  js('just enough bytes', 'return "é".repeat(49);', gives('é'.repeat(49)), { options: { maxResultBytes: 100 } }),
  js('too many bytes on the long way', 'return [1n, "x".repeat(200)];', tooLarge(/maxResultBytes/), {
    options: { maxResultBytes: 100 },
  }),
  js('too many values', 'return new Array(100).fill(0);', tooLarge(/100 .*maxResultNodes/), {
    options: { maxResultNodes: 100 },
  }),
  js('just enough values', 'return new Array(99).fill(0);', { status: 'ok' }, { options: { maxResultNodes: 100 } }),
  ...[{ maxResultNodes: 0 }, { maxResultBytes: 0 }, { maxResultBytes: 3 }].flatMap((options) => {
    const limit = JSON.stringify(options);
    const big = options.maxResultBytes ? ['12345', '"abc"', 'true'] : ['1', '""', 'false', '[]', '({})'];
    return [
      ...['null', 'undefined', 'NaN'].map((value) =>
        js(`${limit}: ${value}`, `return ${value};`, gives(null), { options }),
      ),
      ...big.map((value) => js(`${limit}: ${value}`, `return ${value};`, tooLarge(/maxResult/), { options })),
    ];
  }),
  js('a sparse array', 'return new Array(2 ** 32 - 2);', tooLarge(/maxResultNodes/)),

  // ---- a guest that patches what the runner might use ----
  js(
    'built-ins that have been replaced',
    'for (const o of [Object, JSON, Array, Reflect, Promise.prototype, String.prototype, Map.prototype, Set.prototype,\n' +
      '  RegExp.prototype, Function.prototype, process, Buffer])\n' +
      '  for (const k of Object.getOwnPropertyNames(o))\n' +
      '    try { if (typeof o[k] === "function" && k !== "constructor") o[k] = () => "spoiled"; } catch {}\n' +
      'return { a: [1n] };',
    gives({ a: ['1'] }),
  ),
  js(
    'toJSON for everything',
    'Object.prototype.toJSON = function () { return "all"; };\nreturn { a: 1 };',
    gives('all'),
  ),
  js(
    'an error with all of that',
    'Object.prototype.toJSON = () => "all";\nthrow new Error("x");',
    fails({ message: 'x', line: 2 }),
  ),
  js(
    'a stack of its own making',
    'Error.prepareStackTrace = () => { throw 1; };\nthrow new Error("x");',
    fails({ message: 'x' }),
  ),
];

const python = [
  // ---- the text ----
  py('the variable result', 'result = input["a"] + 1', gives(2), { input: { a: 1 } }),
  py('no result is null', 'a = 1', gives(null)),
  py('an empty text is null', '', gives(null)),
  py('a comment alone is null', '# nothing', gives(null)),
  py('main', 'def main(input):\n    return input["a"]', gives(7), { input: { a: 7 } }),
  py('main wins over result', 'result = 1\ndef main(input):\n    return 2', gives(2)),
  py(
    'an async main',
    'import asyncio\nasync def main(input):\n    await asyncio.sleep(0.001)\n    return input',
    gives(7),
    { input: 7 },
  ),
  py('a main without parameters', 'def main():\n    return 3', gives(3)),
  py(
    'a script with a main',
    'result = 1\ndef main():\n    print("once")\nif __name__ == "__main__":\n    main()',
    gives(1, { stdout: 'once\n' }),
  ),
  py('a main that is no function', 'main = 5\nresult = 1', gives(1)),
  py('input may be shadowed', 'input = 5\nresult = input', gives(5)),
  py('main gets the input that was sent', 'input = 5\ndef main(a):\n    return a', gives(7), { input: 7 }),
  py('a mark and CRLF', '\ufeffs = """a\r\nb"""\r\nresult = s', gives('a\nb')),
  py('a hash-bang line and a coding line', '#!/usr/bin/python\n# -*- coding: latin-1 -*-\nresult = "é"', gives('é')),
  py('NUL in the text', 'a = 1\nb = "\0"', fails({ name: 'SyntaxError', line: 2 })),
  py('U+2028 in the text', 'a = "\u2028"\nraise ValueError(a)', fails({ name: 'ValueError', line: 2 })),
  py('a text without a last line end', 'if True:\n    result = 1', gives(1)),
  py(
    'dataclasses and annotations',
    'from __future__ import annotations\nimport dataclasses\n@dataclasses.dataclass\nclass A:\n    b: int\nresult = A(1)',
    gives({ b: 1 }),
  ),
  py('a module of its own', 'open("own.py", "w").write("x = 4")\nimport own\nresult = own.x', gives(4)),
  py('__main__', 'import __main__\nresult = [__main__.__name__, "input" in vars(__main__)]', gives(['__main__', true])),

  // ---- faults ----
  py(
    'the place of a syntax error',
    'a = 1\nb = = 2',
    fails({ name: 'SyntaxError', message: 'invalid syntax', line: 2, column: 5, sourceLine: 'b = = 2' }),
  ),
  py('indentation', 'def f():\nreturn 1', fails({ name: 'IndentationError', line: 2 })),
  py('return outside a function', 'a = 1\nreturn a', fails({ name: 'SyntaxError', line: 2 })),
  py(
    'the place of an error',
    'def f():\n    raise ValueError("far")\nf()',
    fails({ name: 'ValueError', message: 'far', line: 2, sourceLine: '    raise ValueError("far")' }),
  ),
  py(
    'a stack holds the frames of the user alone',
    'import json\ndef f():\n    json.loads("{")\nf()',
    fails({
      name: 'JSONDecodeError',
      line: 3,
      stack: (text) => /line 4, in <module>[\s\S]*line 3, in f/.test(text) && !/python|json\/|exec/.test(text),
    }),
  ),
  py(
    'what caused it',
    'try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise KeyError("k") from e',
    fails({
      name: 'KeyError',
      message: "'k'",
      line: 4,
      stack: /ZeroDivisionError.*[\s\S]*direct cause[\s\S]*KeyError/,
    }),
  ),
  py(
    'an error whose text raises',
    'class E(Exception):\n    def __str__(self): raise self\nraise E()',
    fails({ name: 'E', line: 3 }),
  ),
  py(
    'too deep a recursion',
    'def f():\n    f()\nf()',
    fails({ name: 'RecursionError', line: 2, stack: (t) => t.length <= 16384 }),
  ),
  py('KeyboardInterrupt', 'raise KeyboardInterrupt', fails({ name: 'KeyboardInterrupt' })),
  py('a long message is cut', 'raise ValueError("x" * 100000)', fails({ message: (t) => t.length === 8192 })),
  py('in an async main', 'async def main(input):\n    raise ValueError("x")', fails({ name: 'ValueError', line: 2 })),
  py(
    'never',
    'import asyncio\nasync def main(input):\n    await asyncio.get_event_loop().create_future()',
    fails({ name: 'NeverSettledError' }),
  ),
  py(
    'a module that is not there',
    'x = 1\nimport no_such',
    fails({ name: 'ModuleNotFoundError', message: /no_such/, line: 2 }),
  ),
  py(
    'in a thread it is not the end',
    'import threading\nt = threading.Thread(target=lambda: 1 / 0)\nt.start()\nt.join()\nresult = 1',
    gives(1, { stderr: /ZeroDivisionError/ }),
  ),

  // ---- ends ----
  py('sys.exit()', 'import sys\nresult = 1\nsys.exit()', gives(null)),
  py('sys.exit(3)', 'import sys\nprint("p")\nsys.exit(3)', {
    status: 'error',
    exitCode: 3,
    stdout: 'p\n',
    result: null,
  }),
  py(
    'sys.exit(text)',
    'import sys\nsys.exit("spent")',
    fails({ name: 'SystemExit', message: 'spent', line: 2 }, { stderr: 'spent\n' }),
  ),
  py('sys.exit(True)', 'import sys\nsys.exit(True)', { status: 'error', exitCode: 1 }),
  py('sys.exit(2**70)', 'import sys\nsys.exit(2**70)', { status: 'error', exitCode: 255 }),
  py('sys.exit in main', 'import sys\ndef main(input):\n    sys.exit(4)', { status: 'error', exitCode: 4 }),
  py('sys.exit in an async main', 'import sys\nasync def main(input):\n    sys.exit(4)', {
    status: 'error',
    exitCode: 4,
  }),
  py(
    'SystemExit in a thread',
    'import threading, sys\nt = threading.Thread(target=sys.exit, args=(3,))\nt.start()\nt.join()\nresult = 1',
    gives(1),
  ),
  py('os._exit', 'import os\nprint("p")\nos._exit(7)', { status: 'error', exitCode: 7, stdout: 'p\n' }),
  py('abort', 'import os\nos.abort()', { status: 'killed', signal: 'SIGABRT', exitCode: null }),
  py('exit functions', 'import atexit\natexit.register(print, "bye")\nresult = 1', gives(1, { stdout: 'bye\n' })),
  py(
    'threads are dropped',
    'import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()\nresult = 1',
    gives(1),
  ),
  py(
    'so is a pool of them',
    'import concurrent.futures as f, time\np = f.ThreadPoolExecutor()\np.submit(time.sleep, 60)\nresult = 1',
    gives(1),
  ),

  // ---- streams ----
  py(
    'both streams',
    'import sys\nprint("a", 1)\nprint("b", file=sys.stderr)\nsys.stdout.buffer.write(b"c")',
    gives(null, { stdout: 'a 1\nc', stderr: 'b\n' }),
  ),
  py('text that is no UTF-8', 'print("a\\ud83d\\0b")', gives(null, { stdout: 'a\\ud83d\0b\n' })),
  py('no line end is translated', 'import sys\nsys.stdout.write("a\\r\\nb\\n")', gives(null, { stdout: 'a\r\nb\n' })),
  py(
    'standard input is empty',
    'import sys, builtins\ntry:\n    builtins.input()\nexcept EOFError:\n    result = sys.stdin.read()',
    gives(''),
  ),
  py('a large output', 'print("\u4f60" * 200000)', gives(null, { stdout: (t) => t.length === 200001 })),

  // ---- surroundings ----
  py('variables', 'import os\nresult = [os.environ["A"], os.environ["PYTHONPATH"]]', gives(['é=1', '/x']), {
    options: { env: { A: 'é=1', PYTHONPATH: '/x' } },
  }),
  py('the time zone', 'import time\nresult = time.localtime(0).tm_hour', gives(9), {
    options: { env: { TZ: 'Asia/Tokyo' } },
  }),
  py('its folder', 'import os\nresult = [os.getcwd() == os.environ["HOME"], os.listdir(".")]', gives([true, []])),
  py('arguments', 'import sys\nresult = sys.argv', gives(['code.py'])),
  py('exit and help are there', 'result = [callable(exit), callable(help)]', gives([true, true])),
  py('its pid', 'import os\nresult = os.getpid() == int(os.readlink("/proc/self"))', { status: 'ok' }),

  // ---- values ----
  py(
    'plain values',
    'result = [None, True, "x", 1.5, -1, {}, [], {"a": {"b": (1,)}}]',
    gives([null, true, 'x', 1.5, -1, {}, [], { a: { b: [1] } }]),
  ),
  py('NaN and infinities', 'result = [float("nan"), float("inf"), float("-inf")]', gives([null, null, null])),
  py(
    'large integers',
    'result = [2**53 - 1, 2**53, -2**64, 10**5000 // 10**4999]',
    gives([2 ** 53 - 1, '9007199254740992', '-18446744073709551616', 10]),
  ),
  py('an integer of 5000 digits', 'result = 10**5000', gives(`1${'0'.repeat(5000)}`)),
  py(
    'dates',
    'import datetime as d\nresult = [d.date(2024, 2, 29), d.datetime(2024, 1, 2, 3, tzinfo=d.timezone.utc), d.time(1, 2), d.timedelta(minutes=1)]',
    gives(['2024-02-29', '2024-01-02T03:00:00+00:00', '01:02:00', 60]),
  ),
  py(
    'Decimal, UUID, Path, Fraction',
    'import decimal, uuid, pathlib, fractions\nresult = [decimal.Decimal("1.10"), uuid.UUID(int=1), pathlib.Path("/a"), fractions.Fraction(1, 3)]',
    gives(['1.10', '00000000-0000-0000-0000-000000000001', '/a', '1/3']),
  ),
  py(
    'sets, tuples, ranges, deques',
    'import collections\nresult = [{1}, frozenset([2]), (3,), range(2), collections.deque([4]), {5: 6}.keys()]',
    gives([[1], [2], [3], [0, 1], [4], [5]]),
  ),
  py(
    'named tuples and dict kinds',
    'import collections\nP = collections.namedtuple("P", "a b")\nresult = [P(1, 2), collections.OrderedDict(a=1), collections.Counter("aa")]',
    gives([[1, 2], { a: 1 }, { a: 2 }]),
  ),
  py(
    'enumerations',
    'import enum\nclass E(enum.Enum):\n    A = "a"\nclass I(enum.IntEnum):\n    B = 2\nresult = [E.A, I.B, {E.A: 1}]',
    gives(['a', 2, { a: 1 }]),
  ),
  py(
    'a data class with more inside',
    'import dataclasses\n@dataclasses.dataclass\nclass A:\n    b: object\nresult = A({A(1).b: A({1})})',
    gives({ b: { 1: { b: [1] } } }),
  ),
  py(
    'keys that are not text',
    'result = {1: "a", 1.5: "b", None: "c", False: "d"}',
    gives({ 1: 'a', 1.5: 'b', null: 'c', false: 'd' }),
  ),
  py('two keys alike', 'result = {"x": {1: 1, "1": 2}}', unfit('$.x', /two keys/)),
  py('a key that is a tuple', 'result = {"x": {(1, 2): 1}}', unfit('$.x', /tuple/)),
  py('an exception inside', 'result = {"e": ValueError("x")}', gives({ e: { name: 'ValueError', message: 'x' } })),
  py('half of a surrogate pair', 'result = ["\\ud83d", {"\\udc00": 1}]', gives(['\ud83d', { '\udc00': 1 }])),
  py('NUL, U+2028 and more', 'result = "a\\0b\\u2028\\U0001f600"', gives('a\0b\u2028\u{1f600}')),
  py('bytes', 'result = {"items": [0, 1, 2, {"body": b"a"}]}', unfit('$.items[3].body', /bytes.*base64/)),
  py('a bytearray', 'result = {"a b": bytearray(2)}', unfit('$["a b"]', /bytearray/)),
  py('a memoryview', 'result = memoryview(b"")', unfit('$', /memoryview/)),
  py('a function', 'def f(): pass\nresult = [f]', unfit('$[0]', /function/)),
  py('a class', 'class A: pass\nresult = A', unfit('$', /class/)),
  py('an instance', 'class A: pass\nresult = {"a": A()}', unfit('$.a', /type A/)),
  py('a generator', 'result = (i for i in range(3))', unfit('$', /generator.*list/)),
  py('a complex number', 'result = 1j', unfit('$', /complex/)),
  py('a circle', 'a = {"b": []}\na["b"].append(a)\nresult = a', unfit('$.b[0]', /circular/)),
  py('the same value twice', 'a = {1}\nresult = [a, a]', gives([[1], [1]])),
  py(
    'a property that raises',
    'import collections.abc\nclass M(collections.abc.Mapping):\n    def __getitem__(self, k): raise TypeError("no")\n    def __iter__(self): return iter("a")\n    def __len__(self): return 1\nresult = {"m": M()}',
    unfit('$.m', /TypeError: no/, { line: 3 }),
  ),
  py('512 levels', 'a = 1\nfor i in range(512): a = [a]\nresult = a', { status: 'ok' }),
  py('513 levels', 'a = 1\nfor i in range(513): a = [a]\nresult = a', tooLarge(/512/)),
  py('100,000 levels', 'a = 1\nfor i in range(100000): a = [a]\nresult = a', tooLarge(/512/)),
  py('too many bytes', 'result = "é" * 60', tooLarge(/122 .*maxResultBytes.* 100/), {
    options: { maxResultBytes: 100 },
  }),
  py('just enough bytes', 'result = "é" * 49', gives('é'.repeat(49)), { options: { maxResultBytes: 100 } }),
  py('too many values', 'result = [0] * 100', tooLarge(/100 .*maxResultNodes/), { options: { maxResultNodes: 100 } }),
  ...[{ maxResultNodes: 0 }, { maxResultBytes: 0 }, { maxResultBytes: 3 }].flatMap((options) => {
    const limit = JSON.stringify(options);
    const big = options.maxResultBytes ? ['12345', '"abc"', 'True'] : ['1', '""', 'False', '[]', '{}'];
    return [
      ...['None', 'float("nan")'].map((value) =>
        py(`${limit}: ${value}`, `result = ${value}`, gives(null), { options }),
      ),
      ...big.map((value) => py(`${limit}: ${value}`, `result = ${value}`, tooLarge(/maxResult/), { options })),
    ];
  }),
  py('just enough values', 'result = [0] * 99', { status: 'ok' }, { options: { maxResultNodes: 100 } }),
  py('a result that is awaitable', 'async def f():\n    return 3\nresult = f()', gives(3)),
  py('MemoryError', 'x = bytearray(1 << 50)', { status: 'out_of_memory', result: null }),
  py('MemoryError that is caught', 'try:\n    x = bytearray(1 << 50)\nexcept MemoryError:\n    result = 1', gives(1)),

  // ---- a guest that patches what the runner might use ----
  py(
    'json that has been replaced',
    'import json\njson.dumps = json.JSONEncoder.encode = None\nresult = {"a": {1}}',
    gives({ a: [1] }),
  ),
  py(
    'built-ins that have been replaced',
    'import builtins\nbuiltins.len = builtins.type = builtins.isinstance = None\nresult = 1',
    fails({ message: /replaced/ }),
  ),
  py(
    'a hook of its own',
    'import sys\nsys.excepthook = lambda *a: print("hook")\nraise ValueError("x")',
    fails({ name: 'ValueError' }, { stdout: 'hook\n' }),
  ),
  py(
    'a low recursion limit',
    'import sys\nsys.setrecursionlimit(100)\nresult = {"a": [[[{1}]]]}',
    gives({ a: [[[[1]]]] }),
  ),
];

module.exports = [...javascript, ...python];
