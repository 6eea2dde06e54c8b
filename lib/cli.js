'use strict';
// The command line. Results and the guest's stdout go to stdout, everything
// said about them to stderr, so that `code-jail run x.py | jq` works.

const fs = require('node:fs');
const path = require('node:path');
const { parseArgs } = require('node:util');
const { errorText } = require('./cli-error.js');
const { FilesError, asJson, assertFresh, readFiles, writeFiles } = require('./cli-files.js');
const { bytes, milliseconds, paint, printable } = require('./terminal.js');

const HELP = `code-jail: runs code you do not trust

  code-jail run FILE [options]     runs FILE; - reads the code from standard input
  code-jail check FILE [options]   what is wrong with it, nothing run: FILE:LINE:COLUMN: message
  code-jail serve [options]        the sandbox service: code-jail over HTTP
  code-jail jailer [options]       the jailer: code-jail on a Unix socket, one JSON line each way
  code-jail doctor [--json]        what stands on this host, what is missing, and the remedy
  code-jail verify [options]       proves from inside that the jail is shut: network, files, tokens, time
  code-jail --help | --version

run:
  --language NAME                  javascript, python or typescript; default: by extension (.js .mjs .cjs .py .ts .mts)
  --input JSON | @FILE | @-        what the code sees as \`input\` (default null); @- reads it from standard input
  --timeout 5s                     wall time of the code: 500ms, 5s, 1m (default 10s)
  --memory MiB                     what it may use beyond an empty cell (default 256)
  --max-output BYTES               kept per stream, the middle left out (default 1 MiB)
  --env NAME=VALUE                 may be repeated; nothing is inherited
  --file NAME=PATH                 may be repeated: a file of yours under NAME in its working folder
  --collect NAME                   may be repeated: a file or folder that it leaves there, into --out, or --json
  --out DIR                        a new or empty folder for them
  --min-isolation process|gvisor|microvm
  --allow-weak                     run even where files, network or signals are not isolated
  --start parked|cold              default: parked
  --node PATH, --python PATH       runtimes of your choice
  --json                           the whole IsolatedRunResult as JSON, nothing else
  --quiet                          no summary

check (takes --language, --timeout, --memory, --min-isolation and those of the jail, as run does):
  --json                           { ok, errors } as JSON, nothing else
  exit codes: 0 nothing wrong, 1 errors found, 2 the command line is wrong, 125 the jail failed

serve (the token comes from CODE_SANDBOX_TOKEN; docs/production.md has the other variables):
  --port PORT                      default: PORT, or 8080; 0 for any
  --host ADDRESS                   default: CODE_SANDBOX_HOST, or 127.0.0.1
  --socket PATH                    HTTP on a Unix socket instead, for a proxy in front
  --user UID                       as root: serve under this uid, with cells under others

verify (without --url and --socket: the jail that the environment selects):
  --url URL                        a sandbox service; its token comes from CODE_SANDBOX_TOKEN, behind Cloud Run's IAM
                                   the identity token from CODE_SANDBOX_IDENTITY_TOKEN, or by CODE_SANDBOX_IDENTITY=metadata
  --socket PATH                    a jailer's socket
  --expect process|gvisor|microvm  the isolation that must be reported at least (default process)
  --json                           every check as JSON, nothing else
  exit codes: 0 shut, 1 a check failed, 2 it could not be asked

jailer (docs/jailer.md has the variables of the environment):
  --socket PATH                    where to listen, 0600; or by systemd's socket activation
  --engine firecracker|gvisor|local   (qemu: for tests, docs/firecracker.md)
  --uid UID                        who may ask; may be repeated (default: root and its own)
  --metrics PORT | PATH            GET /metrics and /readyz, on loopback or a Unix socket

exit codes:
  0     the code ended well
  1-255 its own exit code; 1 for an uncaught error or a result that cannot be sent
  2     the command line is wrong
  124   time-out
  125   the jail itself failed; the code and remedy are on stderr
  130   interrupted (Ctrl-C)
  137   out of memory, or killed for its output (128 + the signal's number for other ends)
`;

const LANGUAGES = {
  '.js': 'javascript',
  '.mjs': 'javascript',
  '.cjs': 'javascript',
  '.py': 'python',
  '.ts': 'typescript',
  '.mts': 'typescript',
};
const SIGNALS = require('node:os').constants.signals;

class UsageError extends FilesError {}

/** @param {string} text */
function parseDuration(text) {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m)$/.exec(text);
  if (!match) throw new UsageError(`--timeout ${text}: a number with its unit, as in 500ms, 5s or 1m`);
  const unit = { ms: 1, s: 1000, m: 60000 }[match[2]] ?? 1;
  return Math.round(Number(match[1]) * unit);
}

/** @param {string} name @param {string} text */
function parseInteger(name, text) {
  if (!/^\d+$/.test(text)) throw new UsageError(`--${name} ${text}: a whole number is expected`);
  return Number(text);
}

/** @param {string} text */
function parseInput(text) {
  const source = text.startsWith('@') ? readFile(text.slice(1)) : text;
  try {
    return JSON.parse(source);
  } catch (error) {
    throw new UsageError(`--input is not JSON: ${error.message}`);
  }
}

/** @param {string} file */
function readFile(file) {
  try {
    return fs.readFileSync(file === '-' ? 0 : file, 'utf8');
  } catch (error) {
    throw new UsageError(`${file}: ${error.message}`);
  }
}

/** @param {string[]} pairs */
function parseEnv(pairs) {
  return Object.fromEntries(
    pairs.map((pair) => {
      const at = pair.indexOf('=');
      if (at < 1) throw new UsageError(`--env ${pair}: NAME=VALUE is expected`);
      return [pair.slice(0, at), pair.slice(at + 1)];
    }),
  );
}

const OPTIONS = /** @type {const} */ ({
  language: { type: 'string' },
  input: { type: 'string' },
  timeout: { type: 'string' },
  memory: { type: 'string' },
  'max-output': { type: 'string' },
  env: { type: 'string', multiple: true },
  file: { type: 'string', multiple: true },
  collect: { type: 'string', multiple: true },
  out: { type: 'string' },
  'min-isolation': { type: 'string' },
  'allow-weak': { type: 'boolean' },
  start: { type: 'string' },
  node: { type: 'string' },
  python: { type: 'string' },
  url: { type: 'string' },
  expect: { type: 'string' },
  port: { type: 'string' },
  host: { type: 'string' },
  socket: { type: 'string' },
  user: { type: 'string' },
  engine: { type: 'string' },
  uid: { type: 'string', multiple: true },
  metrics: { type: 'string' },
  json: { type: 'boolean' },
  quiet: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
  version: { type: 'boolean', short: 'V' },
});

/** @param {string[]} argv */
function parse(argv) {
  try {
    return parseArgs({ args: argv, options: OPTIONS, allowPositionals: true });
  } catch (error) {
    const [line] = error.message.split('\n');
    const unknown = /^Unknown option '([^']*)'/.exec(line);
    if (unknown) throw new UsageError(`${unknown[1]}: there is no such option`);
    const ambiguous = /^Option '(?:-\w, )?(--[\w-]+).*ambiguous/.exec(line);
    throw new UsageError(ambiguous ? `${ambiguous[1]}: write ${ambiguous[1]}=VALUE for a value with a dash` : line);
  }
}

/** What to run and in what, from the arguments. @param {string | undefined} file @param {any} values */
function toRequest(file, values, command = 'run') {
  if (file === undefined) throw new UsageError(`${command}: which FILE? (- for standard input)`);
  const language = values.language ?? LANGUAGES[path.extname(file)];
  if (!language)
    throw new UsageError(`${file}: cannot tell the language; add --language javascript, python or typescript`);
  if (file === '-' && values.input === '@-')
    throw new UsageError('standard input can be the code or the input, not both');
  if (values.collect && values.out === undefined && !values.json)
    throw new UsageError('--collect: where to? Add --out DIR, or --json');
  if (values.out !== undefined && !values.collect) throw new UsageError('--out: what? Add --collect NAME');
  assertFresh(values.out);
  const request = {
    language,
    code: readFile(file),
    input: values.input === undefined ? undefined : parseInput(values.input),
    timeoutMs: values.timeout === undefined ? undefined : parseDuration(values.timeout),
    memoryMb: values.memory === undefined ? undefined : parseInteger('memory', values.memory),
    maxOutputBytes: values['max-output'] === undefined ? undefined : parseInteger('max-output', values['max-output']),
    env: values.env && parseEnv(values.env),
    files: values.file && readFiles(values.file),
    collect: values.collect,
    minIsolation: values['min-isolation'],
  };
  const config = {
    allowWeak: values['allow-weak'],
    start: values.start,
    node: values.node && { path: path.resolve(values.node) },
    python: values.python && { path: path.resolve(values.python) },
  };
  return { request: dropUndefined(request), config: dropUndefined(config) };
}

/** @param {Record<string, unknown>} object */
function dropUndefined(object) {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined));
}

/** The shell's exit code for a result. @param {any} result */
function exitCodeOf(result) {
  if (result.status === 'timeout') return 124;
  if (result.status === 'out_of_memory') return 137;
  if (typeof result.exitCode === 'number') return result.exitCode;
  return 128 + (SIGNALS[result.signal] ?? SIGNALS.SIGKILL);
}

/** @param {any} result */
function summary(result) {
  const colour = paint(process.stderr);
  const { usage, jail } = result;
  const mark = result.ok ? colour.green('ok') : colour.red(result.status);
  const facts = [
    `${milliseconds(usage.runMs)} run`,
    `${milliseconds(usage.startMs)} start`,
    `${bytes(usage.peakMemoryBytes)} memory`,
    jail.runtime,
    `${jail.isolation}, ${jail.layers.length} layers verified`,
    ...(jail.missing.length ? [`missing: ${jail.missing.map((one) => one.layer).join(', ')}`] : []),
  ];
  return `${mark} ${colour.dim(facts.filter(Boolean).join(' · '))}`;
}

// A terminal obeys escape sequences, and the guest is not trusted.
/** @param {NodeJS.WriteStream} stream @param {string} text */
function passOn(stream, text) {
  stream.write(stream.isTTY ? printable(text) : text);
}

/** @param {any} result @param {string} file @param {any} values */
function print(result, file, values) {
  if (values.json) {
    process.stdout.write(`${JSON.stringify(asJson(result), null, 2)}\n`);
    return;
  }
  passOn(process.stdout, result.stdout);
  passOn(process.stderr, result.stderr);
  if (result.result !== null) {
    const newline = result.stdout && !result.stdout.endsWith('\n') ? '\n' : '';
    process.stdout.write(`${newline}${JSON.stringify(result.result, null, 2)}\n`);
  }
  for (const { path: name, reason } of result.filesMissing ?? [])
    process.stderr.write(`${printable(name)}: not collected: ${reason}\n`);
  const text = errorText(result, file === '-' ? '(standard input)' : file);
  if (text) process.stderr.write(`${paint(process.stderr).red(text)}\n`);
  if (process.stderr.isTTY && !values.quiet) process.stderr.write(`${summary(result)}\n`);
}

/** @param {string | undefined} file @param {any} values */
async function run(file, values) {
  const { request, config } = toRequest(file, values);
  const { createJail, runCode } = require('./index.js');
  const controller = new AbortController();
  const interrupt = () => controller.abort(new Error('interrupted'));
  process.once('SIGINT', interrupt);
  // Without a choice of its own the default instance decides, by the environment.
  const jail = Object.keys(config).length > 0 ? createJail(config) : null;
  try {
    const result = await (jail ? jail.runCode : runCode)(request, { signal: controller.signal });
    if (values.out !== undefined) writeFiles(values.out, result.files);
    print(result, file ?? '', values);
    return exitCodeOf(result);
  } catch (error) {
    if (controller.signal.aborted) return 130;
    throw error;
  } finally {
    process.removeListener('SIGINT', interrupt);
    await jail?.close();
  }
}

/** As editors read them. @param {any} error @param {string} file */
function faultLine({ name, message, line, column }, file) {
  const where = [file, line, line === null ? null : column].filter((part) => part !== null).join(':');
  return `${where}: ${name}: ${message}`.replace(/\s*\n\s*/g, ' ');
}

/** @param {string | undefined} file @param {any} values */
async function check(file, values) {
  const { request, config } = toRequest(file, values, 'check');
  const { language, code, timeoutMs, memoryMb, minIsolation } = /** @type {any} */ (request);
  const { createJail, checkCode } = require('./index.js');
  const jail = Object.keys(config).length > 0 ? createJail(config) : null;
  try {
    const wanted = dropUndefined({ language, code, timeoutMs, memoryMb, minIsolation });
    const found = await (jail ? jail.checkCode : checkCode)(/** @type {any} */ (wanted));
    const lines = found.errors.map((error) => faultLine(error, file === '-' ? '(standard input)' : `${file}`));
    passOn(
      process.stdout,
      values.json ? `${JSON.stringify(found, null, 2)}\n` : lines.map((one) => `${one}\n`).join(''),
    );
    return found.ok ? 0 : 1;
  } finally {
    await jail?.close();
  }
}

/** @param {any} values */
async function doctorCommand(values) {
  const { doctor } = require('./index.js');
  const { doctorText } = require('./doctor-text.js');
  const report = await doctor(values['allow-weak'] ? { allowWeak: true } : {});
  process.stdout.write(values.json ? `${JSON.stringify(report, null, 2)}\n` : doctorText(report));
  return report.ok ? 0 : 125;
}

/** @param {any} values */
function serveCommand({ port, host, socket, user }) {
  const { serve } = require('./server/serve.js');
  return serve({ port: port === undefined ? undefined : parseInteger('port', port), host, socket, user });
}

/** @param {any} values */
function verifyCommand(values) {
  const { ISOLATIONS } = require('./options.js');
  if (values.expect !== undefined && !ISOLATIONS.includes(values.expect))
    throw new UsageError(`--expect ${values.expect}: one of ${ISOLATIONS.join(', ')} is expected`);
  if (values.url !== undefined && values.socket !== undefined)
    throw new UsageError('--url and --socket: one of them, not both');
  // An empty one is a variable that was not set, and would select the local jail.
  for (const name of ['url', 'socket']) if (values[name] === '') throw new UsageError(`--${name} is empty`);
  return require('./verify-cli.js').verifyCommand(values);
}

/** @param {string[]} argv */
async function dispatch(argv) {
  const { values, positionals } = parse(argv);
  const [command, ...rest] = positionals;
  if (values.version) {
    process.stdout.write(`${require('../package.json').version}\n`);
    return 0;
  }
  if (values.help || command === 'help') {
    process.stdout.write(HELP);
    return 0;
  }
  if (command === 'run' && rest.length <= 1) return run(rest[0], values);
  if (command === 'check' && rest.length <= 1) return check(rest[0], values);
  if (command === 'serve' && rest.length === 0) return serveCommand(values);
  if (command === 'jailer' && rest.length === 0) {
    const { socket, engine, metrics, uid: uids } = /** @type {any} */ (values);
    const fault = require('./jailer/settings.js').faultOf({ socket, engine });
    if (fault) throw new UsageError(fault);
    return require('./jailer/serve.js').serveJailer({ socket, engine, metrics, uids });
  }
  if (command === 'doctor' && rest.length === 0) return doctorCommand(values);
  if (command === 'verify' && rest.length === 0) return verifyCommand(values);
  if (command === undefined) throw new UsageError('which command?');
  throw new UsageError(`${argv.join(' ')}: not understood`);
}

// Whoever reads may have had enough (`| head`): no fault, and nothing to say.
/** @param {NodeJS.WriteStream} stream */
function endQuietly(stream) {
  stream.on('error', (error) => {
    if (/** @type {NodeJS.ErrnoException} */ (error).code !== 'EPIPE') throw error;
  });
}

/** @param {string[]} argv */
async function main(argv) {
  endQuietly(process.stdout);
  endQuietly(process.stderr);
  try {
    process.exitCode = await dispatch(argv);
  } catch (error) {
    if (error instanceof FilesError) {
      process.stderr.write(`code-jail: ${error.message}\nTry code-jail --help.\n`);
      process.exitCode = 2;
      return;
    }
    const colour = paint(process.stderr);
    process.stderr.write(`${colour.red(error.code ?? error.name)}: ${error.message}\n`);
    if (error.code === 'ERR_JAIL_INVALID_REQUEST') process.exitCode = 2;
    else {
      if (/^ERR_JAIL_(CONFIG|UNAVAILABLE|ISOLATION)$/.test(error.code) && argv[0] !== 'jailer' && argv[0] !== 'serve')
        process.stderr.write('`code-jail doctor` tells what stands on this host, and what helps.\n');
      process.exitCode = 125;
    }
  }
}

module.exports = { main };
