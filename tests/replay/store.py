"""What a record is made of: contents under their hash, folders as lists of them, and names of places that differ
from run to run."""
import functools
import hashlib
import json
import os
import re
import stat
import zlib
from dataclasses import dataclass

LARGEST = 64 << 20  # bytes of a file that a record keeps
TEXT = 1 << 20      # bytes of a text that is looked through for names of places


class TooLarge(Exception):
    """A file that a record does not keep."""


class Store:
    def __init__(self, folder):
        self.folder = os.path.join(folder, "contents")
        os.makedirs(self.folder, exist_ok=True)

    def put(self, data):
        name = hashlib.blake2b(data, digest_size=16).hexdigest()
        path = os.path.join(self.folder, name[:2], name[2:])
        if not os.path.exists(path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path + f".{os.getpid()}", "wb") as file:
                file.write(zlib.compress(data, 1))
            os.rename(path + f".{os.getpid()}", path)
        return name

    def get(self, name):
        with open(os.path.join(self.folder, name[:2], name[2:]), "rb") as file:
            return zlib.decompress(file.read())

    @functools.lru_cache(maxsize=64)
    def entries(self, name):
        """A folder that was kept: {path: (kind, mode, content)}."""
        return {path: tuple(entry) for path, *entry in json.loads(self.get(name))}


class Places:
    """Folders that are called otherwise in another run, and the words that stand for them in a record."""

    def __init__(self, temporary, source):
        self.pairs = [(os.fsencode(temporary), b"@TEMPORARY@"), (os.fsencode(source), b"@SOURCE@")]

    def hidden(self, data):
        for path, word in self.pairs:
            data = data.replace(path, word)
        return data

    def shown(self, data):
        for path, word in self.pairs:
            data = data.replace(word, path)
        return data


@dataclass
class Kept:
    entry: tuple       # (kind, mode, content)
    signature: tuple   # of the file, as the system knows it
    names_place: bool  # whether a text in it names the temporary folder


class Keeper:
    """Keeps folders; what did not change since the last time is not read again."""

    def __init__(self, store, places):
        self.store, self.places, self.known = store, places, {}

    def file(self, path, state):
        signature = state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns
        kept = self.known.get(path)
        if kept and kept.signature == signature:
            return kept
        if state.st_size > LARGEST:
            raise TooLarge(path)
        with open(path, "rb") as file:
            data = file.read()
        hidden = self.places.hidden(data) if len(data) < TEXT and b"\0" not in data else data
        kept = Kept(("text" if hidden != data else "file", stat.S_IMODE(state.st_mode), self.store.put(hidden)),
                    signature, b"@TEMPORARY@" in hidden and hidden != data)
        self.known[path] = kept
        return kept

    def folder(self, top, named=lambda name: True, names=None):
        """The entries of a folder, and whether one names the temporary folder. `named`: whether the command names
        a folder that Python's tempfile made; others are those of neighbours that run at the same time. `names`:
        what parts of paths are called in the record."""
        entries, names_place = [], False

        def visit(path, inside):
            nonlocal names_place
            state = os.lstat(path)
            mode = stat.S_IMODE(state.st_mode)
            if stat.S_ISDIR(state.st_mode):
                entries.append((inside, "folder", mode, ""))
                for name in sorted(os.listdir(path)):
                    if re.fullmatch("tmp[a-z0-9_]{8}", name) and not named(name):
                        continue
                    visit(os.path.join(path, name), os.path.join(inside, (names or {}).get(name, name)))
            elif stat.S_ISLNK(state.st_mode):
                target = os.fsdecode(self.places.hidden(os.fsencode(os.readlink(path))))
                names_place |= "@TEMPORARY@" in target
                entries.append((inside, "link", mode, target))
            elif stat.S_ISREG(state.st_mode):
                kept = self.file(path, state)
                names_place |= kept.names_place
                entries.append((inside, *kept.entry))
            else:
                entries.append((inside, "special", mode, ""))

        visit(top, "")
        return entries, names_place

    def put(self, entries):
        return self.store.put(json.dumps(entries).encode())
