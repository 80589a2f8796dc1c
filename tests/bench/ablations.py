#!/usr/bin/env python3
"""Effects of taking out every head, beside PyTorch that keeps the clean run's streams as we do.

    /usr/bin/python3 tests/bench/ablations.py PROGRAM [--layers 12] [--tokens 128] [--all] [--rounds 3]

A random model of GPT-2 small's size (whole_model.py) and a text: each of the heads, each layer's
attention and each feed-forward is zeroed; what follows is computed again, and the divergence from
the clean run, of the last token or of --all. PyTorch begins at the clean run's head_out of the
layer that changes, too. In memory: weights loaded, ours without the pass that packs them; and whole
processes, which read the checkpoint. Seconds, and processor seconds of all threads, which a busy
machine changes less. Everybody's divergences must agree.
"""
import argparse
import csv
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import machine  # noqa: E402
import turns  # noqa: E402
import whole_model as gpt2  # noqa: E402


class Torch:
    """The clean run, and runs from a changed layer on."""

    def __init__(self, there, ids, whole):
        import torch

        self.torch, self.there, self.whole, self.T = torch, there, whole, len(ids)
        self.hidden = torch.triu(torch.full((self.T, self.T), float("-inf")), 1)
        self.x = there["transformer.wte.weight"][ids] + there["transformer.wpe.weight"][:self.T]

    def norm(self, x, name):
        return self.torch.nn.functional.layer_norm(x, (gpt2.WIDTH,), self.there[name + ".weight"],
                                                   self.there[name + ".bias"], 1e-5)

    def linear(self, x, name):
        return self.torch.addmm(self.there[name + ".bias"], x, self.there[name + ".weight"])

    def heads(self, n, x):
        at, d_k = f"transformer.h.{n}.", gpt2.WIDTH // gpt2.HEADS
        q, k, v = (part.view(self.T, gpt2.HEADS, d_k).transpose(0, 1)
                   for part in self.linear(self.norm(x, at + "ln_1"), at + "attn.c_attn").split(gpt2.WIDTH, 1))
        weights = self.torch.softmax(self.torch.baddbmm(self.hidden, q, k.transpose(1, 2), alpha=d_k ** -0.5), 2)
        return self.torch.matmul(weights, v).transpose(0, 1).reshape(self.T, gpt2.WIDTH)

    def attended(self, n, x, heads):
        return x + self.linear(heads, f"transformer.h.{n}.attn.c_proj")

    def fed_forward(self, n, x):
        at = f"transformer.h.{n}."
        up = self.linear(self.norm(x, at + "ln_2"), at + "mlp.c_fc")
        up = 0.5 * up * (1 + self.torch.tanh((2 / self.torch.pi) ** 0.5 * (up + 0.044715 * up * up * up)))
        return x + self.linear(up, at + "mlp.c_proj")

    def log_p(self, x, first):
        """Of the last position, or of all, behind layers from `first` on."""
        for n in range(first, gpt2.LAYERS):
            x = self.fed_forward(n, self.attended(n, x, self.heads(n, x)))
        x = x if self.whole else x[-1:]
        return self.torch.log_softmax(self.norm(x, "transformer.ln_f") @ self.there["transformer.wte.weight"].T, 1)

    def effects(self):
        """{(part, layer, head): the mean divergence}"""
        streams, heads, x = [], [], self.x
        for n in range(gpt2.LAYERS):
            streams.append(x)
            heads.append(self.heads(n, x))
            x = self.fed_forward(n, self.attended(n, x, heads[n]))
        clean = self.log_p(x, gpt2.LAYERS)
        p, found, d_k = clean.exp(), {}, gpt2.WIDTH // gpt2.HEADS

        def divergence(x, first):
            return float((p * (clean - self.log_p(x, first))).sum(1).mean())

        for n, (x, z) in enumerate(zip(streams, heads)):
            for head in range(gpt2.HEADS):
                changed = z.clone()
                changed[:, head * d_k:(head + 1) * d_k] = 0
                found["head", n, head] = divergence(self.fed_forward(n, self.attended(n, x, changed)), n + 1)
            nothing = self.attended(n, x, self.torch.zeros_like(z))
            found["attention", n, None] = divergence(self.fed_forward(n, nothing), n + 1)
            found["mlp", n, None] = divergence(self.attended(n, x, z), n + 1)
        return found


def peer(folder, ids, whole, threads):
    """PyTorch's process: answers with the seconds of one turn, and writes what it found."""
    import torch

    torch.set_num_threads(threads)
    there = gpt2.torch_weights(folder)
    with torch.inference_mode():
        model = Torch(there, torch.tensor(ids), whole)
        model.log_p(model.x, 0)  # a pass, so that the weights are in memory
        start, cpu = time.perf_counter(), time.process_time()
        found = model.effects()
        took = [time.perf_counter() - start, time.process_time() - cpu]
    print(json.dumps({"took": took, "kl": [[*key, value] for key, value in found.items()]}))


def ran(command, env=None):
    """(output, errors, [seconds, processor seconds])"""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)[:200]} ended with {done.returncode}: {done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.stdout, done.stderr, [time.perf_counter() - start, cpu]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--all", action="store_true", help="predictions of every position")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    parser.add_argument("--ids", help=argparse.SUPPRESS)
    given = parser.parse_args()
    gpt2.LAYERS = gpt2.CONFIG["n_layer"] = given.layers
    if given.peer:
        return peer(given.peer, [int(one) for one in given.ids.split(",")], given.all, machine.cores())
    machine.install("")
    rng = np.random.default_rng(0)
    ids = ",".join(str(one) for one in rng.integers(0, gpt2.VOCABULARY, given.tokens))
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        gpt2.write_checkpoint(folder, dict(gpt2.tensors(rng)))
        query = ["--query", "all"] if given.all else []
        ours = [given.program, "effects", folder, "--ids", ids, *query, "-f", "csv"]

        def peers(layers):
            return [machine.PYTHON, os.path.abspath(__file__), given.program, "--layers", str(layers),
                    "--peer", folder, "--ids", ids, *(["--all"] if given.all else [])]

        # The fastest of the peer's environments is found with the first two layers alone: it is the same with all.
        torch, settings = peers(given.layers), [turns.environment(**one) for one in turns.SETTINGS["PyTorch"]]
        best = min(settings, key=lambda env: json.loads(ran(peers(min(2, given.layers)), env)[0])["took"][0])
        for number in range(given.rounds):
            turns.progress(f"round {number + 1} of {given.rounds}")
            out, said, took = ran([*ours, "--timings"])
            timings = json.loads(said.strip().split("\n")[-1])
            kl = {(row["part"], int(row["layer"]), int(row["head"]) if row["head"] else None): float(row["kl"])
                  for row in csv.DictReader(out.splitlines()) if row["kl"]}
            rows.setdefault("mha-inspect, in memory", []).append([timings["effects_s"], timings["cpu_s"]])
            rows.setdefault("mha-inspect, process", []).append(ran(ours)[2])
            out, _, took = ran(torch, best)
            answer = json.loads(out)
            rows.setdefault("PyTorch, in memory", []).append(answer["took"])
            rows.setdefault("PyTorch, process", []).append(took)
            for part, layer, head, value in answer["kl"]:
                # PyTorch's log p, about -11 in float32, has steps of 1e-6.
                if abs(value - kl[part, layer, head]) > 1e-4 * max(5e-2, abs(value)):
                    raise SystemExit(f"{part} {layer}.{head}: {kl[part, layer, head]}, PyTorch {value}")
        allowed = 1 - 0.8 * (1 - timings["share"])
        passes = timings["ablations"] * timings["pass_cpu_s"]
    for name, took in rows.items():
        print(f"{name:24} {statistics.median(t[0] for t in took):8.2f} s  processor {statistics.median(t[1] for t in took):8.2f} s")
    for what in ("in memory", "process"):
        for i, kind in enumerate(("", "processor ")):
            ratio = statistics.median(b[i] / a[i] for a, b in zip(rows["mha-inspect, " + what], rows["PyTorch, " + what]))
            print(f"{what}: {kind}time of PyTorch's {ratio:.2f} of ours")
    cpu = statistics.median(t[1] for t in rows["mha-inspect, in memory"])
    print(f"{timings['ablations']} ablations, {timings['share']:.3f} of whole passes' operations: processor time {cpu / passes:.3f} of "
          f"theirs, {allowed:.3f} allowed")


if __name__ == "__main__":
    main()
