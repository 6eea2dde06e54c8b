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
];
