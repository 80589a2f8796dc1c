#!/usr/bin/env python3
"""Two checkpoints of which one is the other, changed: each change is one that ports make.

    /usr/bin/python3 tests/models/changed_weights.py FOLDER OUTDIR

FOLDER is a checkpoint of LLaMA's names. OUTDIR/whole has its numbers in float32, OUTDIR/changed the
same with changes, OUTDIR/rounded in bfloat16, OUTDIR/bare without "model." before its names, and
OUTDIR/other under names of its own with a description, naming.json.
"""
import json
import os
import sys

import numpy as np

import safetensors


def pairs_of_neighbours(w, heads):
    """Of each head, row i of the first half and row i of the second become neighbours."""
    d = w.shape[0] // heads
    return np.concatenate([np.stack([w[h * d:h * d + d // 2], w[h * d + d // 2:(h + 1) * d]], 1).reshape(d, -1)
                           for h in range(heads)])


def changed(tensors, heads, key_heads):
    rng, t = np.random.default_rng(5), dict(tensors)

    def change(name, function):
        t[name] = np.ascontiguousarray(function(t[name]))

    one, two, three = (f"model.layers.{n}." for n in range(3))
    change(one + "self_attn.q_proj.weight", lambda w: pairs_of_neighbours(w, heads))
    change(one + "self_attn.k_proj.weight", lambda w: pairs_of_neighbours(w, key_heads))
    change(one + "self_attn.v_proj.weight", lambda w: np.concatenate(np.split(w, key_heads)[::-1]))
    change(one + "self_attn.o_proj.weight", np.transpose)
    change(one + "mlp.gate_proj.weight", np.transpose)
    change(one + "input_layernorm.weight", lambda w: w - 1)
    change(one + "mlp.down_proj.weight", lambda w: 0.125 * w)
    change(two + "self_attn.o_proj.weight",
           lambda w: np.concatenate([np.split(w, heads, 1)[h] for h in [1, 0, *range(2, heads)]], 1))
    change(two + "mlp.up_proj.weight", lambda w: w[rng.permutation(len(w))])
    change(two + "mlp.down_proj.weight", lambda w: w + 0.01 * rng.standard_normal(w.shape))
    change(three + "mlp.up_proj.weight", lambda w: w[:-3])
    t.pop(three + "mlp.down_proj.weight")
    t["extra.weight"] = np.ones((3, 4))
    return t


NAMES = {"model.layers": "blocks", "self_attn.q_proj": "look.ask", "self_attn.k_proj": "look.key",
         "self_attn.v_proj": "look.value", "self_attn.o_proj": "look.out", "mlp.gate_proj": "ff.gate",
         "mlp.up_proj": "ff.up", "mlp.down_proj": "ff.down", "input_layernorm": "n1",
         "post_attention_layernorm": "n2", "model.embed_tokens": "words", "model.norm": "last", "lm_head": "speak"}
NAMING = """{
 "layers": "blocks.{layer}.",
 "activation": "silu",
 "norm": {"kind": "rms", "eps": 1e-5},
 "embed": [{"table": "words.weight"}],
 "tensors": {"W_q": "look.ask.weight", "W_k": "look.key.weight", "W_v": "look.value.weight", "W_o": "look.out.weight",
             "norm": "n1.weight", "mlp.norm": "n2.weight", "mlp.in": "ff.gate.weight", "mlp.up": "ff.up.weight",
             "mlp.out": "ff.down.weight"},
 "final_norm": "last.weight",
 "head": {"name": "speak.weight"},
 "settings": {"num_heads": "config:num_attention_heads", "num_kv_heads": "config:num_key_value_heads", "causal": true,
              "rope": "half"}
}
"""


def renamed(name):
    for ours, theirs in NAMES.items():
        name = name.replace(ours, theirs)
    return name


def main():
    folder, out = sys.argv[1:]
    with open(os.path.join(folder, "config.json")) as file:
        config = json.load(file)
    whole = {n: np.asarray(a, float) for n, (_, a) in
             safetensors.read(os.path.join(folder, "model.safetensors")).items()}
    heads, key_heads = config["num_attention_heads"], config["num_key_value_heads"]
    for name, dtype, tensors in (
            ("whole", "F32", whole), ("changed", "F32", changed(whole, heads, key_heads)), ("rounded", "BF16", whole),
            ("bare", "F32", {n.removeprefix("model."): a for n, a in whole.items()}),
            ("other", "F32", {renamed(n): a for n, a in whole.items()})):
        os.makedirs(os.path.join(out, name), exist_ok=True)
        with open(os.path.join(out, name, "config.json"), "w") as file:
            json.dump(config, file)
        safetensors.write(os.path.join(out, name, "model.safetensors"), {n: (dtype, a) for n, a in tensors.items()})
    with open(os.path.join(out, "other", "naming.json"), "w") as file:
        file.write(NAMING)


if __name__ == "__main__":
    main()
