'use strict';
// The jail that is a sandbox service elsewhere, over HTTP(S). Everything that
// takes time happens in C; here the configuration is read and the call handed over.

const crypto = require('node:crypto');
const { letGo, reasonOf } = require('./calls.js');
const { JailError, invalid, isJailError, misconfigured } = require('./errors.js');
const { headerText, readProxy, readToken, readUrl, roots } = require('./http-options.js');
const { headersWithIdentity } = require('./identity.js');
const { Remote } = require('./remote.js');

const HEADERS_MS = 10000; // how long a `headers` function may take

/** @param {unknown} cause @param {string} what */
function noHeaders(cause, what) {
  return new JailError('ERR_JAIL_UNAVAILABLE', `the headers function ${what}; nothing was sent`, {
    backend: 'http',
    retryable: true,
    cause,
  });
}

class Http extends Remote {
  /**
   * @param {import('./config.js').Config} config
   * @param {{ shared?: boolean, names?: { url: string, token: string } }} [how] shared: one for the whole process
   */
  constructor(config, { shared = false, names = { url: 'url', token: 'token' } } = {}) {
    const { numbers } = config;
    const url = readUrl(names.url, /** @type {string} */ (config.url));
    if (config.token === undefined || config.token === '')
      throw misconfigured(`${names.url} is set without ${names.token}: the sandbox service wants both`);
    const token = readToken(names.token, config.token);
    const isTls = url.startsWith('https:');
    if (config.proxy !== undefined && !isTls) throw misconfigured('proxy is for an https: URL alone');
    const ca = isTls ? roots(config.ca) : null;
    const proxy = config.proxy === undefined ? null : readProxy(config.proxy);
    const headers = headersWithIdentity(config, url);
    const text = typeof headers === 'function' ? null : headerText(headers);
    super('http', (addon, client) =>
      addon.openHttp(
        client,
        shared ? keyOf([url, token, ca, proxy, numbers]) : null,
        numbers.maxConnections,
        numbers.maxQueue,
        numbers.queueTimeoutMs,
        url,
        token,
        ca,
        proxy,
      ),
    );
    this.headers = typeof headers === 'function' ? headers : null;
    this.headerText = text;
  }

  /**
   * @param {import('./options.js').Request} request
   * @param {AbortSignal | null} signal not aborted
   */
  run(request, signal, resolve, reject) {
    this.assertOpen();
    if (this.headers === null) this.submit(request, signal, resolve, reject, this.headerText);
    else this.runWithHeaders(request, signal, resolve, reject);
  }

  // The caller's function first: it may fetch an identity token. It has its own
  // limit of time, and an abort does not wait for it.
  runWithHeaders(request, signal, resolve, reject) {
    let over = false;
    const end = (settle, value) => {
      if (over) return;
      over = true;
      clearTimeout(timer);
      settle(value);
      if (signal) letGo(signal, onAbort);
    };
    const onAbort = () => end(reject, reasonOf(signal));
    const timer = setTimeout(() => end(reject, noHeaders(undefined, `took over ${HEADERS_MS} ms`)), HEADERS_MS);
    try {
      signal?.addEventListener('abort', onAbort, { once: true });
    } catch (error) {
      end(reject, invalid('signal cannot be listened to: its addEventListener throws', error));
      return;
    }
    const submit = (headers) => {
      try {
        this.submit(request, signal, resolve, reject, headerText(headers));
      } catch (error) {
        reject(error);
      }
    };
    Promise.resolve()
      .then(() => /** @type {() => unknown} */ (this.headers)())
      .then(
        (headers) => end(submit, headers),
        (error) => end(reject, isJailError(error) ? error : noHeaders(error, 'has failed')),
      );
  }
}

/** Jails of the same configuration share connections. @param {unknown[]} parts */
function keyOf(parts) {
  return `http:${crypto.createHash('sha256').update(JSON.stringify(parts)).digest('base64')}`;
}

module.exports = { Http };
