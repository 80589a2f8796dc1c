#!/usr/bin/python3
"""Compares two programs' dumps of random layers, byte by byte; tests/compare_commits.sh builds and calls."""
import argparse
import concurrent.futures
import itertools
import os
import sys
import tempfile
import time

import numpy as np

import files
import programs
import runs
from features import draw_features
from layer import Maker
from tally import STAGES, Tally


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--old", required=True, metavar="PROGRAM")
    parser.add_argument("--new", required=True, metavar="PROGRAM")
    parser.add_argument("--layers", type=int, default=200, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="S")
    parser.add_argument("--only", type=int, metavar="I", help="this layer of them alone")
    parser.add_argument("--keep", metavar="FOLDER", help="write the layers there, and leave them")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), metavar="N")
    parser.add_argument("--self-test", action="store_true",
                        help="the new program runs with another MHA_CPU: succeeds if that is found in most layers")
    return parser.parse_args()


class Comparison:
    """One layer under all its runs."""

    def __init__(self, options, index, wanted, cpus):
        self.options, self.cpus = options, cpus
        self.rng = np.random.default_rng([options.seed, index, 1])
        self.maker = Maker(options.seed, index, wanted)
        self.layer = self.maker.make()
        self.title = f"layer {index} ({self.layer.description})"
        self.index = index
        self.wholes = {}  # the first whole run of each instruction set, and its arrays
        self.tally = Tally()

    def compare(self):
        self.tally.layers = 1
        self.tally.features.update(self.layer.features)
        with tempfile.TemporaryDirectory(dir=memory_folder()) as self.folder:
            home = self.folder
            if self.options.keep:
                home = os.path.join(self.options.keep, f"layer{self.index}")
                os.makedirs(home, exist_ok=True)
            small = sum(array.size for array in self.layer.tensors.values()) < 20000
            self.sources = files.write_layer(home, self.layer, str(self.rng.choice(files.FORMATS[:3 if small else 2])))
            for run in runs.whole_runs(self.rng, self.cpus):
                self.compare_run(run)
            if self.wholes:
                stages = self.in_order(next(iter(self.wholes.values()))[1])
                for run in runs.other_runs(self.rng, self.cpus, stages, self.maker.selectable()):
                    self.compare_run(run)
        return self.tally

    @staticmethod
    def in_order(arrays):
        """The stages of a dump in the order of the computation, which only some formats keep."""
        return [name for name in STAGES if name in arrays] + sorted(arrays.keys() - set(STAGES))

    def compare_run(self, run):
        old = self.dump(self.options.old, run.cpu, run)
        new = self.dump(self.options.new, self.other_cpu(run) if self.options.self_test else run.cpu, run)
        if isinstance(old, str) and isinstance(new, str):
            self.tally.refused.append(f"{self.title}\n  {run}\n  {old}")
            return
        if isinstance(old, str) or isinstance(new, str):
            self.say(run, f"old: {old}" if isinstance(old, str) else f"new: {new}")
            return
        self.tally.count(run, new)
        for line in programs.differences(old, new):
            self.say(run, line)
        if run.whole:  # the new program against itself: other threads, other files, parts
            first, arrays = self.wholes.setdefault(run.cpu, (run, new))
            for line in programs.differences({name: arrays.get(name) for name in new}, new):
                self.say(run, f"{line} (both new, the first with {first})")

    def dump(self, program, cpu, run):
        """Arrays, or the message of a program that refuses."""
        try:
            return programs.dump(program, cpu, run, self.sources, os.path.join(self.folder, "out"))
        except programs.Failed as failed:
            return str(failed)

    def other_cpu(self, run):
        return self.cpus[-1] if run.cpu == "portable" else "portable"

    def say(self, run, line):
        self.tally.lines.append(f"{self.title}\n  {run}\n  {line}")


def memory_folder():
    """Memory rather than a disk, where the system has such a folder."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def main():
    options = parse()
    for name in ("old", "new"):
        setattr(options, name, os.path.abspath(getattr(options, name)))
    begun = time.monotonic()
    cpus = runs.instruction_sets()
    if options.self_test and len(cpus) == 1:
        sys.exit("self-test: this machine has one instruction set only")
    lists = draw_features(options.seed, options.layers)
    chosen = range(options.layers) if options.only is None else [options.only]
    total, differing = Tally(), 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for tally in pool.map(lambda i: Comparison(options, i, lists[i], cpus).compare(), chosen):
            total.add(tally)
            differing += bool(tally.lines)
    if options.self_test:
        total.lines = total.lines[:3]
    total.print(time.monotonic() - begun, list(itertools.product(cpus, runs.THREADS, runs.KINDS)))
    if options.self_test:
        print(f"self-test: {differing} of {len(chosen)} layers differ between instruction sets")
        return 0 if 2 * differing > len(chosen) else 1
    return 1 if total.lines or total.refused else 0


if __name__ == "__main__":
    sys.exit(main())
