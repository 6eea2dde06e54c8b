'use strict';
// Answers requests, one JSON object a line on standard input, until its end.
const { createInterface } = require('node:readline');
const { runCode } = require('../../lib/index.js');

createInterface({ input: process.stdin }).on('line', async (line) => {
  const { name, ...request } = JSON.parse(line);
  try {
    const { status, result } = await runCode(request);
    console.log(name, status, result);
  } catch (error) {
    console.log(name, error.code);
  }
});
