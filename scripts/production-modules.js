'use strict';
// Prints the folders of node_modules that code-jail needs at run time, one a
// line, as the lock file has them: for the sandbox image.

const fs = require('node:fs');
const path = require('node:path');

const ROOT = path.join(__dirname, '..');
const lock = JSON.parse(fs.readFileSync(path.join(ROOT, 'package-lock.json'), 'utf8'));
for (const [name, one] of Object.entries(lock.packages))
  if (name.startsWith('node_modules/') && !one.dev && fs.existsSync(path.join(ROOT, name))) console.log(name);
