'use strict';
// What `code-jail doctor` has found, for a person.

const { paint, printable } = require('./terminal.js');

/** @param {any} report @param {ReturnType<typeof paint>} colour */
function verdict({ ok, error, runtimes, selects, layers, service }, colour) {
  if (!ok) {
    const failed = error ?? runtimes.find((one) => !one.ok)?.error;
    return colour.red(
      failed
        ? `Not ready: ${failed.code}: ${printable(failed.message)}`
        : 'Not ready: the service is starting, or going down',
    );
  }
  if (service)
    return colour.green(
      `Ready, as it says: ${printable(`${service.languages}`.replaceAll(',', ' and '))} at ${service.url}, isolation ${printable(`${service.isolation}`)}; \`code-jail verify\` proves it`,
    );
  const what = [...new Set(runtimes.filter((one) => one.ok).map((one) => one.runtime ?? one.language))].join(' and ');
  const missing = layers.filter((one) => !one.stands).length;
  const weak = runtimes.some((one) => one.isolation === 'unverified') ? ', isolation UNVERIFIED' : '';
  const walls = missing === 0 ? '' : `; ${missing} of ${layers.length} layers missing, see below`;
  return colour.green(`Ready: ${what} run in the ${selects.backend} jail${weak}${walls}`);
}

/** @param {any} told by a service or a jailer */
const said = ({ version, protocol, languages, features, maxTimeoutMs, maxMemoryMb }) =>
  [
    `code-jail ${version}, protocol ${protocol}`,
    `languages: ${languages}${features.length > 0 ? `; also: ${features}` : ''}`.replaceAll(',', ', '),
    `timeoutMs up to ${maxTimeoutMs}, memoryMb up to ${maxMemoryMb}`,
  ].map((line) => `       ${printable(line)}`);

/** @param {any} report */
function doctorText(report) {
  const colour = paint(process.stdout);
  const yes = colour.green('yes');
  const no = colour.red(' no');
  const { service, jailer } = report;
  const lines = [
    verdict(report, colour),
    `${colour.bold(`code-jail ${report.version}`)} on ${report.platform}, Node ${report.node}, ${report.root ? 'root' : 'not root'}`,
    `The environment selects: ${colour.bold(report.selects.backend)} (${report.selects.because})`,
    `HTTP by libcurl: ${report.http}`,
  ];
  if (service) lines.push('', colour.bold('The service'), `  ${service.ready ? yes : no}  ready`, ...said(service));
  if (jailer) lines.push('', colour.bold('The jailer'), ...said(jailer));
  if (report.error || report.runtimes.length > 0) lines.push('', colour.bold('Runtimes'));
  if (report.error) lines.push(`  ${no}  ${report.error.code}: ${printable(report.error.message)}`);
  for (const one of report.runtimes) {
    const found = one.ok
      ? `${one.runtime}${one.path ? ` (${one.path})` : ''}, isolation: ${one.isolation}`
      : `${one.error.code}: ${one.error.message}`;
    lines.push(`  ${one.ok ? yes : no}  ${one.language.padEnd(11)} ${found}`);
  }
  if (report.layers.length > 0) lines.push('', colour.bold('Layers, verified by a run in each language'));
  for (const { layer, stands, reason, remedy } of report.layers) {
    lines.push(`  ${stands ? yes : no}  ${stands ? layer : `${layer.padEnd(18)} ${reason}`}`);
    if (!stands && remedy) lines.push(colour.dim(`       remedy: ${remedy}`));
  }
  return `${lines.join('\n')}\n`;
}

module.exports = { doctorText };
