#!/usr/bin/env python3
"""Whether the default is the fastest of what MHA_CPU chooses among, on this processor.

    /usr/bin/python3 tests/bench/levels.py PROGRAM [--rounds 9] [--tokens 16,128,1024] [--sizes abcd]
        [--levels avx512,avx2]

Layers a to d of compute.py, and a random model of GPT-2 small's size (whole_model.py) with weights in float32 and in
bfloat16: `bench` by default and with each MHA_CPU, in turns. Prints each level's time and the default's as a multiple
of it: the median of the rounds, and an interval of 95 % by drawing rounds again. Exit code 1 where the interval is
above 1.02: there the default loses. For numbers to keep, nothing else may run on the machine.
"""
import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import compute  # noqa: E402
import layers  # noqa: E402
import machine  # noqa: E402
import turns  # noqa: E402
import whole_model  # noqa: E402

MOST = 1.02
LEVELS = {"x86_64": ("avx512", "avx2", "portable"), "aarch64": ("portable",)}.get(platform.machine(), ())
DEFAULT = "default"


def seconds(program, level, arguments):
    env = turns.environment() if level == DEFAULT else turns.environment(MHA_CPU=level)
    out = subprocess.run([program, "bench", *arguments, "--format", "json"], env=env, check=True, stdout=subprocess.PIPE)
    return json.loads(out.stdout)["median_s"]


def interval(ratios):
    """Of their median, by drawing as many of them again a thousand times."""
    drawn = np.median(np.random.default_rng(1).choice(ratios, (1000, len(ratios))), axis=1)
    return np.quantile(drawn, [0.025, 0.975])


def compare(given, what, arguments):
    """Prints a row a level; whether the default holds."""
    levels = given.levels.split(",")
    names = (DEFAULT, *levels)
    once = seconds(given.program, DEFAULT, [*arguments, "--repeat", "3"])
    repeat = ["--repeat", str(max(3, round(0.5 / once)))]
    results = turns.in_turns({name: lambda name=name: seconds(given.program, name, [*arguments, *repeat]) for name in names},
                             given.rounds, progress=None)
    holds = True
    print(f"{what}: {statistics.median(results[DEFAULT]) * 1e3:.3g} ms by default")
    for level in levels:
        ratios = turns.ratios(results[DEFAULT], results[level])
        least, most = interval(ratios)
        loses = least > MOST
        holds = holds and not loses
        print(f"  {level:9} {statistics.median(results[level]) * 1e3:8.3g} ms   default / it {statistics.median(ratios):.3f} "
              f"({least:.3f} to {most:.3f}){'  LOSES' if loses else ''}", flush=True)
    return holds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--tokens", default="16,128,1024")
    parser.add_argument("--sizes", default="abcd")
    parser.add_argument("--levels", default=",".join(LEVELS))
    given = parser.parse_args()
    given.program = os.path.abspath(given.program)
    holds = []
    with tempfile.TemporaryDirectory(prefix="mha-levels-") as folder:
        for name in given.sizes:
            T, d_model, heads = compute.SIZES[name]
            source = layers.Layer(T, d_model, heads).save(os.path.join(folder, "layer.npz"))
            holds.append(compare(given, f"{name}: T {T}, {d_model}, H {heads}", [source]))
        if given.tokens:
            there = dict(whole_model.tensors(np.random.default_rng(1)))
            for dtype in ("F32", "BF16"):
                own = os.path.join(folder, dtype)
                os.makedirs(own)
                whole_model.write_checkpoint(own, there, dtype)
                for T in map(int, given.tokens.split(",")):
                    ids = ",".join(map(str, np.random.default_rng(2).integers(0, 50257, T)))
                    holds.append(compare(given, f"whole model, {T} tokens, weights in {dtype}", [own, "--ids", ids]))
    print(f"{machine.cores()} cores; the default holds in {sum(holds)} of {len(holds)}")
    return 0 if all(holds) else 1


if __name__ == "__main__":
    sys.exit(main())
