"""The files that a run gets, written before its text runs, and those that it was
asked for, read when it has ended. In the cell: what is read here, the text could
have read as well. Links are not followed, and nothing that is no plain file is opened.
"""
import base64
import json
import os
import stat

# As lib/files.js has them. What is missing in folders leaves room for a word on each of 64 names.
FILES, BYTES, MISSING, VISITED, PATH_BYTES, LEVELS = 256, 8 << 20, 436, 10000, 255, 16


def write(root, files):
    for path, value in files.items():
        where = os.path.join(root, path)
        os.makedirs(os.path.dirname(where), exist_ok=True)
        with open(where, 'xb') as file:
            file.write(value.encode() if isinstance(value, str) else base64.b64decode(value['base64']))


class TooMany(Exception):
    pass


class Collection:
    def __init__(self, root):
        self.root, self.files, self.missing = root, {}, []
        self.room, self.visited = BYTES, 0

    def miss(self, path, reason):
        self.missing.append({'path': path, 'reason': reason})

    def add(self, path):
        """Every folder on the way is looked at: a link is none."""
        parts = path.split('/')
        for end in range(1, len(parts)):
            kind = kind_of(os.path.join(self.root, *parts[:end]))
            if kind != 'folder':
                return self.miss(path, kind if kind in ('link', 'unreadable') else 'absent')
        try:
            self.take(path)
        except TooMany:
            self.miss(path, 'too_many')

    def take(self, path):
        kind = kind_of(os.path.join(self.root, path))
        if kind == 'folder':
            return self.add_folder(path)
        if kind != 'file':
            return self.miss(path, kind)
        if path in self.files:
            return
        if len(self.files) >= FILES:
            raise TooMany
        found = content_of(os.path.join(self.root, path), self.room)
        if isinstance(found, str):
            return self.miss(path, found)
        self.room -= len(found)
        self.files[path] = {'base64': base64.b64encode(found).decode('ascii')}

    def add_folder(self, path):
        try:
            folder = os.scandir(os.path.join(self.root, path))
        except OSError:
            return self.miss(path, 'unreadable')
        bad = False
        with folder as entries:
            for entry in entries:
                self.visited += 1
                if self.visited > VISITED or len(self.missing) >= MISSING:
                    raise TooMany
                inner = path + '/' + entry.name
                if is_path(inner):
                    self.take(inner)
                elif not bad:
                    bad = True
                    self.miss(path, 'bad_name')


def is_path(path):
    try:
        size = len(path.encode())
    except UnicodeEncodeError:  # a name that is no UTF-8
        return False
    return size <= PATH_BYTES and '\\' not in path and '\ufffd' not in path and path.count('/') < LEVELS


def kind_of(path):
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return 'absent'
    except OSError:
        return 'unreadable'
    if stat.S_ISLNK(found.st_mode) or stat.S_ISREG(found.st_mode) and found.st_nlink > 1:
        return 'link'
    return 'file' if stat.S_ISREG(found.st_mode) else 'folder' if stat.S_ISDIR(found.st_mode) else 'not_a_file'


def content_of(path, room):
    """Its bytes, or why not."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return 'unreadable'
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            return 'not_a_file'
        if found.st_size > room:
            return 'too_large'
        with open(fd, 'rb', closefd=False) as file:
            return file.read(found.st_size)
    except OSError:
        return 'unreadable'
    finally:
        os.close(fd)


def collect(root, paths):
    """JSON as bytes: see src/files.h."""
    collection = Collection(root)
    for path in paths:
        collection.add(path)
    return json.dumps({'files': collection.files, 'filesMissing': collection.missing}).encode('ascii')
