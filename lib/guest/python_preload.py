"""What a zygote has loaded before its first cell: most of the standard library, and the host's choice."""
import importlib
import os
import re
import site
import sys

COMMON = '''
abc array ast base64 binascii bisect calendar cmath codecs collections.abc concurrent.futures.thread contextlib contextvars
copy csv dataclasses datetime decimal difflib email.message email.utils enum errno fractions functools getpass glob
gzip hashlib heapq hmac html html.parser http.client inspect io ipaddress itertools json locale logging math mimetypes
numbers operator os.path pathlib pickle platform pprint queue random re secrets shutil signal socket sqlite3 ssl stat
statistics string struct subprocess tempfile textwrap threading time traceback types typing unicodedata urllib.parse
urllib.request uuid warnings weakref xml.etree.ElementTree zipfile zlib zoneinfo
'''.split()

# Numeric libraries start threads when they are imported, which a fork would lose.
SINGLE = ('BLIS', 'GOTO', 'MKL', 'NUMEXPR', 'OMP', 'OPENBLAS', 'VECLIB')


class Misconfigured(Exception):
    """The host's to mend: what it is and how, and no path of the cell's own."""

    def __init__(self, name, cause):
        why = ('%s: %s' % (type(cause).__name__, cause)).split('\n')[0][:1000]
        why = re.sub(r' \(/rt/[^)]*\)|/rt/(?:site/\d+/|lib/)?', '', why)
        super().__init__('config: preload %s: %s (install it for this interpreter, or name another with'
                         ' { python: { path } })' % (name, why))


def all_of(site_dirs, names):
    for library in SINGLE:
        os.environ[library + '_NUM_THREADS'] = '1'
    site.setquit()
    site.setcopyright()
    site.sethelper()
    for folder in site_dirs:
        site.addsitedir(folder)
    for name in COMMON:
        try:
            importlib.import_module(name)
        except ImportError:  # a Python built without it, or older than it
            pass
    for name in names:
        try:
            importlib.import_module(name)
        except BaseException as error:
            raise Misconfigured(name, error)
    if 'ssl' in sys.modules:
        sys.modules['ssl'].RAND_bytes(1)  # sets its generator up once; every cell re-seeds it
