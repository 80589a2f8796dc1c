#!/usr/bin/env python3
"""Writes the files with defects that lie in this folder: one defect a file, and nothing but the
standard library. What mha-inspect says about each is in messages.txt."""

import gzip
import json
import os
import pickle
import struct
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))


def write(name, data):
    path = os.path.join(HERE, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data if isinstance(data, bytes) else data.encode())


# --- NPY -------------------------------------------------------------------------------------------

def npy(header, data=b"\0" * 24, version=(1, 0), length=None):
    text = header.encode() + b"\n"
    length = len(text) if length is None else length
    size = struct.pack("<H" if version[0] == 1 else "<I", length)
    return b"\x93NUMPY" + bytes(version) + size + text + data


def dictionary(descr="<f4", order="False", shape="(2, 3)"):
    return "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }" % (descr, order, shape)


GOOD = npy(dictionary())

write("npy-empty.npy", b"")
write("npy-magic.npy", b"NUMPY\x93" + GOOD[6:])
write("npy-magic-only.npy", GOOD[:6])
write("npy-header-cut.npy", GOOD[:30])
write("npy-version.npy", npy(dictionary(), version=(4, 0)))
write("npy-header-length.npy", npy(dictionary(), version=(2, 0), length=0xFFFFFFF0))
write("npy-data-cut.npy", GOOD[:-1])
write("npy-data-too-long.npy", GOOD + b"\0")
write("npy-shape-overflow.npy", npy(dictionary(shape="(4294967296, 4294967296, 2)")))
write("npy-shape-beyond-64-bits.npy", npy(dictionary(shape="(99999999999999999999,)")))
write("npy-shape-overflow-with-zero.npy", npy(dictionary(shape="(0, 4611686018427387904, 16)"), b""))
write("npy-shape-negative.npy", npy(dictionary(shape="(-2, 3)")))
write("npy-shape-number.npy", npy(dictionary(shape="(6)")))
write("npy-shape-list.npy", npy(dictionary(shape="[2, 3]")))
write("npy-axes.npy", npy(dictionary(shape="(" + "1, " * 40 + ")"), b"\0" * 4))
write("npy-order-word.npy", npy(dictionary(order="Maybe")))
write("npy-key-unknown.npy", npy("{'descr': '<f4', 'fortran_order': False, 'size': (2, 3), }"))
write("npy-key-missing.npy", npy("{'descr': '<f4', 'shape': (2, 3), }"))
write("npy-key-twice.npy", npy("{'descr': '<f4', 'descr': '<f4', 'shape': (2, 3), }"))
write("npy-quote-open.npy", npy("{'descr': '<f4"))
write("npy-code.npy", npy("__import__('os').system('true')"))
write("npy-text-after.npy", npy(dictionary() + " {}"))
write("npy-character-cut.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", 11) + b"{'descr': \xc2")
write("npy-dtype-unknown.npy", npy(dictionary("<q9")))
write("npy-dtype-control.npy", npy(dictionary("<\x1b[31m")))
write("npy-object.npy", npy(dictionary("|O"), pickle.dumps([1, None], 2)))
write("npy-structured.npy", npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (6,), }"))
write("npy-complex.npy", npy(dictionary("<c8", shape="(3,)")))
write("npy-date.npy", npy(dictionary("<M8[ns]", shape="(3,)")))
write("npy-long-double.npy", npy(dictionary("<f16", shape="(1,)"), b"\0" * 16))
write("npy-void.npy", npy(dictionary("|V8", shape="(3,)")))
write("npy-bfloat16.npy", npy(dictionary("|V2", shape="(12,)")))
write("npy-text-surrogate.npy", npy(dictionary("<U1", shape="(1,)"), struct.pack("<I", 0xD800)))
write("npy-text-beyond.npy", npy(dictionary("<U1", shape="(1,)"), struct.pack("<I", 0x110000)))
write("npy-text-bytes.npy", npy(dictionary("|S2", shape="(1,)"), b"\xff\xfe"))
write("npy-text-empty.npy", npy(dictionary("<U0", shape="(4000020,)"), b""))  # 128 MB of strings
write("npy-text-nothing.npy", npy(dictionary("<U0", shape="(9999999999,)"), b""))
write("npy-is-json.npy", '{"X": [[1, 2]]}')

# --- NPZ -------------------------------------------------------------------------------------------


def member(name, data, method=0, flags=0, crc=None, size=None, packed=None, local_name=None):
    """One member: its local part, and its entry of the directory without the offset."""
    body = data
    if method == 8:
        deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
        body = deflate.compress(data) + deflate.flush()
    crc = zlib.crc32(data) if crc is None else crc
    size = len(data) if size is None else size
    packed = len(body) if packed is None else packed
    common = struct.pack("<HHHHHIII", 20, flags, method, 0, 33, crc, packed, size)
    spoken = (local_name or name).encode()
    local = b"PK\3\4" + common + struct.pack("<HH", len(spoken), 0) + spoken + body
    entry = b"PK\1\2\x14\3" + common + struct.pack("<HHHHHI", len(name), 0, 0, 0, 0, 0o100644 << 16)
    return local, entry, name.encode()


def archive(*members, offsets=None, count=None, at=None, size=None, comment=b"", end=b""):
    data, directory = b"", b""
    for i, (local, entry, name) in enumerate(members):
        place = len(data) if offsets is None else offsets[i]
        directory += entry + struct.pack("<I", place) + name
        data += local
    count = len(members) if count is None else count
    at = len(data) if at is None else at
    size = len(directory) if size is None else size
    tail = b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, count, count, size, at, len(comment)) + comment
    return data + directory + end + tail


ONE = member("X.npy", GOOD)
WHOLE = archive(ONE)

write("npz-empty.npz", b"")
write("npz-cut.npz", WHOLE[:-30])
write("npz-start-only.npz", b"PK\3\4")
write("npz-directory-outside.npz", archive(ONE, at=100_000))
write("npz-directory-size.npz", archive(ONE, size=0x7FFFFFFF))
write("npz-directory-longer.npz", archive(ONE, count=0))
write("npz-members-claimed.npz", archive(ONE, count=40_000))
write("npz-entry-damaged.npz", WHOLE.replace(b"PK\1\2", b"PK\1\7"))
write("npz-several-files.npz", WHOLE[:-18] + b"\1\0" + WHOLE[-16:])
write("npz-zip64-record.npz",
      archive(ONE, end=b"PK\6\7" + struct.pack("<IQI", 0, 1 << 40, 1)))
write("npz-offset.npz", archive(ONE, offsets=[7]))
write("npz-offset-beyond.npz", archive(ONE, offsets=[0xFFFFFF00]))
write("npz-size-beyond.npz", archive(member("X.npy", GOOD, size=1 << 30, packed=1 << 30)))
write("npz-stored-sizes.npz", archive(member("X.npy", GOOD, size=len(GOOD) + 4)))
write("npz-name-differs.npz", archive(member("X.npy", GOOD, local_name="Y.npy")))
write("npz-encrypted.npz", archive(member("X.npy", GOOD, flags=1)))
write("npz-compression.npz", archive(member("X.npy", GOOD, method=14)))
write("npz-twice.npz", archive(ONE, ONE))
write("npz-overlap.npz", archive(ONE, ONE, offsets=[0, 0]))
write("npz-member-no-npy.npz", archive(member("X.npy", b"hello, these are no numbers")))
write("npz-member-empty.npz", archive(member("X.npy", b"")))
write("npz-member-shape.npz",
      archive(member("X.npy", npy(dictionary(shape="(1000000000, 1000)")))))
write("npz-member-object.npz", archive(member("X.npy", npy(dictionary("|O")))))
write("npz-member-bfloat16.npz",
      archive(member("layers.0.npy", npy(dictionary("|V2", shape="(12,)")))))
write("npz-name-control.npz", archive(member("\x1b[2J.npy", b"no numbers")))
write("npz-bomb.npz", archive(member("X.npy", GOOD, method=8, size=0xFFFFFFF0)))
write("npz-deflate-damaged.npz",
      archive(member("X.npy", GOOD, method=8)).replace(b"PK\1\2", b"PK\1\2", 1)[:35]
      + b"\xff" * 20 + archive(member("X.npy", GOOD, method=8))[55:])
write("npz-deflate-short.npz",
      archive(member("a.npy", npy(dictionary("<U1", shape="(30,)"), b"\0" * 100), method=8,
                     size=len(npy(dictionary("<U1", shape="(30,)"))) - 24 + 120)))
write("npz-crc-stored.npz",
      archive(member("num_heads.npy", npy(dictionary("<i8", shape="()"), b"\4" + b"\0" * 7), crc=1)))
write("npz-crc-deflated.npz",
      archive(member("num_heads.npy", npy(dictionary("<i8", shape="()"), b"\4" + b"\0" * 7),
                     method=8, crc=1)))
write("npz-is-pytorch.npz", archive(member("model/data.pkl", b"\x80\2}q\0.")))

# --- safetensors -----------------------------------------------------------------------------------


def safetensors(header, data=b"\0" * 24, length=None):
    text = header if isinstance(header, str) else json.dumps(header)
    return struct.pack("<Q", len(text) if length is None else length) + text.encode() + data


def tensor(dtype="F32", shape=(2, 3), offsets=(0, 24)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


write("st-empty.safetensors", b"")
write("st-cut.safetensors", b"\1\0\0")
write("st-header-huge.safetensors", safetensors("{}", length=1 << 62))
write("st-header-beyond.safetensors", safetensors("{}", b"", length=1000))
write("st-header-no-object.safetensors", safetensors("[1]", b""))
write("st-header-open.safetensors", safetensors('{"X": {"dtype": "F32"', b""))
write("st-header-after.safetensors", safetensors("{} x", b""))
write("st-name-twice.safetensors",
      safetensors('{"X":%s,"X":%s}' % (json.dumps(tensor()), json.dumps(tensor()))))
write("st-key-twice.safetensors",
      safetensors('{"X":{"dtype":"F32","dtype":"F32","shape":[6],"data_offsets":[0,24]}}'))
write("st-key-missing.safetensors", safetensors('{"X":{"dtype":"F32","shape":[6]}}'))
write("st-key-unknown.safetensors",
      safetensors('{"X":{"dtype":"F32","shape":[6],"data_offsets":[0,24],"crc":1}}'))
write("st-dtype.safetensors", safetensors({"X": tensor("F8_E4M3", (24,))}))
write("st-shape-negative.safetensors", safetensors({"X": tensor(shape=(-2, 3))}))
write("st-shape-fraction.safetensors", safetensors({"X": tensor(shape=(2.5, 3))}))
write("st-shape-overflow.safetensors", safetensors({"X": tensor(shape=(1 << 33, 1 << 33))}))
write("st-shape-size.safetensors", safetensors({"X": tensor(shape=(2, 4))}))
write("st-offsets-beyond.safetensors", safetensors({"X": tensor(shape=(7,), offsets=(0, 28))}))
write("st-offsets-swapped.safetensors", safetensors({"X": tensor(offsets=(24, 0))}))
write("st-offsets-three.safetensors", safetensors({"X": tensor(offsets=(0, 12, 24))}))
write("st-hole.safetensors",
      safetensors({"X": tensor(shape=(2,), offsets=(0, 8)),
                   "Y": tensor(shape=(2,), offsets=(16, 24))}))
write("st-overlap.safetensors",
      safetensors({"X": tensor(shape=(4,), offsets=(0, 16)),
                   "Y": tensor(shape=(4,), offsets=(8, 24))}))
write("st-too-long.safetensors", safetensors({"X": tensor()}, b"\0" * 25))
write("st-metadata-number.safetensors",
      safetensors({"__metadata__": {"num_heads": 4}, "X": tensor()}))
write("st-name-no-utf8.safetensors",
      struct.pack("<Q", 8) + b'{"\xff":{}}'[:8] + b"\0" * 24)

# --- JSON ------------------------------------------------------------------------------------------

write("json-empty.json", "")
write("json-number.json", "42")
write("json-ragged.json", '{"X": [[1, 2, 3],\n      [4, 5]]}')
write("json-ragged-depth.json", '{"X": [[1, 2], 3]}')
write("json-ragged-deeper.json", '{"X": [1, [2]]}')
write("json-object-in-list.json", '{"X": [{"a": 1}]}')
write("json-text-in-numbers.json", '{"X": [[1, "two"]]}')
write("json-number-in-text.json", '{"tokens": ["the", 7]}')
write("json-bare-word.json", '{"X": [1, nil]}')
write("json-word-value.json", '{"causal": True}')
write("json-escape.json", r'{"tokens": ["a\q"]}')
write("json-escape-hex.json", r'{"tokens": ["\u12g4"]}')
write("json-surrogate.json", r'{"tokens": ["\ud83d"]}')
write("json-control.json", '{"tokens": ["a\nb"]}')
write("json-no-utf8.json", b'{"tokens": ["\xc3("]}')
write("json-string-open.json", '{"tokens": ["the')
write("json-list-open.json", '{"X": [[1, 2], [3, ')
write("json-object-open.json", '{"X": [1]')
write("json-comma.json", '{"X": [1, 2,]}')
write("json-no-colon.json", '{"X" [1, 2]}')
write("json-key-bare.json", "{X: [1, 2]}")
write("json-key-twice.json", '{"X": [1],\n "X": [2]}')
write("json-name-twice.json", '{"a": {"b": [1]}, "a.b": [2]}')
write("json-after.json", '{"X": [1]} {}')
write("json-leading-zero.json", '{"X": [01]}')
write("json-point.json", '{"X": [1.]}')
write("json-plus.json", '{"X": [+1]}')
write("json-beyond.json", '{"X": [1e999]}')
write("json-comment.json", '{"X": [1, /* two */ 2]}')
write("json-deep-list.json", "[" * 10_000)
write("json-deep-object.json", '{"a":' * 10_000)
write("json-shape.json", '{"X": {"shape": [2, 2], "dtype": "float32", "data": [1, 2, 3]}}')
write("json-shape-nested.json", '{"X": {"shape": [3, 2], "dtype": "float32", "data": [[1, 2, 3], [4, 5, 6]]}}')
write("json-shape-overflow.json",
      '{"X": {"shape": [4294967296, 4294967296], "dtype": "float32", "data": [1]}}')
write("json-shape-words.json", '{"X": {"shape": "2x3", "dtype": "float32", "data": [1, 2]}}')
write("json-dtype-control.json", '{"X": {"shape": [1], "dtype": "fl\\u001b[2Joat", "data": [1]}}')
write("json-dtype-endless.json", '{"X": {"shape": [1], "dtype": "%s", "data": [1]}}' % ("f" * 3900))
write("json-dtype.json", '{"X": {"shape": [1], "dtype": "float31", "data": [1]}}')
write("json-dtype-range.json", '{"X": {"shape": [2], "dtype": "int8", "data": [1, 300]}}')
write("json-dtype-whole.json", '{"X": {"shape": [2], "dtype": "int32", "data": [1, 2.5]}}')
write("json-dtype-half.json", '{"X": {"shape": [1], "dtype": "float16", "data": [70000]}}')
write("json-dtype-bool.json", '{"X": {"shape": [1], "dtype": "bool", "data": [2]}}')
write("json-utf16.json", '{"X": [1]}'.encode("utf-16"))

# --- other formats, folders ------------------------------------------------------------------------

write("other-torch.pt", archive(member("model/data.pkl", b"\x80\2}q\0.")))
write("other-torch.bin", b"\x80\2}q\0.")
write("other-raw.bin", b"\0" * 24)
write("other-pickle.pkl", pickle.dumps({"a": 1}, 2))
write("other-onnx.onnx", b"\x08\7\x12\4test")
write("other-gguf.gguf", b"GGUF\3\0\0\0")
write("other-hdf5.h5", b"\x89HDF\r\n\x1a\n")
write("other-gzip.npz", gzip.compress(WHOLE, mtime=0))
write("other-text.csv", "1,2\n3,4\n")
write("folder-nothing/notes.txt", "no arrays here\n")
write("folder-broken/W_q.npy", GOOD[:-1])
write("folder-shard-missing/model.safetensors.index.json",
      json.dumps({"weight_map": {"X": "model-00001-of-00002.safetensors",
                                 "Y": "model-00002-of-00002.safetensors"}}))
write("folder-shard-missing/model-00001-of-00002.safetensors", safetensors({"X": tensor()}))
write("folder-shard-lies/model.safetensors.index.json",
      json.dumps({"weight_map": {"Y": "model-00001-of-00001.safetensors"}}))
write("folder-shard-lies/model-00001-of-00001.safetensors", safetensors({"X": tensor()}))
write("folder-shard-outside/model.safetensors.index.json",
      json.dumps({"weight_map": {"X": "../st-empty.safetensors"}}))
write("folder-index-no-map/model.safetensors.index.json", '{"metadata": {}}')
write("folder-config/model.safetensors", safetensors({"X": tensor()}))
write("folder-config/config.json", '{"num_attention_heads": ')
write("folder-config-number/model.safetensors", safetensors({"X": tensor()}))
write("folder-config-number/config.json", '{"rope_theta": 1e999}')
write("folder-index-number/model.safetensors.index.json",
      '{"metadata": {"total_size": 1e400}, "weight_map": {}}')
write("folder-shard-name-long/model.safetensors.index.json",
      json.dumps({"weight_map": {"X": 60 * "shard" + ".safetensors"}}))
write("folder-shard-folder/model.safetensors.index.json", json.dumps({"weight_map": {"X": "."}}))
write("folder-several/a.safetensors", safetensors({"X": tensor()}))
write("folder-several/b.safetensors", safetensors({"X": tensor()}))
write("folder-torch/pytorch_model.bin", b"\x80\2}q\0.")
