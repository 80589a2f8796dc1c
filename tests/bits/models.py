#!/usr/bin/python3
"""Compares two programs' dumps of whole models, byte by byte: every family and trap of tests/models with random weights,
lone texts and batches, under every instruction set. tests/compare_commits.sh builds and calls."""
import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

import programs
import runs

HERE = os.path.dirname(os.path.abspath(__file__))


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--old", required=True, metavar="PROGRAM")
    parser.add_argument("--new", required=True, metavar="PROGRAM")
    parser.add_argument("--models", type=int, default=70, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="S")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), metavar="N")
    return parser.parse_args()


def made(folder, count, seed):
    """Folders of so many models: all variants, and as often again as needed, with other weights."""
    found = []
    while len(found) < count:
        home = os.path.join(folder, f"seed{seed}")
        listed = subprocess.run([sys.executable, os.path.join(HERE, "..", "models", "make.py"), home, "--seed", str(seed)],
                                check=True, capture_output=True, text=True)
        found += [os.path.join(home, one["name"]) for one in json.loads(listed.stdout)]
        seed += 1
    return found[:count]


def texts(rng, model):
    """Options of the texts that are dumped: the model's own, a short one, a batch of unequal lengths."""
    expected = np.load(os.path.join(model, "expected.npz"))
    own = expected["ids"].reshape(-1, expected["ids"].shape[-1])[0]
    words = [str(int(one)) for one in own]
    first, second = (",".join(words[:int(rng.integers(1, len(words) + 1))]) for _ in range(2))
    return [["--ids", ",".join(words)], ["--ids", first], ["--ids", ",".join(words), "--ids", second]]


def planned(rng, cpus, model):
    """Every instruction set dumps a whole text; then some stages, a middle layer alone, and parts."""
    ids = texts(rng, model)
    for cpu in cpus:
        yield runs.Run(cpu, int(rng.choice(runs.THREADS)), "whole", "npz", ids[int(rng.integers(0, 3))])
    draw = lambda kind, options, parts=1: runs.Run(str(rng.choice(cpus)), int(rng.choice(runs.THREADS)), kind, "npz",
                                                   options, parts)
    for text in ids:
        yield draw("stages", [*text, "-s", "resid_post"])
    yield draw("rows", [*ids[0], "--layer", "1", "-s", "weights,head_result", "--query", "-1"])
    yield draw("stages", [*ids[1], "--dtype", "f64", "-s", "weights,resid_post"])
    yield draw("parts", ids[0], int(rng.choice((2, 3))))


def compare(options, cpus, index, model):
    """Runs, arrays, refusals, and a line for each difference."""
    rng = np.random.default_rng([options.seed, index, 2])
    count = arrays = refused = 0
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for run in planned(rng, cpus, model):
            found = []
            for program in (options.old, options.new):
                try:
                    found.append(programs.dump(program, run.cpu, run, [model], os.path.join(folder, "out")))
                except programs.Failed as failed:
                    found.append(str(failed))
            count += 1
            title = f"{os.path.basename(model)}\n  {run}\n  "
            if all(isinstance(one, str) for one in found):
                refused += 1
            elif any(isinstance(one, str) for one in found):
                lines.append(title + next(one for one in found if isinstance(one, str)))
            else:
                arrays += len(found[1])
                lines += [title + line for line in programs.differences(*found)]
    return count, arrays, refused, lines


def main():
    options = parse()
    options.old, options.new = os.path.abspath(options.old), os.path.abspath(options.new)
    cpus = runs.instruction_sets()
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        models = made(folder, options.models, options.seed)
        found = list(pool.map(lambda i: compare(options, cpus, i, models[i]), range(len(models))))
    lines = [line for one in found for line in one[3]]
    print("\n".join(lines + [f"{len(found)} models, {sum(one[0] for one in found)} dumps of each program, "
                             f"{sum(one[1] for one in found)} arrays; {len(lines)} differences, "
                             f"{sum(one[2] for one in found)} refused by both"]))
    return 1 if lines or sum(one[2] for one in found) else 0


if __name__ == "__main__":
    sys.exit(main())
