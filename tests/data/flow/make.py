#!/usr/bin/python3
"""What flow over heads and layers must be on data/: written from the formulas, on the weights and values of
the NumPy forward pass of tests/models (float64).

    /usr/bin/python3 tests/data/flow/make.py
"""
import json
import os
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "models"))
from forward import run  # noqa: E402
from write import load  # noqa: E402

DATA = os.path.join(HERE, "..", "..", "..", "data")
CASES = {"llama": ("bard-llama", [[3, 17, 256, 17, 400, 91, 3]]),
         "bert": ("bard-bert", [[2, 31, 5, 31, 8, 3]]),
         "padded": ("bard-llama", [[9, 8, 7, 300, 5], [20, 21, 22]])}


def entropy(p):
    return -(p * np.log2(np.where(p > 0, p, 1))).sum(-1)


def flow(block, stages, prefix, length, before):
    """One text of one layer, by its stages."""
    attention = block.attention
    a = stages[prefix + "weights"].copy()
    H, T, S = a.shape
    a[:, length:] = 0  # padding
    v = np.repeat(stages[prefix + "v"], H // attention.num_kv_heads, axis=0)
    W_o = attention.o.weight.reshape(H, -1, attention.o.weight.shape[-1])
    written = np.einsum("hts,hsd,hdm->htsm", a, v, W_o)
    real = a[:, :length]
    step = a.mean(0) + np.eye(T)
    step /= step.sum(-1, keepdims=True)
    step[length:] = 0
    rolled = step @ before
    js = np.zeros((H, H))
    for i in range(H):
        for j in range(H):
            js[i, j] = (entropy((real[i] + real[j]) / 2) - entropy(real[i]) / 2 - entropy(real[j]) / 2).mean()
    return {"weights_mean": a.mean(0), "value_norms": np.linalg.norm(written, axis=-1),
            "value_norms_sum": np.linalg.norm(written.sum(0), axis=-1), "rollout": rolled,
            "received": real.mean(1), "divergence": js}


for name, (folder, texts) in CASES.items():
    model = load(os.path.join(DATA, folder))
    longest = max(map(len, texts))
    ids = np.array([text + [0] * (longest - len(text)) for text in texts])
    mask = np.array([[1] * len(text) + [0] * (longest - len(text)) for text in texts])
    stages = run(model, ids, mask)
    before = [np.diag(m.astype(float)) for m in mask]
    found = {}
    for n, block in enumerate(model.blocks):
        items = []
        for b, text in enumerate(texts):
            own = {key: value[b] for key, value in stages.items() if key.startswith(f"layers.{n}.")}
            items.append(flow(block, own, f"layers.{n}.", len(text), before[b]))
            before[b] = items[-1]["rollout"]
        if n in (0, 2, 3):
            for kind in items[0]:
                values = [item[kind].tolist() for item in items]
                found[f"layers.{n}.{kind}"] = values if len(texts) > 1 else values[0]
    with open(os.path.join(HERE, name + ".json"), "w") as file:
        json.dump({"model": folder, "ids": [",".join(map(str, text)) for text in texts], "expected": found}, file)
        file.write("\n")
