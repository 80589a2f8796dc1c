#!/usr/bin/env python3
"""How many passes of the model a diagnosis of all layers takes at GPT-2 small's width.

    /usr/bin/python3 tests/bench/diagnoses.py PROGRAM [--layers 4] [--tokens 128]

A random model (whole_model.py), and references of it with mistakes planted by an independent port
(tests/support/port.py), of which hidden states or logits were saved. Prints the passes that
--timings counts, wall and processor seconds; the cause must be named.
"""
import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import whole_model as gpt2  # noqa: E402

# mistakes, what must be named, captures
CASES = [("none", [], "states logits"),
         ("act:relu", ["mlp.activation"], "states logits"),
         ("scale", ["scale.missing"], "states logits"),
         ("block.skipped", ["block.skipped"], "states logits"),
         ("mlp.missing", ["mlp.missing"], "states logits"),
         ("head.rows", ["head.rows"], "logits"),
         ("head.softmax", ["head.softmax"], "logits"),
         ("act:relu+scale", ["mlp.activation", "scale.missing"], "states")]


def diagnosed(program, folder, ids, reference):
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run([program, "diagnose", folder, "--ids", ids, "--against", reference, "-q",
                           "--timings", "-f", "json"], capture_output=True, text=True)
    wall, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    passes = json.loads(done.stderr[done.stderr.rindex('{"read_s"'):])["passes"]
    return done.stdout, passes, wall, processor


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=128)
    args = parser.parse_args()
    gpt2.LAYERS = gpt2.CONFIG["n_layer"] = args.layers
    ids = ",".join(map(str, np.random.default_rng(1).integers(0, 50257, args.tokens)))
    with tempfile.TemporaryDirectory() as scratch:
        folder = scratch + "/random-gpt2"
        os.makedirs(folder)
        gpt2.write_checkpoint(folder, dict(gpt2.tensors(np.random.default_rng(0))))
        for mistakes, named, captures in CASES:
            subprocess.run([sys.executable, HERE + "/../support/port.py", folder, ids, mistakes, scratch],
                           check=True)
            for capture in captures.split():
                found, passes, wall, processor = diagnosed(
                    args.program, folder, ids, f"{scratch}/{mistakes}-{capture}.npz")
                right = all(f'"id": "{one}"' in found for one in named) and (named or '"id"' not in found)
                print(f"{mistakes:16} {capture:7} {passes:6.1f} passes {wall:6.1f} s {processor:6.1f} s of processors"
                      f"  {'named' if right else 'NOT NAMED'}", flush=True)


main()
