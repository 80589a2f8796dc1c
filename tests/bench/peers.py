#!/usr/bin/env python3
"""Measures mha-inspect beside NumPy, PyTorch and ONNX Runtime, on the same arrays, taking turns in one run.

    python3 tests/bench/peers.py [--only compute,process,...] [--rounds N] [--write]

Installs what it needs: from Debian python3-numpy, python3-torch and OpenBLAS, from npm onnxruntime-node. Prints
tables of medians and ratios with their spread; --write puts them into docs/performance.md. Every result is
compared with float64: exit code 1 if one differs.
"""
import argparse
import os
import shutil
import sys
import tempfile

import machine

# Other Pythons in PATH have no NumPy; this one is Debian's.
if os.path.realpath(sys.executable) != os.path.realpath(machine.PYTHON) and os.path.exists(machine.PYTHON):
    os.execv(machine.PYTHON, [machine.PYTHON, *sys.argv])


def parts():
    """What can be measured, in the order in which it is. Imported late: they need what is installed first."""
    import compute
    import growth
    import process

    return {
        "compute": compute.measure_compute,
        "causal": compute.measure_causal,
        "process": process.measure_process,
        "long": process.measure_long,
        "json": process.measure_json,
        "growth": growth.measure_growth,
    }


def default_program():
    for build in ("release", "dev"):
        path = os.path.join(machine.ROOT, "build", build, "app", "mha-inspect")
        if os.path.exists(path):
            return path
    return shutil.which("mha-inspect")


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--only", metavar="PART,PART",
                        help="compute, causal, process, long, json, growth; default: all")
    parser.add_argument("--rounds", type=int, default=7, help="turns of everybody; default: 7")
    parser.add_argument("--sizes", default="abcd", help="sizes of compute; default: abcd")
    parser.add_argument("--longest", type=int, default=16384, help="tokens of long and growth; default: 16384")
    parser.add_argument("--program", default=default_program(), help="default: build/release's, else build/dev's")
    parser.add_argument("--folder", default=os.path.join(machine.ROOT, "build", "bench"),
                        help="where arrays and ONNX Runtime go; default: build/bench")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/performance.md")
    given = parser.parse_args()
    if not given.program:
        parser.error("no mha-inspect: build it (sh app/demo.sh), or give --program")
    return given


def main():
    given = options()
    given.program = os.path.abspath(given.program)
    modules = os.path.join(given.folder, "onnxruntime")
    machine.install(modules)

    from layers import Mismatch
    from report import Page
    from turns import Bench

    known = parts()
    chosen = given.only.split(",") if given.only else list(known)
    if unknown := [name for name in chosen if name not in known]:
        sys.exit(f"--only {','.join(unknown)}: not a part; there are {', '.join(known)}")

    page = Page(os.path.join(machine.ROOT, "docs", "performance.md"))
    page.table("machine", None, machine.description(modules, given.program), heading=("", ""))
    with tempfile.TemporaryDirectory(dir=given.folder, prefix="arrays-") as folder:
        bench = Bench(given, modules, folder)
        for name in chosen:
            try:
                known[name](bench, page)
            except Mismatch as mismatch:
                sys.exit(f"{name}: {mismatch}")
    if given.write:
        page.write()


if __name__ == "__main__":
    main()
