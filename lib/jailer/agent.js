'use strict';
// The program of the engine `gvisor`, inside the sandbox: takes jobs from its
// standard input, runs each in a cell of its own, answers on its standard output.
// It ends with its input, and so does the sandbox.

const fs = require('node:fs');
const net = require('node:net');
const native = require('../native.js');
const { WARMED } = require('../options.js');
const { describe, errorText, resultParts } = require('../server/answer.js');
const { parseBody } = require('../server/body.js');
const { openLocal } = require('../server/exec.js');
const { whatWeRunOn } = require('../server/isolation.js');
const { Events, takeStream } = require('../server/events.js');
const { readJob } = require('../server/job.js');
const { Frames, frame, TYPES } = require('./frames.js');

const MAX_JOB_BYTES = 64 * 1024 * 1024;
const NUL = Buffer.alloc(1);

async function main() {
  const { CODE_JAIL_AGENT: given, CODE_JAIL_LAUNCHER_FD: fd } = process.env;
  const settings = JSON.parse(String(given));
  native.load().hide(); // old gVisor shows every cell what /proc/PID/environ holds
  const { isolation } = whatWeRunOn();
  const parts = { ...native.parts(), ...(fd && { keeper: `@${Number(fd)}` }) };
  const { local, limits } = openLocal(settings, isolation, { parts });
  await local.warm(WARMED);
  const out = new net.Socket({ fd: 1, readable: false, writable: true });
  const say = (type, number, body) => {
    for (const part of frame(type, number, body)) out.write(part);
  };
  /** @type {Map<number, AbortController>} */
  const running = new Map();
  const perform = async (number, line) => {
    const end = new AbortController();
    running.set(number, end);
    try {
      const parsed = await parseBody(Buffer.concat([line, NUL]), 'the line');
      const streams = takeStream(parsed.fields);
      const job = readJob(parsed, limits, isolation, {});
      job.asText = true;
      if (streams) job.output = new Events((event) => say(TYPES.event, number, [Buffer.from(event)]));
      end.signal.throwIfAborted();
      const run = await new Promise((resolve, reject) => local.run(job, end.signal, resolve, reject));
      const text = resultParts(run, { isolation, asText: false, queuedMs: 0 });
      say(
        TYPES.answer,
        number,
        text.map((one) => Buffer.from(one)),
      );
    } catch (error) {
      if (!end.signal.aborted) say(TYPES.answer, number, [Buffer.from(errorText(describe(error)))]);
    } finally {
      running.delete(number);
    }
  };
  const frames = new Frames(MAX_JOB_BYTES, (type, number, body) => {
    if (type === TYPES.job) void perform(number, body);
    else if (type === TYPES.cancel) running.get(number)?.abort(new Error('cancelled'));
  });
  say(TYPES.hello, 0, [Buffer.from(JSON.stringify({ isolation }))]);
  const input = fs.createReadStream('', { fd: 0 });
  input.on('data', (part) => frames.add(/** @type {Buffer} */ (part)) || process.exit(1));
  input.on('close', () => process.exit(0));
}

main().catch((error) => {
  process.stderr.write(`${error.code ?? error.name}: ${error.message}\n`);
  process.exit(1);
});
