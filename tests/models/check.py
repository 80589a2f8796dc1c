#!/usr/bin/env python3
"""Checks the reference itself: it must give what PyTorch gave for the four trained models.

    /usr/bin/python3 tests/models/check.py [FOLDER]

FOLDER holds bard-gpt2, bard-llama, bard-bert and induction-model.
"""
import json
import os
import sys

import numpy as np

from write import load
from forward import run, softmax, surprise

HERE = os.path.dirname(os.path.abspath(__file__))
NAMES = {"attn_out": "output", "resid_mid": "residual"}
LIMIT = 1e-6  # of the root mean square; the files hold float32


def stage_of(name):
    *before, last = name.split(".")
    return ".".join([*before, NAMES.get(last, last)])


def check_stages(folder, text):
    expected = np.load(os.path.join(folder, "expected", text + ".npz"))
    found = run(load(folder), expected["ids"])
    worst = {}
    for name in expected.files:
        if name == "ids":
            continue
        want, have = expected[name].astype(np.float64), found[stage_of(name)]
        assert want.shape == have.shape, (folder, name, want.shape, have.shape)
        last = name.split(".")[-1]
        error = np.abs(want - have).max() / np.sqrt((want * want).mean())
        worst[last] = max(worst.get(last, 0.0), error)
    print(f"{os.path.basename(folder)}/{text}: " + ", ".join(f"{n} {e:.1e}" for n, e in worst.items()))
    return max(worst.values()) < LIMIT


def check_effects(folder):
    """Taking one head out: the loss of the repetition, and KL(whole, without) at the last position.
    The repetition's first token, which nothing foretells, is not counted."""
    expected = json.load(open(os.path.join(folder, "expected", "effects.json")))
    model, ids = load(folder), np.load(os.path.join(folder, "expected", "repeat.npz"))["ids"]
    half = lambda stages: surprise(stages["logits"], ids)[len(ids) // 2 + 1:].mean()
    whole = run(model, ids)
    worst = abs(half(whole) - expected["loss_second_half"])
    for e in expected["zero_ablation"]:
        def without(z):
            z = z.copy()
            z[e["head"]] = 0
            return z
        ablated = run(model, ids, edits={f"layers.{e['layer']}.head_out": without})
        p, q = softmax(whole["logits"][-1]), softmax(ablated["logits"][-1])
        worst = max(worst, abs(half(ablated) - half(whole) - e["loss_change_second_half"]),
                    abs((p * np.log(p / q)).sum() - e["kl_last"]))
    print(f"{os.path.basename(folder)}/effects: {worst:.1e}")
    return worst < LIMIT


def main():
    places = sys.argv[1:] or [os.path.join(HERE, "../../data"), os.path.join(HERE, "../../../shared/data")]
    folder = next((p for p in places if os.path.isdir(os.path.join(p, "induction-model"))), None)
    if folder is None:
        sys.exit("check.py: no folder with the trained models; give it")
    good = [check_stages(os.path.join(folder, m), t) for m in ("bard-gpt2", "bard-llama", "bard-bert")
            for t in ("line", "sonnet")]
    good += [check_stages(os.path.join(folder, "induction-model"), "repeat"),
             check_effects(os.path.join(folder, "induction-model"))]
    print("the reference agrees" if all(good) else "the reference DIFFERS")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
