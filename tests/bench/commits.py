#!/usr/bin/env python3
"""Two builds of the program in turns, and the old one against itself as the control.

    /usr/bin/python3 tests/bench/commits.py OLD NEW [--rounds 7] [--only NAME] [--threads 2]

Sizes a to d (compute.py), few tokens, ALiBi, a mask, a soft cap, sinks, the weights kept, and the dump
of all stages as a whole process with its peak of memory. Each round everybody has a turn, in another
order; what is printed is new / old and old / old, round by round: the median and the range. A build is
slower where its median leaves both 1.02 and the control's range. Both must give the same bits. For
numbers to keep, nothing else may run on the machine.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import machine  # noqa: E402
import turns  # noqa: E402
from compute import SIZES  # noqa: E402
from layers import Layer  # noqa: E402

FORMS = {"alibi": ["--alibi", "true"], "mask": ["mask={mask}"], "softcap": ["--softcap", "20"],
         "sinks": ["sinks={sinks}"], "causal": ["--causal"]}


def cases(folder):
    """(name, arguments behind `bench`)"""
    for name, shape in SIZES.items():
        yield name, [Layer(*shape).save(os.path.join(folder, name + ".npz"))]
        yield name + " kept", [os.path.join(folder, name + ".npz"), "-s", "weights,output"]
    for T in (16, 64):
        yield f"T {T}", [Layer(T, 768, 12).save(os.path.join(folder, f"t{T}.npz"))]
    T, _, heads = SIZES["b"]
    places = {"mask": os.path.join(folder, "mask.npy"), "sinks": os.path.join(folder, "sinks.npy")}
    rng = np.random.default_rng(3)
    np.save(places["mask"], rng.random((T, T)) < 0.7)
    np.save(places["sinks"], rng.standard_normal(heads).astype(np.float32))
    for name, words in FORMS.items():
        yield name, [os.path.join(folder, "b.npz"), *(word.format(**places) for word in words)]


def bench(program, words, threads):
    out = subprocess.run([program, "bench", *words, "--threads", str(threads), "--format", "json"],
                         check=True, stdout=subprocess.PIPE)
    return json.loads(out.stdout)["median_s"]


def dump(launcher, program, layer, path, threads):
    """Seconds and peak bytes of the whole process (measure.c)."""
    report = path + ".took"
    subprocess.run([launcher, report, program, "dump", layer, "-q", "-o", path, "--threads", str(threads)], check=True)
    with open(report, encoding="utf-8") as file:
        seconds, kib, status = file.read().split()
    assert status == "0", status
    return float(seconds), int(kib)


def line(name, old, again, new):
    ratios, control = turns.ratios(new, old), turns.ratios(again, old)
    median = statistics.median(ratios)
    slower = median > 1.02 and median > max(control)
    print(f"{name:10} {1e3 * statistics.median(old):9.2f} ms  new/old {median:5.3f} ({min(ratios):.3f}–{max(ratios):.3f})"
          f"  control {statistics.median(control):5.3f} ({min(control):.3f}–{max(control):.3f})"
          f"{'  SLOWER' if slower else ''}", flush=True)
    return slower


def same_bits(old, new, words):
    """The output of both."""
    outputs = [subprocess.run([program, "show", *[w for w in words if w not in ("-s", "weights,output")], "-s", "output",
                               "-f", "npy"], check=True, stdout=subprocess.PIPE).stdout for program in (old, new)]
    assert outputs[0] == outputs[1], words


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="")
    parser.add_argument("--threads", type=int, default=machine.cores())
    given = parser.parse_args()
    old, new = os.path.abspath(given.old), os.path.abspath(given.new)
    slower = False
    with tempfile.TemporaryDirectory(prefix="mha-commits-") as folder:
        for name, words in cases(folder):
            if given.only not in name:
                continue
            same_bits(old, new, words)
            took = turns.in_turns({who: lambda p=program: bench(p, words, given.threads)
                                   for who, program in (("old", old), ("again", old), ("new", new))},
                                  given.rounds, progress=False)
            slower = line(name, took["old"], took["again"], took["new"]) or slower
        if given.only in "dump":
            launcher = os.path.join(folder, "measure")
            subprocess.run(["cc", "-O2", "-o", launcher, os.path.join(machine.HERE, "measure.c")], check=True)
            layer, path = os.path.join(folder, "b.npz"), os.path.join(folder, "all.npz")
            Layer(*SIZES["b"]).save(layer)
            took = turns.in_turns({who: lambda p=program: dump(launcher, p, layer, path, given.threads)
                                   for who, program in (("old", old), ("again", old), ("new", new))},
                                  given.rounds, progress=False)
            seconds, peaks = ({who: [one[i] for one in runs] for who, runs in took.items()} for i in (0, 1))
            slower = line("dump all", seconds["old"], seconds["again"], seconds["new"]) or slower
            print(f"peak of memory: old {max(peaks['old']) >> 10} MiB, new {max(peaks['new']) >> 10} MiB")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
