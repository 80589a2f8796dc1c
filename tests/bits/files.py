"""Layers as files: .npz, .safetensors, .json, and an .npy for each tensor that is bound."""
import json
import os
import struct

import numpy as np

FORMATS = ("npz", "safetensors", "json")
_DTYPES = {"float64": "F64", "float32": "F32", "float16": "F16", "int64": "I64", "int32": "I32", "bool": "BOOL"}


def write_safetensors(path, tensors, settings):
    header, data = {}, b""
    for name, array in tensors.items():
        raw = np.ascontiguousarray(array).tobytes()
        header[name] = {"dtype": _DTYPES[array.dtype.name], "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    header["__metadata__"] = {name: _text(value) for name, value in settings.items()}
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def _text(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


def _json_tensor(array):
    if array.dtype == bool:
        return array.tolist()

    def number(value):
        return value if np.isfinite(value) else str(value).replace("nan", "NaN").replace("inf", "Infinity")

    data = [number(value) for value in array.ravel().tolist()]
    return {"shape": list(array.shape), "dtype": array.dtype.name, "data": data}


def write_layer(folder, layer, kind):
    """Writes a layer; the sources to give the program."""
    path = os.path.join(folder, "layer." + kind)
    if kind == "npz":
        np.savez(path, **layer.tensors, **layer.settings)
    elif kind == "safetensors":
        write_safetensors(path, layer.tensors, layer.settings)
    else:
        with open(path, "w") as file:
            json.dump({name: _json_tensor(array) for name, array in layer.tensors.items()} | layer.settings, file)
    sources = [path]
    for name, array in layer.bound.items():
        bound = os.path.join(folder, name + ".npy")
        np.save(bound, array)
        sources.append(f"{name}={bound}")
    return sources


def read_arrays(path):
    """What a dump wrote: arrays by name. Safetensors' bytes are read by its header alone."""
    if os.path.isdir(path):
        return {name.removesuffix(".npy"): np.load(os.path.join(path, name)) for name in sorted(os.listdir(path))}
    if path.endswith(".npy"):
        return {"(the stage)": np.load(path)}
    if path.endswith(".npz"):
        with np.load(path) as file:
            return {name: file[name] for name in file.files}
    with open(path, "rb") as file:
        raw = file.read()
    size = struct.unpack("<Q", raw[:8])[0]
    arrays = {}
    for name, entry in json.loads(raw[8:8 + size]).items():
        if name != "__metadata__":
            dtype = {short: long for long, short in _DTYPES.items()}.get(entry["dtype"], "uint16")
            begin, end = (8 + size + offset for offset in entry["data_offsets"])
            arrays[name] = np.frombuffer(raw[begin:end], dtype).reshape(entry["shape"])
    return arrays
