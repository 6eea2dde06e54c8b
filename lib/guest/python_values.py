"""What the user's code returned, as JSON text.

Two walks. The first only looks: a value of plain dicts, lists, tuples, text
and safe numbers is then written by the C encoder. What is anything else is
first converted by the second, which knows every rule, and the path at each step.
"""
import array
import collections
import collections.abc
import dataclasses
import datetime
import decimal
import enum
import fractions
import ipaddress
import json
import json.encoder
import math
import os
import re
import sys
import types
import uuid

DEPTH_MAX = 512
SAFE = 2**53 - 1
PATH_MAX = 1000
NAME = re.compile(r'[A-Za-z_$][\w$]*\Z', re.ASCII).match


class Refusal(Exception):
    """A value that cannot be sent: kind is the frame's, the rest its error object."""

    def __init__(self, kind, name, message, path, cause=None):
        super().__init__(message)
        self.kind, self.name, self.message, self.path, self.cause = kind, name, message, path, cause


def path_of(trail):
    """$.items[3].body"""
    path = '$'
    for step in trail:
        if type(step) is int:
            path += '[%d]' % step
        elif NAME(step):
            path += '.' + step[:200]
        else:
            path += '[%s]' % json.dumps(step[:200])
        if len(path) > PATH_MAX:
            return path[:PATH_MAX] + '…'
    return path


# ---- looking ----

def measure_plain(value, max_bytes, max_nodes, depth):
    """(values, bytes) where the C encoder gives what the contract says. None is no verdict."""
    level, nodes, size = (value,), 0, 0
    for _ in range(depth):  # each turn: all containers of one depth
        below = []
        for holder in level:
            kind = type(holder)
            if kind is dict:
                for key in holder:
                    if type(key) is not str:
                        return None
                    size += len(key) + 3
                items = holder.values()
            elif kind is list or kind is tuple:
                items = holder
            else:
                return None
            nodes += len(holder)
            if nodes > max_nodes:
                return None
            for item in items:
                kind = type(item)
                if kind is str:
                    size += len(item) + 2
                elif kind is int:
                    if not -SAFE <= item <= SAFE:
                        return None
                elif kind is float:
                    if item - item != 0.0:
                        return None
                elif item is not None and kind is not bool:
                    below.append(item)
            if size > max_bytes:
                return None
        if not below:
            return nodes, size
        level = below
    return None


# ---- converting ----

class Converter:
    """One conversion to what the C encoder takes; counts as it goes."""

    def __init__(self, max_bytes, max_nodes):
        self.max_bytes, self.max_nodes = max_bytes, max_nodes
        self.nodes = self.size = 0
        self.trail, self.above = [], set()

    def unfit(self, what, hint, cause=None):
        path = path_of(self.trail)
        return Refusal('N', 'NotSerializableError', '%s %s. %s' % (path, what, hint), path, cause)

    def account(self, size):
        self.size += size
        if self.size > self.max_bytes:
            raise too_many_bytes('at least %d' % self.size, self.max_bytes)

    def count(self, more):
        self.nodes += more
        if self.nodes > self.max_nodes:
            raise Refusal('L', 'ResultTooLargeError', 'The result has more than %d JSON values, which is what'
                          ' maxResultNodes allows' % self.max_nodes, path_of(self.trail))

    def convert(self, value):
        self.count(1)
        kind = type(value)
        if value is None or kind is bool:
            return value
        if kind is str:
            self.account(len(value) + 2)
            return value
        if kind is int:
            return self.integer(value)
        if kind is float:
            return value if math.isfinite(value) else None
        # Most of a value that is not plain as a whole is plain in its parts. Asked
        # near the root only, so that no part is looked at often.
        if 1 <= len(self.trail) <= 2 and (kind is dict or kind is list):
            found = measure_plain(value, self.max_bytes, self.max_nodes - self.nodes, DEPTH_MAX - len(self.trail))
            if found is not None:
                self.count(found[0])
                self.account(found[1])
                return value
        try:
            return self.other(value, kind)
        except (Refusal, MemoryError):
            raise
        except Exception as cause:
            raise self.unfit('failed when it was read', 'See the cause.', cause)

    def integer(self, value):
        if -SAFE <= value <= SAFE:
            return value
        self.account(int(value.bit_length() * 0.30103))
        return str(value)

    def again(self, value):
        """The same node, by another name."""
        self.nodes -= 1
        return self.convert(value)

    def other(self, value, kind):
        if isinstance(value, enum.Enum):
            return self.again(value.value)
        package = kind.__module__.partition('.')[0] if type(kind.__module__) is str else ''
        if package == 'numpy':
            return self.numpy(value)
        if isinstance(value, str):
            return self.again(str.__str__(value))
        if isinstance(value, int):
            return self.again(int.__index__(value))
        if isinstance(value, float):
            return self.again(float.__float__(value))
        if isinstance(value, (bytes, bytearray, memoryview)):
            raise self.unfit('is %s, which JSON cannot carry' % kind.__name__,
                             "Return text instead: .decode(), or base64.b64encode(value).decode()."
                             if kind is not memoryview else 'Return bytes(value).decode(), or base64 text.')
        if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
            text = value.isoformat()
            return None if text == 'NaT' else self.again(text)
        if isinstance(value, datetime.timedelta):
            return self.again(value.total_seconds())
        if isinstance(value, TEXTUAL):
            return self.again(str(value))
        if isinstance(value, os.PathLike):
            return self.again(os.fsdecode(os.fspath(value)))
        if isinstance(value, re.Pattern):
            return self.again(value.pattern)
        if package == 'pandas':
            return self.pandas(value, kind)
        return self.container(value, kind)

    def container(self, value, kind):
        if id(value) in self.above:
            raise self.unfit('is a circular reference: it contains itself', 'Leave it out, or return an id instead.')
        if len(self.trail) >= DEPTH_MAX:
            raise Refusal('L', 'ResultTooLargeError', 'The result is nested more than %d levels deep' % DEPTH_MAX,
                          path_of(self.trail))
        self.above.add(id(value))
        if isinstance(value, (dict, collections.abc.Mapping)):
            made = self.mapping(value)
        elif isinstance(value, SEQUENCES):
            made = self.sequence(value)
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            made = self.mapping({field.name: getattr(value, field.name) for field in dataclasses.fields(value)})
        elif isinstance(value, types.SimpleNamespace):
            made = self.mapping(vars(value))
        elif isinstance(value, BaseException):
            made = self.mapping({'name': kind.__name__, 'message': str(value)})
        else:
            raise self.strange(value, kind)
        self.above.discard(id(value))
        return made

    def sequence(self, value):
        if self.nodes + len(value) > self.max_nodes:
            self.count(len(value))
        made, trail, convert = [], self.trail, self.convert
        self.account(2 + len(value))
        trail.append(0)
        for index, item in enumerate(value):
            trail[-1] = index
            made.append(convert(item))
        trail.pop()
        return made

    def mapping(self, value):
        made, trail = {}, self.trail
        for key, item in value.items():
            name = self.name_of(key)
            if name in made:
                raise self.unfit('has two keys that JSON writes as %s' % json.dumps(name[:100]),
                                 'Use text as keys.')
            self.account(len(name) + 4)
            trail.append(name)
            made[name] = self.convert(item)
            trail.pop()
        return made

    def name_of(self, key):
        if isinstance(key, enum.Enum):
            key = key.value
        if isinstance(key, str):
            return str.__str__(key)
        if key is None or key is True or key is False:
            return 'null' if key is None else 'true' if key else 'false'
        if isinstance(key, int):
            return str(int.__index__(key))
        if isinstance(key, float):
            return float.__repr__(key)
        if type(key).__module__ == 'numpy' and hasattr(key, 'item'):
            return self.name_of(key.item())
        if isinstance(key, TEXTUAL) or isinstance(key, (datetime.datetime, datetime.date)):
            return key.isoformat() if hasattr(key, 'isoformat') else str(key)
        raise self.unfit('has a key of type %s' % type(key).__name__,
                         'JSON takes text as keys: convert it, or return list(value.items()).')

    # numpy and pandas are never imported here: a value of theirs brings them.

    def numpy(self, value):
        dtype = getattr(value, 'dtype', None)
        if dtype is None or not hasattr(value, 'tolist'):
            raise self.strange(value, type(value))
        if dtype.kind in 'SV' and dtype.names is None:
            raise self.unfit('holds bytes, which JSON cannot carry', 'Decode it, or return base64 text.')
        if dtype.kind == 'M':
            value = value.astype('datetime64[us]')
        elif dtype.kind == 'm':
            value = value.astype('timedelta64[us]')
        elif dtype.kind == 'f' and dtype.itemsize > 8:
            value = value.astype('float64')
        elif dtype.kind == 'c':
            raise self.unfit('holds complex numbers, which JSON cannot carry', 'Return its real and imaginary parts.')
        if getattr(value, 'size', 1) + self.nodes > self.max_nodes:
            self.count(value.size)
        return self.again(value.tolist())

    def pandas(self, value, kind):
        if kind.__name__ == 'DataFrame':
            if value.size + self.nodes > self.max_nodes:
                self.count(value.size)
            return self.again(value.to_dict(orient='records'))
        if kind.__name__ in ('NAType', 'NaTType'):
            return None
        if hasattr(value, 'tolist'):
            return self.again(value.tolist())
        return self.again(str(value))

    def strange(self, value, kind):
        if isinstance(value, collections.abc.Coroutine):
            return self.unfit('is a coroutine', 'Await it first.')
        if isinstance(value, collections.abc.AsyncIterator):
            return self.unfit('is an asynchronous generator', 'Return [item async for item in value] instead.')
        if isinstance(value, collections.abc.Iterator):
            return self.unfit('is a %s, which gives its items only once' % kind.__name__, 'Return list(value) instead.')
        if isinstance(value, complex):
            return self.unfit('is a complex number', 'Return [value.real, value.imag] instead.')
        if isinstance(value, type):
            return self.unfit('is a class', 'Return an instance\'s data instead.')
        if callable(value) and hasattr(value, '__code__'):
            return self.unfit('is a function', 'Call it, and return what it gives.')
        return self.unfit('is of type %s, which JSON cannot carry' % kind.__qualname__[:200],
                          'Return a dict, a list, text or a number instead.')


TEXTUAL = (decimal.Decimal, fractions.Fraction, uuid.UUID, ipaddress._IPAddressBase, datetime.tzinfo)
SEQUENCES = (list, tuple, set, frozenset, collections.deque, range, array.array, collections.abc.KeysView,
             collections.abc.ValuesView, collections.abc.ItemsView, collections.UserList)


def too_many_bytes(size, max_bytes):
    return Refusal('L', 'ResultTooLargeError', 'The result is %s bytes of JSON; maxResultBytes allows %d'
                   % (size, max_bytes), '$')


def make_encoder(encode_text):
    """Made at boot: a guest that replaces parts of json changes its own calls only."""
    make = json.encoder.c_make_encoder
    if make is None:
        return json.JSONEncoder(ensure_ascii=encode_text is json.encoder.encode_basestring_ascii,
                                check_circular=False, separators=(',', ':')).encode
    encoder = make(None, None, encode_text, None, ':', ',', False, False, True)
    join = ''.join
    return lambda value: join(encoder(value, 0))


encode_unicode = make_encoder(json.encoder.encode_basestring)
encode_ascii = make_encoder(json.encoder.encode_basestring_ascii)


def encode(value):
    try:
        return encode_unicode(value).encode('utf-8')
    except UnicodeEncodeError:  # half of a surrogate pair: JSON can carry it as an escape
        return encode_ascii(value).encode('ascii')


def serialize(value, max_bytes, max_nodes):
    """JSON text as UTF-8; raises a Refusal."""
    if value is None or type(value) is float and value - value != 0.0:
        return b'null'  # whatever the limits
    if getattr(sys, 'set_int_max_str_digits', None):
        sys.set_int_max_str_digits(0)
    sys.setrecursionlimit(10000)
    # One level and one value more: it is looked at within a tuple.
    if measure_plain((value,), max_bytes, max_nodes, DEPTH_MAX + 1) is None:
        value = Converter(max_bytes, max_nodes).convert(value)
    text = encode(value)
    if len(text) > max_bytes and text != b'null':
        raise too_many_bytes(len(text), max_bytes)
    return text
