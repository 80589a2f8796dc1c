#!/usr/bin/env python3
"""What commands over all layers of a text take beside a dump of the residual stream.

    /usr/bin/python3 tests/bench/commands.py PROGRAM [--layers 8] [--tokens 24] [--rounds 7]

A random model of GPT-2 small's width (whole_model.py). Processor seconds of whole processes, in turns: whatever
is measured or drawn, each layer is computed once. Prints medians, and each as a multiple of the dump, by rounds.
"""
import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import turns  # noqa: E402
import whole_model  # noqa: E402


def processor_seconds(*command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=turns.environment())
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    program = os.path.abspath(given.program)
    whole_model.LAYERS = whole_model.CONFIG["n_layer"] = given.layers
    with tempfile.TemporaryDirectory(prefix="mha-commands-") as folder:
        whole_model.write_checkpoint(folder, dict(whole_model.tensors(np.random.default_rng(0))))
        ids = ",".join(map(str, np.random.default_rng(1).integers(0, whole_model.VOCABULARY, given.tokens)))
        text = [folder, "--ids", ids, "--layer", "all"]
        out = os.path.join(folder, "out")
        commands = {
            "dump -s resid_post": ["dump", *text, "-s", "resid_post", "-o", out + ".npz"],
            "stats": ["stats", *text],
            "stats --measures entropy": ["stats", *text, "--measures", "entropy"],
            "show -s weights": ["show", *text, "-s", "weights"],
            "map (terminal)": ["map", *text],
            "map -o .svg": ["map", *text, "-o", out + ".svg"],
            "explain": ["explain", *text, "--query", "1", "--head", "0"],
            "report": ["report", *text, "-o", out + ".html"],
        }
        results = turns.in_turns({name: lambda command=command: processor_seconds(program, *command)
                                  for name, command in commands.items()}, given.rounds)
    dump = results["dump -s resid_post"]
    for name, times in results.items():
        by_round = turns.ratios(times, dump)
        print(f"  {name:24} {statistics.median(times) * 1e3:7.1f} ms  {statistics.median(by_round):.2f} "
              f"({min(by_round):.2f} to {max(by_round):.2f})")


if __name__ == "__main__":
    main()
