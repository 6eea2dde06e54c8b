'use strict';
// What the service itself runs on, by what that does: the launcher asks the
// kernel. gVisor's is stamped on every result; on plain Linux a result says what
// the cells alone give.

const { execFileSync } = require('node:child_process');
const path = require('node:path');
const native = require('../native.js');

const launcher = () => path.join(path.dirname(native.parts().keeper), 'code-jail-launcher');

/** @returns {{ isolation: 'gvisor' | null, facts: object }} */
function whatWeRunOn() {
  const facts = JSON.parse(execFileSync(launcher(), ['--kernel'], { encoding: 'utf8', env: {}, timeout: 10000 }));
  return { isolation: facts.gvisor ? 'gvisor' : null, facts };
}

module.exports = { whatWeRunOn, launcher };
