#!/usr/bin/env python3
"""A port of one attention layer of data/shakespeare, in plain Python. It has a mistake.

    python3 data/port/port.py LAYER OUT.safetensors

writes every step that it takes, as float32, tokens first: what docs/debugging.md starts from.
"""
import json
import math
import struct
import sys
import zipfile

H, H_KV, D = 6, 2, 16  # query heads, key/value heads, width of one


def safetensors(path):
    data = open(path, "rb").read()
    (n,) = struct.unpack("<Q", data[:8])
    for name, entry in json.loads(data[8:8 + n]).items():
        if name != "__metadata__":
            first, last = entry["data_offsets"]
            yield name, entry["shape"], struct.unpack(f"<{(last - first) // 4}f", data[8 + n + first:8 + n + last])


def npz(path, name):
    data = zipfile.ZipFile(path).read(name + ".npy")
    start = 10 + struct.unpack("<H", data[8:10])[0]
    return struct.unpack(f"<{(len(data) - start) // 4}f", data[start:])


def rows(numbers, width):
    return [list(numbers[i:i + width]) for i in range(0, len(numbers), width)]


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def linear(x, weight):  # weight (out, in), as nn.Linear has it
    return [[dot(row, w) for w in weight] for row in x]


def heads(x):  # T, H·d → T, H, d
    return [rows(row, D) for row in x]


def rotate(x):
    out = []
    for t, token in enumerate(x):
        out.append([])
        for head in token:
            turned = list(head)
            for i in range(D // 2):
                angle = t * 10000.0 ** (-2 * i / D)
                a, b = 2 * i, 2 * i + 1  # the pair that turns
                turned[a] = head[a] * math.cos(angle) - head[b] * math.sin(angle)
                turned[b] = head[b] * math.cos(angle) + head[a] * math.sin(angle)
            out[-1].append(turned)
    return out


def softmax(row):
    largest = max(row)
    exp = [math.exp(x - largest) for x in row]
    return [x / sum(exp) for x in exp]


def attention(x, w):
    T = len(x)
    step = {}
    step["q"], step["k"], step["v"] = (heads(linear(x, w[n + "_proj"])) for n in "qkv")
    step["q_rope"], step["k_rope"] = rotate(step["q"]), rotate(step["k"])
    q, k, v = step["q_rope"], step["k_rope"], step["v"]
    step["kq"] = [[[dot(q[t][h], k[j][h * H_KV // H]) for j in range(T)] for t in range(T)] for h in range(H)]
    step["masked"] = [[[s / math.sqrt(D) if j <= t else -1e9 for j, s in enumerate(row)] for t, row in enumerate(head)]
                      for head in step["kq"]]
    step["probs"] = [[softmax(row) for row in head] for head in step["masked"]]
    step["z"] = [[[dot(step["probs"][h][t], [v[j][h * H_KV // H][i] for j in range(T)]) for i in range(D)]
                  for h in range(H)] for t in range(T)]
    step["out"] = linear([[x for head in token for x in head] for token in step["z"]], w["o_proj"])
    return step


def save(path, step):
    def shape(x):
        return [len(x)] + shape(x[0]) if isinstance(x, list) else []

    def flat(x):
        return [y for part in x for y in flat(part)] if isinstance(x, list) else [x]

    header, data = {}, b""
    for name, value in step.items():
        numbers = flat(value)
        header["attn." + name] = {"dtype": "F32", "shape": shape(value), "data_offsets": [len(data), len(data) + 4 * len(numbers)]}
        data += struct.pack(f"<{len(numbers)}f", *numbers)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + data)


layer, out = sys.argv[1:3]
weights = {name.split(".")[-2]: rows(numbers, shape[1])
           for name, shape, numbers in safetensors("data/shakespeare/model.safetensors")
           if name.startswith(f"model.layers.{layer}.self_attn.")}
save(out, attention(rows(npz("data/shakespeare/hidden.npz", f"layers.{layer}"), 96), weights))
