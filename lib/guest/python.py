"""python.py <guest_python.so> <number of site dirs> <site dirs...> <preloads...>

Runs the user's Python. In the zygote: imports what a text is likely to use,
rehearses the path of a run, then serve() forks. In each cell: re-seeds,
rehearses twice more, so that the pages a run writes to are the cell's own
already, then blocks for its one job. A cold start takes the same way, without
the fork.
"""
import asyncio
import atexit
import ctypes
import faulthandler
import gc
import importlib.util
import io
import json
import linecache
import mmap
import os
import random
import selectors
import signal
import sys
import tempfile
import time
import types
import uuid
import _thread

def sibling(name):
    """A module beside this file: -I keeps its folder out of sys.path."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name + '.py')
    spec = importlib.util.spec_from_file_location('code_jail_' + name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


values = sibling('python_values')
errors = sibling('python_errors')
preload = sibling('python_preload')
files = sibling('python_files')
FILE = errors.FILE


class Job(ctypes.Structure):  # struct guest_job
    _fields_ = [(name, ctypes.c_void_p) for name in ('code', 'input', 'env', 'files')] \
        + [(name, ctypes.c_size_t) for name in ('code_bytes', 'input_bytes', 'env_bytes', 'files_bytes')] \
        + [('memory_bytes', ctypes.c_uint64), ('max_result_bytes', ctypes.c_uint32), ('max_result_nodes', ctypes.c_uint32), \
           ('flags', ctypes.c_uint32)]


JOB_CHECK = 1  # see src/protocol.h


class NeverSettledError(Exception):
    pass


class Selector(selectors.DefaultSelector):
    """Notices that nothing is left that could wake the event loop."""

    def select(self, timeout=None):
        # No timer is set; the one thing registered is the loop's own wake-up.
        if timeout is None and len(self.get_map()) <= 1 and _thread._count() == 0:
            raise NeverSettledError('The code waits for something that can no longer happen: no timer, task or thread'
                                    ' is left that could wake it.')
        return super().select(timeout)


# ---- one run ----

class Run:
    """The job's text, from its bytes to the frame. send is native or a rehearsal's."""

    def __init__(self, code, input_text, max_bytes, max_nodes, send, leave, asked=None):
        self.max_bytes, self.max_nodes, self.send, self.leave = max_bytes, max_nodes, send, leave
        self.input_text, self.asked = input_text, asked or {}
        self.root = os.getcwd()
        text = code.decode('utf-8', 'replace')
        if text[:1] == '\ufeff':
            text = text[1:]
        if '\r' in text:
            text = text.replace('\r\n', '\n').replace('\r', '\n')
        self.text = text
        self.lines = text.split('\n')

    def run(self):
        try:
            files.write(self.root, self.asked.get('files', {}))
            answer = values.serialize(self.value(), self.max_bytes, self.max_nodes)
            end_of_code()
            collected = files.collect(self.root, self.asked['collect']) if 'collect' in self.asked else None
        except SystemExit as error:
            return self.exit(error)
        except values.Refusal as refusal:
            return self.refuse(refusal)
        except BaseException as error:
            return self.fail(error)
        self.send(b'R', collected, answer)

    def check(self):
        """Compiles as run() does, and runs nothing; the answer is a list of what is wrong."""
        try:
            self.send(b'R', None, dump(errors.of_compiling(self.compile, self.lines)))
        except MemoryError as error:
            self.fail(error)

    def value(self):
        space = sys.modules['__main__'].__dict__
        argument = space['input'] = json.loads(self.input_text)
        linecache.cache[FILE] = (len(self.text), None, [line + '\n' for line in self.lines], FILE)
        code = self.compile()
        exec(code, space)
        main = space.get('main')
        if callable(main) and not is_script(main, code):
            value = main() if takes_nothing(main) else main(argument)
        else:
            value = space.get('result')
        return settle(value) if hasattr(type(value), '__await__') else value

    def compile(self):
        try:
            return compile(self.text, FILE, 'exec', dont_inherit=True)
        except (ValueError, SyntaxError) as error:
            at = self.text.find('\0')
            if at < 0 or getattr(error, 'lineno', None) is not None:
                raise
            # Python says that there is a NUL, not where.
            line = self.text.count('\n', 0, at) + 1
            raise SyntaxError(str(error), (FILE, line, at - self.text.rfind('\n', 0, at), self.lines[line - 1])) from None

    def fail(self, error):
        kind = b'E'
        if isinstance(error, MemoryError):
            kind = b'M'
            ballast.close()
        try:
            hook = sys.excepthook
            if hook is not sys.__excepthook__:
                hook(type(error), error, error.__traceback__)
        except BaseException:
            pass
        try:
            meta = dump({'error': errors.describe(error, self.lines)})
        except BaseException:
            meta = None if kind == b'M' else dump({'error': {'name': 'Error', 'message': 'The code raised an exception'
                                                             ' that cannot be shown'}})
        self.send(kind, meta, None)

    def refuse(self, refusal):
        error = {'name': refusal.name, 'message': refusal.message, 'line': None, 'column': None, 'sourceLine': None,
                 'stack': None, 'path': refusal.path}
        if refusal.cause is not None:
            cause = errors.describe(refusal.cause, self.lines)
            error.update(line=cause['line'], column=cause['column'], sourceLine=cause['sourceLine'], stack=cause['stack'])
            error['message'] += ' Cause: %s: %s' % (cause['name'], cause['message'])
        self.send(refusal.kind.encode(), dump({'error': error}), None)

    def exit(self, error):
        """As Python itself: None is 0, an integer is the code, anything else is a message and 1."""
        code = error.code
        if code is None or isinstance(code, int):
            end_of_code()
            self.leave(0 if code is None else code & 0xff if -2**63 <= code < 2**63 else 0xff)
            return
        described = errors.describe(error, self.lines)
        try:
            print(code, file=sys.stderr)
        except BaseException:
            pass
        end_of_code()
        self.send(b'E', dump({'exitCode': 1, 'error': described}), None)


SPOILED = (b'{"error":{"name":"Error","message":"The code replaced parts of Python that a run depends on",'
           b'"line":null,"column":null,"sourceLine":null,"stack":null,"path":null}}')


def dump(meta):
    return values.encode_ascii(meta).encode('ascii')


def takes_nothing(main):
    code = getattr(main, '__code__', None)
    return code is not None and code.co_argcount == 0 and code.co_kwonlyargcount == 0 and not code.co_flags & 0x0c


def is_script(main, code):
    """A main() without parameters in a text that looks at __name__ has been called by it."""
    return '__name__' in code.co_names and takes_nothing(main)


loop = None  # of the run, if it has one


def settle(awaitable):
    global loop
    loop = asyncio.SelectorEventLoop(Selector())
    asyncio.set_event_loop(loop)

    async def wait():
        return await awaitable

    return loop.run_until_complete(wait())


def end_of_code():
    """What a program does when it ends, except to wait for its threads."""
    if atexit._ncallbacks():
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass


# ---- boot ----

# Room to tell of a MemoryError in: mapped, and not touched until it is given back.
ballast = mmap.mmap(-1, 1 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def open_streams():
    """Every write goes out at once: what was printed before a kill is not lost."""
    for name, fd in (('stdout', 1), ('stderr', 2)):
        stream = io.TextIOWrapper(io.FileIO(fd, 'w', closefd=False), encoding='utf-8', errors='backslashreplace',
                                  newline='\n', write_through=True)
        stream.mode = 'w'
        setattr(sys, name, stream)
        setattr(sys, '__%s__' % name, stream)


KEPT = {'HOME', 'LANG', 'LC_ALL', 'LC_CTYPE', 'PATH', 'TMPDIR', 'TZ', 'USER', 'LOGNAME'}


def hide_boot():
    for name in set(os.environ) - KEPT:
        del os.environ[name]
    sys.argv[:] = [FILE]
    if hasattr(sys, 'orig_argv'):
        sys.orig_argv[:] = [sys.executable, FILE]
    atexit._clear()  # of the preloads: concurrent.futures would wait for threads
    for name in [name for name in sys.modules if name.startswith('code_jail_')]:
        del sys.modules[name]


def fresh_main():
    module = types.ModuleType('__main__')
    module.__dict__.update(__builtins__=__builtins__, __file__=FILE)
    sys.modules['__main__'] = module


def reseed(draw):
    seed = draw()
    random.seed(seed)
    tempfile._name_sequence = tempfile.tempdir = None
    uuid._node = uuid._last_timestamp = None
    if 'ssl' in sys.modules:
        sys.modules['ssl'].RAND_add(draw(), 32.0)
    numpy_random = sys.modules.get('numpy.random')
    if numpy_random is not None:
        numpy_random.seed(list(memoryview(draw()).cast('I')))


def become_cell(draw):
    reseed(draw)
    folder = os.getcwd()
    sys.path.insert(0, folder)
    # Without a root of its own there is one folder for everything.
    os.environ.setdefault('HOME', folder)
    os.environ.setdefault('TMPDIR', folder)


def set_environment(text):
    for item in text.split(b'\0'):
        name, equals, value = item.partition(b'=')
        if equals and name:
            os.environb[name] = value
    if b'TZ=' in text:
        time.tzset()


REHEARSALS = [
    (b'def main(input):\n    return {"a": input["a"] + 1, "list": [1, "x", None, 1.5]}\n', b'{"a":1}'),
    (b'import json, sys\nprint("line", input["a"])\nprint("line", file=sys.stderr)\nresult = json.loads("[1]")\n', b'{"a":1}'),
    (b'def check(n):\n    raise ValueError("no %d" % n)\ncheck(input["a"])\n', b'{"a":1}'),
    (b'import asyncio\nasync def main(input):\n    await asyncio.sleep(0)\n    return {1, 2.5, 2**70}\n', b'{"a":1}'),
    (b'result = b"x"\n', b'{"a":1}'),
    (b'x = = 1\n', b'{"a":1}'),
]


def rehearse(order):
    global loop
    nothing = lambda *arguments: None
    for index in order:
        fresh_main()
        Run(*REHEARSALS[index], 1 << 22, 200000, nothing, nothing).run()
        if loop is not None:  # its descriptors would be every cell's
            loop.close()
            asyncio.set_event_loop(None)
            loop = None
    fresh_main()
    linecache.cache.pop(FILE, None)


def boot():
    library = ctypes.PyDLL(sys.argv[1])
    count = int(sys.argv[2])
    sites, names = sys.argv[3:3 + count], sys.argv[3 + count:]
    library.cj_leave.restype = library.cj_send.restype = library.cj_fail.restype = library.cj_where.restype = None
    library.cj_send.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]

    def send(kind, meta, answer):
        library.cj_send(kind[0], meta, 0 if meta is None else len(meta), answer, 0 if answer is None else len(answer))

    def draw():
        bytes_ = ctypes.create_string_buffer(32)
        library.cj_random(bytes_)
        return bytes_.raw

    try:
        preload.all_of(sites, names)
    except preload.Misconfigured as error:
        library.cj_fail(str(error).encode('utf-8', 'replace'))
    except BaseException as error:
        library.cj_fail(('boot: %s: %s' % (type(error).__name__, error)).encode('utf-8', 'replace'))
    open_streams()
    hide_boot()
    rehearse([0, 1, 2, 3, 4, 5, 0, 1, 2, 0, 1])
    gc.collect()
    gc.freeze()
    def tell_where(number, frame):  # asked near the deadline, where the stack holds nothing of the run's
        try:
            library.cj_where(ctypes.create_string_buffer(errors.waiting(loop)))
        except BaseException:
            pass

    try:
        signal.signal(signal.SIGURG, tell_where)
        faulthandler.register(signal.SIGURG, file=library.cj_dump_fd(), all_threads=False)
    except Exception:  # a Python built without it: a timeout does not say where
        pass
    why = ctypes.create_string_buffer(256)
    if library.cj_serve(('python %d.%d.%d' % sys.version_info[:3]).encode(), why) < 0:
        library.cj_fail(why.value)
    # From here on: a cell.
    become_cell(draw)
    rehearse([0])
    job = Job()
    library.cj_take(ctypes.byref(job))
    if job.env_bytes:
        set_environment(ctypes.string_at(job.env, job.env_bytes))
    run = Run(ctypes.string_at(job.code, job.code_bytes), ctypes.string_at(job.input, job.input_bytes),
              job.max_result_bytes, job.max_result_nodes, send, library.cj_leave,
              json.loads(b'{%s}' % ctypes.string_at(job.files, job.files_bytes)) if job.files_bytes else None)
    cj_send, spoiled_bytes = library.cj_send, len(SPOILED)
    try:
        run.check() if job.flags & JOB_CHECK else run.run()
    finally:  # not reached, unless the code has broken what run() relies on
        cj_send(69, SPOILED, spoiled_bytes, None, 0)


if __name__ == '__main__':
    boot()
