'use strict';
// The targets of binding.gyp, for builds that node-gyp cannot make: other processors, an older C library.

const fs = require('node:fs');
const path = require('node:path');
const vm = require('node:vm');

const ROOT = path.join(__dirname, '..');

/** @returns {Record<string, { sources: string[], cflags: string[], ldflags: string[], isProgram: boolean }>} */
function targets() {
  const text = fs.readFileSync(path.join(ROOT, 'binding.gyp'), 'utf8').replace(/^((?:[^#'\n]|'[^'\n]*')*)#.*$/gm, '$1');
  const gyp = vm.runInNewContext(`(${text})`); // the part of Python that it is written in is JavaScript as well
  const cell = fs.readdirSync(path.join(ROOT, 'src', 'cell')).filter((name) => name.endsWith('.c'));
  const expand = (name) => (name.includes('ls src/cell/*.c') ? cell.map((one) => `src/cell/${one}`) : [name]);
  const common = gyp.target_defaults;
  return Object.fromEntries(
    gyp.targets.map((one) => [
      one.target_name,
      {
        sources: one.sources.flatMap(expand),
        cflags: [...common.cflags, ...common.defines.map((name) => `-D${name}`), ...(one.cflags ?? [])],
        ldflags: [...common.ldflags, ...(one.ldflags ?? [])],
        isProgram: one.type === 'executable',
      },
    ]),
  );
}

module.exports = { targets };
