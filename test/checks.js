'use strict';
// What checkCode says of a text: a table without a backend, as cases.js is one
// for runs. `errors` are compared field by field; a RegExp matches.

const fault = (message, line, column, sourceLine, name = 'SyntaxError') => ({
  name,
  message,
  line,
  column,
  sourceLine,
});

module.exports = [
  // ---- nothing wrong, and nothing run: each of these would be seen, or end the cell ----
  { name: 'a value', language: 'javascript', code: 'return input.a + 1', errors: [] },
  { name: 'an empty text', language: 'javascript', code: '', errors: [] },
  { name: 'await at top level', language: 'javascript', code: 'return await import("node:os")', errors: [] },
  { name: 'a module', language: 'javascript', code: 'import os from "node:os";\nexport default os.EOL', errors: [] },
  { name: 'an import that no run would find', language: 'javascript', code: 'import x from "nowhere"', errors: [] },
  { name: 'a text that would throw', language: 'javascript', code: 'throw new Error("ran")', errors: [] },
  { name: 'a text that would never end', language: 'javascript', code: 'for (;;) {}', errors: [] },
  { name: 'a text that would end the process', language: 'javascript', code: 'process.exit(3)', errors: [] },
  {
    name: 'a #! line, CRLF and a byte order mark',
    language: 'javascript',
    code: '\ufeff#!/x\r\nreturn 1\r\n',
    errors: [],
  },
  { name: 'main', language: 'python', code: 'def main(input):\n    return 1\n', errors: [] },
  { name: 'an empty text', language: 'python', code: '', errors: [] },
  { name: 'an import that no run would find', language: 'python', code: 'import nowhere\n', errors: [] },
  { name: 'a text that would never end', language: 'python', code: 'while True: pass\n', errors: [] },
  { name: 'a text that would end the process', language: 'python', code: 'import os\nos._exit(3)\n', errors: [] },

  // ---- what a run would say as well ----
  {
    name: 'a token out of place',
    language: 'javascript',
    code: 'const a = 1;\nreturn a +;\n',
    errors: [fault(/Unexpected token ';'/, 2, 11, 'return a +;')],
  },
  {
    name: 'a fault inside a function that nobody calls',
    language: 'javascript',
    code: 'function f() {\n  let a; let a;\n}',
    errors: [fault(/already been declared/, 2, 14, '  let a; let a;')],
  },
  { name: 'a brace too many', language: 'javascript', code: 'f();\n}', errors: [fault(/'}'/, 2, 1, '}')] },
  {
    name: 'a brace too few',
    language: 'javascript',
    code: 'if (x) {\n  y();',
    errors: [fault(/Unexpected end/, 2, 7, '  y();')],
  },
  {
    name: 'what would close the function around it, and run',
    language: 'javascript',
    code: '}); process.exit(3); (function () {',
    errors: [fault(/./, 1, 1, '}); process.exit(3); (function () {')],
  },
  {
    name: 'return in a module, with the remedy',
    language: 'javascript',
    code: 'import os from "node:os";\nreturn os.EOL;',
    errors: [fault(/use export default instead of return/, 1, 1, 'import os from "node:os";')],
  },
  {
    name: 'a token out of place, behind characters of two units',
    language: 'python',
    code: 's = "é😀"; x = = 1\n',
    errors: [fault(/invalid syntax/, 1, 15, 's = "é😀"; x = = 1')],
  },
  {
    name: 'return outside of a function',
    language: 'python',
    code: 'x = 1\nreturn x\n',
    errors: [fault(/'return' outside function/, 2, 1, 'return x')],
  },
  {
    name: 'an indent that is missing',
    language: 'python',
    code: 'def f():\nreturn 1\n',
    errors: [fault(/expected an indented block/, 2, 1, 'return 1', 'IndentationError')],
  },
  { name: 'a NUL', language: 'python', code: 'a = 1\nb\0 = 2\n', errors: [fault(/null/, 2, 2, 'b\0 = 2')] },

  // ---- types ----
  {
    name: 'types that no checker has seen',
    language: 'typescript',
    code: 'let a: Nowhere = 1;\nreturn a as B',
    errors: [],
  },
  {
    name: 'a module',
    language: 'typescript',
    code: 'import type { A } from "./a";\nexport default (a: A) => a',
    errors: [],
  },
  {
    name: 'an enum',
    language: 'typescript',
    code: '\tconst 漢 = "é😀"; enum E { A }',
    errors: [fault(/erasable syntax only/, 1, 19, '\tconst 漢 = "é😀"; enum E { A }')],
  },
  {
    name: 'a namespace that holds values',
    language: 'typescript',
    code: 'let a: 1;\nnamespace N {\n  export const b = 1;\n}',
    errors: [fault(/namespace declaration is not supported/, 2, 1, 'namespace N {')],
  },
  {
    name: 'a parameter property',
    language: 'typescript',
    code: 'class A { constructor(private a: 1) {} }',
    errors: [fault(/parameter property.*declare a field/, 1, 31, 'class A { constructor(private a: 1) {} }')],
  },
  {
    name: 'import x = require()',
    language: 'typescript',
    code: 'import fs = require("fs");',
    errors: [fault(/import equals.*require\(\)/, 1, 1, 'import fs = require("fs");')],
  },
  {
    name: 'an assertion in angle brackets',
    language: 'typescript',
    code: 'return <string>input',
    errors: [fault(/write `value as T`/, 1, 8, 'return <string>input')],
  },
  {
    name: 'a decorator',
    language: 'typescript',
    code: 'let a: 1;\n@dec class A {}',
    errors: [fault(/Invalid or unexpected token/, 2, 1, '@dec class A {}')],
  },
  {
    name: 'a token out of place',
    language: 'typescript',
    code: 'let a: number = ;',
    errors: [fault(/Expression expected/, 1, 17, 'let a: number = ;')],
  },
  {
    name: 'a fault that only JavaScript has, on a line of types',
    language: 'typescript',
    code: 'let a: number; let a: string;',
    errors: [fault(/already been declared/, 1, 20, 'let a: number; let a: string;')],
  },
  {
    name: 'a brace too few',
    language: 'typescript',
    code: 'if (a as any) {\n  b();',
    errors: [fault(/Unexpected end of input/, 2, 7, '  b();')],
  },
  {
    name: 'what would close the function around it, and run',
    language: 'typescript',
    code: '}); process.exit(3); (function (a: 1) {',
    errors: [fault(/./, 1, 1, '}); process.exit(3); (function (a: 1) {')],
  },
  {
    name: 'return in a module, with the remedy',
    language: 'typescript',
    code: 'import os from "node:os";\nreturn os.EOL as string;',
    errors: [fault(/use export default instead of return/, 2, 1, 'return os.EOL as string;')],
  },
];
