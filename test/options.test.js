'use strict';
// What is a request, what is a configuration, and what each refusal says.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { describe, it } = require('node:test');
const { CONFIG_NUMBERS, readConfig } = require('../lib/config.js');
const { JailError } = require('../lib/errors.js');
const { NUMBERS, SIZES, readRequest } = require('../lib/options.js');

const { limits } = readConfig({});
const good = { language: 'javascript', code: 'return 1' };
const read = (request, config) => readRequest(request, config ? readConfig(config).limits : limits);
const refuses = (request, pattern, config) =>
  assert.throws(
    () => read(request, config),
    (error) => {
      assert.ok(error instanceof JailError);
      assert.equal(error.code, 'ERR_JAIL_INVALID_REQUEST');
      assert.match(error.message, pattern);
      return true;
    },
  );

describe('a request', () => {
  it('has the defaults of the table', () => {
    const request = read(good);
    for (const [name, { default: value }] of Object.entries(NUMBERS)) assert.equal(request[name], value, name);
    assert.equal(request.input, 'null');
    assert.equal(request.env, '');
    assert.match(request.id, /^[\da-f-]{36}$/);
  });

  it('takes undefined as absent', () => {
    const request = read({ ...good, timeoutMs: undefined, input: undefined, env: undefined, id: undefined });
    assert.equal(request.timeoutMs, 10000);
  });

  for (const [name, { min, cap }] of Object.entries(NUMBERS)) {
    it(`${name}: from ${min} to ${cap}, integers`, () => {
      assert.equal(read({ ...good, [name]: min })[name], min);
      refuses({ ...good, [name]: min - 1 }, new RegExp(`^${name} .*${min}`));
      refuses({ ...good, [name]: cap + 1 }, new RegExp(`^${name} is ${cap + 1}; .*${cap} `));
      for (const value of [1.5, Number.NaN, Infinity, '1000', null, {}, [], true, 10n])
        refuses({ ...good, [name]: value }, new RegExp(`^${name} must be an integer`));
    });
  }

  it('names a lower cap of the host', () => {
    refuses({ ...good, timeoutMs: 2000 }, /timeoutMs is 2000; the limit is 1000 ms, set by this host/, {
      caps: { timeoutMs: 1000 },
    });
    assert.equal(read(good, { caps: { timeoutMs: 1000 } }).timeoutMs, 1000);
    refuses({ ...good, code: 'x'.repeat(11) }, /code .*10/, { caps: { codeBytes: 10 } });
    refuses({ ...good, input: 'x'.repeat(11) }, /input .*10/, { caps: { inputBytes: 10 } });
  });

  it('is over maxTotalMemoryMb alone: named', () => {
    refuses({ ...good, memoryMb: 65 }, /memoryMb is 65.*64 MiB \(maxTotalMemoryMb\)/, { maxTotalMemoryMb: 64 });
    assert.equal(read(good, { maxTotalMemoryMb: 64 }).memoryMb, 64, 'the default fits itself in');
  });

  it('code: a string of at most 1 MiB of UTF-8', () => {
    assert.equal(read({ ...good, code: '' }).code, '');
    assert.equal(read({ ...good, code: 'x'.repeat(1 << 20) }).code.length, 1 << 20);
    refuses({ ...good, code: 'x'.repeat((1 << 20) + 1) }, /^code is over 1048577 bytes; the limit is 1048576/);
    refuses({ ...good, code: '€'.repeat(1 << 19) }, /^code is 1572864 bytes/);
    for (const code of [null, 5, Buffer.from('x'), new String('x'), ['x']])
      refuses({ ...good, code }, /^code must be a string/);
    refuses({ language: 'python' }, /^code is missing/);
  });

  it('code with half a surrogate pair: refused, with its place', () => {
    refuses({ ...good, code: 'ab\ud800c' }, /index 2/);
    refuses({ ...good, code: '😀\udc00' }, /index 2/);
    assert.equal(read({ ...good, code: '"😀"' }).code, '"😀"');
  });

  it('language: one of three, and no name of a prototype', () => {
    for (const language of ['__proto__', 'constructor', 'toString', 'Python', '', null, 0, ['python']])
      refuses({ code: '', language }, /^language must be one of "javascript", "python", "typescript"/);
    refuses({ code: '' }, /^language is missing/);
  });

  it('is an object of own fields that are known', () => {
    for (const request of [undefined, null, 5, 'x', () => {}]) refuses(request, /^the request must be an object/);
    refuses({ ...good, timeout: 5 }, /^"timeout" is not a field/);
    refuses(JSON.parse('{"language":"python","code":"","__proto__":{"a":1}}'), /^"__proto__" is not a field/);
    refuses(Object.create(good), /missing/);
    assert.equal(read(Object.assign(Object.create({ timeoutMs: 'nonsense' }), good)).timeoutMs, 10000);
    assert.equal(read(Object.assign(Object.create(null), good)).code, 'return 1');
  });

  it('whose getters or traps throw is refused, with the cause', () => {
    const cause = new Error('no');
    const thrower = () => {
      throw cause;
    };
    const requests = [
      {
        ...good,
        get timeoutMs() {
          return thrower();
        },
      }, // prettier-ignore
      new Proxy({ ...good }, { get: thrower }),
      new Proxy({ ...good }, { ownKeys: thrower }),
      { ...good, input: { toJSON: thrower } },
    ];
    for (const request of requests) assert.throws(() => read(request), { code: 'ERR_JAIL_INVALID_REQUEST', cause });
    const { proxy, revoke } = Proxy.revocable(good, {});
    revoke();
    refuses(proxy, /cannot be read/);
    refuses({ ...good, input: proxy }, /cannot be read/);
    const throwsIt = {
      ...good,
      get input() {
        throw proxy;
      },
    };
    refuses(throwsIt, /cannot be read/);
  });

  it('env: at most 64 names, 32 KiB, strings, no = and no NUL', () => {
    assert.equal(read({ ...good, env: { A: 'b', C: '' } }).env, 'A=b\0C=\0');
    for (const env of [null, [], 'A=b', 5]) refuses({ ...good, env }, /^env must be an object/);
    refuses({ ...good, env: { A: 1 } }, /^env\.A must be a string/);
    refuses({ ...good, env: { 'A=': '' } }, /"A="/);
    refuses({ ...good, env: { '': '' } }, /empty/);
    refuses({ ...good, env: { A: 'x\0' } }, /env\.A holds a NUL/);
    refuses({ ...good, env: { A: '\ud800z' } }, /^env\.A has half a surrogate pair/);
    refuses({ ...good, env: { '\udc00': '' } }, /^env has the key .*surrogate/);
    assert.equal(read({ ...good, env: { A: '😀' } }).env, 'A=😀\0');
    refuses({ ...good, env: { A: 'x'.repeat(32768) } }, /32768/);
    const names = (count) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`K${i}`, '']));
    assert.ok(read({ ...good, env: names(64) }));
    refuses({ ...good, env: names(65) }, /65 keys; the limit is 64/);
  });

  it('id and tenant: 1 to 128 characters; resultAs and minIsolation: of their lists', () => {
    assert.equal(read({ ...good, id: 'x' }).id, 'x');
    for (const name of ['id', 'tenant']) {
      refuses({ ...good, [name]: 'x'.repeat(129) }, new RegExp(`^${name} has 129 characters; the limit is 128`));
      refuses({ ...good, [name]: '' }, /empty/);
      refuses({ ...good, [name]: 5 }, /must be a string/);
    }
    refuses({ ...good, tenant: 'a\0' }, /NUL/);
    refuses({ ...good, resultAs: 'json' }, /^resultAs must be one of "value", "text"/);
    refuses({ ...good, minIsolation: 'vm' }, /^minIsolation must be one of "process", "gvisor", "microvm"/);
  });

  it("minIsolation: the stronger of the jail's and its own", () => {
    assert.equal(read({ ...good, minIsolation: 'process' }, { minIsolation: 'gvisor' }).minIsolation, 1);
    assert.equal(read({ ...good, minIsolation: 'microvm' }, { minIsolation: 'gvisor' }).minIsolation, 2);
  });

  it('shows little of what it refuses', () => {
    refuses({ ...good, language: 's'.repeat(10000) }, /^.{1,150}$/);
  });
});

describe('a configuration', () => {
  const refusesConfig = (config, pattern) =>
    assert.throws(
      () => readConfig(config),
      (error) => {
        assert.equal(error.code, 'ERR_JAIL_CONFIG');
        assert.match(error.message, pattern);
        return true;
      },
    );

  it('may be empty', () => {
    const { numbers } = readConfig(undefined);
    assert.ok(numbers.maxConcurrent >= 4);
    assert.ok(numbers.parked >= 1);
  });

  for (const [name, { min, cap }] of Object.entries(CONFIG_NUMBERS))
    it(`${name}: from ${min} to ${cap}`, () => {
      assert.equal(readConfig({ [name]: min }).numbers[name], min);
      for (const value of [min - 1, cap + 1, 1.5, '5', null])
        refusesConfig({ [name]: value }, new RegExp(`^${name} must`));
    });

  it('names what it does not know', () => {
    refusesConfig({ maxConcurent: 1 }, /"maxConcurent"/);
    refusesConfig({ defaults: { code: '' } }, /defaults has no "code"/);
    refusesConfig({ caps: { env: 1 } }, /caps has no "env"/);
    refusesConfig({ node: { args: [] } }, /node has no "args"/);
    refusesConfig({ python: { modules: '' } }, /python has no "modules"/);
    refusesConfig(5, /must be an object/);
    refusesConfig({ node: 5 }, /node must be an object/);
    refusesConfig({ start: 'warm' }, /start must be/);
    refusesConfig({ allowWeak: 1 }, /allowWeak must be a boolean/);
    refusesConfig({ python: { path: '' } }, /python\.path/);
    refusesConfig({ python: { preload: 'numpy' } }, /preload must be an array/);
    refusesConfig({ python: { preload: ['a;b'] } }, /"a;b"/);
    refusesConfig({ token: 5 }, /^token must be a string, not a number$/);
  });

  it('checks defaults and caps like a request, and never raises a cap', () => {
    refusesConfig({ defaults: { timeoutMs: 60001 } }, /defaults: timeoutMs is 60001/);
    refusesConfig(
      { defaults: { timeoutMs: 11 }, caps: { timeoutMs: 10 } },
      /defaults: timeoutMs is 11; the limit is 10/,
    );
    refusesConfig({ caps: { timeoutMs: 60001 } }, /caps\.timeoutMs/);
    const { limits: own } = readConfig({ defaults: { timeoutMs: 5, env: { A: 'b' }, resultAs: 'text', tenant: 't' } });
    const request = readRequest(good, own);
    assert.equal(readRequest({ ...good, env: {} }, own).env, '', 'an empty one is not an absent one');
    assert.deepEqual([request.timeoutMs, request.env, request.asText, request.tenant], [5, 'A=b\0', true, 't']);
  });
});

describe('index.d.ts', () => {
  const text = fs.readFileSync(path.join(__dirname, '..', 'index.d.ts'), 'utf8');
  // The comment above `name?:` within the interface.
  const comment = (where, name) => {
    const from = text.indexOf(`interface ${where} `);
    const body = text.slice(from, text.indexOf('\n}', from));
    const found = new RegExp(`/\\*\\*((?:(?!\\*/)[^])*)\\*/\\s*${name}\\??:`).exec(body);
    assert.ok(found, `${where}.${name} has a comment`);
    return found[1];
  };
  const says = (where, name, rule) => {
    const about = comment(where, name);
    assert.match(about, new RegExp(`least ${rule.min}\\b`), `${name}: least`);
    assert.match(about, new RegExp(`cap ${rule.cap}\\b`), `${name}: cap`);
    if (typeof rule.default === 'number')
      assert.match(about, new RegExp(`Default ${rule.default}\\b`), `${name}: default`);
    else assert.match(about, /Default:/, `${name}: default`);
  };

  for (const [name, rule] of Object.entries(NUMBERS))
    it(`${name} as in the table`, () => says('RunRequest', name, rule));
  for (const [name, rule] of Object.entries(CONFIG_NUMBERS))
    it(`${name} as in the table`, () => says('JailConfig', name, rule));

  it('sizes as in the table', () => {
    assert.match(comment('RunRequest', 'code'), new RegExp(`\\b${SIZES.codeBytes}\\b`));
    assert.match(comment('RunRequest', 'input'), new RegExp(`\\b${SIZES.inputBytes}\\b`));
    assert.match(comment('RunRequest', 'env'), new RegExp(`\\b${SIZES.envKeys} keys and ${SIZES.envBytes}\\b`));
    assert.match(comment('RunRequest', 'id'), new RegExp(`\\b${SIZES.idCharacters}\\b`));
    assert.match(comment('RunRequest', 'tenant'), new RegExp(`\\b${SIZES.tenantCharacters}\\b`));
  });

  it('names every code of a JailError that the core has', () => {
    const core = fs.readFileSync(path.join(__dirname, '..', 'src', 'error.c'), 'utf8');
    const codes = [...core.matchAll(/"(ERR_JAIL_\w+)"/g)]
      .map((match) => match[1])
      .filter((code) => code !== 'ERR_JAIL_CANCELLED');
    for (const code of new Set(codes)) assert.ok(text.includes(`'${code}'`), code);
  });

  it('type-checks as users write it', {
    skip: !fs.existsSync(path.join(__dirname, '..', 'node_modules', 'typescript')) && 'typescript is not installed',
  }, () => {
    const { spawnSync } = require('node:child_process');
    const tsc = require.resolve('typescript/bin/tsc');
    const args =
      '--noEmit --strict --target es2022 --lib es2023,esnext.disposable --module node16 --moduleResolution node16 --types node --esModuleInterop'.split(
        ' ',
      );
    const file = path.join(__dirname, 'fixtures', 'types.ts');
    const run = spawnSync(process.execPath, [tsc, ...args, file], {
      encoding: 'utf8',
      cwd: path.join(__dirname, '..'),
    });
    assert.equal(run.stdout, '');
    assert.equal(run.status, 0);
  });
});
