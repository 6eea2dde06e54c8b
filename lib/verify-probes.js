'use strict';
// What `code-jail verify` has run inside the jail: ordinary programs, in both
// languages, that try what must fail there. Each answers
//
//   { proof, allowed: { what: outcome }, denied: { what: outcome }, found: [names] }
//
// An outcome is 'allowed', 'silence' (nothing refused it, nothing answered) or the
// name of the error. `allowed` holds the probe's controls: the same kind of act
// where it is permitted, so that a probe which cannot work is never taken for a
// wall. `proof` is the nonce's hash: it comes from this code and from nothing canned.
// `found` is what else it saw: names only, a verdict is no place for a secret.

const JAVASCRIPT = `
const proof = require('node:crypto').createHash('sha256').update(input.nonce).digest('hex');
const fs = require('node:fs');
const path = require('node:path');
const allowed = {};
const denied = {};
const found = [];
const nameOf = (error) => error?.code ?? error?.name ?? 'unknown';
const outcome = (work) => {
  try {
    work();
    return 'allowed';
  } catch (error) {
    return nameOf(error);
  }
};
const answered = (start) =>
  new Promise((resolve) => {
    const timer = setTimeout(() => resolve('silence'), input.waitMs);
    const end = (error) => {
      clearTimeout(timer);
      resolve(error ? nameOf(error) : 'allowed');
    };
    try {
      start(end);
    } catch (error) {
      end(error);
    }
  });
`;

const PYTHON = `
import errno, hashlib, os, socket
proof = hashlib.sha256(input['nonce'].encode()).hexdigest()
allowed, denied, found = {}, {}, []
GAI = {getattr(socket, name): name for name in dir(socket) if name.startswith('EAI_')}
def outcome(work):
    try:
        work()
        return 'allowed'
    except socket.gaierror as error:
        return GAI.get(error.errno, 'gaierror')
    except TimeoutError:
        return 'silence'
    except OSError as error:
        return errno.errorcode.get(error.errno, type(error).__name__)
    except Exception as error:
        return type(error).__name__
def check(condition):
    if not condition:
        raise RuntimeError('not as expected')
`;

const END = {
  javascript: '\nreturn { proof, allowed, denied, found };\n',
  python: "\nresult = {'proof': proof, 'allowed': allowed, 'denied': denied, 'found': found}\n",
};

/** @param {string} javascript @param {string} python */
function program(javascript, python) {
  return { javascript: JAVASCRIPT + javascript + END.javascript, python: PYTHON + python + END.python };
}

/** The jail runs code at all, and what it runs sees its own process. */
const SELF = program(
  `allowed['/proc/self/status'] = outcome(() => {
  if (!/^Pid:/m.test(fs.readFileSync('/proc/self/status', 'utf8'))) throw new Error();
});
const kernel = require('node:os').release();
found.push(kernel);`,
  `def own_status():
    with open('/proc/self/status') as file:
        check('Pid:' in file.read())
allowed['/proc/self/status'] = outcome(own_status)
found.append(os.uname().release)`,
);

const CONNECT = program(
  `const { connect } = require('node:net');
allowed['a name that needs no network'] = await answered((end) => require('node:dns').lookup('127.0.0.1', end));
denied.connect = await answered((end) => {
  const socket = connect(input.port, input.host);
  socket.on('connect', () => { end(); socket.destroy(); });
  socket.on('error', end);
});`,
  `def pair():
    one, other = socket.socketpair()
    with one, other:
        one.sendall(b'x')
        check(other.recv(1) == b'x')
def connect():
    family = socket.AF_INET6 if ':' in input['host'] else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as it:
        it.settimeout(input['waitMs'] / 1000)
        it.connect((input['host'], input['port']))
allowed['a pair of sockets of its own'] = outcome(pair)
denied['connect'] = outcome(connect)`,
);

// A question for a name server, so that one that is there answers.
const QUESTION = '111101000001000000000000076578616d706c6503636f6d0000010001';

const DATAGRAM = program(
  `allowed['a name that needs no network'] = await answered((end) => require('node:dns').lookup('127.0.0.1', end));
denied.send = await answered((end) => {
  const socket = require('node:dgram').createSocket('udp4');
  const close = (error) => { end(error); try { socket.close(); } catch {} };
  socket.on('message', () => close());
  socket.on('error', close);
  socket.send(Buffer.from('${QUESTION}', 'hex'), input.port, input.host, (error) => error && close(error));
});`,
  `def pair():
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with one, other:
        one.send(b'x')
        check(other.recv(1) == b'x')
def send():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as it:
        it.settimeout(input['waitMs'] / 1000)
        it.sendto(bytes.fromhex('${QUESTION}'), (input['host'], input['port']))
        it.recv(512)
allowed['a pair of sockets of its own'] = outcome(pair)
denied['send'] = outcome(send)`,
);

const RESOLVE = program(
  `const { lookup } = require('node:dns');
allowed['a name that needs no network'] = await answered((end) => lookup('127.0.0.1', end));
denied.resolve = await answered((end) => lookup(input.host, end));`,
  `allowed['a name that needs no network'] = outcome(lambda: socket.getaddrinfo('127.0.0.1', 80))
denied['resolve'] = outcome(lambda: socket.getaddrinfo(input['host'], 80))`,
);

// One that holds nothing but what every cell has tells nothing: ENODATA.
const ENVIRONMENT = program(
  `const own = '/proc/self/environ';
allowed['/proc/self/status'] = outcome(() => fs.readFileSync('/proc/self/status'));
const read = (file) => {
  const names = fs.readFileSync(file, 'latin1').split('\\0').map((one) => one.split('=')[0]);
  const theirs = names.filter((name) => name && !input.own.includes(name));
  found.push(...theirs);
  if (theirs.length === 0) throw Object.assign(new Error(), { code: 'ENODATA' });
};
denied['of its parent'] = outcome(() => read('/proc/' + process.ppid + '/environ'));
let others = [];
try {
  others = fs.readdirSync('/proc').filter((name) => /^[0-9]+$/.test(name) && Number(name) !== process.pid);
} catch {}
for (const pid of others.slice(0, input.most)) {
  const how = outcome(() => read('/proc/' + pid + '/environ'));
  if (how === 'allowed' || denied['of other processes'] === undefined) denied['of other processes'] = how;
}
for (const name of Object.keys(process.env)) if (!input.own.includes(name)) found.push(name);`,
  `def read(file):
    with open(file, 'rb') as opened:
        names = [one.split(b'=')[0].decode('latin1') for one in opened.read().split(b'\\0')]
    theirs = [name for name in names if name and name not in input['own']]
    found.extend(theirs)
    if not theirs:
        raise OSError(errno.ENODATA, file)
def own_status():
    with open('/proc/self/status') as file:
        check('Pid:' in file.read())
allowed['/proc/self/status'] = outcome(own_status)
denied['of its parent'] = outcome(lambda: read('/proc/%d/environ' % os.getppid()))
try:
    others = [name for name in os.listdir('/proc') if name.isdigit() and int(name) != os.getpid()]
except OSError:
    others = []
for pid in others[:input['most']]:
    how = outcome(lambda: read('/proc/%s/environ' % pid))
    if how == 'allowed' or 'of other processes' not in denied:
        denied['of other processes'] = how
for name in os.environ:
    if name not in input['own']:
        found.append(name)`,
);

const WRITE = program(
  `const write = (folder) => () => {
  const file = path.join(folder, 'verify-' + input.nonce);
  fs.writeFileSync(file, input.nonce);
  const same = fs.readFileSync(file, 'utf8') === input.nonce;
  fs.unlinkSync(file);
  if (!same) throw new Error();
};
allowed['its own folder'] = outcome(write(process.cwd()));
for (const folder of input.folders) denied[folder] = outcome(write(folder));`,
  `def write(folder):
    file = os.path.join(folder, 'verify-' + input['nonce'])
    with open(file, 'w') as opened:
        opened.write(input['nonce'])
    with open(file) as opened:
        same = opened.read() == input['nonce']
    os.unlink(file)
    check(same)
allowed['its own folder'] = outcome(lambda: write(os.getcwd()))
for folder in input['folders']:
    denied[folder] = outcome(lambda: write(folder))`,
);

const SPAWN = program(
  `const { spawnSync } = require('node:child_process');
const start = (file, args) => () => {
  const child = spawnSync(file, args, { timeout: input.waitMs });
  if (child.error) throw child.error;
};
allowed['a look at its own process'] = outcome(() => process.cpuUsage());
denied['a shell'] = outcome(start('/bin/sh', ['-c', ':']));
denied['itself again'] = outcome(start(process.execPath, ['-v']));`,
  `import sys, threading
def thread():
    one = threading.Thread(target=lambda: seen.append(1))
    one.start()
    one.join()
    check(seen)
def fork():
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
def start(file, *args):
    os.waitpid(os.posix_spawn(file, [file, *args], {}), 0)
seen = []
allowed['a thread of its own'] = outcome(thread)
denied['fork'] = outcome(fork)
denied['a shell'] = outcome(lambda: start('/bin/sh', '-c', ':'))
denied['itself again'] = outcome(lambda: start(sys.executable or '/usr/bin/python3', '-c', ''))`,
);

const LOOP = { javascript: 'for (;;) {}', python: 'while True: pass' };

/** Where the network probes go: what an open sandbox would reach. */
const TARGETS = [
  { name: 'TCP to the internet (1.1.1.1:443)', program: CONNECT, host: '1.1.1.1', port: 443 },
  { name: 'UDP to a name server (8.8.8.8:53)', program: DATAGRAM, host: '8.8.8.8', port: 53 },
  { name: 'TCP to Google APIs (199.36.153.8:443)', program: CONNECT, host: '199.36.153.8', port: 443 },
  { name: 'metadata server (169.254.169.254:80)', program: CONNECT, host: '169.254.169.254', port: 80 },
  { name: "metadata server's name", program: RESOLVE, host: 'metadata.google.internal', port: 0 },
  { name: 'DNS (example.com)', program: RESOLVE, host: 'example.com', port: 0 },
  // These two tell an open sandbox on a machine without a way out, too.
  { name: 'TCP to its own machine (127.0.0.1:8080)', program: CONNECT, host: '127.0.0.1', port: 8080 },
  { name: 'UDP to its own machine (127.0.0.53:53)', program: DATAGRAM, host: '127.0.0.53', port: 53 },
  { name: 'IPv6 ([2606:4700:4700::1111]:443)', program: CONNECT, host: '2606:4700:4700::1111', port: 443 },
];

module.exports = { TARGETS, SELF, CONNECT, DATAGRAM, RESOLVE, ENVIRONMENT, WRITE, SPAWN, LOOP };
