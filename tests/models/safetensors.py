"""Reads and writes safetensors files: a header of JSON behind its length, then the numbers.

A tensor in memory is a pair (dtype, array): dtype as in the file, array float64 (integers and
booleans as they are).
"""
import json
import os
import struct

import numpy as np

PLAIN = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "BOOL": "|b1", "U8": "|u1", "I8": "|i1"}


def encode(dtype, array):
    """The array's bytes in dtype, rounded to nearest, ties to even."""
    array = np.asarray(array)
    if dtype != "BF16":
        return array.astype(PLAIN[dtype]).tobytes()
    bits = array.astype("<f4").view("<u4").astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2").tobytes()


def decode(dtype, data, shape):
    if dtype == "BF16":
        bits = np.frombuffer(data, "<u2").astype("<u4") << 16
        return bits.view("<f4").reshape(shape).astype(np.float64)
    array = np.frombuffer(data, PLAIN[dtype]).reshape(shape)
    return array.astype(np.float64) if dtype in ("F64", "F32", "F16") else array


def rounded(dtype, value):
    """What is left of a number once it is stored in dtype."""
    return float(decode(dtype, encode(dtype, np.array([value])), (1,))[0])


def write(path, tensors):
    header, parts, place = {"__metadata__": {"format": "pt"}}, [], 0
    for name, (dtype, array) in tensors.items():
        data = encode(dtype, array)
        header[name] = {"dtype": dtype, "shape": list(np.shape(array)),
                        "data_offsets": [place, place + len(data)]}
        parts.append(data)
        place += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(parts))
    return place


def read(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    return {name: (entry["dtype"], decode(entry["dtype"], data[slice(*entry["data_offsets"])], entry["shape"]))
            for name, entry in header.items() if name != "__metadata__"}


def read_folder(folder):
    """The config and the tensors of a checkpoint's folder."""
    with open(os.path.join(folder, "config.json")) as file:
        config = json.load(file)
    tensors = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".safetensors"):
            tensors |= read(os.path.join(folder, name))
    return config, tensors
