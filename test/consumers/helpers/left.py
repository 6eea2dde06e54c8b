"""Runs a program and tells what it left behind: LIMIT_S GRACE_S COMMAND...

A subreaper, so that every process below the program whose parents are gone is a child of
this one. Its report is one line of JSON on descriptor 3; what it is told by SIGTERM it passes on.
"""
import ctypes
import json
import os
import signal
import subprocess
import sys
import time

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
prctl = ctypes.CDLL(None).prctl
prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def children():
    """Whoever has been handed to us and lives; the dead are reaped."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return []
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return [int(pid) for pid in file.read().split()]


def told(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode(errors="replace").strip() or str(pid)
    except OSError:
        return str(pid)


limit, grace, command = float(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
started = time.monotonic()
program = subprocess.Popen(command)
signal.signal(signal.SIGTERM, lambda *_: program.terminate())
hung = False
try:
    code = program.wait(limit)
except subprocess.TimeoutExpired:
    hung = True
    program.kill()
    code = program.wait()
seconds = time.monotonic() - started

end = time.monotonic() + grace
while children() and time.monotonic() < end:
    time.sleep(0.02)
left = [told(pid) for pid in children()]
while alive := children():
    for pid in alive:
        os.kill(pid, signal.SIGKILL)
    time.sleep(0.02)
os.write(3, json.dumps({"code": code, "hung": hung, "seconds": seconds, "left": left}).encode())
