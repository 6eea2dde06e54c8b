'use strict';
// A real guest, booted under emulation: QEMU's microvm and Debian's own kernel.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { after, describe, it } = require('node:test');
const { makeTree, runInMicrovm, whyNot } = require('./helpers/microvm.js');

const skip = whyNot();
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'code-jail-guest-'));
after(() => fs.rmSync(folder, { recursive: true }));

describe('a guest under emulation', { skip }, () => {
  it('runs a command on a kernel of its own, and gives its output and exit status', async () => {
    const tree = path.join(folder, 'tree');
    makeTree(tree);
    fs.writeFileSync(path.join(tree, 'mine'), 'a file of the tree\n');
    const look = 'uname -r; cat /mine; touch /mine 2>&1; touch /tmp/x && cat /sys/fs/cgroup/cgroup.controllers; exit 3';
    const vm = await runInMicrovm({ tree, command: ['sh', '-c', look] });
    assert.equal(vm.code, 3, vm.serial);
    assert.match(vm.stdout, /^\d+\.\d+.*-cloud-amd64$/m);
    assert.notEqual(/^\d+\.\d+.*$/m.exec(vm.stdout)?.[0], os.release(), 'not the kernel of this machine');
    assert.match(vm.stdout, /^a file of the tree$/m);
    assert.match(vm.stdout, /mine: Read-only file system/);
    assert.match(vm.stdout, /\bmemory\b.*\bpids\b/, 'cgroup v2 with its controllers');
  });
});
