'use strict';
// One plain HTTP request, bounded in time and size: for what is asked *about* a
// service (health, capabilities, whether a wrong token is refused) and for the
// metadata server. Runs do not go this way: see http.js.

const http = require('node:http');
const https = require('node:https');

const MAX_BYTES = 1 << 20;

/**
 * Rejects with a plain Error whose `code` is Node's where it has one.
 *
 * @param {string} url
 * @param {{ method?: string, headers?: Record<string, string>, body?: string, ca?: string, timeoutMs?: number }} [options] ca: PEM of all that is trusted
 * @returns {Promise<{ status: number, headers: import('node:http').IncomingHttpHeaders, text: string, json: any }>}
 *   json: null where the body is none
 */
function ask(url, { method = 'GET', headers = {}, body, ca, timeoutMs = 10000 } = {}) {
  return new Promise((resolve, reject) => {
    const client = url.startsWith('https:') ? https : http;
    const request = client.request(
      url,
      { method, headers, agent: false, ...(ca !== undefined && { ca }) },
      (response) => {
        const parts = [];
        let bytes = 0;
        response.on('data', (part) => {
          bytes += part.length;
          if (bytes > MAX_BYTES) request.destroy(new Error(`answered more than ${MAX_BYTES} bytes`));
          else parts.push(part);
        });
        response.on('error', reject);
        response.on('close', () => clearTimeout(timer));
        response.on('end', () => {
          const text = Buffer.concat(parts).toString();
          resolve({ status: response.statusCode ?? 0, headers: response.headers, text, json: parsed(text) });
        });
      },
    );
    const timer = setTimeout(() => request.destroy(new Error(`no answer in ${timeoutMs} ms`)), timeoutMs);
    request.on('error', (error) => {
      clearTimeout(timer);
      reject(error);
    });
    request.end(body);
  });
}

/** @param {string} text */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

module.exports = { ask };
