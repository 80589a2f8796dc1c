#!/usr/bin/env python3
"""Writes a PyTorch archive whose numbers are a hole in the file, without PyTorch.

    /usr/bin/python3 tests/models/pytorch.py sparse OUT.pt BYTES

Two matrices of float32, BYTES together, in a ZIP with 64-bit sizes and offsets, as torch.save writes it beyond 4 GiB.
"""
import io
import pickle
import struct
import sys
import types
from collections import OrderedDict

TORCH, UTILS = types.ModuleType("torch"), types.ModuleType("torch._utils")
sys.modules |= {"torch": TORCH, "torch._utils": UTILS}


def _rebuild_tensor_v2(*arguments):
    return arguments


class FloatStorage:
    pass


for owner, thing in ((UTILS, _rebuild_tensor_v2), (TORCH, FloatStorage)):
    thing.__module__ = owner.__name__
    setattr(owner, thing.__name__, thing)


class Stored:
    def __init__(self, key, count):
        self.key, self.count = key, count


class Matrix:
    def __init__(self, key, rows, columns):
        self.storage, self.shape = Stored(key, rows * columns), (rows, columns)

    def __reduce__(self):
        return _rebuild_tensor_v2, (self.storage, 0, self.shape, (self.shape[1], 1), False, OrderedDict())


class Pickler(pickle.Pickler):
    def persistent_id(self, thing):
        return ("storage", FloatStorage, thing.key, "cpu", thing.count) if isinstance(thing, Stored) else None


def local_header(name, size):
    extra = struct.pack("<HHQQ", 1, 16, size, size)
    return struct.pack("<IHHHHHIIIHH", 0x04034B50, 45, 0, 0, 0, 33, 0, 0xFFFFFFFF, 0xFFFFFFFF, len(name), len(extra)) + name + extra


def directory_entry(name, size, offset):
    extra = struct.pack("<HHQQQ", 1, 24, size, size, offset)
    return struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 45, 45, 0, 0, 0, 33, 0, 0xFFFFFFFF, 0xFFFFFFFF, len(name),
                       len(extra), 0, 0, 0, 0, 0xFFFFFFFF) + name + extra


def sparse(out, size):
    rows = size // 2 // 4 // 1024
    text = io.BytesIO()
    Pickler(text, 2).dump({"large.0": Matrix("0", rows, 1024), "large.1": Matrix("1", rows, 1024)})
    members = [(b"model/data.pkl", text.getvalue()), (b"model/data/0", rows * 4096), (b"model/data/1", rows * 4096),
               (b"model/version", b"3\n")]
    directory = b""
    with open(out, "wb") as file:
        for name, content in members:
            size = content if isinstance(content, int) else len(content)
            directory += directory_entry(name, size, file.tell())
            file.write(local_header(name, size))
            if isinstance(content, int):
                file.seek(size, 1)
            else:
                file.write(content)
        start = file.tell()
        file.write(directory)
        at = file.tell()
        file.write(struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 45, 45, 0, 0, len(members), len(members), len(directory), start))
        file.write(struct.pack("<IIQI", 0x07064B50, 0, at, 1))
        file.write(struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0))


if __name__ == "__main__":
    sparse(sys.argv[2], int(sys.argv[3]))
