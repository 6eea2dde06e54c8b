'use strict';
// Which layers forbid what a probe (probes.py) tries. A probe must be refused
// where any of them is reported, and must succeed where none is: so nothing is
// claimed that does not stand, and no probe is one that fails anyway.

const KINDS = ['user', 'pid', 'mount', 'network', 'ipc', 'uts'];
const LAYERS = [
  ...KINDS.map((name) => `${name}-namespace`),
  ...['own-root', 'no-capabilities', 'no-new-privs', 'landlock', 'seccomp', 'rlimits', 'cgroup', 'separate-uid'],
];

// Landlock forbids these only from some ABI on; see `landlock` in host.js.
const TCP = 'landlock 4';
const SCOPES = 'landlock 6';

const UIDS = ['pid-namespace', 'seccomp', 'separate-uid'];
const DEBUG = [...UIDS, 'user-namespace', 'landlock'];
const FILTER = ['seccomp'];

/** @type {Record<string, string[]>} */
const FORBIDDEN_BY = {
  'a file of the host': ['own-root', 'landlock'],
  'a secret of the host': ['own-root', 'landlock', 'separate-uid'],
  'what no rule names': ['landlock'],
  'environment of the sibling': ['pid-namespace', 'own-root', 'landlock', 'separate-uid'],
  'which processes exist': ['pid-namespace'],
  'code from a file of its own': ['mount-namespace'],
  'a datagram to the host': ['network-namespace', 'seccomp'],
  'a connection to the host': ['network-namespace', 'seccomp', TCP],
  'an abstract socket of the host': ['network-namespace', 'seccomp', SCOPES],
  'a System V segment of the host': ['ipc-namespace', 'seccomp'],
  'the name of the host': ['uts-namespace'],
  'its id outside': ['user-namespace'],
  'an id of the host': ['separate-uid'],
  'a file closed by its mode': ['no-capabilities'],
  'privileges by execution': ['no-new-privs'],
  'data past the limit': ['rlimits'],
  'memory of the kernel': ['cgroup'],
  'a process': FILTER,
  'a Unix socket': FILTER,
  'a lock that others see': FILTER,
  'memory that no limit counts': FILTER,
  kill: [...UIDS, SCOPES],
  'a signal by descriptor': ['pid-namespace', 'seccomp'],
  'owner by ioctl': ['pid-namespace', 'seccomp'],
  'limits of the sibling': UIDS,
  'affinity of the sibling': UIDS,
  'scheduler of the sibling': UIDS,
  'priority of the sibling': UIDS,
  'group of the sibling': ['pid-namespace', 'seccomp'],
  'trace the sibling': DEBUG,
  'memory of the sibling': DEBUG,
  'a handle of the sibling': ['pid-namespace', 'seccomp'],
  'clone: share no descriptors': FILTER,
  'fcntl: pipe size': FILTER,
  'fcntl: lease': FILTER,
  'ioctl: signals': FILTER,
  'prctl: death signal': FILTER,
  'prctl: dumpable': FILTER,
  'mmap: shared and anonymous': FILTER,
  'mmap: growing down': FILTER,
  'madvise: page out': FILTER,
  'membarrier: all cores': FILTER,
  'socketpair: another family': FILTER,
  'sendto: an address': ['network-namespace', 'seccomp', SCOPES],
  'getsockopt: who is there': FILTER,
  'recvfrom: urgent': FILTER,
  'close_range: a table of its own': FILTER,
  'a message': FILTER,
  'limits of its own': FILTER,
  'one more filter': FILTER,
};

/**
 * What is not as it was reported: a wall that does not stand, or one that nobody
 * told of. @param {{ layers: string[], landlock: number, probes: Record<string, string> }} seen
 * @param {{ lacking?: string[], leaking?: string[] }} [environment]
 * @returns {string[]}
 */
function untrue(seen, { lacking = [], leaking = [] } = {}) {
  const stands = (name) => {
    const [layer, abi] = name.split(' ');
    return seen.layers.includes(layer) && (!abi || seen.landlock >= Number(abi));
  };
  const wrong = [];
  for (const [probe, layers] of Object.entries(FORBIDDEN_BY)) {
    const outcome = seen.probes[probe];
    const walls = leaking.includes(probe) ? [] : layers.filter(stands);
    if (outcome === undefined) wrong.push(`${probe}: not tried`);
    else if (walls.length > 0 && outcome === 'allowed')
      wrong.push(`${probe}: allowed, in spite of ${walls.join(', ')}`);
    else if (walls.length === 0 && outcome !== 'allowed' && !lacking.includes(probe))
      wrong.push(`${probe}: ${outcome}, though none of ${layers.join(', ')} is reported`);
  }
  if (!Number.isInteger(seen.uid)) wrong.push('the cell was not seen from outside');
  for (const control of ['control', 'scratch', 'empty input'])
    if (seen.probes[control] !== 'allowed') wrong.push(`${control}: ${seen.probes[control]}`);
  return wrong;
}

module.exports = { LAYERS, FORBIDDEN_BY, untrue };
