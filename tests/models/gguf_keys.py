#!/usr/bin/env python3
"""What becomes of each key of the GGUF files of gated models, Ling 2 and Gemma 4: changed, and missing.

    /usr/bin/python3 tests/models/gguf_keys.py PROGRAM FOLDER

Either the logits change, or the file is refused or warned of by the key's name, or the key is in PLAIN below. Prints
what is none of these, and exits with 1 if there is any. FOLDER gets the files and Gemma 4's checkpoints.
"""
import json
import os
import subprocess
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../data/published")]
import gguf  # noqa: E402
import llamacpp  # noqa: E402
import safetensors  # noqa: E402

LLAMACPP = ("afmoe", "bailingmoe2", "laguna_swa_rot", "llama4", "mimo2", "step35")
GEMMA4 = ("gemma4_text", "gemma4_text-e", "gemma4_text-moe")
CASES = [
    ("feed_forward_length", 18), ("attention.head_count", 2), ("attention.head_count_kv", 5), ("attention.key_length", 10),
    ("attention.value_length", 3), ("attention.layer_norm_rms_epsilon", 0.5), ("attention.layer_norm_epsilon", 0.5),
    ("attention.sliding_window", 2), ("attention.sliding_window", 0), ("attention.sliding_window_pattern", 2),
    ("attention.sliding_window_pattern", [True, False, False, True, True, False]), ("attention.scale", 0.75),
    ("attention.clamp_kqv", 0.5), ("attention.temperature_scale", 0.5), ("attention.value_scale", 0.5),
    ("attention.key_length_swa", 10), ("attention.value_length_swa", 3), ("attention.shared_kv_layers", 1),
    ("attention.causal", False), ("rope.dimension_count", 4), ("rope.dimension_count_swa", 2),
    ("rope.dimension_sections", [1, 1, 0, 1]), ("rope.freq_base", 90.0), ("rope.freq_base_swa", 90.0),
    ("rope.scale_linear", 2.0), ("rope.scaling.type", "yarn"), ("rope.scaling.factor", 2.0), ("rope.scaling.attn_factor", 1.5),
    ("expert_count", 3), ("expert_used_count", 3), ("expert_feed_forward_length", 7), ("expert_shared_count", 3),
    ("expert_shared_feed_forward_length", 7), ("expert_group_count", 2), ("expert_gating_func", 1), ("expert_gating_func", 4),
    ("expert_weights_norm", False), ("expert_weights_scale", 1.5), ("leading_dense_block_count", 2),
    ("interleave_moe_layer_step", 1), ("moe_every_n_layers", 2), ("swiglu_clamp_exp", 0.1), ("swiglu_clamp_shexp", 0.1),
    ("final_logit_softcapping", 5.0), ("attn_logit_softcapping", 3.0), ("router_logit_softcapping", 5.0), ("logit_scale", 0.5),
    ("embedding_scale", 2.0), ("residual_scale", 2.0), ("nextn_predict_layers", 1), ("embedding_length", 48),
    ("embedding_length_per_layer_input", 3), ("block_count", 2)]
# Without a word and without effect: sizes that the tensors have, and what llama.cpp does not read either.
PLAIN = {
    "*": "expert_feed_forward_length expert_shared_count expert_shared_feed_forward_length leading_dense_block_count "
         "interleave_moe_layer_step moe_every_n_layers rope.scaling.type",
    "llama4": "expert_weights_norm attention.sliding_window_pattern", "mimo2": "feed_forward_length expert_weights_norm "
    "expert_weights_scale", "gemma4": "feed_forward_length attention.value_length attention.value_length_swa "
    "expert_weights_norm expert_used_count expert_gating_func",
    "bailingmoe2": "attention.sliding_window"}
DEFAULTS = {  # a missing key has the file's value by default
    "*": "rope.dimension_count rope.dimension_count_swa rope.freq_base expert_gating_func expert_count attention.value_length "
         "attention.key_length embedding_length block_count attention.head_count attention.head_count_kv "
         "feed_forward_length attention.layer_norm_rms_epsilon",
    "llama4": "expert_used_count", "laguna": "expert_weights_norm", "bailingmoe2": "nextn_predict_layers",
    "gemma4": "attention.shared_kv_layers embedding_length_per_layer_input rope.freq_base_swa"}


def has(table, kind, key):
    return key in f"{table['*']} {table.get(kind, '')}".split()


class Runs:
    def __init__(self, program, folder):
        self.program, self.folder = program, folder

    def of(self, keys, tensors):
        """(error, warnings, logits) of a file."""
        path, out = (os.path.join(self.folder, name) for name in ("keys.gguf", "keys.npz"))
        gguf.write(path, keys, tensors)
        done = subprocess.run([self.program, "dump", path, "--ids", "3,7,11,19,23,5,9,2", "-s", "logits", "--dtype", "f64",
                               "-o", out], capture_output=True, text=True, check=False)
        if done.returncode:
            return done.stderr if done.returncode == 2 else f"exit code {done.returncode}", "", None
        with np.load(out) as file:
            return "", done.stderr, file[[name for name in file.files if name.endswith("logits")][0]]

    def wrong(self, kind, base, tensors):
        """Lines of what is silently without effect."""
        error, said, logits = self.of(base, tensors)
        if error or "warning" in said:
            return [f"{kind}: {error or said}"]
        found = []
        for key, other in CASES:
            full = f"{kind}.{key}"
            for what, keys in ((f"= {other}", base | {full: gguf.U32(other) if type(other) is int else other}),
                               ("missing", {name: v for name, v in base.items() if name != full})):
                if what == "missing" and full not in base or keys == base:
                    continue
                error, said, changed = self.of(keys, tensors)
                if error.startswith("exit code"):
                    found.append(f"{full} {what}: {error}")
                plain = has(PLAIN, kind, key) or (what == "missing" and has(DEFAULTS, kind, key))
                if changed is not None and np.array_equal(changed, logits) and key not in said and not plain:
                    found.append(f"{full} {what}: without effect and without a word")
        return found


def main():
    program, folder = sys.argv[1:]
    runs, found = Runs(program, folder), []
    for name in LLAMACPP:
        s = llamacpp.MODELS[name]
        tensors = {tensor: (0, x.shape, gguf.encode("F32", x)) for tensor, x in llamacpp.tensors(s).items()}
        found += runs.wrong(s["kind"], llamacpp.keys(s), tensors)
    subprocess.run([sys.executable, os.path.join(HERE, "make.py"), folder, *GEMMA4], check=True, stdout=subprocess.DEVNULL)
    for name in GEMMA4:
        at = os.path.join(folder, name)
        with open(os.path.join(at, "config.json"), encoding="utf-8") as file:
            config = json.load(file)
        tensors = gguf.convert(config, safetensors.read(os.path.join(at, "model.safetensors")), "F32")[0]
        found += runs.wrong("gemma4", gguf.keys_of(config, "gemma4"), tensors | gguf.rope_tensors(config))
    print("\n".join(found) or f"{len(CASES)} keys of {len(LLAMACPP) + len(GEMMA4)} models: none is silently without effect")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
