'use strict';
// `code-jail verify` as a person or a deployment script sees it: a line for each
// check as it is made, one verdict at the end, 0 / 1 / 2.

const { identityFromEnvironment } = require('./identity.js');
const { paint, printable } = require('./terminal.js');
const { verify } = require('./verify.js');

const SHUT = 0;
const OPEN = 1;
const NO_VERDICT = 2;

/** @param {import('./verify.js').Check} check @param {ReturnType<typeof paint>} colour */
function line({ group, name, ok, detail }, colour) {
  const mark = ok ? colour.green('ok  ') : colour.red('FAIL');
  const said = printable(detail).replaceAll('\n', ' ').slice(0, 300);
  return `${mark} ${group.padEnd(12)} ${name.padEnd(42)} ${ok ? colour.dim(said) : said}\n`;
}

/** @param {any} report @param {ReturnType<typeof paint>} colour */
function verdict({ ok, checks, isolation, backend, where, tookMs }, colour) {
  const what = `${backend}${where ? ` ${where}` : ''}`;
  const failed = checks.filter((one) => !one.ok).length;
  if (ok)
    return `${colour.green('SHUT')}: ${what}: all ${checks.length} checks hold, isolation ${isolation} (${(tookMs / 1000).toFixed(1)} s)\n`;
  return `${colour.red('NOT SHUT')}: ${what}: ${failed} of ${checks.length} checks failed; do not run code in it\n`;
}

/** @param {any} error @param {boolean} json */
function noVerdict(error, json) {
  const code = error.code ?? null;
  if (json)
    process.stdout.write(`${JSON.stringify({ ok: false, checks: [], error: { code, message: error.message } })}\n`);
  else
    process.stderr.write(
      `${paint(process.stderr).red('NO VERDICT')}: the jail could not be asked: ${code ? `${code}: ` : ''}${printable(error.message)}\n`,
    );
  return NO_VERDICT;
}

/**
 * @param {{ url?: string, socket?: string, expect?: string, json?: boolean, 'allow-weak'?: boolean }} values
 * @returns {Promise<number>} the exit code
 */
async function verifyCommand({ url, socket, expect, json = false, 'allow-weak': allowWeak }) {
  const colour = paint(process.stdout);
  try {
    const config = {
      ...(expect !== undefined && { expect }),
      ...(url !== undefined && { url, token: process.env.CODE_SANDBOX_TOKEN, ...identityFromEnvironment(process.env) }),
      ...(socket !== undefined && { socket }),
      ...(allowWeak && { allowWeak }),
    };
    const report = await verify(config, json ? {} : { onCheck: (check) => process.stdout.write(line(check, colour)) });
    process.stdout.write(json ? `${JSON.stringify(report, null, 2)}\n` : verdict(report, colour));
    return report.ok ? SHUT : OPEN;
  } catch (error) {
    return noVerdict(error, json);
  }
}

module.exports = { verifyCommand };
