#!/usr/bin/env python3
"""The first pass of a process, beside a plain read of the file and a pass over packed weights.

    /usr/bin/python3 tests/bench/first_pass.py PROGRAM [--tokens 16] [--rounds 7] [--threads 2]

A random model of GPT-2 small's size (whole_model.py). Each round, in another order: `predict` as a whole
process; one that shows the embedding of one token; a plain read of the mapped file by as many threads, for each of
which a worker process maps the file anew; and `bench`, whose weights are packed. The bound is the read and the
packed pass; the ratio is (predict − start) / bound, by rounds.
"""
import argparse
import json
import mmap
import os
import subprocess
import sys
import tempfile
import time
from multiprocessing import get_context

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import machine  # noqa: E402
import turns  # noqa: E402
import whole_model  # noqa: E402


def read_part(path, part, parts, barrier, seconds):
    """Maps the file and reads one part of it once."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        numbers = np.frombuffer(mapped, np.float32, len(mapped) // 4)
        size = len(numbers) // parts
        barrier.wait()
        start = time.monotonic()
        numbers[part * size:(part + 1) * size].view(np.int32).max()
        seconds.put(time.monotonic() - start)
        del numbers


def plain_read(path, threads):
    """Seconds of the slowest worker."""
    context = get_context("fork")
    barrier, seconds = context.Barrier(threads), context.Queue()
    workers = [context.Process(target=read_part, args=(path, part, threads, barrier, seconds)) for part in range(threads)]
    for worker in workers:
        worker.start()
    slowest = max(seconds.get() for _ in workers)
    for worker in workers:
        worker.join()
    return slowest


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=machine.cores())
    given = parser.parse_args()
    program = os.path.abspath(given.program)
    with tempfile.TemporaryDirectory(prefix="mha-first-") as folder:
        whole_model.write_checkpoint(folder, dict(whole_model.tensors(np.random.default_rng(0))))
        ids = ",".join(map(str, np.random.default_rng(1).integers(0, whole_model.VOCABULARY, given.tokens)))
        options = ["--ids", ids, "--threads", str(given.threads)]

        def packed():
            out = subprocess.run([program, "bench", folder, *options, "--format", "json"], check=True, stdout=subprocess.PIPE)
            return json.loads(out.stdout)["median_s"]

        results = turns.in_turns({
            "predict": lambda: whole_model.process(program, "predict", folder, *options),
            "start": lambda: whole_model.process(program, "show", folder, *options, "-s", "embed", "--query", "0"),
            "plain read": lambda: plain_read(os.path.join(folder, "model.safetensors"), given.threads),
            "packed": packed}, given.rounds)
    for name, times in results.items():
        print(f"  {name:12} {np.median(times) * 1e3:7.1f} ms")
    rounds = [(a - s) / (r + p) for a, s, r, p in zip(*(results[name] for name in ("predict", "start", "plain read", "packed")))]
    print(f"  (predict - start) / (plain read + packed): {np.median(rounds):.2f} ({min(rounds):.2f} to {max(rounds):.2f})")


if __name__ == "__main__":
    main()
