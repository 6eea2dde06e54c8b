'use strict';
// The one error class. Made here and not in C: native classes fail `instanceof`
// where a test runner loads modules into a context of its own.

/**
 * The jail itself failed. What happens to the user's code is a result instead.
 * See index.d.ts for the codes.
 */
class JailError extends Error {
  /**
   * @param {string} code
   * @param {string} message
   * @param {{ retryable?: boolean, backend?: string | null, retryAfterMs?: number | null, httpStatus?: number | null, cause?: unknown }} [facts]
   */
  constructor(
    code,
    message,
    { retryable = false, backend = null, retryAfterMs = null, httpStatus = null, cause } = {},
  ) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
    this.retryable = retryable;
    this.backend = backend;
    this.retryAfterMs = retryAfterMs;
    this.httpStatus = httpStatus;
  }
}
// Not own fields: they would be printed with every error.
Object.defineProperty(JailError.prototype, 'name', { value: 'JailError', configurable: true, writable: true });

/** @param {unknown} error whatever was thrown: to ask a revoked proxy is to throw again */
function isJailError(error) {
  try {
    return error instanceof JailError;
  } catch {
    return false;
  }
}

/** @param {string} message @param {unknown} [cause] */
function invalid(message, cause) {
  return new JailError('ERR_JAIL_INVALID_REQUEST', message, { cause });
}

/** @param {string} message @param {unknown} [cause] */
function misconfigured(message, cause) {
  return new JailError('ERR_JAIL_CONFIG', message, { cause });
}

/** The native parts and the guests are files: they lie where the package is. @param {string} where */
function bundled(where) {
  return misconfigured(
    `code-jail has been bundled into ${where}, away from its native parts: keep it external and installed ` +
      "(esbuild: --external:code-jail; Next.js: serverExternalPackages: ['code-jail']; Vite, Rollup, webpack: external)",
  );
}

module.exports = { JailError, isJailError, invalid, misconfigured, bundled };
