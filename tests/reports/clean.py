#!/usr/bin/env python3
"""Right ports in four precisions: neither command may find anything wrong with them.

    /usr/bin/python3 tests/reports/clean.py MHA-INSPECT [--count N] [--first N] [--seed N] [--jobs N]

Kinds of layers, sizes of numbers, and whether the weights are of the port's type are drawn. Prints
every pair in which diff is not equal or close, or diagnose tells a cause other than the precision.
"""
import argparse
import concurrent.futures
import os
import re
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from files import Program, stages_of, write_layer, write_stages  # noqa: E402
from layers import LAYERS  # noqa: E402
from port import ROUND  # noqa: E402

PRECISIONS = ("f64", "f32", "f16", "bf16")


def draw(number, seed):
    """A layer, the type of its file, and what its port computes in and stores as."""
    rng = np.random.default_rng([seed, number])
    names = sorted(LAYERS)
    tensors, settings = LAYERS[names[rng.integers(len(names))]](int(rng.integers(1 << 30)))
    precision = PRECISIONS[number % 4]
    size = (1.0, 1.0, 0.1, 4.0)[rng.integers(4)]
    tensors["X"] = tensors["X"] * np.float32(size)
    if rng.random() < 0.2:  # a few dimensions of another size, as trained models have them
        tensors["X"][..., :2] *= 30
    dtype = "f64" if precision == "f64" else "f32"
    if precision in ("f16", "bf16") and rng.random() < 0.6:
        tensors = {n: ROUND[precision](t) if np.asarray(t).dtype.kind == "f" else t for n, t in tensors.items()}
    while not np.isfinite(stages_of(None, tensors, settings, precision)["scores"]).all():
        tensors["X"] = tensors["X"] / 4  # beyond float16: that port is not clean
    return tensors, settings, dtype, precision


def ask(number, seed, program):
    tensors, settings, dtype, precision = draw(number, seed)
    layer, reference, output = (os.path.join(program.folder, f"{name}{number}.npz")
                                for name in ("layer", "stages", "output"))
    write_layer(layer, tensors, dtype)
    stages = stages_of(None, tensors, settings, precision)
    batched = np.asarray(tensors["X"]).ndim == 3
    write_stages(reference, stages, precision, batched)
    write_stages(output, stages, precision, batched, [list(stages)[-1]])
    wrong = []
    for given in (reference, output):
        found = program("diff", layer, settings, given)
        if not found.get("equal"):
            wrong.append(f"{precision}: diff: {found.get('first')} {found.get('error', '')}\n    {found['command']}")
        told = program("diagnose", layer, settings, given)
        causes = [c["id"] for c in told.get("changes", []) if not re.match(r"precision\.", c["id"])]
        if causes or not told.get("explained"):
            wrong.append(f"{precision}: diagnose: {causes} {told.get('error', 'not explained')}\n    {told['command']}")
    return wrong


def main():
    parser = argparse.ArgumentParser(description="right ports: is anything found wrong?")
    parser.add_argument("program")
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--keep")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.keep or scratch
        os.makedirs(folder, exist_ok=True)
        program = Program(os.path.abspath(args.program), folder)
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            wrong = list(pool.map(lambda n: ask(n, args.seed, program), range(args.first, args.first + args.count)))
    for lines in wrong:
        for line in lines:
            print(line)
    print(f"{args.count} clean pairs: {sum(any(': diff' in x for x in w) for w in wrong)} not close in diff, "
          f"{sum(any(': diagnose' in x for x in w) for w in wrong)} with a cause in diagnose")
    return 1 if any(wrong) else 0


if __name__ == "__main__":
    sys.exit(main())
