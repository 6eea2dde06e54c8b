'use strict';
// Runs code in both languages with the jail of the environment, and prints what came of it.
const { runCode } = require('../../lib/index.js');
const times = Number(process.argv[2] ?? 1);

async function main() {
  const one = async (language, code) => {
    try {
      const result = await runCode({ language, code });
      return result.ok ? String(result.result) : `${result.status} ${result.error?.message}`;
    } catch (error) {
      return `${error.name} ${error.code}`;
    }
  };
  const runs = [];
  for (let i = 0; i < times; i++) runs.push(one('javascript', 'return 6 * 7'), one('python', 'result = 6 * 7'));
  const seen = await Promise.all(runs);
  console.log('results', [...new Set(seen)].join(', '));
}
main();
