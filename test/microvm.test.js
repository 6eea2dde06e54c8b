'use strict';
// A real guest, booted under emulation: QEMU's microvm and Debian's own kernel, with
// the agent's vsock over that kernel's own loopback.

const assert = require('node:assert/strict');
const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { after, before, describe, it } = require('node:test');
const { makeTree, runInMicrovm, whyNot } = require('./helpers/microvm.js');

const ROOT = path.join(__dirname, '..');
const skip = whyNot();
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cj-guest-'));
after(() => fs.rmSync(folder, { recursive: true, force: true }));

describe('a guest under emulation', { skip }, () => {
  const tree = path.join(folder, 'tree');
  let seen = '';

  // Each boot takes seconds: one for all that is asked here.
  before(async () => {
    makeTree(tree);
    fs.writeFileSync(path.join(tree, 'mine'), 'a file of the tree\n');
    fs.mkdirSync(path.join(tree, 'usr/local/bin'), { recursive: true });
    const guest = '#!/bin/busybox sh\nread line\necho "{\\"line\\":$line,\\"now\\":$(/bin/busybox date +%s)}"\n';
    fs.writeFileSync(path.join(tree, 'usr/local/bin/node'), guest, { mode: 0o755 });
    fs.copyFileSync(path.join(ROOT, 'build/Release/code-jail-agent'), path.join(tree, 'agent'));
    const source = path.join(__dirname, 'fixtures', 'vsock-client.c');
    const client = path.join(tree, 'client');
    execFileSync(process.env.CC || 'cc', ['-D_GNU_SOURCE', '-static', '-o', client, source]);
    const look = 'uname -r; cat /mine; touch /mine 2>&1; touch /tmp/x && cat /sys/fs/cgroup/cgroup.controllers';
    const vm = await runInMicrovm({ tree, command: ['sh', '-c', `${look}; /agent vsock & /client; exit 3`] });
    assert.equal(vm.code, 3, vm.serial);
    seen = vm.stdout;
  });

  it('runs a command on a kernel of its own, with a disk that is only read', () => {
    assert.match(seen, /^\d+\.\d+.*-cloud-amd64$/m);
    assert.notEqual(/^\d+\.\d+.*$/m.exec(seen)?.[0], os.release(), 'not the kernel of this machine');
    assert.match(seen, /^a file of the tree$/m);
    assert.match(seen, /mine: Read-only file system/);
    assert.match(seen, /\bmemory\b.*\bpids\b/, 'cgroup v2 with its controllers');
  });

  it('has an agent whose vsock survives who hangs up or talks nonsense; it sets the clock, and answers', () => {
    const answer = /^\{"line":\{"a":"job"\},"now":(\d+)\}$/m.exec(seen);
    assert.ok(answer, seen);
    assert.ok(Number(answer[1]) >= 2000000000 && Number(answer[1]) < 2000000300, answer[1]);
    assert.doesNotMatch(seen, /garbage was answered|agent:/);
  });
});
