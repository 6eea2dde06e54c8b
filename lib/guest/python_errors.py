"""What was raised, as the error object of a result, in the user's own lines.

Everything read from an exception may run the guest's code, and may raise again.
"""
import asyncio
import itertools
import traceback

FILE = 'code.py'
NAME_MAX = 200
MESSAGE_MAX = 8 * 1024
STACK_MAX = 16 * 1024
SOURCE_LINE_MAX = 500


def cap(text, length):
    return text if len(text) <= length else text[:length - 1] + '…'


def cap_middle(text, length):
    """A traceback's last lines say most."""
    if len(text) <= length:
        return text
    head = length // 4
    return text[:head] + '\n  …\n' + text[head + 5 - length:]


def message_of(error):
    try:
        if isinstance(error, SyntaxError) and error.msg is not None:
            return str(error.msg)
        return str(error)
    except Exception:
        return 'an exception that cannot be shown'


def place_of(error):
    """(line, column) of the innermost frame in the user's text."""
    if isinstance(error, SyntaxError) and error.filename == FILE:
        return error.lineno, error.offset
    found = None
    entry = error.__traceback__
    while entry is not None:
        if entry.tb_frame.f_code.co_filename == FILE:
            found = entry
        entry = entry.tb_next
    return (None, None) if found is None else (found.tb_lineno, column_of(found))


def column_of(entry):
    code = entry.tb_frame.f_code
    if not hasattr(code, 'co_positions') or entry.tb_lasti < 0:
        return None
    place = next(itertools.islice(code.co_positions(), entry.tb_lasti // 2, None), None)
    return None if place is None or place[2] is None else place[2] + 1


def keep_own(told, seen):
    """Leaves the user's frames only, in the exception and in those it came from."""
    if told is None or id(told) in seen:
        return
    seen.add(id(told))
    told.stack = traceback.StackSummary.from_list([frame for frame in told.stack if frame.filename == FILE])
    keep_own(told.__cause__, seen)
    keep_own(told.__context__, seen)
    for part in getattr(told, 'exceptions', None) or ():
        keep_own(part, seen)


def stack_of(error):
    told = traceback.TracebackException(type(error), error, error.__traceback__)
    keep_own(told, set())
    text = ''.join(told.format())
    empty = 'Traceback (most recent call last):\n'
    return text[len(empty):] if text.startswith(empty) and not text.startswith(empty + ' ') else text


def waiting(loop):
    """Where its tasks wait, the innermost frame first, as faulthandler would show it."""
    rows = []
    for task in sorted(asyncio.all_tasks(loop), key=lambda task: task.get_name()) if loop is not None else ():
        at, own = task.get_coro(), []
        while at is not None:
            frame = getattr(at, 'cr_frame', None) or getattr(at, 'gi_frame', None)
            if frame is not None and frame.f_code.co_filename == FILE:
                own.append('  File "%s", line %d in %s\n' % (FILE, frame.f_lineno, frame.f_code.co_name))
            at = getattr(at, 'cr_await', None) or getattr(at, 'gi_yieldfrom', None)
        rows.extend(reversed(own))
    return ''.join(rows).encode('ascii', 'backslashreplace')


def describe(error, lines):
    """error: an exception. lines: the user's text."""
    name = cap(type(error).__name__, NAME_MAX)
    message = cap(message_of(error), MESSAGE_MAX)
    try:
        line, column = place_of(error)
    except Exception:
        line = column = None
    if type(line) is not int or not 1 <= line <= len(lines):
        line = column = None
    source = None
    if line is not None:
        source = lines[line - 1].rstrip('\n')
        if type(column) is not int or column < 1:
            column = None
        elif not isinstance(error, SyntaxError):  # counted in bytes
            column = len(source.encode('utf-8', 'surrogatepass')[:column - 1].decode('utf-8', 'ignore')) + 1
        source = cap(source, SOURCE_LINE_MAX)
    try:
        stack = cap_middle(stack_of(error), STACK_MAX).rstrip('\n')
    except Exception:
        stack = '%s: %s' % (name, message)
    return {'name': name, 'message': message, 'line': line, 'column': column, 'sourceLine': source,
            'stack': cap(stack, STACK_MAX), 'path': None}


CHECKED = ('name', 'message', 'line', 'column', 'sourceLine')


def of_compiling(compile_text, lines):
    """What is wrong with a text that is compiled, and not run."""
    try:
        compile_text()
    except MemoryError:
        raise
    except BaseException as error:
        described = describe(error, lines)
        return [{key: described[key] for key in CHECKED}]
    return []
