'use strict';
// What an operator scales and alarms on, for Prometheus. No label ever holds
// anything of a request but its language.

const { optional } = require('./optional.js');

/**
 * @param {{ queue: import('./queue.js').Queue, stats: () => any, held: () => number, connections: () => number, ready: () => boolean,
 *   engine?: () => Record<string, number> }} sources engine: a jailer's, see lib/jailer/engines.js
 */
function createMetrics({ queue, stats, held, connections, ready, engine }) {
  const client = optional('prom-client');
  const registry = new client.Registry();
  const registers = [registry];
  client.collectDefaultMetrics({ register: registry });
  const gauge = (name, help, read) =>
    new client.Gauge({
      name: `code_jail_${name}`,
      help,
      registers,
      collect() {
        this.set(read());
      },
    });
  gauge('slots_used', 'Runs at this moment.', () => queue.used);
  gauge('slots_total', 'Runs that may be at a time.', () => queue.slots);
  gauge('memory_used_mb', 'The memory limits of the runs at this moment, in MiB.', () => queue.usedMemoryMb);
  gauge('memory_total_mb', 'What these limits may come to, in MiB.', () => queue.memoryMb);
  gauge('queue_length', 'Runs that wait for a slot.', () => queue.waiting);
  gauge('queue_limit', 'Runs that may wait.', () => queue.maxQueue);
  gauge('held_bytes', 'Bodies of requests that are being read, wait or run.', held);
  gauge('connections', 'Open connections.', connections);
  gauge('ready', '1 once runs are taken, 0 before and while draining.', () => (ready() ? 1 : 0));
  if (engine)
    new client.Gauge({
      name: 'code_jail_engine',
      help: 'What the engine counts, by name.',
      labelNames: ['what'],
      registers,
      collect() {
        for (const [what, value] of Object.entries(engine())) this.set({ what }, value);
      },
    });
  const parked = new client.Gauge({
    name: 'code_jail_cells_parked',
    help: 'Cells that wait for a job.',
    labelNames: ['language'],
    registers,
    collect() {
      for (const [language, count] of Object.entries(stats()?.parked ?? {})) this.set({ language }, count);
    },
  });
  gauge('zygote_starts', 'Boots of a runtime so far.', () => stats()?.zygoteStarts ?? 0);
  const buckets = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
  const histogram = (name, help) => new client.Histogram({ name: `code_jail_${name}`, help, buckets, registers });
  const wait = histogram('queue_wait_seconds', 'From a request that is complete to its slot.');
  const duration = histogram('run_seconds', 'From job written to result.');
  const runs = new client.Counter({
    name: 'code_jail_runs_total',
    help: 'Runs by what became of the code.',
    labelNames: ['language', 'status'],
    registers,
  });
  const requests = new client.Counter({
    name: 'code_jail_requests_total',
    help: 'Requests to run code by the status of the answer; 499: the client went away.',
    labelNames: ['code'],
    registers,
  });
  return {
    parked,
    text: () => registry.metrics(),
    type: registry.contentType,
    onRun(language, run, waitedMs) {
      runs.inc({ language, status: run.status });
      if (run.usage.runMs !== null) duration.observe(run.usage.runMs / 1000);
      wait.observe(waitedMs / 1000);
    },
    onAnswer: (code) => requests.inc({ code }),
  };
}

module.exports = { createMetrics };
