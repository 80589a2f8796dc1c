"""Calls of a program, what it dumps, and where two dumps differ."""
import os
import shutil
import subprocess

import numpy as np

from files import read_arrays

TIME_LIMIT = 300  # seconds


class Failed(Exception):
    """The program's message."""


def call(program, cpu, arguments):
    done = subprocess.run([program, *arguments], env=os.environ | {"MHA_CPU": cpu}, capture_output=True, text=True,
                          timeout=TIME_LIMIT)
    if done.returncode != 0:
        raise Failed((done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1])


def dump(program, cpu, run, sources, folder):
    """Arrays by stage. Parts are joined by the same program."""
    os.mkdir(folder)
    try:
        path = os.path.join(folder, "dump" if run.format == "npy" else "dump." + run.format)
        common = ["dump", *sources, *run.options, "--threads", str(run.threads), "-q"]
        if run.parts == 1:
            call(program, cpu, [*common, "-o", path])
        else:
            parts = [os.path.join(folder, f"part{i}.npz") for i in range(1, run.parts + 1)]
            for i, part in enumerate(parts, 1):
                call(program, cpu, [*common, "--part", f"{i}/{run.parts}", "-o", part])
            call(program, cpu, ["convert", *parts, "-q", "-o", path])
        return read_arrays(path)
    finally:
        shutil.rmtree(folder)


def differences(old, new):
    """A line for each array that is not the same, byte for byte."""
    lines = [f"{name}: only one of the dumps has it" for name in sorted(old.keys() ^ new.keys())]
    for name in sorted(old.keys() & new.keys()):
        a, b = old[name], new[name]
        if a is None:
            lines.append(f"{name}: only one of the dumps has it")
        elif a.dtype != b.dtype or a.shape != b.shape:
            lines.append(f"{name}: {a.dtype} {a.shape}, {b.dtype} {b.shape}")
        elif a.tobytes() != b.tobytes():
            lines.append(f"{name}: {_how_many(a, b)}")
    return lines


def _how_many(a, b):
    bits = f"u{a.itemsize}"
    apart = np.ascontiguousarray(a).view(bits) != np.ascontiguousarray(b).view(bits)
    first = tuple(int(axis[0]) for axis in np.nonzero(apart))
    return f"{int(apart.sum())} of {a.size} numbers differ, first at {first}: {a[first]!r}, {b[first]!r}"
