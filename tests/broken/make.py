#!/usr/bin/env python3
"""Writes the files with defects that lie in this folder: one defect a file, and nothing but the
standard library. What mha-inspect says about each is in messages.txt."""

import gzip
import io
import json
import os
import pickle
import struct
import zipfile
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
write("st-dtype.safetensors", safetensors({"X": tensor("F8_E8M0", (24,))}))
write("st-shape-negative.safetensors", safetensors({"X": tensor(shape=(-2, 3))}))
write("st-shape-fraction.safetensors", safetensors({"X": tensor(shape=(2.5, 3))}))
write("st-shape-overflow.safetensors", safetensors({"X": tensor(shape=(1 << 33, 1 << 33))}))
write("st-shape-size.safetensors", safetensors({"X": tensor(shape=(2, 4))}))
write("st-offsets-beyond.safetensors", safetensors({"X": tensor(shape=(7,), offsets=(0, 28))}))
write("st-offsets-swapped.safetensors", safetensors({"X": tensor(offsets=(24, 0))}))
write("st-offsets-three.safetensors", safetensors({"X": tensor(offsets=(0, 12, 24))}))
write("st-offsets-many.safetensors", safetensors({"X": tensor(offsets=(0,) * 33)}))
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

# --- onnx --------------------------------------------------------------------------------------------


def varint(number):
    number &= 2 ** 64 - 1
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def onnx_field(number, value):
    """A varint, or text, bytes or a message behind its length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def onnx_tensor(*shape, kind=1, name=b"W", data=None, typed=None, field=4, beside=None):
    out = b"".join(onnx_field(1, n) for n in shape) + onnx_field(2, kind) + onnx_field(8, name)
    if data is not None:
        out += onnx_field(9, data)
    if typed is not None:
        out += onnx_field(field, typed)
    if beside is not None:
        for key, value in beside.items():
            out += onnx_field(13, onnx_field(1, key.encode()) + onnx_field(2, value.encode()))
        out += onnx_field(14, 1)
    return out


def onnx(*tensors, nodes=(), more=b""):
    graph = b"".join(onnx_field(1, n) for n in nodes) + b"".join(onnx_field(5, t) for t in tensors)
    return onnx_field(1, 8) + onnx_field(7, graph + more) + onnx_field(8, onnx_field(2, 17))


def onnx_nested(depth):
    graph = b""
    for _ in range(depth):
        body = onnx_field(1, b"then_branch") + onnx_field(6, graph)
        graph = onnx_field(1, onnx_field(4, b"If") + onnx_field(5, body))
    return onnx_field(1, 8) + onnx_field(7, graph)


def onnx_calls(depth):
    """Each function calls the next one eight times."""
    functions = b""
    for i in range(depth):
        call = onnx_field(7, onnx_field(4, b"f%d" % (i + 1)) + onnx_field(7, b"d"))
        functions += onnx_field(25, onnx_field(1, b"f%d" % i) + 8 * call + onnx_field(10, b"d"))
    call = onnx_field(1, onnx_field(4, b"f0") + onnx_field(7, b"d"))
    return onnx_field(1, 8) + onnx_field(7, call) + functions


TWO = struct.pack("<2f", 1, 2)
write("onnx-no-graph.onnx", onnx_field(1, 8) + onnx_field(2, b"nothing"))
write("onnx-two-graphs.onnx", onnx() + onnx_field(7, b""))
write("onnx-is-json.onnx", '{"X": [1]}')
write("onnx-cut.onnx", onnx(onnx_tensor(2, data=TWO))[:-9])
write("onnx-varint.onnx", onnx_field(1, 8) + b"\x3a" + b"\xff" * 12)
write("onnx-varint-cut.onnx", onnx_field(1, 8) + b"\x3a\xff")
write("onnx-field-zero.onnx", onnx_field(1, 8) + b"\x02\x00")
write("onnx-wire-type.onnx", onnx_field(1, 8) + b"\x3b")
write("onnx-graph-number.onnx", onnx_field(1, 8) + onnx_field(7, 5))
write("onnx-deep.onnx", onnx_nested(40))
write("onnx-calls.onnx", onnx_calls(12))
write("onnx-name-no-utf8.onnx", onnx(onnx_tensor(2, data=TWO, name=b"W\xff")))
write("onnx-name-twice.onnx", onnx(onnx_tensor(2, data=TWO), onnx_tensor(2, data=TWO)))
write("onnx-node-nothing.onnx", onnx(nodes=[onnx_field(3, b"n")]))
write("onnx-attribute-nothing.onnx", onnx(nodes=[onnx_field(4, b"Add") + onnx_field(5, b"")]))
write("onnx-type-none.onnx", onnx(onnx_tensor(2, kind=0, data=TWO)))
write("onnx-type-unknown.onnx", onnx(onnx_tensor(2, kind=99, data=TWO)))
write("onnx-shape-negative.onnx", onnx(onnx_tensor(-2, data=TWO)))
write("onnx-shape-overflow.onnx", onnx(onnx_tensor(2 ** 40, 2 ** 40, data=TWO)))
write("onnx-shape-endless.onnx", onnx(onnx_tensor(2 ** 40, data=TWO)))
write("onnx-shape-nothing.onnx", onnx(onnx_tensor(2 ** 40, 0, data=b"")))
write("onnx-axes.onnx", onnx(onnx_tensor(*[1] * 40, data=TWO[:4])))
write("onnx-raw-short.onnx", onnx(onnx_tensor(3, data=TWO)))
write("onnx-numbers-missing.onnx", onnx(onnx_tensor(2)))
write("onnx-numbers-twice.onnx", onnx(onnx_tensor(2, data=TWO, typed=TWO)))
write("onnx-typed-field.onnx", onnx(onnx_tensor(2, typed=b"\1\2", field=7)))
write("onnx-typed-short.onnx", onnx(onnx_tensor(3, typed=TWO)))
write("onnx-typed-odd.onnx", onnx(onnx_tensor(2, typed=TWO[:7])))
write("onnx-typed-range.onnx", onnx(onnx_tensor(2, kind=3, typed=b"\1" + varint(300), field=5)))
write("onnx-typed-bool.onnx", onnx(onnx_tensor(1, kind=9, typed=b"\2", field=5)))
write("onnx-segment.onnx", onnx(onnx_tensor(2, typed=b"", field=3)))
write("onnx-beside-missing.onnx", onnx(onnx_tensor(2, beside={"location": "onnx-nowhere.data"})))
write("onnx-beside-outside.onnx", onnx(onnx_tensor(2, beside={"location": "../make.py"})))
write("onnx-beside-absolute.onnx", onnx(onnx_tensor(2, beside={"location": "/etc/passwd"})))
write("onnx-beside-nowhere.onnx", onnx(onnx_tensor(2, beside={"offset": "0"})))
write("onnx-beside-short.onnx", onnx(onnx_tensor(2, beside={"location": "onnx-cut.onnx", "offset": "30"})))
write("onnx-beside-length.onnx", onnx(onnx_tensor(2, beside={"location": "onnx-cut.onnx", "length": "4"})))
write("onnx-beside-offset.onnx", onnx(onnx_tensor(2, beside={"location": "onnx-cut.onnx", "offset": "-1"})))
write("onnx-beside-folder.onnx", onnx(onnx_tensor(2, beside={"location": "layers"})))
for op in ("MatMulNBits", "QLinearMatMul", "QAttention"):
    write(f"onnx-{op}.onnx", onnx(nodes=[onnx_field(3, b"/h.0/q") + onnx_field(4, op.encode())]))

# --- gguf --------------------------------------------------------------------------------------------


def gguf_text(text):
    return struct.pack("<Q", len(text)) + text


def gguf_key(name, kind, data):
    return gguf_text(name) + struct.pack("<I", kind) + data


def gguf_u32(name, number):
    return gguf_key(name, 4, struct.pack("<I", number))


def gguf_tensor(name=b"a", shape=(2,), kind=0, place=0):
    """shape as the file has it: the fastest axis first"""
    return gguf_text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape) + \
        struct.pack("<IQ", kind, place)


def gguf(keys=(), tensors=(), data=b"", version=3, counts=None):
    header = b"GGUF" + struct.pack("<I", version)
    header += struct.pack("<QQ", *(counts or (len(tensors), len(keys)))) + b"".join(keys) + b"".join(tensors)
    return header + b"\0" * (-len(header) % 32) + data


LLAMA = gguf_key(b"general.architecture", 8, gguf_text(b"llama"))
SHARDS = gguf_u32(b"split.count", 2)
write("gguf-start-only.gguf", b"GGUF")
write("gguf-is-json.gguf", '{"X": [1]}')
write("gguf-version-1.gguf", gguf(version=1))
write("gguf-version-9.gguf", gguf(version=9))
write("gguf-big-endian.gguf", b"GGUF" + struct.pack(">IQQ", 3, 0, 0))
write("gguf-counts.gguf", gguf(counts=(2 ** 40, 0)))
write("gguf-keys-claimed.gguf", gguf(counts=(0, 2 ** 63)))
write("gguf-key-beyond.gguf", gguf([struct.pack("<Q", 2 ** 60) + b"abcdefgh"]))
write("gguf-key-no-utf8.gguf", gguf([gguf_u32(b"a\xff", 1)]))
write("gguf-key-control.gguf", gguf([gguf_key(b"a\x1b[2J", 77, b"")]))
write("gguf-key-twice.gguf", gguf([gguf_u32(b"a", 1), gguf_u32(b"a", 2)]))
write("gguf-value-type.gguf", gguf([gguf_key(b"a", 13, b"\0" * 8)]))
write("gguf-value-bool.gguf", gguf([gguf_key(b"a", 7, b"\2")]))
write("gguf-value-beyond.gguf", gguf([gguf_key(b"a", 8, struct.pack("<Q", 2 ** 64 - 8))]))
write("gguf-array-beyond.gguf", gguf([gguf_key(b"a", 9, struct.pack("<IQ", 6, 2 ** 62))]))
write("gguf-array-of-text.gguf", gguf([gguf_key(b"a", 9, struct.pack("<IQ", 8, 2 ** 40))]))
write("gguf-array-nested.gguf", gguf([gguf_key(b"a", 9, 20 * struct.pack("<IQ", 9, 1))]))
write("gguf-alignment.gguf", gguf([gguf_u32(b"general.alignment", 12)], [gguf_tensor()], b"\0" * 8))
write("gguf-alignment-text.gguf", gguf([gguf_key(b"general.alignment", 8, gguf_text(b"32"))]))
write("gguf-name-no-utf8.gguf", gguf([], [gguf_tensor(b"\xff")], b"\0" * 8))
write("gguf-name-twice.gguf", gguf([], [gguf_tensor(), gguf_tensor(place=32)], b"\0" * 64))
write("gguf-axes.gguf", gguf([], [gguf_tensor(shape=(1, 1, 1, 1, 1))], b"\0" * 8))
write("gguf-type-unknown.gguf", gguf([], [gguf_tensor(kind=99)], b"\0" * 8))
write("gguf-type-iq4.gguf", gguf([], [gguf_tensor(b"blk.0.ffn_up.weight", (256, 1), 23)], b"\0" * 256))
write("gguf-type-gone.gguf", gguf([], [gguf_tensor(kind=4, shape=(32,))], b"\0" * 64))
write("gguf-rows.gguf", gguf([], [gguf_tensor(shape=(48, 2), kind=8)], b"\0" * 102))
write("gguf-scalar-in-blocks.gguf", gguf([], [gguf_tensor(shape=(), kind=12)], b"\0" * 144))
write("gguf-shape-overflow.gguf", gguf([], [gguf_tensor(shape=(2 ** 40, 2 ** 40))], b"\0" * 8))
write("gguf-shape-nothing.gguf", gguf([], [gguf_tensor(shape=(0, 2 ** 60))]))
write("gguf-cut.gguf", gguf([], [gguf_tensor(shape=(3,))], b"\0" * 8))
write("gguf-offset.gguf", gguf([], [gguf_tensor(place=8)], b"\0" * 16))
write("gguf-offset-beyond.gguf", gguf([], [gguf_tensor(place=2 ** 64 - 32)], b"\0" * 16))
write("gguf-overlap.gguf", gguf([], [gguf_tensor(shape=(16,)), gguf_tensor(b"b", place=32)], b"\0" * 64))
write("gguf-heads-missing.gguf", gguf([LLAMA], [gguf_tensor(b"blk.0.attn_q.weight", (4, 4))], b"\0" * 64))
write("gguf-heads-odd.gguf", gguf([LLAMA, gguf_u32(b"llama.attention.head_count", 4)],
                                  [gguf_tensor(b"blk.0.attn_q.weight", (4, 4))], b"\0" * 64))
write("gguf-layers-endless.gguf",
      gguf([LLAMA, gguf_key(b"llama.feed_forward_length", 9, struct.pack("<IQ", 0, 5000) + b"\1" * 5000)]))
write("gguf-two-as-one.gguf", gguf([LLAMA], [gguf_tensor(b"token_embd.weight"),
                                             gguf_tensor(b"model.embed_tokens.weight", place=32)], b"\0" * 64))
write("gguf-shard-named-otherwise.gguf", gguf([SHARDS]))
write("gguf-shard-00001-of-00002.gguf", gguf([SHARDS, gguf_key(b"split.no", 2, b"\0\0")]))
write("gguf-shards-lie-00001-of-00002.gguf", gguf([SHARDS, gguf_key(b"split.no", 2, b"\0\0")]))
write("gguf-shards-lie-00002-of-00002.gguf", gguf([SHARDS, gguf_key(b"split.no", 2, b"\0\0")]))
write("gguf-shards-zero.gguf", gguf([gguf_u32(b"split.count", 0)]))

# --- PyTorch, pickles ------------------------------------------------------------------------------


def p_text(text):
    return b"X" + struct.pack("<I", len(text.encode())) + text.encode()


def p_int(value):
    return b"\x8a\x08" + struct.pack("<q", value)


def p_tuple(*values):
    return b"(" + b"".join(values) + b"t"


def p_ints(values):
    return p_tuple(*map(p_int, values))


def p_name(module, name):
    return ("c%s\n%s\n" % (module, name)).encode()


def p_call(module, name, *values):
    return p_name(module, name) + p_tuple(*values) + b"R"


def p_dict(**values):
    return b"}(" + b"".join(p_text(key.replace("__", ".")) + value for key, value in values.items()) + b"u"


def p_pickle(value):
    return b"\x80\2" + value + b"."


def storage(key="0", name="FloatStorage", count=6, old=False, view=b"N", module="torch"):
    return p_tuple(p_text("storage"), p_name(module, name), p_text(key), p_text("cpu"), p_int(count),
                   *([view] if old else [])) + b"Q"


def torch_tensor(of, offset=0, size=(2, 3), stride=(3, 1), metadata=b""):
    return p_call("torch._utils", "_rebuild_tensor_v2", of, p_int(offset), p_ints(size), p_ints(stride), b"\x89",
                  p_call("collections", "OrderedDict"), *([metadata] if metadata else []))


def torch_archive(value, data=b"\0" * 24, *more, top="model"):
    return archive(member(top + "/data.pkl", p_pickle(value)), member(top + "/data/0", data), *more)


def old_torch(value, keys=b"](" + p_text("0") + b"e", data=struct.pack("<q", 6) + b"\0" * 24,
              mark=b"\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19", protocol=1001):
    return b"".join(map(p_pickle, (mark, p_int(protocol), b"}", value, keys))) + data


ROW = storage()
OLD = torch_tensor(storage(old=True))
write("pt-no-storage.pt", torch_archive(p_dict(X=torch_tensor(storage("1")))))
write("pt-storage-size.pt", torch_archive(p_dict(X=torch_tensor(storage(count=7)))))
write("pt-storage-huge.pt", torch_archive(p_dict(X=torch_tensor(storage(count=1 << 62)))))
write("pt-storage-negative.pt", torch_archive(p_dict(X=torch_tensor(storage(count=-6)))))
write("pt-storage-types.pt", torch_archive(p_dict(X=torch_tensor(ROW), Y=torch_tensor(storage(name="IntStorage")))))
write("pt-storage-unknown.pt", torch_archive(p_dict(X=torch_tensor(storage(name="Float8_e4m3fnStorage")))))
write("pt-quantised.pt", torch_archive(p_dict(X=torch_tensor(storage(name="QInt8Storage")))))
write("pt-view-beyond.pt", torch_archive(p_dict(X=torch_tensor(ROW, 1))))
write("pt-offset-huge.pt", torch_archive(p_dict(X=torch_tensor(ROW, (1 << 63) - 1))))
write("pt-offset-negative.pt", torch_archive(p_dict(X=torch_tensor(ROW, -1))))
write("pt-stride-negative.pt", torch_archive(p_dict(X=torch_tensor(ROW, 5, stride=(-3, -1)))))
write("pt-stride-huge.pt", torch_archive(p_dict(X=torch_tensor(ROW, 0, (3, 3), (1 << 62, 1 << 62)))))
write("pt-strides-fewer.pt", torch_archive(p_dict(X=torch_tensor(ROW, stride=(1,)))))
write("pt-expanded.pt", torch_archive(p_dict(X=torch_tensor(ROW, size=(1 << 20, 6), stride=(0, 1)))))
write("pt-axes.pt", torch_archive(p_dict(X=torch_tensor(ROW, size=[1] * 40, stride=[1] * 40))))
write("pt-shape-huge.pt", torch_archive(p_dict(X=torch_tensor(ROW, size=[1 << 40] * 3, stride=[0] * 3))))
write("pt-negated.pt", torch_archive(p_dict(X=torch_tensor(ROW, metadata=p_dict(neg=b"\x88")))))
write("pt-untyped.pt", torch_archive(p_dict(X=torch_tensor(storage(name="UntypedStorage", module="torch.storage", count=24)))))
write("pt-name-twice.pt", torch_archive(p_dict(a=p_dict(b=torch_tensor(ROW)), a__b=torch_tensor(ROW))))
write("pt-calls.pt", torch_archive(p_dict(X=p_call("os", "system", p_text("true")))))
write("pt-no-arguments.pt", torch_archive(p_dict(X=p_call("torch._utils", "_rebuild_tensor_v2", ROW))))
write("pt-persistent.pt", torch_archive(p_dict(X=p_tuple(p_text("file"), p_text("/etc/passwd")) + b"Q")))
write("pt-byteorder.pt", torch_archive(p_dict(X=torch_tensor(ROW)), b"\0" * 24, member("model/byteorder", b"middle")))
write("pt-two-models.pt", torch_archive(b"}", b"", member("other/data.pkl", b"N.")))
write("pt-twice.pt", torch_archive(b"}", b"", member("model/data/0", b"")))
write("pt-pickle-cut.pt", archive(member("model/data.pkl", b"\x80\2}X")))
write("pt-is-npz.pt", WHOLE)
SCRIPT = member("m/data.pkl", p_pickle(b"}"))
write("pt-script-constant.pt", archive(SCRIPT, member("m/constants.pkl", p_pickle(p_tuple(torch_tensor(ROW))))))
write("pt-script-constants-cut.pt", archive(SCRIPT, member("m/constants.pkl", b"\x80\2(")))
write("pt-script-calls.pt", archive(SCRIPT, member("m/constants.pkl", p_pickle(p_tuple(p_call("os", "system", p_text("true")))))))
write("pt-script-no-data.pt", archive(member("m/constants.pkl", p_pickle(b")"))))
write("pt-tar.pt", b"storages".ljust(257, b"\0") + b"ustar".ljust(300, b"\0"))
write("old-protocol.pt", old_torch(p_dict(X=OLD), protocol=1002))
write("old-cut.pt", old_torch(p_dict(X=OLD))[:-1])
write("old-no-storage.pt", old_torch(p_dict(X=OLD), data=b""))
write("old-count.pt", old_torch(p_dict(X=OLD), data=struct.pack("<q", 5) + b"\0" * 24))
write("old-key-unknown.pt", old_torch(p_dict(X=OLD), keys=b"](" + p_text("7") + b"e"))
write("old-key-missing.pt", old_torch(p_dict(X=OLD), keys=b"]", data=b""))
write("old-key-twice.pt", old_torch(p_dict(X=OLD), keys=b"](" + p_text("0") * 2 + b"e"))
write("old-after.pt", old_torch(p_dict(X=OLD)) + b"\0")
write("old-said-twice.pt", old_torch(p_dict(X=OLD, Y=torch_tensor(storage(count=5, old=True)))))
write("old-view.pt", old_torch(p_dict(X=torch_tensor(storage(old=True, view=p_tuple(p_text("1"), p_int(4), p_int(3)))))))


def p_array(descr="f4", order="<", shape=(2, 3), data=b"C\x18" + b"\0" * 24, fields=b"N"):
    made = p_call("numpy.core.multiarray", "_reconstruct", p_name("numpy", "ndarray"), p_ints([0]), b"U\1b")
    dtype = p_call("numpy", "dtype", p_text(descr), b"\x89", b"\x88")
    dtype += p_tuple(p_int(3), p_text(order), b"N", fields, b"N", p_int(-1), p_int(-1), p_int(0)) + b"b"
    return made + p_tuple(p_int(1), p_ints(shape), dtype, b"\x89", data) + b"b"


LATIN = p_name("_codecs", "encode") + p_tuple(p_text("\0\0\u20ac\0"), p_text("latin1")) + b"R"
write("pkl-calls.pkl", p_pickle(p_dict(X=p_array(), y=p_call("builtins", "eval", p_text("1")))))
write("pkl-array-size.pkl", p_pickle(p_dict(X=p_array(shape=(2, 4)))))
write("pkl-array-shape.pkl", p_pickle(p_dict(X=p_array(shape=(2, -3)))))
write("pkl-array-state.pkl", p_pickle(p_dict(X=p_array()[:-1] + b"0")))
write("pkl-array-objects.pkl", p_pickle(p_dict(X=p_array("O8", "|", (1,), b"]Na"))))
write("pkl-array-fields.pkl", p_pickle(p_dict(X=p_array("V8", "|", (3,), fields=p_tuple(p_text("a"))))))
write("pkl-array-complex.pkl", p_pickle(p_dict(X=p_array("c8", "<", (3,)))))
write("pkl-array-latin.pkl", p_pickle(p_dict(X=p_array(shape=(1,), data=LATIN))))
write("pkl-storage.pkl", p_pickle(p_dict(X=torch_tensor(ROW))))
write("pkl-load-from-bytes.pkl", p_pickle(p_dict(X=p_call("torch.storage", "_load_from_bytes", b"C\1."))))
write("pkl-cut.pkl", p_pickle(p_dict(X=p_array()))[:-40])
write("pkl-after.pkl", p_pickle(p_dict(X=p_array())) + b"N.")
write("pkl-memo.pkl", b"\x80\2j\xff\xff\xff\xff.")
write("pkl-protocol.pkl", b"\x80\7N.")
write("pkl-text-protocol.pkl", b"(dp0\nS'a'\np1\ncos\nsystem\n(S'true'\ntRs.")
write("pkl-is-json.pkl", '{"X": [1]}')

# --- other formats, folders ------------------------------------------------------------------------

write("other-raw.bin", b"\0" * 24)
write("other-onnx.onnx", b"\x08\7\x12\4test")
write("other-gguf.gguf", b"GGUF\3\0\0\0")
write("other-hdf5.h5", b"\x89HDF\r\n\x1a\n")
write("other-flax.msgpack", b"\x81\xa6params\x80")
write("other-tensorflow.ckpt.index", b"\0" * 40 + bytes.fromhex("57fb808b247547db"))
write("other-tensorflow.ckpt.data-00000-of-00001", b"\0" * 16)
write("folder-flax/config.json", "{}")
write("folder-flax/flax_model.msgpack", b"\x81\xa6params\x80")
archive = io.BytesIO()
with zipfile.ZipFile(archive, "w") as file:
    file.writestr(zipfile.ZipInfo("model.weights.h5"), b"\x89HDF\r\n\x1a\n")
write("other-keras.keras", archive.getvalue())
write("other-gzip.npz", gzip.compress(WHOLE, mtime=0))
write("other-matlab.mat", "MATLAB 5.0 MAT-file, Platform: GLNXA64".ljust(128) + "\0" * 16)
write("other-matlab-7.mat", "MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(512) + "\0" * 16)
for name, member in ("other-excel.xlsx", "xl/workbook.xml"), ("other-calc.ods", "content.xml"):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr(zipfile.ZipInfo(member), b"<a/>")
    write(name, archive.getvalue())
write("other-text.csv", "1,2\n3,4\n")
write("other-page.pt", "<!DOCTYPE html>\n<html><body>404 Not Found</body></html>\n")
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
write("folder-several-torch/a.bin", b"\x80\2}.")
write("folder-several-torch/b.bin", b"\x80\2}.")
write("folder-shard-torch/pytorch_model.bin.index.json", json.dumps({"weight_map": {"X": "a.bin"}}))
write("folder-shard-torch/a.bin", b"\x80\2}.")

# --- Text ------------------------------------------------------------------------------------------

write("text-nothing.csv", "# no numbers\n\n")
write("text-blank.csv", ",,\n,,\n")
write("text-ragged.csv", "1.5,2.5\n3.5\n")
write("text-word.csv", "1.5,2.5\n3.5,abc\n4.5,5.5\n")
write("text-word-in-header.csv", "1.5,2.5,x\n3.5,4.5,5.5\n")
write("text-word-first.csv", "1.5,2.5\n1.5.5,2.5\n")
write("text-page-rows-differ.txt", "W(:,:,1) =\n\n 1.5 2.5\n\nW(:,:,2) =\n\n 3.5 4.5\n 5.5 6.5\n")
write("text-truth.csv", "true,false\n1,0\n")
write("text-field-empty.csv", "1.5,2.5,3.5\n4.5,,5.5\n")
write("text-commas-and-points.csv", "1,5;2.5\n3,5;4,5\n")
write("text-commas-in-some-lines.csv", "1,5\n2\n3,25\n")
write("text-quote-open.csv", 'a,"b\n1.5,2.5\n')
write("text-quote-after.csv", '"a"b,c\n1.5,2.5\n')
write("text-header-short.csv", "a,b\n1.5,2.5,3.5,4.5\n")
write("text-matrices.csv", "1.5,2.5\n\n3.5,4.5\n5.5,6.5\n")
write("text-no-utf8.csv", b"1.5,2.5\n\xe9,4.5\n")
write("text-beyond.csv", "1e999,2\n")
write("text-control.csv", "1.5,2\x1b[2J\n")
write("text-zero.csv", "1.5,2.5\n\0\n")
write("text-dots.txt", "[[0.5 1.5 ... 2.5]\n [3.5 4.5 ... 5.5]]\n")
write("text-dots-torch.txt", "tensor([[0.5000, 1.5000],\n        ...,\n        [2.5000, 3.5000]])\n")
write("text-dots-julia.txt", "2×9 Matrix{Float64}:\n 0.5  …  1.5\n 2.5  …  3.5\n")
write("text-list-ragged.txt", "[[1.5 2.5]\n [3.5]]\n")
write("text-list-open.txt", "[[1.5 2.5]\n [3.5 4.5]\n")
write("text-list-depth.txt", "[[1.5 2.5]\n 3.5]\n")
write("text-list-shallow.txt", "[[[]], [1.5]]\n")
write("text-list-deep.txt", "[" * 40 + "1." + "]" * 40)
write("text-list-word.txt", "[[1.5 2.5]\n [3.5 1.+2.j]]\n")
write("text-list-comma.txt", "[1.5, , 2.5]\n")
write("text-list-pages.txt", "[1.5 2.5;;; 3.5 4.5]\n")
write("text-list-after.txt", "[1] 1.5 2.5\n[3] 3.5\n")
write("text-name-twice.txt", "W = tensor([1.5])\nW = tensor([2.5])\n")
write("text-page-missing.txt", "W(:,:,1) =\n\n 1.5 2.5\n\nW(:,:,3) =\n\n 3.5 4.5\n")
write("text-page-twice.txt", "W(:,:,1) =\n\n 1.5 2.5\n\nW(:,:,1) =\n\n 3.5 4.5\n")
write("text-page-endless.txt", "W(:,:,2000000000) =\n\n 1.5 2.5\n")
write("text-page-factors.txt", "W(:,:,1) =\n\n 1.0e+03 *\n\n 1.5 2.5\n\nW(:,:,2) =\n\n 3.5 4.5\n")
write("text-page-rows.txt", "W =\n\n 1.5 2.5\n 3.5\n")
write("text-page-word.txt", "W =\n\n 1.5 2.5i\n")
write("text-columns-longer.txt", "W =\n\n Columns 1 through 2\n\n 1.5 2.5\n\n Column 3\n\n 3.5\n 4.5\n")
LONG = "layer,stage,batch,head,row,col,value\n"
write("text-long-place.csv", LONG + "0,weights,,0,0,-1,0.5\n")
write("text-long-word.csv", LONG + "0,weights,,0,0,0,half\n")
write("text-long-fields.csv", LONG + "0,weights,,0,0,0.5\n")
write("text-long-missing.csv", LONG + "0,weights,,0,0,0,0.5\n0,weights,,0,1,1,0.5\n")
write("text-long-twice.csv", LONG + "0,weights,,0,0,0,0.5\n0,weights,,0,0,0,0.5\n")
write("text-long-axis.csv", LONG + "0,weights,,0,0,0,0.5\n0,weights,,0,0,,0.5\n")
write("text-long-again.csv", LONG + "0,q,,0,0,0,0.5\n0,k,,0,0,0,0.5\n0,q,,0,0,1,0.5\n")
write("text-long-sparse.csv", LONG + "".join("0,weights,,0,%d,%d,0.5\n" % (i, i) for i in range(99)))
write("text-long-nothing.csv", LONG)
write("text-rows-no-values.ndjson", '{"layer":0,"stage":"weights","row":0}\n')
write("text-rows-word.ndjson", '{"layer":0,"stage":"weights","row":0,"values":["half"]}\n')
write("text-rows-member.ndjson", '{"layer":0,"stage":"weights","row":0,"value":[0.5]}\n')
write("text-rows-open.ndjson", '{"layer":0,"stage":"weights","row":0,"values":[0.5]\n')
DEBUG = "ggml_debug: Qcur-0 = (f32) MUL_MAT(a{8, 2, 1, 1}, b{8, 2, 1, 1}}) = {%s}\n"
write("text-callback-few.log", DEBUG % "8, 1, 1, 1" + "[\n[\n[ 0.1000, 0.2000, ..., 0.3000],\n],\n]\n")
write("text-callback-many.log", DEBUG % "2, 1, 1, 1" + "[\n[\n[ 0.1000, 0.2000, 0.3000],\n],\n]\n")
write("text-callback-huge.log", DEBUG % "4000000000, 1, 1, 1" + "[[[0.1, 0.2, 0.3, ..., 0.4, 0.5, 0.6],],]\n")
write("text-callback-nothing.log", DEBUG % "8, 2, 1, 1")
