"""A process of the host's uid beside the cells, with all that they must not
reach: memory, limits, sockets, a System V segment. Says where these are; when
its input ends, says what became of it. sibling.py"""
import ctypes
import json
import os
import resource
import signal
import socket
import sys

IPC_CREAT, IPC_RMID, PR_SET_PTRACER, ANYONE = 0o1000, 0, 0x59616D61, ctypes.c_ulong(-1)

libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(PR_SET_PTRACER, ANYONE, 0, 0, 0)  # so that Yama is not what refuses
received = []
for number in (signal.SIGUSR1, signal.SIGIO):
    signal.signal(number, lambda which, frame: received.append(which))

secret = ctypes.create_string_buffer(b'secret of the sibling')
key = 0x6A610000 | (os.getpid() & 0xFFFF)
segment = libc.shmget(key, 4096, IPC_CREAT | 0o666)
name = '\0code-jail-sibling-%d' % os.getpid()


def bound(family, kind, address):
    one = socket.socket(family, kind)
    one.bind(address)
    return one


tcp = bound(socket.AF_INET, socket.SOCK_STREAM, ('127.0.0.1', 0))
udp = bound(socket.AF_INET, socket.SOCK_DGRAM, tcp.getsockname())
abstract = bound(socket.AF_UNIX, socket.SOCK_DGRAM, name)
tcp.listen(16)


def state():
    return {
        'limit': resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        'cores': sorted(os.sched_getaffinity(0)),
        'scheduler': os.sched_getscheduler(0),
        'nice': os.getpriority(os.PRIO_PROCESS, 0),
    }


before = state()
abi = max(0, libc.syscall(444, None, ctypes.c_long(0), 1))  # of Landlock here
where = {'landlock': abi, 'pid': os.getpid(), 'secret': ctypes.addressof(secret), 'key': key}
where.update(port=tcp.getsockname()[1], name=name)
print(json.dumps(where), flush=True)
sys.stdin.read()
if segment >= 0:
    libc.shmctl(segment, IPC_RMID, None)
print(json.dumps({'changed': [k for k, v in state().items() if v != before[k]], 'signals': len(received)}), flush=True)
