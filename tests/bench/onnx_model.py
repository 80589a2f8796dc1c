"""The layer as an ONNX model, its stages as graph outputs.

The protobuf is written by hand, since Debian's python3-onnx knows other versions than the runtime: a
message is a row of fields, each a key (number · 8 + wire type) and a varint, or a length and bytes.
Field numbers are those of https://github.com/onnx/onnx/blob/main/onnx/onnx.proto.
"""
import numpy as np

FLOAT, INT64 = 1, 7  # TensorProto.DataType


def varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out) + bytes([number])


def field(number, value):
    """One field: integers as varints, text, bytes and messages with their length before them."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def tensor(name, array):
    kind = {np.dtype(np.float32): FLOAT, np.dtype(np.int64): INT64}[array.dtype]
    return b"".join(field(1, n) for n in array.shape) + field(2, kind) + field(8, name) + field(9, array.tobytes())


def value_info(name, shape):
    axes = b"".join(field(1, field(1, n)) for n in shape)
    return field(1, name) + field(2, field(1, field(1, FLOAT) + field(2, axes)))


def integers_attribute(name, values):
    return field(1, name) + b"".join(field(8, v) for v in values) + field(20, 7)  # 7: a list of integers


def integer_attribute(name, value):
    return field(1, name) + field(3, value) + field(20, 2)


def node(kind, inputs, output, *attributes):
    return (b"".join(field(1, name) for name in inputs) + field(2, output) + field(3, output) + field(4, kind)
            + b"".join(field(5, attribute) for attribute in attributes))


def attention_model(layer, kept):
    """The bytes of a model that maps X to the stages `kept`. Weights are constants, so that the runtime may
    arrange them once; keys come out of their transpose as columns, so that scores are one product."""
    T, d_model, heads = layer.T, layer.d_model, layer.heads
    d_k = d_model // heads
    constants = {name: layer.tensors[name] for name in layer.tensors if name != "X"}
    constants["split"] = np.array([T, heads, d_k], np.int64)
    constants["joined"] = np.array([T, d_model], np.int64)
    constants["scale"] = np.array(1 / np.sqrt(d_k), np.float32)

    nodes = []
    for p, axes in (("q", (1, 0, 2)), ("k", (1, 2, 0)), ("v", (1, 0, 2))):
        nodes += [node("MatMul", ["X", f"W_{p}"], f"{p}_product"),
                  node("Add", [f"{p}_product", f"b_{p}"], f"{p}_packed"),
                  node("Reshape", [f"{p}_packed", "split"], f"{p}_split"),
                  node("Transpose", [f"{p}_split"], p, integers_attribute("perm", axes))]
    nodes += [node("MatMul", ["q", "k"], "scores"),
              node("Mul", ["scores", "scale"], "scaled"),
              node("Softmax", ["scaled"], "weights", integer_attribute("axis", 2)),
              node("MatMul", ["weights", "v"], "head_out"),
              node("Transpose", ["head_out"], "turned", integers_attribute("perm", (1, 0, 2))),
              node("Reshape", ["turned", "joined"], "concat"),
              node("MatMul", ["concat", "W_o"], "o_product"),
              node("Add", ["o_product", "b_o"], "output")]

    shapes = {"weights": (heads, T, T), "output": (T, d_model)}
    graph = (b"".join(field(1, n) for n in nodes) + field(2, "attention")
             + b"".join(field(5, tensor(name, array)) for name, array in constants.items())
             + field(11, value_info("X", (T, d_model)))
             + b"".join(field(12, value_info(stage, shapes[stage])) for stage in kept))
    return field(1, 8) + field(8, field(1, "") + field(2, 17)) + field(7, graph)  # IR 8, operator set 17
