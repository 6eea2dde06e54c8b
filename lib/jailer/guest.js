'use strict';
// What the agent starts in a microVM (src/agent/agent.c): one request as a line on
// standard input, run in this VM's own local jail, one line back on standard output;
// before it what the run writes, if it is asked for.

const fs = require('node:fs');
const { readConfig } = require('../config.js');
const { Local } = require('../local.js');
const { describe, errorText, resultParts } = require('../server/answer.js');
const { parseBody, refusal } = require('../server/body.js');
const { Events, takeStream } = require('../server/events.js');
const { readJob } = require('../server/job.js');

const LINE_BYTES = 32 << 20;
const NUL = Buffer.alloc(1);

/** A line, with a NUL in the place of its end. @param {number} fd @returns {Buffer} */
function readLine(fd) {
  const parts = [];
  for (let size = 0; size <= LINE_BYTES; ) {
    const part = Buffer.allocUnsafe(65536);
    const got = fs.readSync(fd, part);
    if (got === 0) throw refusal(400, 'the connection ended within the line');
    const end = part.subarray(0, got).indexOf(10);
    parts.push(part.subarray(0, end < 0 ? got : end));
    if (end >= 0) return Buffer.concat([...parts, NUL]);
    size += got;
  }
  throw refusal(413, `the line is over ${LINE_BYTES} bytes`);
}

/** @param {number} fd @param {string} text */
function writeAll(fd, text) {
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; ) at += fs.writeSync(fd, bytes, at);
}

// All of the VM is one job's: nothing is parked, and the VM's memory is the bound.
function openGuest() {
  const config = readConfig({ parked: 0, maxConcurrent: 1, maxTotalMemoryMb: 1 << 20 });
  return { limits: config.limits, local: new Local(config) };
}

/** @param {Buffer} line @param {ReturnType<typeof openGuest>} guest @returns {Promise<string>} */
async function answer(line, { limits, local }) {
  const parsed = await parseBody(line, 'the line');
  const streams = takeStream(parsed.fields);
  const request = readJob(parsed, limits, null, {});
  if (streams) request.output = new Events((event) => writeAll(1, event));
  const { asText } = request;
  request.asText = true;
  const run = await new Promise((resolve, reject) => local.run(request, null, resolve, reject));
  return resultParts(run, { isolation: null, asText, queuedMs: 0 }).join('');
}

/** @param {ReturnType<typeof openGuest>} guest */
async function serveOne(guest) {
  let text;
  try {
    text = await answer(readLine(0), guest);
  } catch (error) {
    text = errorText(describe(error));
  }
  writeAll(1, `${text}\n`);
}

// The VM ends with us: nothing is waited for.
if (require.main === module) serveOne(openGuest()).then(() => process.exit(0));

module.exports = { openGuest, serveOne };
