# Run in a cell, by native calls, as a hostile text would. Each probe is one thing
# that a layer forbids: its outcome is 'allowed', or the errno that it met.
# probes.js says which layers forbid it. input: where the host and its sibling are.
import ctypes
import errno
import mmap
import os
import socket

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
sibling = input['sibling']
S = sibling['pid']
scratch = ctypes.create_string_buffer(4096)
BUF = ctypes.addressof(scratch)


def call(number, *args):
    ctypes.set_errno(0)
    value = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) for a in args])
    if value == -1:
        raise OSError(ctypes.get_errno(), 'call')
    return value


def reaches(*reached):
    """The call meets the kernel's own answer, whatever it is, and no wall."""
    def made(number, *args):
        try:
            call(number, *args)
        except OSError as error:
            if error.errno not in reached:
                raise
    return made


def fork():
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def any_of(*ways):
    for way in ways[:-1]:
        try:
            return way()
        except OSError:
            pass
    return ways[-1]()


def read(path):
    with open(path, 'rb') as file:
        file.read(64)


def datagram():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.sendto(b'x', ('127.0.0.1', sibling['port']))


def stream():
    with socket.socket() as one:
        one.settimeout(2)
        one.connect(('127.0.0.1', sibling['port']))


def named_socket():
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
        one.sendto(b'x', sibling['name'])


def nothing_comes_in():
    if os.read(0, 1) != b'':
        raise OSError(errno.EEXIST, 'standard input is somebody\'s')


def host_name():
    if os.uname().nodename != input['hostname']:
        raise OSError(errno.ENOENT, 'another name')


def mode_ignored():
    os.close(os.open('closed', os.O_CREAT | os.O_WRONLY, 0))
    os.close(os.open('closed', os.O_RDONLY))


def new_privileges():
    if call(157, 39, 0, 0, 0, 0) == 1:
        raise OSError(errno.EPERM, 'no_new_privs')


def code_from_file():
    with open('code', 'wb') as file:
        file.write(b'\xc3' * 4096)
    with open('code', 'rb') as file:
        mmap.mmap(file.fileno(), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC).close()


def lease():
    with open('leased', 'wb') as file:
        pass
    with open('leased', 'rb') as file:
        call(72, file.fileno(), 1024, 0)


def foreign_memory():
    local, remote = (ctypes.c_void_p * 2)(BUF, 16), (ctypes.c_void_p * 2)(sibling['secret'], 16)
    call(310, S, ctypes.addressof(local), 1, ctypes.addressof(remote), 1, 0)


def own_limits():
    call(302, 0, 7, 0, BUF)
    call(302, 0, 7, BUF, 0)


def foreign_limits():
    limits = (ctypes.c_uint64 * 2)()
    call(302, S, 7, 0, ctypes.addressof(limits))
    limits[0] -= 1
    call(302, S, 7, ctypes.addressof(limits), 0)


def signal_by_descriptor():
    call(72, r, 8, S)  # F_SETOWN
    call(72, r, 10, 10)  # F_SETSIG, SIGUSR1
    call(72, r, 4, 0o20000)  # F_SETFL, O_ASYNC
    os.write(w, b'x')


def owner_by_ioctl():
    ctypes.c_int.from_buffer(scratch).value = S
    call(16, near.fileno(), 0x8901, BUF)  # FIOSETOWN


def turn_async():
    ctypes.c_int.from_buffer(scratch).value = 1
    call(16, near.fileno(), 0x5452, BUF)  # FIOASYNC


def message():
    near.sendmsg([b'x'])
    far.recvmsg(1)


def send_to_name():
    near_d.sendto(b'x', sibling['name'])


def attempt(probe, *args):
    try:
        probe(*args)
        return 'allowed'
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))


r, w = os.pipe()
near, far = socket.socketpair()
near_d, far_d = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
page = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
PAGE = ctypes.addressof(ctypes.c_char.from_buffer(page))
cores = ctypes.create_string_buffer(b'\1', 128)
nothing = ctypes.create_string_buffer(64)
N = ctypes.addressof(nothing)
anonymous = mmap.MAP_ANONYMOUS | mmap.MAP_PRIVATE

result = {
    'control': attempt(read, os.__file__),
    'scratch': attempt(lambda: open(os.getcwd() + '/own', 'w').close()),
    'empty input': attempt(nothing_comes_in),
    # one layer each
    'a file of the host': attempt(any_of, lambda: read(input['file']), lambda: read('/..' + input['file'])),
    'a secret of the host': attempt(read, input['secret']),
    'what no rule names': attempt(any_of, lambda: read('/canary'), lambda: os.listdir('/')),
    'environment of the sibling': attempt(read, '/proc/%d/environ' % S),
    'which processes exist': attempt(call, 145, S),
    'code from a file of its own': attempt(code_from_file),
    'a datagram to the host': attempt(datagram),
    'a connection to the host': attempt(stream),
    'an abstract socket of the host': attempt(named_socket),
    'a System V segment of the host': attempt(call, 29, sibling['key'], 0, 0),
    'the name of the host': attempt(host_name),
    'a file closed by its mode': attempt(mode_ignored),
    'privileges by execution': attempt(new_privileges),
    'a process': attempt(fork),
    'a Unix socket': attempt(lambda: socket.socket(socket.AF_UNIX).close()),
    'a lock that others see': attempt(call, 73, r, 8),
    'memory that no limit counts': attempt(call, 319, N, 0),
    # arguments, aimed at the sibling
    'kill': attempt(os.kill, S, 0),
    'a signal by descriptor': attempt(signal_by_descriptor),
    'owner by ioctl': attempt(owner_by_ioctl),
    'limits of the sibling': attempt(foreign_limits),
    'affinity of the sibling': attempt(call, 203, S, 128, ctypes.addressof(cores)),
    'scheduler of the sibling': attempt(call, 144, S, 3, N),
    'priority of the sibling': attempt(call, 141, 0, S, 19),
    'group of the sibling': attempt(call, 121, S),
    'trace the sibling': attempt(call, 101, 0x4206, S, 0, 0),
    'memory of the sibling': attempt(foreign_memory),
    'a handle of the sibling': attempt(call, 434, S, 0),
    # arguments, alone
    'clone: share no descriptors': attempt(reaches(errno.EINVAL), 56, 0x10100, 0, 0, 0, 0),
    'fcntl: pipe size': attempt(call, 72, r, 1031, 1 << 20),
    'fcntl: lease': attempt(lease),
    'ioctl: signals': attempt(turn_async),
    'prctl: death signal': attempt(call, 157, 1, 0, 0, 0, 0),
    'prctl: dumpable': attempt(call, 157, 4, 1, 0, 0, 0),
    'mmap: shared and anonymous': attempt(call, 9, 0, 4096, 3, 0x21, -1, 0),
    'mmap: growing down': attempt(call, 9, 0, 4096, 3, 0x122, -1, 0),
    'madvise: page out': attempt(reaches(errno.EINVAL), 28, PAGE, 4096, 21),
    'membarrier: all cores': attempt(call, 324, 1, 0, 0),
    'socketpair: another family': attempt(reaches(errno.EOPNOTSUPP, errno.EPROTONOSUPPORT), 53, 16, 3, 0, BUF),
    'sendto: an address': attempt(send_to_name),
    'getsockopt: who is there': attempt(lambda: near.getsockopt(socket.SOL_SOCKET, 17, 12)),
    'recvfrom: urgent': attempt(reaches(errno.EINVAL, errno.EAGAIN, errno.EOPNOTSUPP), 45, far.fileno(), BUF, 1, 0x41, 0, 0),
    'close_range: a table of its own': attempt(call, 436, 4000, 4000, 2),
    # the second filter
    'a message': attempt(message),
    'limits of its own': attempt(own_limits),
    'one more filter': attempt(reaches(errno.EFAULT), 317, 1, 0, 0),
}
