'use strict';
// libcurl for prebuilds, of this processor or another: build-curl.js's sources and options,
// Debian's own static OpenSSL of that processor, and no path of this machine in any of it.

const crypto = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');
const { cmake, findLibrary, unpack, HIDDEN, NGHTTP2_OPTIONS, CURL_OPTIONS } = require('./build-curl.js');
const { fetchPackage, fetchSources, must } = require('./apt-source.js');

const CACHE = path.join(__dirname, '..', '.cache');

/** @param {{ cpu: string, cc: string, debian: string }} kind @returns {string} a folder with include and lib */
function prebuiltCurl({ cpu, cc, debian }) {
  const triplet = `${cpu}-linux-gnu`;
  const tools = {
    CMAKE_SYSTEM_NAME: 'Linux',
    CMAKE_SYSTEM_PROCESSOR: cpu,
    CMAKE_C_COMPILER: cc,
    CMAKE_CXX_COMPILER: cc, // nothing is C++, but the project asks for one
    CMAKE_CXX_COMPILER_WORKS: '1',
  };
  const text = JSON.stringify([HIDDEN, tools, NGHTTP2_OPTIONS, CURL_OPTIONS]) + prebuiltCurl;
  const sum = crypto.createHash('sha256').update(text).digest('hex');
  const ready = path.join(CACHE, `curl-${debian}-${sum.slice(0, 16)}`);
  if (fs.existsSync(ready)) return ready;
  fs.mkdirSync(CACHE, { recursive: true });
  const work = fs.mkdtempSync(path.join(CACHE, 'curl-work-'));
  try {
    fetchSources(work);
    const openssl = fetchPackage(work, debian, 'libssl-dev');
    const include = path.join(openssl, 'usr', 'include');
    const library = (name) => path.join(openssl, 'usr', 'lib', triplet, name);
    const flags = `${HIDDEN} -DNGHTTP2_STATICLIB -ffile-prefix-map=${work}= -isystem ${path.join(include, triplet)}`;
    const out = path.join(work, 'out');
    cmake('nghttp2', unpack(work, 'nghttp2').dir, out, { ...NGHTTP2_OPTIONS, ...tools, CMAKE_C_FLAGS: flags });
    fs.renameSync(findLibrary(out, /^libnghttp2.*\.a$/), path.join(out, 'lib', 'libnghttp2.a'));
    cmake('curl', unpack(work, 'curl').dir, out, {
      ...CURL_OPTIONS,
      ...tools,
      CMAKE_C_FLAGS: flags,
      NGHTTP2_INCLUDE_DIR: path.join(out, 'include'),
      NGHTTP2_LIBRARY: path.join(out, 'lib', 'libnghttp2.a'),
      OPENSSL_INCLUDE_DIR: include,
      OPENSSL_SSL_LIBRARY: library('libssl.a'),
      OPENSSL_CRYPTO_LIBRARY: library('libcrypto.a'),
    });
    for (const name of ['libssl.a', 'libcrypto.a']) fs.copyFileSync(library(name), path.join(out, 'lib', name));
    for (const dir of [triplet, ''])
      fs.cpSync(path.join(include, dir, 'openssl'), path.join(out, 'include', 'openssl'), { recursive: true });
    must('keeping the result', 'mv', [out, ready]);
    return ready;
  } finally {
    fs.rmSync(work, { recursive: true, force: true });
  }
}

module.exports = { prebuiltCurl };
