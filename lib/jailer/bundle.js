'use strict';
// The OCI configuration of the sandbox image under runsc: root with Docker's
// default capabilities (so no SYS_ADMIN), a read-only root, tmpfs.

const CAPABILITIES = [
  'CHOWN',
  'DAC_OVERRIDE',
  'FSETID',
  'FOWNER',
  'MKNOD',
  'NET_RAW',
  'SETGID',
  'SETUID',
  'SETFCAP',
  'SETPCAP',
  'NET_BIND_SERVICE',
  'SYS_CHROOT',
  'KILL',
  'AUDIT_WRITE',
].map((name) => `CAP_${name}`);

/**
 * @param {string} root made by apps/sandbox/rootfs.sh
 * @param {string[]} args
 * @param {Record<string, string>} env
 * @param {string[]} [capabilities]
 */
function ociConfig(root, args, env, capabilities = CAPABILITIES) {
  const mount = (destination, type, options = /** @type {string[]} */ ([])) => ({
    destination,
    type,
    source: type,
    options,
  });
  return {
    ociVersion: '1.0.0',
    process: {
      terminal: false,
      user: { uid: 0, gid: 0 },
      args,
      env: Object.entries({ PATH: '/usr/local/bin:/usr/bin', ...env }).map((pair) => pair.join('=')),
      cwd: '/',
      capabilities: Object.fromEntries(
        ['bounding', 'effective', 'permitted', 'inheritable'].map((set) => [set, capabilities]),
      ),
      noNewPrivileges: true,
      rlimits: [{ type: 'RLIMIT_NOFILE', hard: 65536, soft: 65536 }],
    },
    root: { path: root, readonly: true },
    hostname: 'sandbox',
    mounts: [
      mount('/proc', 'proc'),
      mount('/dev', 'tmpfs'),
      // As widely open as a container's usually are: the launcher has to see to it.
      mount('/dev/shm', 'tmpfs', ['mode=1777', 'size=64m']),
      mount('/tmp', 'tmpfs', ['mode=1777', 'size=512m']),
    ],
    linux: { namespaces: [{ type: 'pid' }, { type: 'ipc' }, { type: 'uts' }, { type: 'mount' }] },
  };
}

module.exports = { ociConfig, CAPABILITIES };
