'use strict';
// What a sandbox service says of itself, without running anything in it: for
// `code-jail doctor`. `code-jail verify` asks by the same client, and then runs.

const { ask } = require('./ask.js');
const { JailError } = require('./errors.js');
const { EXEC_PATH, headerText, readUrl, roots } = require('./http-options.js');
const { headersWithIdentity } = require('./identity.js');

const ASK_MS = 30000; // an instance may have to be started first

/** Further headers, as runs have them. @param {any} config @returns {Promise<Record<string, string>>} */
async function furtherHeaders(config) {
  const headers = headersWithIdentity(config, config.url);
  const given = typeof headers === 'function' ? await headers() : headers;
  headerText(given); // refuses what a run would be refused for
  return given ?? {};
}

/**
 * Asks a service about itself.
 *
 * @param {any} config with url
 * @returns {Promise<{ further: Record<string, string>, at: (path: string, bearer: string | null, more?: { body?: string, without?: string })
 *   => Promise<{ status: number, json: any, failure?: string }> }>} failure: there was no answer
 */
async function serviceClient(config) {
  const exec = readUrl('url', config.url);
  const base = exec.slice(0, -EXEC_PATH.length);
  const further = await furtherHeaders(config);
  const ca = config.ca === undefined ? undefined : roots(config.ca);
  /** @param {string} path @param {string | null} bearer @param {{ body?: string, without?: string }} [more] */
  const at = async (path, bearer, { body, without } = {}) => {
    /** @type {Record<string, string>} */
    const headers = { ...further, 'content-type': 'application/json', 'code-jail-protocol': '1' };
    if (bearer !== null) headers.authorization = `Bearer ${bearer}`;
    if (without) delete headers[without];
    try {
      return await ask(base + path, { method: body ? 'POST' : 'GET', headers, body, ca, timeoutMs: ASK_MS });
    } catch (error) {
      return { status: 0, json: null, failure: error.code ?? error.message };
    }
  };
  return { further, at };
}

/** @param {string} code @param {string} message */
const fault = (code, message) => new JailError(code, message, { backend: 'http' });

/**
 * Throws a JailError where the service is none, does not let us in, or is not ready.
 *
 * @param {any} config with url and token
 */
async function examineService(config) {
  const { origin } = new URL(config.url);
  const { at } = await serviceClient(config);
  const told = await at('/capabilities', config.token);
  if (told.failure) throw fault('ERR_JAIL_UNAVAILABLE', `no answer from the service at ${origin}: ${told.failure}`);
  if (told.status === 401 || told.status === 403)
    throw fault('ERR_JAIL_UNAUTHORIZED', `the service at ${origin} answers ${told.status} to this token`);
  const { protocol, version, isolation, languages, features, maxTimeoutMs, maxMemoryMb } = told.json ?? {};
  if (told.status !== 200 || protocol === undefined)
    throw fault(
      'ERR_JAIL_PROTOCOL',
      `what answers at ${origin} (${told.status}) does not tell its capabilities: another program, or an older service; \`code-jail verify\` runs something in it`,
    );
  const ready = (await at('/readyz', null)).status === 200;
  const limits = { maxTimeoutMs, maxMemoryMb };
  return { url: config.url, ready, protocol, version, isolation, languages, features: features ?? [], ...limits };
}

module.exports = { serviceClient, examineService };
