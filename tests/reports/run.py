#!/usr/bin/env python3
"""Rebuilds real reports of mistakes in attention, and says which of them mha-inspect names.

    /usr/bin/python3 tests/reports/run.py MHA-INSPECT [--sample N] [--only WORD] [--verbose] [--jobs N]

Each report is a right port with an edit of a few lines (mistakes_*.py). It is diagnosed from all
stages and from the output alone, in every precision of MODES. `named` means that a cause of the
report's own is among those told, and no other; `missed`, that none was told; `wrong`, another one.
"""
import argparse
import collections
import concurrent.futures
import glob
import importlib
import os
import re
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from files import Program, stages_of, write_layer, write_stages  # noqa: E402
from layers import LAYERS  # noqa: E402
from report import REPORTS  # noqa: E402

# What is computed in, and stored as.
MODES = {"f32": ("f32", "f32"), "stored f16": ("f32", "f16"), "stored bf16": ("f32", "bf16"),
         "computed f16": ("f16", "f16"), "computed bf16": ("bf16", "bf16")}
ROUNDING = r"precision\..*"
# Of what is asked in a mode, at least this share must be named from all stages, and from the output
# alone; and no more than MOST_WRONG be told wrongly. Raise them with what diagnose learns.
LEAST = {"f32": (0.9, 0.8)}
LEAST_ROUNDED = (0.85, 0.7)
MOST_WRONG = 0.05


def load_reports():
    for path in sorted(glob.glob(os.path.join(HERE, "mistakes_*.py"))):
        importlib.import_module(os.path.basename(path)[:-3])
    return REPORTS


def verdict(report, told):
    if "error" in told:
        return "error", told["error"]
    ids = [change["id"] for change in told["changes"]]
    causes = [i for i in ids if not re.fullmatch(ROUNDING, i)]
    alike = told.get("same_numbers", [])
    good = [i for i in causes + alike if re.match(report.causes, i)]
    others = [i for i in causes if not re.match(report.causes, i)]
    text = "+".join(ids) + ("" if told["explained"] else " (in part)")
    if told.get("equal"):
        return "missed", "equal"
    if not causes:
        return "missed", text or "nothing"
    if not good or (others and not [i for i in alike if re.match(report.causes, i)]):
        return "wrong", text
    return "named", text


def first_difference(right, wrong):
    """the first stage that both have and that the mistake changes"""
    for name, value in right.items():
        if name in wrong and (wrong[name].shape != value.shape or
                              not np.allclose(wrong[name], value, rtol=1e-6, atol=1e-6, equal_nan=True)):
            return name
    return None


def ask(number, report, program, modes):
    """[(mode, given, verdict, what was told, command)]"""
    tensors, settings = LAYERS[report.layer](report.seed)
    batched = np.asarray(tensors["X"]).ndim == 3
    layer = os.path.join(program.folder, f"layer{number}.npz")
    write_layer(layer, tensors)
    results = []
    for mode in modes:
        compute, stored = MODES[mode]
        stages = stages_of(report, tensors, settings, compute)
        last = list(stages)[-1]
        for given in ("stages", "output"):
            if given == "output" and report.told_by != "output":
                continue
            reference = os.path.join(program.folder, f"{given}{number}-{mode.replace(' ', '-')}.npz")
            write_stages(reference, stages, stored, batched, None if given == "stages" else [last])
            told = program("diagnose", layer, settings, reference)
            results.append((mode, given, *verdict(report, told), told["command"]))
    return results


def main():
    parser = argparse.ArgumentParser(description="which real mistakes does mha-inspect name?")
    parser.add_argument("program")
    parser.add_argument("--sample", type=int, default=1, help="every N-th report")
    parser.add_argument("--only", default="", help="reports whose source, causes or layer hold this")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--verbose", action="store_true", help="the commands of what is not named")
    parser.add_argument("--keep", help="a folder for the files")
    parser.add_argument("--check", action="store_true", help="fail where too few are named")
    args = parser.parse_args()
    reports = [r for r in load_reports() if args.only in f"{r.source} {r.causes} {r.layer} {r.edit.__name__}"]
    reports = reports[::args.sample]
    modes = args.modes.split(",")
    counts = collections.Counter()
    not_named = collections.OrderedDict()
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.keep or scratch
        os.makedirs(folder, exist_ok=True)
        program = Program(os.path.abspath(args.program), folder)
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            jobs = [pool.submit(ask, i, r, program, modes) for i, r in enumerate(reports)]
            for report, job in zip(reports, jobs):
                for mode, given, judged, text, command in job.result():
                    counts[mode, given, judged] += 1
                    if judged != "named":
                        lines = not_named.setdefault((report.source, report.layer, report.text), {})
                        lines.setdefault((judged, text), []).append((f"{mode}/{given}", command))
    for (source, layer, text), lines in not_named.items():
        print(f"{source} ({layer}): {text}")
        for (judged, told), places in lines.items():
            print(f"    {judged}: {told}   [{', '.join(p for p, _ in places)}]")
            if args.verbose:
                print(f"        {places[0][1]}")
    print(f"\n{len(reports)} reports")
    failed = False
    for mode in modes:
        for given in ("stages", "output"):
            row = [counts[mode, given, judged] for judged in ("named", "missed", "wrong", "error")]
            total = max(sum(row), 1)
            least = LEAST.get(mode, LEAST_ROUNDED)[given == "output"]
            failed = failed or row[0] < least * sum(row) or row[2] > MOST_WRONG * total or row[3] > 0
            print(f"{mode:15}{given:8}{row[0]:4} of {sum(row):3} ({100 * row[0] / total:.0f} %)"
                  f"  missed {row[1]}  wrong {row[2]}  error {row[3]}")
    return 1 if args.check and failed else 0


if __name__ == "__main__":
    sys.exit(main())
