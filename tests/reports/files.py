"""Writes a layer and a port's stages for mha-inspect, and asks it."""
import json
import os
import subprocess

import numpy as np

from port import Port, to_bf16

STORED = {"f64": np.float64, "f32": np.float32, "f16": np.float16}


def options_of(settings):
    """The settings as options of the program."""
    words = []
    for name, value in settings.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            words.append(option)
        elif value is not False:
            words += [option, repr(value) if isinstance(value, float) else str(value)]
    return words


def write_layer(path, tensors, dtype="f32"):
    def of_type(value):
        return value.astype(STORED[dtype]) if value.dtype.kind == "f" else value
    np.savez(path, **{name: of_type(np.asarray(value)) for name, value in tensors.items()})


def as_stored(value, dtype):
    """A stage in the type of the file. NumPy has no bfloat16: its numbers lie there as float32, as
    they do in what people save with .float().numpy()."""
    return to_bf16(value) if dtype == "bf16" else value.astype(STORED[dtype])


def write_stages(path, stages, dtype, batched, only=None):
    np.savez(path, **{name: as_stored(value if batched else value[0], dtype)
                      for name, value in stages.items() if only is None or name in only})


def stages_of(report, tensors, settings, compute):
    port = Port(tensors, settings, compute)
    if report is not None:
        report.edit(port)
    return port.forward()


class Program:
    def __init__(self, path, folder):
        self.path, self.folder = path, folder

    def __call__(self, command, layer, settings, reference):
        words = [self.path, command, layer, *options_of(settings), "--quiet", "--against", reference,
                 "--format", "json", "--threads", "1"]
        done = subprocess.run(words, capture_output=True, text=True, cwd=self.folder)
        if done.returncode > 1:
            return {"error": done.stderr.strip(), "command": " ".join(words)}
        return json.loads(done.stdout) | {"command": " ".join(words)}
