#!/usr/bin/env python3
"""Compares models with what hooks on the modules of their attention would give.

    /usr/bin/python3 tests/models/modules.py PROGRAM MODELS [--only NAME] [--show]

MODELS is a folder that make.py wrote. Each linear module of a layer's attention gives the product of its own weight, as
it is stored, and its input: queries beside gates, fused projections, values before a factor. `diff` has to take them for
right ones, and has to compare each. Exit code 1 where one is blamed or left out.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

import safetensors
from families import Weights

READS_X = ("q_proj k_proj v_proj g_proj gate_proj query key value q_lin k_lin v_lin query_key_value Wqkv qkv_proj c_attn "
           "W_pack qkv_lin").split()
READS_CONCAT = "o_proj out_proj c_proj dense out_lin wo".split()
OF_ATTENTION = "self_attn attn attention self_attention attention.self attention.attention attention.output".split()
NAME = re.compile(r"(?:.*\.)?(?:layers|h|layer|blocks|block)\.(\d+)\.(?:\d+\.)?(.+)\.([A-Za-z_]+)\.weight")


def results(folder, expected):
    """The result of each module by its path, and the inputs of output projections."""
    config, tensors = safetensors.read_folder(folder)
    weights, found = Weights(tensors), {}
    for name in tensors:
        match = NAME.fullmatch(name)
        if not match or match[2] not in OF_ATTENTION:
            continue
        n, module = match[1], match[3]
        stage = "x" if module in READS_X else "concat" if module in READS_CONCAT else None
        path = name.removesuffix(".weight")
        if stage is None or f"layers.{n}.{stage}" not in expected:
            continue
        if module in ("k_proj", "v_proj") and f"layers.{n}.scores" in expected and f"layers.{n}.{module[0]}" not in expected:
            continue  # keys of an earlier layer: the module does not run
        given, weight = expected[f"layers.{n}.{stage}"], np.asarray(weights[name], float)
        if weight.ndim != 2:
            continue
        if config.get("model_type") == "gpt2":
            weight = weight.T
        if weight.shape[1] != given.shape[-1]:
            continue
        bias = weights[path + ".bias"] if path + ".bias" in weights else 0
        found[path] = (given @ weight.T + bias).astype(np.float32)
        if stage == "concat":
            found[path + ".input"] = given.astype(np.float32)
    return found


def compare(program, folder, show):
    expected = dict(np.load(os.path.join(folder, "expected.npz")))
    found = results(folder, expected)
    if not found:
        return "", 0
    lone = sorted(int(name.split(".")[1]) for name in expected if name.endswith(".x")) if "ids" not in expected else []
    with tempfile.TemporaryDirectory() as out:
        path = os.path.join(out, "modules.npz")
        np.savez(path, **found)
        if lone:
            stream = f"{os.path.join(folder, 'expected.npz')}:layers.{lone[0]}.resid_pre"
            given = ["--layer", str(lone[0]), f"X={stream}", "--input-norm", "checkpoint"]
        else:
            ids = expected["ids"]
            if ids.ndim > 1:
                return "", 0
            given = ["--ids", ",".join(map(str, ids.tolist()))]
        words = [program, "diff", folder, *given, "--against", path]
        done = subprocess.run([*words, "--format", "json"], capture_output=True, text=True)
        if done.returncode == 0:
            told = json.loads(done.stdout)
            parts = [told] + [part for part in told.values() if isinstance(part, dict)]
            left = [one for part in parts for word in ("not_compared", "passed_over") for one in part.get(word, [])]
            if not left:
                return "", len(found)
            return f"left out: {str(left[:4])[:300]}", len(found)
        if show:
            print(subprocess.run(words, capture_output=True, text=True).stdout[:3000])
        return f"exit {done.returncode}: {done.stderr[:300]}", len(found)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("models")
    parser.add_argument("--only", action="append")
    parser.add_argument("--show", action="store_true")
    args = parser.parse_args()
    wrong = models = modules = 0
    for name in sorted(os.listdir(args.models)):
        folder = os.path.join(args.models, name)
        if not os.path.isdir(folder) or args.only and name not in args.only:
            continue
        try:
            why, count = compare(args.program, folder, args.show)
        except Exception as error:
            why, count = f"{type(error).__name__} {error}", 0
        models += count > 0
        modules += count
        if why:
            wrong += 1
            print(f"{name}: {why}", flush=True)
    print(f"{modules} results of modules in {models} models, {wrong} models wrong")
    return 1 if wrong or not models else 0


if __name__ == "__main__":
    sys.exit(main())
