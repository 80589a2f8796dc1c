#!/usr/bin/env python3
"""Writes ONNX models and what they compute: the protobuf by hand, the numbers in NumPy's float64.

    /usr/bin/python3 tests/models/onnx.py cases
    /usr/bin/python3 tests/models/onnx.py case NAME OUT.onnx X.npy EXPECTED.npz
    /usr/bin/python3 tests/models/onnx.py types OUT.onnx EXPECTED.npz
    /usr/bin/python3 tests/models/onnx.py sparse OUT.onnx BYTES
    /usr/bin/python3 tests/models/onnx.py runtime FOLDER
    /usr/bin/python3 tests/models/onnx.py tiny OUT.onnx

A case is one attention layer as an exporter or an operator says it. EXPECTED has the weights and the
output of its X, and X_kv where keys and values have an input of their own. `types` writes a tensor of every
type in every field that may hold it; `sparse` a model whose external data are BYTES long and empty.
"""
import json
import os
import struct
import sys

import numpy as np

FLOAT, INT64 = 1, 7
CODES = {"float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9,
         "float16": 10, "float64": 11, "uint32": 12, "uint64": 13}


def varint(number):
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out) + bytes([number])


def field(number, value):
    """Integers as varints; floats as four bytes; text, bytes and messages behind their length."""
    if isinstance(value, (int, np.integer)):
        return varint(number << 3) + varint(int(value))
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    data = value.encode() if isinstance(value, str) else bytes(value)
    return varint(number << 3 | 2) + varint(len(data)) + data


def tensor(name, array, raw=True, packed=True):
    array = np.asarray(array)
    code = CODES[str(array.dtype)]
    head = b"".join(field(1, n) for n in array.shape) + field(2, code) + field(8, name)
    if raw:
        return head + field(9, array.tobytes())
    flat = array.reshape(-1)
    if code in (1, 11):
        return head + field(4 if code == 1 else 10, flat.tobytes())
    number = {7: 7, 12: 11, 13: 11}.get(code, 5)
    numbers = [int(n) for n in (flat.view(np.uint16) if code == 10 else flat)]
    if packed:
        return head + field(number, b"".join(varint(n) for n in numbers))
    return head + b"".join(field(number, n) for n in numbers)


def attribute(name, value):
    if isinstance(value, bytes) and value[:6] == b"GRAPH:":
        return field(1, name) + field(6, value[6:]) + field(20, 5)
    if isinstance(value, np.ndarray):
        return field(1, name) + field(5, tensor("", value)) + field(20, 4)
    if isinstance(value, (list, tuple)):
        return field(1, name) + b"".join(field(8, v) for v in value) + field(20, 7)
    if isinstance(value, float):
        return field(1, name) + field(2, value) + field(20, 1)
    if isinstance(value, str):
        return field(1, name) + field(4, value) + field(20, 3)
    return field(1, name) + field(3, value) + field(20, 2)


def value_info(name, shape, code=FLOAT):
    axes = b"".join(field(1, field(2, n) if isinstance(n, str) else field(1, n)) for n in shape)
    return field(1, name) + field(2, field(1, field(1, code) + field(2, axes)))


class Graph:
    """Nodes in their order; every call of an operator returns the name of its output."""

    def __init__(self, dtype, path=""):
        self.dtype, self.path = dtype, path
        self.nodes, self.initializers, self.inputs, self.outputs, self.count = [], [], [], [], 0
        self.last, self.weights = "", ""  # the results of the last node, and of the Softmax

    def constant(self, array, name=None, node=False, **how):
        array = np.asarray(array)
        if array.dtype == np.float64 and self.dtype != np.float64:
            array = array.astype(self.dtype)
        self.count += 1
        name = name or f"onnx::Thing_{self.count}"
        if node:
            self.nodes.append(field(2, name) + field(4, "Constant") + field(5, attribute("value", array)))
        else:
            self.initializers.append(tensor(name, array, **how))
        return name

    def __call__(self, op, *inputs, outputs=1, domain="", name=None, **attributes):
        self.count += 1
        name = name or f"{self.path}/{op}_{self.count}"
        names = [f"{name}_out{i}" for i in range(outputs)]
        wired = [x if isinstance(x, str) else self.constant(x) for x in inputs]
        self.nodes.append(b"".join(field(1, x) for x in wired) + b"".join(field(2, x) for x in names) +
                          field(3, name) + field(4, op) +
                          b"".join(field(5, attribute(k, v)) for k, v in attributes.items()) +
                          (field(7, domain) if domain else b""))
        self.last = names[0]
        if op == "Softmax":
            self.weights = names[0]
        return names[0] if outputs == 1 else names

    def bytes(self):
        return (b"".join(field(1, n) for n in self.nodes) + field(2, "graph") +
                b"".join(field(5, t) for t in self.initializers) +
                b"".join(field(11, i) for i in self.inputs) + b"".join(field(12, o) for o in self.outputs))


def model(graph, opset=17, extra=b""):
    return (field(1, 8) + field(2, "by hand") + field(3, "1") + field(7, graph.bytes()) +
            field(8, field(2, opset)) + field(8, field(1, "com.microsoft") + field(2, 1)) + extra)


# --- the numbers ------------------------------------------------------------------------------------


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def split(x, heads):
    return x.reshape(x.shape[0], heads, -1).transpose(1, 0, 2)


def rotate(x, base, dims, neighbours=False):
    T, half = x.shape[1], dims // 2
    angle = np.arange(T)[:, None] * base ** (-np.arange(half) * 2 / dims)[None]
    c, s = np.cos(angle), np.sin(angle)
    y = x.copy()
    a, b = (x[..., 0:dims:2], x[..., 1:dims:2]) if neighbours else (x[..., :half], x[..., half:dims])
    if neighbours:
        y[..., 0:dims:2], y[..., 1:dims:2] = a * c - b * s, a * s + b * c
    else:
        y[..., :half], y[..., half:dims] = a * c - b * s, a * s + b * c
    return y


def attend(q, k, v, scale, causal=False, cap=0, left=None, bias=0):
    H = q.shape[0]
    k, v = np.repeat(k, H // len(k), 0), np.repeat(v, H // len(v), 0)
    scores = q @ k.transpose(0, 2, 1) * scale
    if cap:
        scores = cap * np.tanh(scores / cap)
    scores = scores + bias
    t, s = np.arange(q.shape[1])[:, None], np.arange(k.shape[1])[None]
    hidden = (s > t) if causal else np.zeros((1, 1), bool)
    if left is not None:
        hidden = hidden | (s < t - left)
    weights = softmax(np.where(hidden, -np.inf, scores))
    return weights, (weights @ v).transpose(1, 0, 2).reshape(q.shape[1], -1)


class Case:
    """A layer with sizes that all differ: d_model 20, H 4 (2 for keys), d_k 6, d_v 5, T 9."""
    D, K, T = 20, 6, 9

    def __init__(self, dtype=np.float32, heads=4, kv=None, d_v=None, scale=None):
        self.random = np.random.default_rng(7)
        self.dtype, self.H, self.kv = dtype, heads, kv or heads
        self.V = d_v or self.K
        self.scale = 1 / np.sqrt(self.K) if scale is None else scale
        n = lambda *shape: (self.random.standard_normal(shape) * 0.4).astype(dtype).astype(np.float64)
        self.X = n(self.T, self.D) * 2
        self.W = {"q": n(self.D, self.H * self.K), "k": n(self.D, self.kv * self.K),
                  "v": n(self.D, self.kv * self.V), "o": n(self.H * self.V, self.D)}
        self.b = {"q": n(self.H * self.K), "k": n(self.kv * self.K), "v": n(self.kv * self.V), "o": n(self.D)}
        self.g = Graph(dtype, "/encoder/layers.3/self_attn")
        self.g.inputs.append(value_info("hidden", ("batch", "sequence", self.D)))

    def expected(self, x=None, x_kv=None, biases="qkvo", turn=lambda y: y, output=True, **how):
        x = self.X if x is None else x
        source = x if x_kv is None else x_kv
        y = {p: (x if p == "q" else source) @ self.W[p] + (self.b[p] if p in biases else 0) for p in "qkv"}
        q, k, v = (split(y[p], self.H if p == "q" else self.kv) for p in "qkv")
        weights, concat = attend(turn(q), turn(k), v, self.scale, **how)
        return weights, concat @ self.W["o"] + (self.b["o"] if "o" in biases else 0)

    def heads(self, name, heads, width, x):
        """(1, T, heads · width) as (1, heads, T, width)."""
        g = self.g
        return g("Transpose", g("Reshape", x, np.array([0, 0, heads, width])), perm=[0, 2, 1, 3])

    def linear(self, p, x, bias=True):
        g, y = self.g, None
        y = g("MatMul", x, self.W[p], name=f"/encoder/layers.3/self_attn/{p}_proj/MatMul")
        return g("Add", self.g.constant(self.b[p], f"encoder.{p}_proj.bias"), y) if bias else y

    def finish(self, weights, v, joined=True):
        g = self.g
        z = g("MatMul", weights, v)
        z = g("Reshape", g("Transpose", z, perm=[0, 2, 1, 3]), np.array([0, 0, self.H * self.V]))
        return self.linear("o", z)


class Wide(Case):
    """Heads of 16, of which GroupQueryAttention needs a multiple."""
    K = 16


def plain(scale_on_q=False):
    def make():
        c = Case(d_v=5, scale=0.3)
        g = c.g
        q, k = c.heads("q", 4, 6, c.linear("q", "hidden")), c.heads("k", 4, 6, c.linear("k", "hidden"))
        v = c.heads("v", 4, 5, c.linear("v", "hidden"))
        if scale_on_q:  # √s on both, as PyTorch's scaled_dot_product_attention is decomposed
            root = g.constant(np.array(np.sqrt(0.3), np.float32), node=True)
            q, k = g("Mul", q, root), g("Mul", g("Transpose", k, perm=[0, 1, 3, 2]), root)
            s = g("MatMul", q, k)
        else:
            s = g("Mul", g("MatMul", q, g("Transpose", k, perm=[0, 1, 3, 2])), np.array(0.3, np.float32))
        c.finish(g("Softmax", s, axis=-1), v)
        return c, c.expected(), {}
    return make


def fused_causal():
    """GPT-2: Gemm over rows, Split, Where with a buffer of a longer length, sliced by Shape."""
    c = Case()
    g = c.g
    W, b = np.concatenate([c.W[p] for p in "qkv"], 1), np.concatenate([c.b[p] for p in "qkv"])
    flat = g("Reshape", "hidden", np.array([-1, 20]))
    y = g("Gemm", flat, W, b, alpha=1.0, beta=1.0)
    shape = g("Shape", "hidden")
    y = g("Reshape", y, g("Concat", g("Slice", shape, np.array([0]), np.array([2])), np.array([72]), axis=0))
    q, k, v = g("Split", y, np.array([24, 24, 24]), axis=2, outputs=3)
    q, k, v = (c.heads(n, 4, 6, x) for n, x in (("q", q), ("k", k), ("v", v)))
    s = g("Div", g("MatMul", q, g("Transpose", k, perm=[0, 1, 3, 2])), np.array(np.sqrt(6), np.float32))
    T = g("Gather", shape, np.array(1), axis=0)
    end = g("Unsqueeze", T, np.array([0]))
    mask = g.constant(np.tril(np.ones((1, 1, 64, 64), bool)), "transformer.h.0.attn.bias")
    mask = g("Slice", g("Slice", mask, np.array([0]), end, np.array([2])), np.array([0]), end, np.array([3]))
    s = g("Where", mask, s, np.array(-1e4, np.float32))
    z = g("MatMul", g("Softmax", s, axis=3), v)
    z = g("Reshape", g("Transpose", z, perm=[0, 2, 1, 3]), np.array([-1, 24]))
    g("Gemm", z, c.W["o"].T, c.b["o"], transB=1)
    return c, c.expected(causal=True), {}


def grouped_rotary(neighbours=False):
    def make():
        """LLaMA: key/value heads repeated by Expand, cosines made of positions, a mask of Range and Less."""
        c = Case(kv=2)
        g = c.g
        q, k = c.heads("q", 4, 6, c.linear("q", "hidden", False)), c.heads("k", 2, 6, c.linear("k", "hidden", False))
        v = c.heads("v", 2, 6, c.linear("v", "hidden", False))
        T = g("Gather", g("Shape", "hidden"), np.array(1), axis=0)
        positions = g("Range", np.array(0), T, np.array(1))
        angle = g("Mul", g("Unsqueeze", g("Cast", positions, to=1), np.array([1])),
                  (1e5 ** (-np.arange(3) * 2 / 6)).astype(np.float32)[None])
        cos, sin = g("Cos", angle), g("Sin", angle)

        def turned(x):
            if neighbours:
                a = g("Slice", x, np.array([0]), np.array([2 ** 63 - 1]), np.array([3]), np.array([2]))
                b = g("Slice", x, np.array([1]), np.array([2 ** 63 - 1]), np.array([3]), np.array([2]))
            else:
                a, b = g("Split", x, axis=3, outputs=2)
            first = g("Sub", g("Mul", a, cos), g("Mul", b, sin))
            second = g("Add", g("Mul", a, sin), g("Mul", b, cos))
            if not neighbours:
                return g("Concat", first, second, axis=3)
            two = g("Concat", g("Unsqueeze", first, np.array([4])), g("Unsqueeze", second, np.array([4])), axis=4)
            return g("Reshape", two, g("Shape", x))

        def repeated(x):
            five = g("Expand", g("Unsqueeze", x, np.array([2])), np.array([1, 1, 2, 1, 1]))
            return g("Reshape", five, np.array([0, 4, -1, 6]))

        s = g("MatMul", turned(q), g("Transpose", repeated(turned(k)), perm=[0, 1, 3, 2]))
        s = g("Mul", s, np.array(6 ** -0.5, np.float32))
        hidden = g("Less", g("Unsqueeze", positions, np.array([1])), g("Unsqueeze", positions, np.array([0])))
        s = g("Add", s, g("Mul", g("Cast", hidden, to=1), np.array(-3e38, np.float32)))
        z = g("MatMul", g("Softmax", s, axis=-1), repeated(v))
        z = g("Reshape", g("Transpose", z, perm=[0, 2, 1, 3]), np.array([0, 0, 24]))
        c.linear("o", z, False)
        turn = lambda y: rotate(y, 1e5, 6, neighbours)
        return c, c.expected(biases="", turn=turn, causal=True), {}
    return make


def turned_weights():
    """Weights behind Transpose, DequantizeLinear (per tensor, per column), Identity and Cast."""
    c = Case()
    g = c.g
    integers = {p: c.random.integers(-120, 120, c.W[p].shape) for p in "qkvo"}
    c.W["q"] = (integers["q"] - 3) * float(np.float32(0.004))
    scales = (c.random.random(24) * 0.01 + 0.001).astype(np.float32)
    zeros = c.random.integers(0, 9, 24).astype(np.uint8)
    c.W["k"] = (np.abs(integers["k"]) - zeros.astype(int)) * scales.astype(np.float64)
    c.W["v"] = c.W["v"].astype(np.float16).astype(np.float64)
    Wq = g("DequantizeLinear", integers["q"].astype(np.int8), np.array(0.004, np.float32), np.array(3, np.int8))
    Wk = g("DequantizeLinear", np.abs(integers["k"]).astype(np.uint8), scales, zeros, axis=1)
    Wv = g("Cast", g.constant(c.W["v"].astype(np.float16), "half"), to=1)
    Wo = g("Identity", g("Transpose", g.constant(c.W["o"].T.copy(), "out.weight"), perm=[1, 0]))
    q, k, v = (c.heads(p, 4, 6, g("Add", g("MatMul", "hidden", W), c.b[p]))
               for p, W in (("q", Wq), ("k", Wk), ("v", Wv)))
    s = g("Div", g("MatMul", q, g("Transpose", k, perm=[0, 1, 3, 2])), np.array(6 ** 0.5, np.float32))
    z = g("MatMul", g("Softmax", s, axis=-1), v)
    z = g("Reshape", g("Transpose", z, perm=[0, 2, 1, 3]), np.array([0, 0, 24]))
    g("Add", g("MatMul", z, Wo), c.b["o"])
    return c, c.expected(), {}


def in_bodies(loop):
    def make():
        """The layer in the body of an If, or of a Loop whose state it is."""
        c = Case(d_v=5)
        outer, inner = c.g, Graph(np.float32, "/encoder/layers.3/self_attn")
        inner.count = 1000
        c.g = inner
        x = "state" if loop else "hidden"
        q, k, v = c.heads("q", 4, 6, c.linear("q", x)), c.heads("k", 4, 6, c.linear("k", x)), c.heads("v", 4, 5, c.linear("v", x))
        s = inner("MatMul", inner("Mul", q, np.array(6 ** -0.5, np.float32)), inner("Transpose", k, perm=[0, 1, 3, 2]))
        out = c.finish(inner("Softmax", s, axis=-1), v)
        c.g = outer
        if loop:
            inner.inputs = [value_info("i", (), INT64), value_info("go", (), 9), value_info("state", ())]
            inner.inputs[2] = field(1, "state")
            inner("Identity", "go", name="go_on")
            inner.outputs = [field(1, "go_on_out0"), field(1, out)]
            outer("Loop", np.array(1), np.array(True), "hidden", body=b"GRAPH:" + inner.bytes())
        else:
            inner.outputs = [field(1, out)]
            other = Graph(np.float32)
            other.outputs = [field(1, other("Identity", "hidden", name="else"))]
            outer.inputs.append(value_info("flag", (), 9))
            outer("If", "flag", then_branch=b"GRAPH:" + inner.bytes(), else_branch=b"GRAPH:" + other.bytes())
        return c, c.expected(), {}
    return make


def ms_attention():
    """com.microsoft's Attention: packed weights, values of another width, unidirectional, a scale."""
    c = Case(d_v=5, scale=0.25)
    g = c.g
    W, b = np.concatenate([c.W[p] for p in "qkv"], 1), np.concatenate([c.b[p] for p in "qkv"])
    z = g("Attention", "hidden", W, b, domain="com.microsoft", num_heads=4, unidirectional=1, scale=0.25,
          qkv_hidden_sizes=[24, 24, 20])
    c.concat = z
    y = g("MatMul", z, c.W["o"])
    g("SkipLayerNormalization", y, "hidden", np.ones(20), np.zeros(20), c.b["o"], domain="com.microsoft")
    return c, c.expected(causal=True), {}


def ms_multi_head():
    """com.microsoft's MultiHeadAttention: its own bias, keys and values of another input."""
    c = Case(d_v=5)
    g = c.g
    memory = c.random.standard_normal((5, 20)).astype(np.float32).astype(np.float64)
    g.inputs.append(value_info("memory", ("batch", "memory_length", 20)))
    b = np.concatenate([c.b[p] for p in "qkv"])
    q, k, v = g("MatMul", "hidden", c.W["q"]), g("MatMul", "memory", c.W["k"]), g("MatMul", "memory", c.W["v"])
    z = g("MultiHeadAttention", q, k, v, b, domain="com.microsoft", num_heads=4)
    c.linear("o", z)
    return c, c.expected(x_kv=memory), {"X_kv": memory}


def ms_grouped(packed):
    def make():
        """com.microsoft's GroupQueryAttention: rotary tables, a window, a cap."""
        c = Wide(kv=2, scale=0.4)
        g = c.g
        angle = np.arange(64)[:, None] * 500.0 ** (-np.arange(8) * 2 / 16)[None]
        tables = [g.constant(np.cos(angle), "cos_cache"), g.constant(np.sin(angle), "sin_cache")]
        g.inputs += [value_info("seqlens_k", ("batch",), 6), value_info("total", (), 6)]
        if packed:
            y = [g("MatMul", "hidden", np.concatenate([c.W[p] for p in "qkv"], 1)), "", ""]
        else:
            y = [g("MatMul", "hidden", c.W[p]) for p in "qkv"]
        z = g("GroupQueryAttention", *y, "", "", "seqlens_k", "total", *tables, domain="com.microsoft", num_heads=4,
              kv_num_heads=2, do_rotary=1, rotary_interleaved=int(packed), scale=0.4, softcap=3.0, local_window_size=4)
        c.linear("o", z, False)
        turn = lambda y: rotate(y, 500.0, 16, packed)
        return c, c.expected(biases="", turn=turn, causal=True, cap=3.0, left=3), {}
    return make


def standard_attention(axes):
    def make():
        """Opset 23's Attention, with three axes or four."""
        c = Case(kv=2, d_v=5)
        g = c.g
        q, k, v = (c.linear(p, "hidden") for p in "qkv")
        if axes == 4:
            q, k, v = c.heads("q", 4, 6, q), c.heads("k", 2, 6, k), c.heads("v", 2, 5, v)
            z = g("Attention", q, k, v, is_causal=1, softcap=2.5)
            z = g("Reshape", g("Transpose", z, perm=[0, 2, 1, 3]), np.array([0, 0, 20]))
        else:
            z = g("Attention", q, k, v, is_causal=1, softcap=2.5, q_num_heads=4, kv_num_heads=2)
        c.linear("o", z)
        return c, c.expected(causal=True, cap=2.5), {}
    return make


def biased():
    """A fixed bias of every head (Swin), d_k · 3 · H columns by head, sequence first."""
    c = Case()
    g = c.g
    g.inputs[0] = value_info("hidden", (9, 1, 20))
    bias = c.random.standard_normal((4, 9, 9)).astype(np.float32).astype(np.float64)
    by_head = np.concatenate([np.stack([split(c.W[p], 4)[h] for p in "qkv"]).transpose(1, 0, 2).reshape(20, 18)
                              for h in range(4)], 1)
    b = np.concatenate([c.b[p].reshape(4, 6)[h] for h in range(4) for p in "qkv"])
    y = g("Reshape", g("Add", g("MatMul", "hidden", by_head), b), np.array([9, 4, 3, 6]))
    q, k, v = (g("Gather", g("Transpose", y, perm=[2, 1, 0, 3]), np.array(i), axis=0) for i in range(3))
    s = g("Mul", g("MatMul", q, g("Transpose", k, perm=[0, 2, 1])), np.array(6 ** -0.5, np.float32))
    z = g("MatMul", g("Softmax", g("Add", s, g.constant(bias, "relative")), axis=2), v)
    z = g("Reshape", g("Transpose", z, perm=[1, 0, 2]), np.array([9, 24]))
    g("Add", g("MatMul", z, c.W["o"]), c.b["o"])
    return c, c.expected(bias=bias), {}


def buckets_of(distance, both_ways, count, most):
    """T5's bucket of key - query."""
    offset = 0
    if both_ways:
        count //= 2
        offset = (distance > 0) * count
        distance = abs(distance)
    else:
        distance = np.maximum(-distance, 0)
    near = count // 2
    far = near + (np.log(np.maximum(distance, 1) / near) / np.log(most / near) * (count - near)).astype(int)
    return offset + np.where(distance < near, distance, np.minimum(far, count - 1))


def t5(both_ways):
    def make():
        """T5: no scale, a table's rows by the distance's bucket, computed in the graph; a causal mask one way."""
        c = Case(scale=1.0)
        g, count, most = c.g, 8, 6
        table = (c.random.standard_normal((count, 4)) * 2).astype(np.float32).astype(np.float64)
        q, k, v = (c.heads(p, 4, 6, c.linear(p, "hidden", False)) for p in "qkv")
        T = g("Gather", g("Shape", "hidden"), np.array(1), axis=0)
        place = g("Range", np.array(0), T, np.array(1))
        apart = g("Sub", g("Unsqueeze", place, np.array([0])), g("Unsqueeze", place, np.array([1])))
        n, start = count, None
        if both_ways:
            n //= 2
            start = g("Mul", g("Cast", g("Greater", apart, np.array(0)), to=INT64), np.array(n))
            distance = g("Abs", apart)
        else:
            distance = g("Neg", g("Min", apart, g("Mul", apart, np.array(0))))
        near = n // 2
        far = g("Div", g("Log", g("Div", g("Cast", distance, to=FLOAT), np.array(near, np.float32))),
                np.array(np.log(most / near), np.float32))
        far = g("Add", g("Cast", g("Mul", far, np.array(n - near, np.float32)), to=INT64), np.array(near))
        far = g("Min", far, np.array(n - 1))
        bucket = g("Where", g("Less", distance, np.array(near)), distance, far)
        bucket = g("Add", start, bucket) if start else bucket
        rows = g("Gather", g.constant(table, "encoder.relative_attention_bias.weight"), bucket, axis=0)
        bias = g("Unsqueeze", g("Transpose", rows, perm=[2, 0, 1]), np.array([0]))
        if not both_ways:
            hidden = g("Cast", g("Greater", apart, np.array(0)), to=FLOAT)
            bias = g("Add", bias, g("Mul", hidden, np.array(-3e38, np.float32)))
        s = g("Add", g("MatMul", q, g("Transpose", k, perm=[0, 1, 3, 2])), bias)
        z = g("MatMul", g("Softmax", s, axis=-1), v)
        z = g("Reshape", g("Transpose", z, perm=[0, 2, 1, 3]), np.array([0, 0, 24]))
        c.linear("o", z, False)
        t = np.arange(c.T)
        bias = table[buckets_of(t[None] - t[:, None], both_ways, count, most)].transpose(2, 0, 1)
        return c, c.expected(biases="", causal=not both_ways, bias=bias), {}
    return make


def paddle():
    """As Paddle exports a recogniser: every weight a Constant node, q, k, v cut by Slice and Squeeze, the scale on q."""
    c = Case()
    g = c.g
    constant = lambda a, name: g.constant(a, name, node=True)
    W, b = np.concatenate([c.W[p] for p in "qkv"], 1), np.concatenate([c.b[p] for p in "qkv"])
    y = g("Add", g("MatMul", "hidden", constant(W, "linear_3.w_0")), constant(b, "linear_3.b_0"))
    y = g("Transpose", g("Reshape", y, constant(np.array([0, -1, 3, 4, 6]), "p2o.shape")), perm=[2, 0, 3, 1, 4])
    part = lambda i: g("Squeeze", g("Slice", y, np.array([i]), np.array([i + 1]), np.array([0])), np.array([0]))
    q, k, v = part(0), part(1), part(2)
    q = g("Add", g("Mul", q, constant(np.array([6 ** -0.5], np.float32), "p2o.scale")), constant(np.zeros(1, np.float32), "p2o.zero"))
    s = g("MatMul", q, g("Transpose", k, perm=[0, 1, 3, 2]))
    z = g("MatMul", g("Softmax", s, axis=-1), v)
    z = g("Reshape", g("Transpose", z, perm=[0, 2, 1, 3]), constant(np.array([0, -1, 24]), "p2o.joined"))
    g("Add", g("MatMul", z, constant(c.W["o"], "linear_4.w_0")), constant(c.b["o"], "linear_4.b_0"))
    return c, c.expected(), {}


def in_function():
    """A function of the model: the layer is its body, weights are its inputs, the scale an attribute."""
    c = Case(scale=0.5)
    body = Graph(np.float32)
    outer, c.g = c.g, body
    q, k, v = (c.heads(p, 4, 6, body("Add", body("MatMul", "x", "W" + p), "b" + p)) for p in "qkv")
    half = "half_scale"
    body.nodes.append(field(2, half) + field(4, "Constant") +
                      field(5, field(1, "value_float") + field(20, 1) + field(21, "scale")))
    s = body("Mul", body("MatMul", q, body("Transpose", k, perm=[0, 1, 3, 2])), half)
    z = body("MatMul", body("Softmax", s, axis=-1), v)
    z = body("Reshape", body("Transpose", z, perm=[0, 2, 1, 3]), body.constant(np.array([0, 0, 24]), "joined", node=True))
    out = body("Add", body("MatMul", z, "Wo"), "bo")
    names = ["x"] + [w + p for p in "qkvo" for w in "Wb"]
    # A function has no initializers: its short lists are Constant nodes.
    lists = [field(2, name_of(t)) + field(4, "Constant") + field(5, field(1, "value") + field(5, t) + field(20, 4))
             for t in body.initializers]
    function = field(1, "Layer") + b"".join(field(4, n) for n in names) + field(5, out) + field(6, "scale")
    function += b"".join(field(7, n) for n in lists + body.nodes) + field(9, field(2, 17)) + field(10, "made.here")
    c.g = outer
    outer("Layer", "hidden", *[x for p in "qkvo" for x in (c.W[p], c.b[p])], domain="made.here", scale=0.5)
    return c, c.expected(), {"functions": field(25, function) + field(8, field(1, "made.here") + field(2, 1))}


def name_of(data):
    """A tensor's name, field 8, behind its axes and its type."""
    at = 0
    while data[at] != 8 << 3 | 2:
        at += 1
        while data[at] & 0x80:
            at += 1
        at += 1
    return data[at + 2:at + 2 + data[at + 1]].decode()


def keys_behind(learned, zeros):
    def make():
        """PyTorch's add_bias_kv and add_zero_attn: constants behind the keys and the values; scale on the queries."""
        c = Case(d_v=5)
        g = c.g
        x = c.X
        q, k, v = (split(x @ c.W[p] + c.b[p], 4) for p in "qkv")
        parts = {p: c.heads(p, 4, c.K if p != "v" else c.V, c.linear(p, "hidden")) for p in "qkv"}
        for p, width in (("k", c.K), ("v", c.V)):
            rows = [c.random.standard_normal((4, 1, width))] * learned + [np.zeros((4, 1, width))] * zeros
            rows = [row.astype(np.float32) for row in rows]
            for row in rows:
                parts[p] = g("Concat", parts[p], row[None], axis=2)
            k, v = (np.concatenate([k, *rows], 1), v) if p == "k" else (k, np.concatenate([v, *rows], 1))
        scaled = g("Div", parts["q"], np.array(np.sqrt(c.K), np.float32))
        s = g("MatMul", scaled, g("Transpose", parts["k"], perm=[0, 1, 3, 2]))
        c.finish(g("Softmax", s, axis=-1), parts["v"])
        weights, concat = attend(q, k, v, c.scale)
        return c, (weights, concat @ c.W["o"] + c.b["o"]), {}
    return make


CASES = {
    "plain": plain(), "roots-on-both": plain(scale_on_q=True), "fused-causal": fused_causal,
    "grouped-rotary": grouped_rotary(), "rotary-neighbours": grouped_rotary(True),
    "turned-weights": turned_weights, "if": in_bodies(False), "loop": in_bodies(True),
    "ms-attention": ms_attention, "ms-multi-head": ms_multi_head, "ms-grouped": ms_grouped(False),
    "ms-grouped-packed": ms_grouped(True), "attention-23": standard_attention(3),
    "attention-23-heads": standard_attention(4), "biased": biased, "function": in_function,
    "t5": t5(True), "t5-causal": t5(False), "paddle": paddle,
    "learned-key": keys_behind(1, 0), "zero-key": keys_behind(0, 1), "both-keys": keys_behind(1, 1),
}


def write_case(name, out, x, expected):
    c, (weights, output), more = CASES[name]()
    data = model(c.g, 23 if "23" in name else 17, more.pop("functions", b""))
    open(out, "wb").write(data)
    np.save(x, c.X.astype(np.float32))
    arrays = {"weights": weights.astype(np.float32), "output": output.astype(np.float32)}
    np.savez(expected, **arrays, **{k: v.astype(np.float32) for k, v in more.items()})


def types(out, expected):
    random = np.random.default_rng(3)
    g, arrays, beside = Graph(np.float32), {}, bytearray(b"\1\2\3")
    for dtype in CODES:
        kind = np.dtype(dtype)
        for i, shape in enumerate([(3, 5), (7,), (), (2, 0, 3), (1, 1, 4)]):
            bits = random.integers(0, 256, int(np.prod(shape)) * kind.itemsize, np.uint8)
            array = (bits & 1 if dtype == "bool" else bits).view(kind).reshape(shape)
            for how in ("raw", "typed", "loose", "beside", "node"):
                name = f"{dtype}.{how}.{i}"
                if how == "loose" and kind.kind == "f" and kind.itemsize > 2:
                    continue  # those are packed by every writer
                arrays[name] = array
                if how == "raw":
                    g.initializers.append(tensor(name, array))
                elif how == "node":
                    g.nodes.append(field(2, name) + field(4, "Constant") + field(5, attribute("value", array)))
                elif how == "beside":
                    place = {"location": "weights.data", "offset": str(len(beside)), "length": str(array.nbytes)}
                    g.initializers.append(
                        b"".join(field(1, n) for n in shape) + field(2, CODES[dtype]) + field(8, name) +
                        b"".join(field(13, field(1, k) + field(2, v)) for k, v in place.items()) + field(14, 1))
                    beside += array.tobytes()
                else:
                    g.initializers.append(tensor(name, array, raw=False, packed=how == "typed"))
    half = random.integers(0, 65536, 6).astype(np.uint16)
    for how, raw in (("raw", True), ("typed", False)):
        data = field(1, 6) + field(2, 16) + field(8, f"bfloat16.{how}")
        data += field(9, half.tobytes()) if raw else field(5, b"".join(varint(int(n)) for n in half))
        g.initializers.append(data)
    arrays["bfloat16.bits"] = half
    text = field(1, 1) + field(2, 8) + field(6, b"word") + field(8, "words")
    g.initializers += [text, field(1, 2) + field(2, 14) + field(8, "complex") + field(9, bytes(16)),
                       field(1, 2) + field(2, 17) + field(8, "eighth") + field(9, bytes(2))]
    graph = g.bytes() + field(15, field(1, tensor("thin", np.ones(1, np.float32))))
    open(out, "wb").write(field(1, 8) + field(7, graph) + field(8, field(2, 17)))
    open(os.path.join(os.path.dirname(out), "weights.data"), "wb").write(beside)
    np.savez(expected, **arrays)


def sparse(out, size):
    """Two large matrices beside the model, of which nothing is written."""
    rows = size // 2 // 4 // 1024
    g = Graph(np.float32)
    for i in range(2):
        place = {"location": "large.data", "offset": str(i * rows * 4096), "length": str(rows * 4096)}
        g.initializers.append(field(1, rows) + field(1, 1024) + field(2, 1) + field(8, f"large.{i}") +
                              b"".join(field(13, field(1, k) + field(2, v)) for k, v in place.items()) + field(14, 1))
    open(out, "wb").write(model(g))
    with open(os.path.join(os.path.dirname(out), "large.data"), "wb") as file:
        file.truncate(rows * 4096 * 2)


def runtime(folder):
    """Every case as a whole model with outputs, which ONNX Runtime runs, and a list of what it is given."""
    listing = []
    for name, make in CASES.items():
        c, _, more = make()
        stage, out = ("concat", c.concat) if hasattr(c, "concat") else ("output", c.g.last)
        stages = {stage: out} | ({"weights": c.g.weights} if c.g.weights else {})
        c.g.outputs = [field(1, n) + field(2, field(1, field(1, FLOAT))) for n in stages.values()]
        X = c.X[:, None] if name == "biased" else c.X[None]
        given = {"hidden": ("float32", X)}
        if "X_kv" in more:
            given["memory"] = ("float32", more["X_kv"][None])
        for n, (dtype, value) in {"flag": ("bool", np.array(True)), "seqlens_k": ("int32", np.array([c.T - 1])),
                                  "total": ("int32", np.array(c.T))}.items():
            if any(i.startswith(field(1, n)) for i in c.g.inputs):
                given[n] = (dtype, value)
        with open(os.path.join(folder, name + ".onnx"), "wb") as file:
            file.write(model(c.g, 23 if "23" in name else 17, more.get("functions", b"")))
        listing.append({"name": name, "stages": stages, "inputs": {
            n: {"dtype": dtype, "dims": list(a.shape), "data": np.asarray(a, dtype).ravel().tolist()}
            for n, (dtype, a) in given.items()}})
    print(json.dumps(listing))


def main():
    command, *rest = sys.argv[1:]
    if command == "cases":
        print("\n".join(CASES))
    elif command == "case":
        write_case(*rest)
    elif command == "types":
        types(*rest)
    elif command == "sparse":
        sparse(rest[0], int(rest[1]))
    elif command == "runtime":
        runtime(rest[0])
    elif command == "tiny":
        c, _, _ = grouped_rotary()()
        open(rest[0], "wb").write(model(c.g))


main()
