#!/usr/bin/env python3
"""Two mistakes together, and disturbances that no convention explains.

    /usr/bin/python3 tests/reports/pairs.py MHA-INSPECT [--pairs N] [--disturbances N] [--seed N]

Pairs: two reports of one layer whose mistakes begin at different stages; named if each has a cause
of its own and no other is told. Disturbances: nothing may be claimed; counts how many are hinted at.
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

from disturbances import DISTURBANCES  # noqa: E402
from files import Program, stages_of, write_layer, write_stages  # noqa: E402
from layers import LAYERS  # noqa: E402
from port import Port  # noqa: E402
from run import ROUNDING, first_difference, load_reports  # noqa: E402

LEAST_PAIRS = 0.75  # of random pairs, this share must be named


def both(one, other):
    class Both:
        @staticmethod
        def edit(port):
            one.edit(port)
            other.edit(port)
    return Both


def drawn_pairs(count, seed):
    """Two reports that fit one layer, each of which changes a stage of its own first."""
    rng = np.random.default_rng([seed, 1])
    reports = [r for r in load_reports() if r.told_by == "output"]
    pairs, tried = [], 0
    while len(pairs) < count and tried < 100 * count:
        tried += 1
        one, other = (reports[i] for i in rng.choice(len(reports), 2, replace=False))
        layer = LAYERS[(one, other)[rng.integers(2)].layer]
        tensors, settings = layer(int(rng.integers(1 << 30)))
        right = Port(tensors, settings, "f64").forward()
        try:
            starts = [first_difference(right, stages_of(r, tensors, settings, "f64")) for r in (one, other)]
            wrong = stages_of(both(one, other), tensors, settings, "f32")
        except Exception:  # a mistake of biases on a layer without
            continue
        if None in starts or starts[0] == starts[1] or not all(np.isfinite(v).all() or s == "masked"
                                                              for s, v in wrong.items()):
            continue
        pairs.append((one, other, tensors, settings, wrong))
    return pairs


def ask_pair(number, pair, program):
    one, other, tensors, settings, stages = pair
    layer, reference = (os.path.join(program.folder, f"{n}{number}.npz") for n in ("pair", "pair-stages"))
    write_layer(layer, tensors)
    write_stages(reference, stages, "f32", np.asarray(tensors["X"]).ndim == 3)
    told = program("diagnose", layer, settings, reference)
    ids = [c["id"] for c in told.get("changes", []) if not re.fullmatch(ROUNDING, c["id"])]
    alike = told.get("same_numbers", [])
    named = [any(re.match(r.causes, i) for i in ids + alike) for r in (one, other)]
    extra = [i for i in ids if not any(re.match(r.causes, i) for r in (one, other))]
    return all(named) and not (extra and not alike), (one, other, ids, told)


def ask_disturbance(number, seed, program):
    rng = np.random.default_rng([seed, 2, number])
    disturbance = DISTURBANCES[number % len(DISTURBANCES)]
    name = disturbance.layers[int(rng.integers(len(disturbance.layers)))]
    tensors, settings = LAYERS[name](int(rng.integers(1 << 30)))
    port = Port(tensors, settings, "f32")
    disturbance.edit(port, rng)
    stages = port.forward()
    layer, reference = (os.path.join(program.folder, f"{n}{number}.npz") for n in ("other", "other-stages"))
    write_layer(layer, tensors)
    write_stages(reference, stages, "f32", np.asarray(tensors["X"]).ndim == 3)
    told = program("diagnose", layer, settings, reference)
    claimed = [c["id"] for c in told.get("changes", [])]
    hint = " ".join(str(told.get(k) or "") for k in ("hint", "hints"))
    return claimed, bool(re.search(disturbance.hint, hint, re.I)), (disturbance, name, hint, told)


def main():
    parser = argparse.ArgumentParser(description="two mistakes together; disturbances")
    parser.add_argument("program")
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--disturbances", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--check", action="store_true", help="fail where a disturbance is claimed, or pairs are not named")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        program = Program(os.path.abspath(args.program), folder)
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            pairs = list(pool.map(lambda x: ask_pair(x[0], x[1], program),
                                  enumerate(drawn_pairs(args.pairs, args.seed))))
            others = list(pool.map(lambda n: ask_disturbance(n, args.seed, program), range(args.disturbances)))
    for named, (one, other, ids, told) in pairs:
        if not named:
            print(f"{one.source} ({one.edit.__name__}) and {other.source} ({other.edit.__name__}): {ids} "
                  f"{told.get('error', '')}")
    for claimed, hinted, (disturbance, name, hint, told) in others:
        if claimed or not hinted:
            print(f"{disturbance.edit.__doc__} ({name}): claimed {claimed}, hint '{hint}' {told.get('error', '')}")
    print(f"{sum(named for named, _ in pairs)} of {len(pairs)} pairs named; {sum(bool(c) for c, _, _ in others)} of "
          f"{len(others)} disturbances claimed, {sum(h for _, h, _ in others)} hinted at")
    return 1 if args.check and (any(c for c, _, _ in others) or
                                sum(n for n, _ in pairs) < LEAST_PAIRS * len(pairs)) else 0


if __name__ == "__main__":
    sys.exit(main())
