#!/usr/bin/env python3
"""One query against many earlier keys, as of a token that is generated, beside a plain read of the same bytes.

    /usr/bin/python3 tests/bench/one_query.py PROGRAM [--keys 32768] [--width 4096] [--heads 32] [--kv-heads 8]

A random layer with k_past and v_past; its output is compared with plain formulas in float64. `bench` measures
the bandwidth of a plain read in the same run: the bound is every weight, key and value read once.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import numpy as np


def layer_of(keys, width, heads, kv_heads):
    rng = np.random.default_rng(1)
    d_k = width // heads

    def drawn(*shape):
        return rng.standard_normal(shape, np.float32) * np.float32(width ** -0.5)

    return {"X": rng.standard_normal((1, width), np.float32), "W_q": drawn(width, width), "W_k": drawn(width, kv_heads * d_k),
            "W_v": drawn(width, kv_heads * d_k), "W_o": drawn(width, width),
            "k_past": rng.standard_normal((kv_heads, keys, d_k), np.float32), "v_past": rng.standard_normal((kv_heads, keys, d_k), np.float32)}


def expected(layer, heads, kv_heads):
    double = {name: value.astype(np.float64) for name, value in layer.items() if "past" not in name}
    d_k = layer["W_q"].shape[1] // heads
    q = (double["X"] @ double["W_q"]).reshape(heads, d_k)
    out = []
    for kv in range(kv_heads):
        k, v = (np.concatenate([layer[past][kv].astype(np.float64), (double["X"] @ double[W])[:, kv * d_k:(kv + 1) * d_k]])
                for past, W in (("k_past", "W_k"), ("v_past", "W_v")))
        group = heads // kv_heads
        scores = q[kv * group:(kv + 1) * group] @ k.T / np.sqrt(d_k)
        weights = np.exp(scores - scores.max(1, keepdims=True))
        out.append(weights / weights.sum(1, keepdims=True) @ v)
    return np.concatenate(out).reshape(1, -1) @ double["W_o"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    for name, usual in (("keys", 32768), ("width", 4096), ("heads", 32), ("kv-heads", 8)):
        parser.add_argument("--" + name, type=int, default=usual)
    asked = parser.parse_args()
    layer = layer_of(asked.keys, asked.width, asked.heads, asked.kv_heads)
    with tempfile.TemporaryDirectory() as folder:
        file, out = os.path.join(folder, "layer.npz"), os.path.join(folder, "output.npy")
        np.savez(file, num_heads=asked.heads, num_kv_heads=asked.kv_heads, causal=True, **layer)
        subprocess.run([asked.program, "dump", file, "-s", "output", "-o", out, "--quiet"], check=True)
        wanted = expected(layer, asked.heads, asked.kv_heads)
        error = np.abs(np.load(out) - wanted).max() / np.abs(wanted).max()
        if not error < 2e-5:
            sys.exit(f"the output is {error:.1e} of its largest number off")
        text = subprocess.run([asked.program, "bench", file, "-s", "output", "--repeat", "20", "--quiet", "-f", "json"], check=True, capture_output=True,
                              text=True).stdout
    result = json.loads(text)
    for name, stage in result["by_stage"].items():
        print(f"{name:9} {1e3 * stage['seconds']:6.2f} ms, {stage['reached']:4.0%} of the bound by {stage['bound_by']}")
    read = sum(value.nbytes for value in layer.values())
    print(f"all       {1e3 * result['median_s']:6.2f} ms; {read / 1e6:.0f} MB of weights, keys and values, read in "
          f"{1e-6 * read / result['machine']['read_gb_s']['memory']:.2f} ms at {result['machine']['read_gb_s']['memory']:.1f} GB/s; error {error:.1e}")


if __name__ == "__main__":
    main()
