'use strict';
// From a plain Unix tool through the daemon to code in a guest and back: the
// engine `qemu`, whose guests are real and emulated.

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const { describe, it } = require('node:test');
const { startJailer } = require('../helpers/jailer.js');
const { guestKernel, guestRootfs, whyNot } = require('../helpers/microvm.js');

const noSocat = spawnSync('socat', ['-V']).error && 'socat is not installed (Debian: apt-get install socat)';

describe('one JSON line through socat', { skip: whyNot() || noSocat }, () => {
  it('comes back as an IsolatedRunResult from a guest', async () => {
    const { kernel, initrd } = guestKernel();
    const env = { CODE_JAIL_QEMU_KERNEL: kernel, CODE_JAIL_QEMU_INITRD: initrd, CODE_JAIL_QEMU_ROOTFS: guestRootfs() };
    const jailer = await startJailer({ engine: 'qemu', env: { ...env, CODE_JAIL_MAX_MEMORY_MB: '256' } });
    const code = 'import os\nprint("live")\nresult = [os.uname().release, input["a"] + 1]';
    const job = {
      stream: true,
      id: 'by-hand',
      language: 'python',
      code,
      input: { a: 41 },
      timeoutMs: 60000,
      minIsolation: 'process',
    };
    const run = spawnSync('socat', ['-t', '300', '-', `UNIX-CONNECT:${jailer.file}`], {
      input: `${JSON.stringify(job)}\n`,
      encoding: 'utf8',
    });
    const lines = run.stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    const result = lines.pop();
    assert.equal(
      lines.map((line) => line.stdout).join(''),
      'live\n',
      `before it what it wrote: ${run.stdout}${run.stderr}`,
    );
    assert.deepEqual([result?.id, result?.status, result?.result?.[1]], ['by-hand', 'ok', 42], run.stdout);
    assert.match(result.result[0], /cloud-amd64/, 'a kernel that is not this machine’s');
    assert.equal(result.jail.isolation, 'process', 'emulation is no wall that is vouched for');
    assert.ok(result.jail.layers.includes('seccomp'), 'the second wall, inside');
    assert.equal((await jailer.stop()).code, 0);
  });
});
