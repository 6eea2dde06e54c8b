'use strict';
// `code-jail serve` and the image's start: tokens out of the environment, the
// service up, and down again in good order.

const fs = require('node:fs');
const native = require('../native.js');
const { misconfigured } = require('../errors.js');
const { launcher } = require('./isolation.js');
const { readSettings, readTokens } = require('./settings.js');

const FORCE_MS = 9800; // a platform that asked us to end kills after ten seconds

/**
 * The tokens, from the launcher's pipe. Without one, and with tokens in our own
 * environment, this process is replaced by the launcher, which starts us again.
 *
 * @param {NodeJS.ProcessEnv} env
 * @param {string | undefined} user uid to serve under
 * @returns {string[]}
 */
function takeTokens(env, user) {
  const fd = env.CODE_SANDBOX_TOKENS_FD;
  if (fd !== undefined) {
    delete env.CODE_SANDBOX_TOKENS_FD;
    const text = fs.readFileSync(Number(fd), 'latin1');
    fs.closeSync(Number(fd));
    const entries = text.split('\0').filter(Boolean);
    return readTokens(
      Object.fromEntries(entries.map((one) => [one.slice(0, one.indexOf('=')), one.slice(one.indexOf('=') + 1)])),
    );
  }
  readTokens(env); // says what is wrong with them before anything is replaced
  const self = [process.execPath, ...process.execArgv, ...process.argv.slice(1)];
  const argv = [launcher(), ...(user ? ['--user', user] : []), '--', ...self];
  const pairs = Object.entries(env).map(([name, value]) => `${name}=${value}`);
  native.load().replace(argv[0], argv, pairs);
  throw misconfigured(`${argv[0]} could not take this process' place`);
}

/**
 * Serves until it is told to end.
 *
 * @param {{ port?: number, host?: string, socket?: string, user?: string }} [options]
 * @returns {Promise<number>} the exit code
 */
async function serve({ socket, user, ...given } = {}) {
  const { env } = process;
  const settings = readSettings(env, given);
  native.load().hide(); // before anything is deleted from it, which would leave its text behind
  const tokens = takeTokens(env, user);
  const { Service } = require('./http.js');
  const fd = env.CODE_JAIL_LAUNCHER_FD;
  delete env.CODE_JAIL_LAUNCHER_FD;
  const service = new Service(settings, tokens, fd ? { keeper: `@${Number(fd)}` } : {});
  const ended = new Promise((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT'])
      process.once(signal, () => {
        setTimeout(() => process.exit(1), FORCE_MS).unref();
        service.close().then(() => resolve(0));
      });
  });
  const where = await service.listen(socket ?? { port: settings.port, host: settings.host });
  const at = where === null || typeof where === 'string' ? where : `${where.address}:${where.port}`;
  service.log.info(
    { event: 'listen', at, isolation: service.runsOn.isolation ?? 'process', uid: process.getuid?.() },
    'listen',
  );
  const failed = service.warming.then(
    () => new Promise(() => {}),
    async () => {
      await service.close();
      return 1;
    },
  );
  const code = await Promise.race([ended, failed]);
  service.log.flush();
  return code;
}

module.exports = { serve, takeTokens };
