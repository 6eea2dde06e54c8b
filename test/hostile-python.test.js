'use strict';
// Python that tries to leave, to harm or to deceive; with ctypes it is as good
// as native code. Each denial stands beside something that is allowed.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');
const { describe, it } = require('node:test');
const { descendants, slack } = require('./helpers/baseline.js');
const { DENIED, matches, openJail, probe } = require('./helpers/run.js');

const jail = openJail();

const PRELUDE = `
import errno, os, sys
def attempt(f, *args, **named):
    try:
        f(*args, **named)
        return 'allowed'
    except OSError as e:
        return errno.errorcode.get(e.errno, 'OSError: ' + str(e))
    except BaseException as e:
        return type(e).__name__
`;
const ask = (code, input = null, options = {}) => probe(jail, 'python', PRELUDE + code, input, options);
const run = (code, options = {}) => jail.runCode({ language: 'python', code: PRELUDE + code, ...options });

function allDenied(outcomes, except = ['control']) {
  for (const [name, outcome] of Object.entries(outcomes)) {
    if (except.includes(name)) assert.equal(outcome, 'allowed', `${name} is the allowed control`);
    else assert.match(String(outcome), DENIED, name);
  }
}

describe('Python: processes', () => {
  it('starts no program and no process, by any of the ways; threads it may', async () => {
    const outcomes = await ask(`
import multiprocessing, pty, subprocess, threading
def system():
    if os.system('id') != 0: raise PermissionError(errno.EPERM, 'refused')
def thread():
    t = threading.Thread(target=lambda: None)
    t.start(); t.join()
result = {
    'system': attempt(system),
    'subprocess': attempt(subprocess.run, ['id']),
    'spawn': attempt(os.posix_spawn, '/bin/sh', ['sh', '-c', 'id'], {}),
    'self': attempt(os.posix_spawn, sys.executable or '/rt/python3', ['python3', '-c', '1'], {}),
    'pty': attempt(pty.fork),
    'fork': attempt(os.fork),
    'exec': attempt(os.execv, sys.executable or '/rt/python3', ['python3', '-c', '1']),
    'control': attempt(thread),
}
result['process'] = attempt(multiprocessing.get_context('fork').Process(target=print).start)
`);
    const { pty, ...rest } = outcomes;
    assert.match(pty, /^(EPERM|ENOENT|OSError: out of pty devices)$/);
    allDenied(rest);
    assert.deepEqual(
      descendants().filter((one) => /^(sh|id|sleep)$/.test(one.comm)),
      [],
    );
  });

  it('signals nobody else, and ignoring every signal does not save it', async () => {
    const outcomes = await ask(
      `
import signal
result = {
    'parent': attempt(os.kill, os.getppid(), signal.SIGTERM),
    'all': attempt(os.kill, -1, signal.SIGKILL),
    'group': attempt(os.killpg, 0, signal.SIGSTOP),
    'host': attempt(os.kill, input['host'], signal.SIGTERM),
    'control': attempt(os.getpid),
}
`,
      { host: process.pid },
    );
    allDenied(outcomes);
    const stubborn = await run(
      `
import signal
for s in range(1, 65):
    try: signal.signal(s, signal.SIG_IGN)
    except (OSError, ValueError): pass
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
while True:
    try:
        while True: pass
    except BaseException: pass
`,
      { timeoutMs: 300 },
    );
    matches(stubborn, { status: 'timeout', timedOut: true, signal: 'SIGKILL' });
  });

  it('a fork bomb with sessions and closed descriptors leaves nobody', async () => {
    const outcomes = await ask(`
seen = []
for _ in range(50):
    outcome = attempt(os.fork)
    seen.append(outcome)
    if outcome == 'allowed': os.setsid(); os.closerange(0, 100)
result = {'all': sorted(set(seen))}
`);
    assert.deepEqual(outcomes, { all: ['EPERM'] });
  });

  it('raises no limit, priority or affinity', async () => {
    const outcomes = await ask(`
import resource
raised = {}
for name in ('RLIMIT_DATA', 'RLIMIT_NOFILE', 'RLIMIT_FSIZE', 'RLIMIT_CPU', 'RLIMIT_CORE', 'RLIMIT_MEMLOCK', 'RLIMIT_MSGQUEUE'):
    kind = getattr(resource, name)
    raised[name] = attempt(resource.setrlimit, kind, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    now = resource.getrlimit(kind)
    if now[1] == resource.RLIM_INFINITY: raised[name] = 'unlimited'
raised['nice'] = attempt(os.nice, -20)
raised['fifo'] = attempt(os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(50))
raised['host affinity'] = attempt(os.sched_setaffinity, os.getppid() or 1 << 20, {0})
raised['control'] = attempt(resource.getrlimit, resource.RLIMIT_NOFILE)
result = raised
`);
    const { control, ...rest } = outcomes;
    assert.equal(control, 'allowed');
    for (const [name, outcome] of Object.entries(rest)) {
      assert.match(outcome, /^(EPERM|EACCES|ESRCH|EINVAL|ValueError)$/, name);
    }
  });
});

describe('Python: files, devices, sockets', () => {
  it('sees no file of the host, nor of the kernel\u2019s inside; its own it may', async () => {
    const secret = path.join(os.tmpdir(), `code-jail-secret-py-${process.pid}`);
    fs.writeFileSync(secret, 'secret');
    try {
      const outcomes = await ask(
        `
def read(p):
    with open(p, 'rb') as f: f.read(16)
def write(p):
    with open(p, 'wb') as f: f.write(b'1')
result = {p: attempt(read, p) for p in input['read']}
result.update({'write ' + p: attempt(write, p) for p in input['write']})
result['control'] = attempt(write, '/cell/own')
`,
        {
          read: [
            secret,
            __filename,
            '/etc/shadow',
            `/proc/${process.pid}/environ`,
            `/proc/${process.pid}/cmdline`,
            '/sys/kernel/vmcoreinfo',
            '/dev/mem',
            '/dev/kmsg',
            '/dev/vsock',
            '/dev/kvm',
            '/dev/fuse',
            '/dev/sda',
          ],
          write: [
            '/proc/sys/kernel/core_pattern',
            '/proc/sysrq-trigger',
            '/proc/self/oom_score_adj_x',
            '/etc/x',
            '/usr/x',
          ],
        },
      );
      allDenied(outcomes);
    } finally {
      fs.rmSync(secret);
    }
  });

  it('an ELF in its own folder cannot be mapped for execution', async () => {
    const outcomes = await ask(`
import ctypes, mmap, shutil
shutil.copyfile('/proc/self/exe' if os.path.exists('/proc/self/exe') else sys.executable, '/cell/x.so')
f = open('/cell/x.so', 'rb')
result = {
    'dlopen': attempt(ctypes.CDLL, '/cell/x.so'),
    'map': attempt(mmap.mmap, f.fileno(), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC),
    'control': attempt(mmap.mmap, f.fileno(), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ),
}
`);
    assert.match(outcomes.dlopen, /^(EPERM|EACCES|.*(cannot|failed|not permitted).*)$/i);
    assert.match(outcomes.map, /^(EPERM|EACCES|PermissionError)$/);
    assert.equal(outcomes.control, 'allowed');
  });

  it('makes no socket of any family but a pair of its own', async () => {
    const outcomes = await ask(`
import socket
def pair():
    a, b = socket.socketpair()
    a.send(b'x'); b.recv(1)
def pass_descriptor():
    a, b = socket.socketpair()
    socket.send_fds(a, [b'x'], [0])
families = {'unix': 1, 'inet': 2, 'inet6': 10, 'netlink': 16, 'packet': 17, 'alg': 38, 'vsock': 40, 'xdp': 44}
result = {name: attempt(socket.socket, number, socket.SOCK_STREAM) for name, number in families.items()}
result['raw'] = attempt(socket.socket, socket.AF_INET, socket.SOCK_RAW, 1)
result['datagram'] = attempt(socket.socket, socket.AF_INET, socket.SOCK_DGRAM)
result['rights'] = attempt(pass_descriptor)
result['control'] = attempt(pair)
`);
    allDenied(outcomes);
  });

  it('reaches no server of the host', async () => {
    let calls = 0;
    const server = net.createServer(() => calls++);
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    try {
      const outcomes = await ask(
        `
import urllib.request
result = {'url': attempt(urllib.request.urlopen, 'http://127.0.0.1:%d/' % input, timeout=2)}
`,
        server.address().port,
      );
      assert.notEqual(outcomes.url, 'allowed');
      assert.equal(calls, 0);
    } finally {
      server.close();
    }
  });

  it('has no terminal to type into', async () => {
    const outcomes = await ask(`
import fcntl, termios
TIOCSTI, TIOCLINUX = 0x5412, 0x541c
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def ioctl(request):
    if libc.ioctl(0, ctypes.c_ulong(request), b'x') != 0:
        raise OSError(ctypes.get_errno(), 'ioctl')
result = {
    'sti': attempt(ioctl, TIOCSTI),
    'sti, high bits': attempt(ioctl, TIOCSTI | 0xffffffff00000000),
    'linux': attempt(ioctl, TIOCLINUX),
    'tty': attempt(open, '/dev/tty', 'rb'),
    'control': attempt(os.fstat, 0),
}
`);
    assert.equal(outcomes.control, 'allowed');
    for (const name of ['sti', 'sti, high bits', 'linux']) assert.equal(outcomes[name], 'EPERM', name);
    assert.match(outcomes.tty, DENIED);
  });

  it('knows nothing of the host\u2019s user, paths, name or environment', async () => {
    const seen = await ask(`
import socket
try: host = socket.gethostname()
except OSError: host = None
result = {'environ': dict(os.environ), 'cwd': os.getcwd(), 'argv': sys.argv, 'host': host, 'uid': os.getuid(),
          'executable': sys.executable, 'path': sys.path, 'prefix': sys.prefix}
`);
    const text = JSON.stringify(seen);
    assert.ok(!text.includes(os.userInfo().homedir === '/' ? '\0' : os.userInfo().homedir), text);
    assert.ok(!text.includes(path.join(__dirname, '..')), text);
    assert.notEqual(seen.host, os.hostname());
    assert.equal(seen.cwd, '/cell');
    assert.equal(seen.environ.HOME, '/cell');
    for (const name of Object.keys(seen.environ)) {
      assert.match(name, /^(HOME|PATH|LANG|LC_ALL|LC_CTYPE|TMPDIR|TZ|PWD|PYTHON\w+|USER|LOGNAME)$/);
    }
  });

  it('finds nothing of the host\u2019s paths in /proc, where it has one', async () => {
    const seen = await ask(`
import glob
result = {}
for p in ['/proc/self/mountinfo', '/proc/self/cmdline', '/proc/self/cgroup', '/proc/self/maps', '/proc/mounts', '/proc/cmdline', '/proc/sys/kernel/random/boot_id', '/proc/version']:
    try: result[p] = open(p).read()
    except OSError as e: result[p] = errno.errorcode[e.errno]
result['processes'] = [p for p in glob.glob('/proc/[0-9]*')]
`);
    const { processes, ...files } = seen;
    assert.ok(processes.length <= 1, `sees ${processes}`);
    const root = path.join(__dirname, '..');
    for (const [name, text] of Object.entries(files)) {
      assert.ok(!text.includes(root), `${name} names the project's folder: ${text}`);
      if (os.homedir() !== '/') assert.ok(!text.includes(`${os.homedir()}/`), `${name} names the home: ${text}`);
    }
    const bootId = fs.readFileSync('/proc/sys/kernel/random/boot_id', 'utf8');
    assert.notEqual(files['/proc/sys/kernel/random/boot_id'], bootId);
  });

  it('filling the disk by size, by count and sparsely ends in an error of its own', async () => {
    const outcomes = await ask(
      `
def big():
    with open('/cell/big', 'wb') as f:
        for _ in range(4096): f.write(b'x' * (1 << 20))
def many():
    for i in range(1000000):
        with open('/tmp/%d' % i, 'w'): pass
def sparse():
    with open('/cell/sparse', 'wb') as f: f.truncate(1 << 60)
def small():
    with open('/cell/small', 'wb') as f: f.write(b'x')
result = {'sparse': attempt(sparse), 'control': attempt(small)}
result['many'] = attempt(many)
`,
      null,
      { timeoutMs: 30000 },
    );
    assert.equal(outcomes.control, 'allowed');
    assert.match(outcomes.sparse, /^(EFBIG|ENOSPC|EINVAL)$/);
    assert.match(outcomes.many, /^(ENOSPC|EDQUOT|ENOMEM|EPERM)$/);
    const filled = await run(
      `
f = open('/cell/big', 'wb')
try:
    for _ in range(4096): f.write(b'x' * (1 << 20))
    result = 'no limit'
except OSError as e:
    result = errno.errorcode[e.errno]
`,
      { memoryMb: 64 },
    );
    assert.ok(
      (filled.status === 'ok' && /^(ENOSPC|EFBIG)$/.test(filled.result)) || filled.status === 'out_of_memory',
      JSON.stringify(filled),
    );
  });
});

describe('Python: memory and time', () => {
  const bombs = {
    'one huge bytearray': 'b = bytearray(1 << 34)',
    'a huge string': "s = 'x' * 10**10",
    'a list without end': 'a = []\nwhile True: a.append(bytearray(1 << 20))',
    'a zip bomb': 'import zlib\nz = zlib.compress(b"0" * (1 << 24))\na = []\nwhile True: a.append(zlib.decompress(z))',
    'a list of small things': 'a = [0]\nwhile True: a = a + a',
  };
  for (const [name, code] of Object.entries(bombs)) {
    it(`${name} is out_of_memory`, async () => {
      const before = process.memoryUsage.rss();
      const result = await run(code, { memoryMb: 64, timeoutMs: 20000 });
      matches(result, { status: 'out_of_memory', ok: false });
      assert.ok(process.memoryUsage.rss() - before < 48 << 20, 'the host is flat');
    });
  }

  it('a MemoryError that the code catches is nothing', async () => {
    const result = await run("try:\n    b = bytearray(1 << 34)\nexcept MemoryError:\n    result = 'caught'", {
      memoryMb: 64,
    });
    matches(result, { status: 'ok', result: 'caught' });
  });

  // What RLIMIT_DATA does not count must be refused, or watched from outside.
  const hidden = {
    'shared anonymous memory': `
import mmap
m = mmap.mmap(-1, 3 << 30)
for i in range(0, 3 << 30, 4096): m[i] = 1
result = 'no limit'`,
    'a memfd': `
fd = os.memfd_create('x')
for _ in range(2048): os.write(fd, b'x' * (1 << 20))
result = 'no limit'`,
    'memory that grows down': `
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
MAP_PRIVATE, MAP_ANONYMOUS, MAP_GROWSDOWN = 2, 0x20, 0x100
p = libc.mmap(None, ctypes.c_size_t(1 << 30), 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN, -1, 0)
if p in (None, ctypes.c_void_p(-1).value): raise OSError(ctypes.get_errno(), 'mmap')
ctypes.memset(p, 1, 1 << 30)
result = 'no limit'`,
    'System V memory': `
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
i = libc.shmget(0, ctypes.c_size_t(1 << 30), 0o600)
if i < 0: raise OSError(ctypes.get_errno(), 'shmget')
result = 'no limit'`,
    'full socket buffers': `
import socket
kept = []
while len(kept) < 1000:
    a, b = socket.socketpair()
    a.setblocking(False)
    try:
        while True: a.send(b'x' * 65536)
    except BlockingIOError: pass
    kept.append((a, b))
result = 'no limit'`,
  };
  for (const [name, code] of Object.entries(hidden)) {
    it(`${name} does not pass the memory limit`, async () => {
      const result = await run(code, { memoryMb: 64, timeoutMs: 10000 });
      assert.match(result.status, /^(error|out_of_memory)$/, JSON.stringify(result));
    });
  }

  it('many mappings and busy threads do not delay the deadline', async () => {
    const result = await run(
      `
import mmap, threading
maps = []
try:
    for i in range(60000):
        maps.append(mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ if i % 2 else mmap.PROT_READ | mmap.PROT_WRITE))
except (OSError, MemoryError): pass
def churn():
    while True:
        try: mmap.mmap(-1, 1 << 16, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
        except (OSError, MemoryError): pass
for _ in range(8):
    try: threading.Thread(target=churn, daemon=True).start()
    except RuntimeError: pass
churn()
`,
      { timeoutMs: 1000 },
    );
    matches(result, { status: 'timeout', timedOut: true });
    assert.ok(result.usage.runMs < 1700 * slack(), `runMs ${result.usage.runMs}`);
  });

  it('sleeping past the limit, without any CPU, is a time-out', async () => {
    const result = await run('import time\ntime.sleep(60)', { timeoutMs: 300 });
    matches(result, { status: 'timeout', timedOut: true, usage: { cpuMs: (ms) => ms === null || ms < 250 } });
  });

  it('burning CPU in threads is bounded by the deadline', async () => {
    const result = await run(
      'import threading, hashlib\ndef f():\n    while True: hashlib.sha256(b"x" * (1 << 20)).digest()\nfor _ in range(7): threading.Thread(target=f, daemon=True).start()\nf()',
      { timeoutMs: 500 },
    );
    matches(result, { status: 'timeout', timedOut: true, signal: 'SIGKILL' });
  });

  it('a computation that never looks up ends too', async () => {
    matches(await run('x = 10 ** 10 ** 8', { timeoutMs: 500 }), { status: /^(timeout|out_of_memory)$/ });
  });
});

describe('Python: ends', () => {
  const ends = {
    'sys.exit()': ['sys.exit()', { status: 'ok', exitCode: 0, result: null }],
    'sys.exit(3)': ['print("p", end="")\nsys.exit(3)', { status: 'error', exitCode: 3, stdout: 'p', signal: null }],
    'SystemExit(2**40)': ['raise SystemExit(2**40)', { status: /^(ok|error)$/, exitCode: (n) => n >= 0 && n < 256 }],
    'os._exit(300)': ['os._exit(300)', { status: 'error', exitCode: 300 & 255 }],
    'os.abort': ['os.abort()', { status: 'killed', signal: 'SIGABRT', exitCode: null }],
    'a crash': ['import ctypes\nctypes.string_at(0)', { status: 'killed', signal: 'SIGSEGV', exitCode: null }],
    'an exception group': [
      'raise ValueError("x") from KeyError("y")',
      { status: 'error', error: { name: 'ValueError', message: 'x' } },
    ],
    'a syntax error': [
      'def f(:\n  pass',
      { status: 'error', error: { name: 'SyntaxError', line: 11, sourceLine: 'def f(:' } },
    ],
    'an endless recursion': ['def f(): return f()\nf()', { status: 'error', error: { name: 'RecursionError' } }],
    'a KeyboardInterrupt': ['raise KeyboardInterrupt', { status: 'error', error: { name: 'KeyboardInterrupt' } }],
  };
  for (const [name, [code, expected]] of Object.entries(ends)) {
    it(`${name} is what it is`, async () => matches(await run(code), expected));
  }

  it('a crash leaves no core file', async () => {
    const seen = fs.readdirSync(process.cwd()).sort();
    await run('import ctypes\nctypes.string_at(0)');
    assert.deepEqual(fs.readdirSync(process.cwd()).sort(), seen);
    const next = await ask("result = sorted(os.listdir('/cell') + os.listdir('/tmp'))");
    assert.deepEqual(next, []);
  });
});

// Each of these once got past memoryMb, or into the host.
describe('Python: what the kernel counts nowhere', () => {
  const C = `
import ctypes, mmap, os, threading
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
`;

  it('page tables count towards memoryMb', async () => {
    const reading = (gibibytes) => `${C}
size = ${gibibytes} << 30
at = libc.mmap(None, size, 1, 0x4022, -1, 0)  # PROT_READ, private, anonymous, no reserve
for i in range(0, size, 2 << 20): ctypes.c_char.from_address(at + i).value
result = 'read'
`;
    assert.equal((await run(reading(1), { memoryMb: 32 })).result, 'read', 'a few are fine');
    const greedy = await run(reading(64), { memoryMb: 32 });
    assert.equal(greedy.status, 'out_of_memory');
    assert.ok(greedy.usage.peakMemoryBytes > 16 << 20, `the peak tells of them: ${greedy.usage.peakMemoryBytes}`);
  });

  it('record locks are granted and cost the kernel nothing', async () => {
    const outcome = await ask(`
import fcntl, sqlite3, struct
shared = open(os.__file__, 'rb')
own = open('/cell/own', 'w')
def question(f):
    answer = fcntl.fcntl(f, fcntl.F_GETLK, struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 0, 0, 0))
    return struct.unpack('hhqqi4x', answer)[0] == fcntl.F_UNLCK
fcntl.lockf(own, fcntl.LOCK_EX | fcntl.LOCK_NB)
fcntl.lockf(shared, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, 5)
db = sqlite3.connect('/cell/db'); db.execute('pragma journal_mode=wal'); db.execute('create table t(a)')
result = {'free': question(shared), 'ofd': attempt(fcntl.fcntl, shared, 37, struct.pack('hhqqi4x', 0, 0, 0, 1, 0)),
    'control': attempt(lambda: db.execute('insert into t values (1)'))}
`);
    assert.deepEqual(outcome, { free: true, ofd: 'EPERM', control: 'allowed' });
  });

  it('a process whose first thread has ended is not out of sight', async () => {
    const outcome = await run(
      `${C}
def hold():
    with open('/tmp/held', 'wb') as f:
        for _ in range(48): f.write(bytes(1 << 20)); f.flush()
    while True: pass
threading.Thread(target=hold).start()
libc.syscall(60, 0)
`,
      { memoryMb: 32, timeoutMs: 8000 },
    );
    assert.equal(outcome.status, 'killed');
    assert.ok(outcome.usage.runMs < 5000, `before its time was over: ${outcome.usage.runMs}`);
  });

  it('a mapped file of /tmp counts once', async () => {
    const outcome = await run(
      `${C}
with open('/tmp/file', 'wb') as f: f.write(bytes(30 << 20))
with open('/tmp/file', 'r+b') as f:
    m = mmap.mmap(f.fileno(), 0)
    for i in range(0, len(m), 4096): m[i] = 1
import time
time.sleep(0.1)
result = 'held'
`,
      { memoryMb: 48 },
    );
    assert.equal(outcome.result, 'held');
  });

  it('a thread has no descriptor table of its own', async () => {
    const outcome = await ask(`${C}
result = {'close_range': attempt(lambda: libc.syscall(436, 60, 60, 2) == 0 or (_ for _ in ()).throw(OSError(ctypes.get_errno(), ''))),
    'control': attempt(lambda: libc.syscall(436, 60, 60, 0) == 0 or (_ for _ in ()).throw(OSError(ctypes.get_errno(), '')))}
`);
    allDenied(outcome);
  });

  it('closing the result channel is not an exit code of the program', async () => {
    const outcome = await run('os.closerange(3, 64)\nresult = 7');
    assert.equal(outcome.status, 'killed');
    assert.equal(outcome.exitCode, null);
  });
});
