#!/usr/bin/env python3
"""A pass over a mixture of experts, beside a plain read of the bytes that it needs.

    /usr/bin/python3 tests/bench/mixture.py PROGRAM [--tokens 16] [--rounds 7] [--threads 2] [--cold]

A random model of 12 layers of 1,024 with 64 experts of 512, 4 a token, in bfloat16 (2.5 GB). Each round, in another
order: `predict`, whose pass is timed by --timings; and a read of the distinct experts that its tokens chose and of
all other weights, a MiB at a time into the same memory, by one thread and by as many as compute. With --cold the
file is dropped from the system's memory before each turn (as root). Prints what was read, and the ratios by rounds.
"""
import argparse
import json
import os
import re
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import machine  # noqa: E402
import turns  # noqa: E402

WIDTH, EXPERTS, INNER, LAYERS, VOCABULARY, HEADS, KEY_HEADS, CHOSEN = 1024, 64, 512, 12, 2048, 16, 8, 4
CONFIG = dict(model_type="mixtral", architectures=["MixtralForCausalLM"], hidden_size=WIDTH, intermediate_size=INNER,
              num_attention_heads=HEADS, num_key_value_heads=KEY_HEADS, num_hidden_layers=LAYERS, vocab_size=VOCABULARY,
              num_local_experts=EXPERTS, num_experts_per_tok=CHOSEN, rms_norm_eps=1e-5, rope_theta=1e4, hidden_act="silu",
              tie_word_embeddings=False, max_position_embeddings=4096, sliding_window=None, torch_dtype="bfloat16")


def shapes():
    """{name: shape}, in the order of the file."""
    keys = KEY_HEADS * WIDTH // HEADS
    found = {"model.embed_tokens.weight": (VOCABULARY, WIDTH), "model.norm.weight": (WIDTH,), "lm_head.weight": (VOCABULARY, WIDTH)}
    for n in range(LAYERS):
        at = f"model.layers.{n}."
        found |= {at + "input_layernorm.weight": (WIDTH,), at + "post_attention_layernorm.weight": (WIDTH,),
                  at + "self_attn.q_proj.weight": (WIDTH, WIDTH), at + "self_attn.k_proj.weight": (keys, WIDTH),
                  at + "self_attn.v_proj.weight": (keys, WIDTH), at + "self_attn.o_proj.weight": (WIDTH, WIDTH),
                  at + "block_sparse_moe.gate.weight": (EXPERTS, WIDTH)}
        for e in range(EXPERTS):
            of = at + f"block_sparse_moe.experts.{e}."
            found |= {of + "w1.weight": (INNER, WIDTH), of + "w3.weight": (INNER, WIDTH), of + "w2.weight": (WIDTH, INNER)}
    return found


def write(folder):
    """Writes the checkpoint; returns {name: (first byte, bytes)}."""
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(CONFIG, file)
    at, header = 0, {}
    for name, shape in shapes().items():
        size = 2 * int(np.prod(shape))
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    rng = np.random.default_rng(1)
    numbers = ((rng.standard_normal(1 << 22) * 0.03).astype("<f4").view("<u4") >> 16).astype("<u2")
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for shape in shapes().values():
            n = int(np.prod(shape))
            own = np.full(n, 0x3f80, "<u2") if len(shape) == 1 else np.roll(numbers, int(rng.integers(len(numbers))))[:n]
            file.write(own.tobytes())
    start = 8 + len(text)
    return {name: (start + e["data_offsets"][0], e["data_offsets"][1] - e["data_offsets"][0]) for name, e in header.items()}


def read(path, ranges, threads):
    """Seconds of a read of the ranges, a thread each its share of them."""
    def read_share(own):
        memory = bytearray(1 << 20)
        for first, size in own:
            while size > 0:
                got = os.preadv(file, [memoryview(memory)[:min(size, len(memory))]], first)
                first, size = first + got, size - got

    file = os.open(path, os.O_RDONLY)
    workers = [threading.Thread(target=read_share, args=(ranges[i::threads],)) for i in range(threads)]
    start = time.monotonic()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    seconds = time.monotonic() - start
    os.close(file)
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=machine.cores())
    parser.add_argument("--cold", action="store_true")
    given = parser.parse_args()
    program = os.path.abspath(given.program)
    with tempfile.TemporaryDirectory(prefix="mha-mixture-") as folder:
        places = write(folder)
        path = os.path.join(folder, "model.safetensors")
        ids = ",".join(map(str, np.random.default_rng(2).integers(0, VOCABULARY, given.tokens)))
        options = [folder, "--ids", ids, "--threads", str(given.threads)]
        chosen = os.path.join(folder, "chosen.npz")
        subprocess.run([program, "dump", *options, "--layer", "all", "-s", "experts", "-q", "-o", chosen], check=True)
        with np.load(chosen) as file:
            by_layer = {int(re.search(r"\d+", name)[0]): np.unique(file[name].astype(int))
                        for name in file.files if name.endswith("experts")}
        of_experts = [places[f"model.layers.{n}.block_sparse_moe.experts.{e}.{w}.weight"]
                      for n, experts in sorted(by_layer.items()) for e in experts for w in ("w1", "w3", "w2")]
        others = [place for name, place in places.items() if ".experts." not in name and "embed_tokens" not in name]
        mb = [sum(size for _, size in places) / 1e6 for places in (of_experts, others)]
        print(f"{sum(map(len, by_layer.values()))} distinct experts {mb[0]:.0f} MB, other weights {mb[1]:.0f} MB")

        def dropping(work):
            if given.cold:
                os.sync()
                with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
                    file.write("3")
            return work()

        def ours():
            took = subprocess.run([program, "predict", *options, "--timings"], check=True, capture_output=True, text=True)
            return json.loads(took.stderr.splitlines()[-1])["compute_s"]

        work = {"pass": ours, "read": lambda: read(path, of_experts + others, 1),
                f"read by {given.threads}": lambda: read(path, of_experts + others, given.threads)}
        results = turns.in_turns({name: lambda one=one: dropping(one) for name, one in work.items()}, given.rounds)
    for name, times in results.items():
        by_round = turns.ratios(results["pass"], times)
        print(f"  {name:10} {statistics.median(times) * 1e3:7.1f} ms   pass / it {statistics.median(by_round):.2f} "
              f"({min(by_round):.2f} to {max(by_round):.2f})")


if __name__ == "__main__":
    main()
