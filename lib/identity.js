'use strict';
// An identity token for a service behind Cloud Run's IAM, from the metadata server
// of the machine that we run on: kept until shortly before its end, fetched anew
// behind the scenes, by one request at a time. Without one nothing is sent.

const { setTimeout: sleep } = require('node:timers/promises');
const { ask } = require('./ask.js');
const { JailError, misconfigured } = require('./errors.js');

// Beside Authorization, which holds the service's own token.
const HEADER = 'X-Serverless-Authorization';
const TRIES = 3; // within the ten seconds that headers may take
const TRY_MS = 3000;
const PAUSE_MS = 200;
const EARLY_MS = 300000; // before its end: fetched anew, while the old one is still sent
const LEAST_MS = 30000; // a token that ends sooner is not sent: it may end on its way
const AGAIN_MS = 10000; // between two fetches in the background
const TOKEN_MAX = 8192;

/** @param {NodeJS.ProcessEnv} env as Google's own libraries have it */
function metadataHost(env) {
  const host = env.GCE_METADATA_HOST || 'metadata.google.internal';
  if (/^[A-Za-z0-9.-]+(:\d{1,5})?$|^\[[0-9A-Fa-f:]+\](:\d{1,5})?$/.test(host)) return host;
  throw misconfigured('GCE_METADATA_HOST must be HOST or HOST:PORT');
}

/** @param {string} host @param {string} why @param {{ code?: string, cause?: unknown }} [more] */
function noToken(host, why, { code = 'ERR_JAIL_UNAVAILABLE', cause } = {}) {
  return new JailError(code, `no identity token from the metadata server (${host}): ${why}; nothing was sent`, {
    backend: 'http',
    retryable: code === 'ERR_JAIL_UNAVAILABLE',
    cause,
  });
}

/**
 * @param {string} text what the metadata server said
 * @param {string} audience
 * @returns {{ token: string, endsAt: number } | string} or what is wrong with it
 */
function readIdentity(text, audience) {
  const token = text.trim();
  if (token.length > TOKEN_MAX || !/^[\w-]+\.[\w-]+\.[\w-]+$/.test(token)) return 'it sent something else';
  try {
    const { aud, exp } = JSON.parse(Buffer.from(token.split('.')[1], 'base64url').toString());
    if (aud !== audience) return 'it sent one for another audience';
    if (typeof exp !== 'number' || !Number.isFinite(exp)) return 'it sent one without an end';
    if (exp * 1000 - LEAST_MS <= Date.now()) return 'it sent one that has ended, or the clock here is wrong';
    return { token, endsAt: exp * 1000 };
  } catch {
    return 'it sent something else';
  }
}

/** @param {string} audience */
async function fetchIdentity(audience) {
  const host = metadataHost(process.env);
  const path = '/computeMetadata/v1/instance/service-accounts/default/identity';
  const url = `http://${host}${path}?audience=${encodeURIComponent(audience)}`;
  let failure = noToken(host, 'no answer');
  for (let tried = 0; tried < TRIES; tried++) {
    if (tried > 0) await sleep(PAUSE_MS * tried);
    try {
      const { status, headers, text } = await ask(url, {
        headers: { 'Metadata-Flavor': 'Google' },
        timeoutMs: TRY_MS,
      });
      if (headers['metadata-flavor'] !== 'Google')
        throw noToken(host, 'what answers there is none', { code: 'ERR_JAIL_CONFIG' });
      if (status >= 400 && status < 500 && status !== 429)
        throw noToken(host, `status ${status}: is there a service account?`, { code: 'ERR_JAIL_CONFIG' });
      const read = status === 200 ? readIdentity(text, audience) : `status ${status}`;
      if (typeof read !== 'string') return read;
      failure = noToken(host, read);
    } catch (error) {
      if (error instanceof JailError) throw error;
      if (error.code === 'ENOTFOUND')
        throw noToken(host, 'no such host; there is one on Google Cloud alone', {
          code: 'ERR_JAIL_CONFIG',
          cause: error,
        });
      failure = noToken(host, error.code ?? error.message, { cause: error });
    }
  }
  throw failure;
}

/** The tokens for one audience. */
class IdentitySource {
  /** @param {string} audience */
  constructor(audience) {
    this.audience = audience;
    this.token = '';
    this.endsAt = 0;
    this.againAt = 0;
    /** @type {Promise<string> | null} */
    this.flight = null;
  }

  /** @returns {Promise<string>} */
  async get() {
    const left = this.endsAt - Date.now();
    if (left <= LEAST_MS) return this.fetch();
    if (left <= EARLY_MS && Date.now() >= this.againAt) {
      this.againAt = Date.now() + AGAIN_MS;
      this.fetch().catch(() => {}); // there is time to try again
    }
    return this.token;
  }

  /** @returns {Promise<string>} */
  fetch() {
    this.flight ??= fetchIdentity(this.audience)
      .then(({ token, endsAt }) => {
        Object.assign(this, { token, endsAt });
        return token;
      })
      .finally(() => {
        this.flight = null;
      });
    return this.flight;
  }
}

/** One for the whole process, whichever jails ask. @type {Map<string, IdentitySource>} */
const sources = new Map();

/**
 * The headers of a configuration, with the identity token that it asks for.
 * @param {{ identity?: string, audience?: string, headers?: any }} config
 * @param {string} url of the service
 * @returns {any} as `headers` in createJail
 */
function headersWithIdentity({ identity, audience, headers }, url) {
  if (identity === undefined) return headers;
  const name = audience ?? new URL(url).origin;
  const key = `${process.env.GCE_METADATA_HOST ?? ''} ${name}`;
  const source = sources.get(key) ?? new IdentitySource(name);
  sources.set(key, source);
  return async () => {
    const given = typeof headers === 'function' ? await headers() : headers;
    return { ...given, [HEADER]: `Bearer ${await source.get()}` };
  };
}

/**
 * What the environment says of it, as a part of a jail's configuration.
 * @param {NodeJS.ProcessEnv} env
 */
function identityFromEnvironment(env) {
  const { CODE_SANDBOX_IDENTITY: identity, CODE_SANDBOX_AUDIENCE: audience, CODE_SANDBOX_IDENTITY_TOKEN: token } = env;
  if (identity && identity !== 'metadata')
    throw misconfigured(`CODE_SANDBOX_IDENTITY must be "metadata" or not set, not ${JSON.stringify(identity)}`);
  if (identity && token)
    throw misconfigured('CODE_SANDBOX_IDENTITY and CODE_SANDBOX_IDENTITY_TOKEN: one of them, not both');
  if (token && !/^[\w.-]+$/.test(token)) throw misconfigured('CODE_SANDBOX_IDENTITY_TOKEN is no identity token');
  return {
    ...(identity && { identity }),
    ...(identity && audience && { audience }),
    ...(token && { headers: { [HEADER]: `Bearer ${token}` } }),
  };
}

module.exports = { HEADER, headersWithIdentity, identityFromEnvironment, IdentitySource };
