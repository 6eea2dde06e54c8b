'use strict';
// Debian packages that are missing, each known by its effect rather than by a package's
// name: what is there by other means is as good. Installed where we are root and have apt-get.

const { spawnSync } = require('node:child_process');

/** @typedef {{ what: string, packages: string[] | (() => string[]), has: () => boolean }} Need */

class DebianError extends Error {}

function runs(command, ...args) {
  return spawnSync(command, args, { stdio: 'ignore' }).status === 0;
}

function compiles(source, args = [], cc = process.env.CC || 'cc') {
  return spawnSync(cc, ['-x', 'c', '-', ...args], { input: source, stdio: ['pipe', 'ignore', 'ignore'] }).status === 0;
}

function apt(...args) {
  return spawnSync('apt-get', args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    encoding: 'utf8',
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
  });
}

/** Throws a DebianError that names what to install where that cannot be done here. @param {Need[]} needs */
function install(needs, say = (_text) => {}) {
  const missing = needs.filter((need) => !need.has());
  if (missing.length === 0) return;
  const namesOf = ({ packages }) => (typeof packages === 'function' ? packages() : packages);
  const names = [...new Set(missing.flatMap(namesOf))];
  const list = missing.map((need) => `  - ${need.what} (Debian: ${namesOf(need).join(' ')})`).join('\n');
  const args = ['install', '-y', '--no-install-recommends', ...names];
  const command = `apt-get ${args.join(' ')}`;
  const isRoot = process.getuid?.() === 0;
  if (!isRoot || !runs('apt-get', '--version')) {
    throw new DebianError(
      `Missing on this machine:\n${list}\n` +
        (isRoot
          ? 'There is no apt-get here; install these by other means, then run this again.'
          : `Not root, so nothing was installed. Run:\n  sudo ${command}\nthen run this again.`),
    );
  }
  say(`installing ${names.join(', ')}`);
  let run = apt(...args);
  if (run.status !== 0) {
    apt('update'); // the lists of a fresh machine are often empty
    run = apt(...args);
  }
  const still = missing.filter((need) => !need.has());
  if (run.status !== 0 || still.length > 0) {
    throw new DebianError(`Could not install:\n${list}\n\`${command}\` said:\n${run.stdout}${run.stderr}`);
  }
}

module.exports = { install, runs, compiles, DebianError };
