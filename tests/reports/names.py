#!/usr/bin/env python3
"""Right ports saved under the names and axes of other code: diff must read every tensor.

    /usr/bin/python3 tests/reports/names.py MHA-INSPECT

A scheme is what one implementation calls its intermediates, and how it lays them out.
"""
import os
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from files import Program, write_layer  # noqa: E402
from layers import LAYERS, llama  # noqa: E402
from port import Port  # noqa: E402


def tokens_first(x):  # B, T, H, d
    return x.swapaxes(1, 2)


def packed(x):  # B, T, H d
    return tokens_first(x).reshape(x.shape[0], x.shape[2], -1)


def flat(x):  # B H, T, ...
    return x.reshape(-1, *x.shape[2:])


def time_first(x):  # T, B, d_model
    return x.swapaxes(0, 1)


def item(x):  # without the batch
    return x[0]


def per_query_head(x):  # GQA, keys repeated for each query head
    return np.repeat(x, 3, 1)


def then(*steps):
    def all_of(x):
        for step in steps:
            x = step(x)
        return x
    return all_of


same = then()

# scheme: layer, {their name: (our stage, how it is laid out)}
SCHEMES = {
    "Transformers, Llama": ("llama", {
        "input_layernorm": ("x", same), "q_proj": ("q", packed), "k_proj": ("k", packed), "v_proj": ("v", packed),
        "query_states": ("q_rope", same), "key_states": ("k_rope", per_query_head), "value_states": ("v", per_query_head),
        "attn_weights": ("weights", same), "attn_output": ("concat", same), "o_proj": ("output", same)}),
    "Transformers, BERT": ("bert", {
        "mixed_query_layer": ("q", packed), "query_layer": ("q", same), "key_layer": ("k", same), "value_layer": ("v", same),
        "attention_scores": ("scaled", same), "attention_probs": ("weights", same), "context_layer": ("concat", same),
        "attention_output": ("output", same)}),
    "llama.cpp": ("llama", {
        "attn_norm-0": ("x", item), "Qcur-0": ("q_rope", then(item, lambda x: x.swapaxes(0, 1))),
        "Kcur-0": ("k_rope", then(item, lambda x: x.swapaxes(0, 1))),
        "Vcur-0": ("v", then(packed, item)), "kq-0": ("scores", item), "kq_soft_max-0": ("weights", item),
        "kqv-0": ("head_out", item), "kqv_merged_cont-0": ("concat", item), "kqv_out-0": ("output", item)}),
    "llm.c": ("gpt2", {"ln1": ("x", same), "att": ("weights", same), "atty": ("concat", same), "attproj": ("output", same)}),
    "llama2.c": ("llama", {"xb": ("concat", item), "xb2": ("output", item), "att": ("weights", item)}),
    "nanoGPT": ("gpt2", {"ln_1": ("x", same), "q": ("q", same), "k": ("k", same), "v": ("v", same), "att": ("weights", same),
                         "c_proj": ("output", same)}),
    "vit-pytorch": ("vit", {"q": ("q", same), "k": ("k", same), "v": ("v", same), "dots": ("scaled", same),
                            "attn": ("weights", same), "out": ("output", same)}),
    "MLX": ("llama", {"queries": ("q_rope", same), "keys": ("k_rope", same), "values": ("v", same),
                      "scores": ("scores", same), "output": ("output", same)}),
    "fairseq": ("bert", {"q": ("q", flat), "k": ("k", flat), "v": ("v", flat), "attn_weights": ("scaled", flat),
                         "attn_probs": ("weights", flat), "attn": ("head_out", flat), "out_proj": ("output", time_first)}),
    "Keras": ("vit", {"query": ("q", tokens_first), "key": ("k", tokens_first), "value": ("v", tokens_first),
                      "attention_scores": ("weights", same), "attention_output": ("output", same)}),
    "candle": ("llama", {"q_embed": ("q_rope", same), "k_embed": ("k_rope", same), "v": ("v", same),
                         "attn_weights": ("scaled", same), "att_masked": ("masked", same), "y_cat": ("concat", same)}),
    "Triton tutorial": ("plain", {"Q": ("q", same), "K": ("k", same), "V": ("v", same), "S": ("scores", same),
                                  "P": ("weights", same), "O": ("head_out", same)}),
    "teaching code": ("llama", {"q_proj": ("q", same), "k_proj": ("k", same), "v_proj": ("v", same), "q_rot": ("q_rope", same),
                                "k_rot": ("k_rope", same), "attn_scores": ("scaled", same), "att_masked": ("masked", same),
                                "P": ("weights", same), "y_heads": ("head_out", same), "context": ("concat", same),
                                "o_proj": ("output", same)}),
    "q_rotated": ("llama", {"q_rotated": ("q_rope", tokens_first), "k_rotated": ("k_rope", tokens_first),
                            "context": ("head_out", tokens_first), "O": ("output", same)}),
    "heads before the batch": ("bert", {"q_heads": ("q", lambda x: x.swapaxes(0, 1).reshape(-1, *x.shape[2:])),
                                        "P": ("weights", lambda x: x.swapaxes(0, 1).reshape(-1, *x.shape[2:]))}),
}


def square(seed=0):
    """as many tokens as heads"""
    return llama(seed, T=6, H=6, H_kv=6, d_k=8)


SQUARE = {"tokens first, T = H": {n: (n, tokens_first) for n in ("q", "k", "v", "q_rope", "k_rope", "head_out")},
          "heads first, T = H": {n: (n, same) for n in ("q", "k", "v", "q_rope", "k_rope", "head_out")}}


def check(name, make, names, program, edit=None, first=None):
    tensors, settings = make(7)
    layer, reference = (os.path.join(program.folder, n + ".npz") for n in ("layer", "stages"))
    write_layer(layer, tensors)
    port = Port(tensors, settings, "f32")
    if edit:
        edit(port)
    stages = port.forward()
    np.savez(reference, **{theirs: layout(stages[stage]) for theirs, (stage, layout) in names.items()})
    found = program("diff", layer, settings, reference)
    if "error" in found:
        return [f"{name}: {found['error']}"]
    read = {row["stage"] for row in found["stages"]}
    read |= {"concat"} if "head_out" in read else set()  # packed, the numbers are the same
    wrong = [f"{name}: {theirs} is not read as {stage}" for theirs, (stage, _) in names.items() if stage not in read]
    if found["first"] != first:
        wrong.append(f"{name}: the first that differs is {found['first']}, not {first}\n    {found['command']}")
    return wrong


def no_bias(p):
    p.b_q = None


def base(p):
    p.base = 500.0


def main():
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        program = Program(os.path.abspath(sys.argv[1]), folder)
        for name, (layer, names) in SCHEMES.items():
            wrong += check(name, LAYERS[layer], names, program)
        for name, names in SQUARE.items():
            wrong += check(name, square, names, program)
        # A mistake does not decide how a name is read: scores tell which queries went into them.
        states = {"query_states": ("q_rope", same), "key_states": ("k_rope", same), "scores": ("scores", same)}
        wrong += check("another base", LAYERS["llama"], states, program, base, "q_rope")
        states = {"query_states": ("q", same), "key_states": ("k", same), "scores": ("scores", same)}
        wrong += check("no bias", LAYERS["qwen"], states, program, no_bias, "q")
    print("\n".join(wrong))
    print(f"{len(SCHEMES) + len(SQUARE) + 2} schemes, {len(wrong)} faults")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
