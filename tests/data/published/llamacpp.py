#!/usr/bin/env python3
"""Writes small models of which antonellof/ferrox published llama.cpp's logits: its settings, seeds, order of drawing.

    /usr/bin/python3 tests/data/published/llamacpp.py OUT [NAME …]     # all: 9 MB; the test writes them when it runs

OUT/NAME.gguf, and OUT/NAME/ for those that llamacpp_checkpoints.py has as their makers' checkpoints. llamacpp_models.py
has the mixtures, llamacpp_dense.py the others and their sources. The tokens are 3 7 11 19 23 5; llamacpp/expected.json has the last one's logits from the
source's tests, llama4's also of the text in OUT/long.npy. llama.cpp's own graphs computed them in float32 (ferrox'
scripts/gptoss_reference_logits.cpp). The source's own tolerance is 1e-6 to 3e-5.

Seeds, settings, the order of drawing and results were taken, no code. antonellof/ferrox is Apache-2.0 by its Cargo.toml
and README; its licence file was not seen. The commit of scripts/make_…_fixture.py, and that of the test in
crates/frink-models/tests (before 94298a3e crates/ferrox-models/tests):

afmoe         72f9b453   gated_attention_graphs.rs              2bb7550a
bailingmoe    72f9b453   one_match_arm_graphs.rs                72f9b453
bailingmoe2   94298a3e   fixture_away_graphs.rs                 94298a3e
deepseek      72f9b453   one_match_arm_graphs.rs                72f9b453
deepseek2     4ed7132e   deepseek2_graphs.rs                    72f9b453
dots1         72f9b453   moe_routing_bias.rs                    94298a3e
ernie4_5_moe  94298a3e   one_match_arm_graphs.rs                72f9b453
exaone_moe    0eedda15   common/mod.rs, window_array_graphs.rs  94298a3e
glm4moe       24856564   glm4moe_graphs.rs                      94298a3e
gptoss        72f9b453   gptoss_graph.rs                        027d284c
granitemoe    2961d7f5   granite_family_graphs.rs               94298a3e
hunyuan_moe   72f9b453   one_match_arm_graphs.rs                72f9b453
laguna        94298a3e   gated_attention_graphs.rs              2bb7550a
llama4        72f9b453   llama4_graphs.rs                       94298a3e
mimo2         72f9b453   split_kv_head_dim_graphs.rs            98e62ac7
minimax       94298a3e   minimax_m2_graphs.rs                   94298a3e
qwen3moe      72f9b453   qwen3moe_graph.rs                      94298a3e
step35        15623dc9   clamped_swiglu_graphs.rs               2bb7550a

In full: 027d284cb685da3c993b519b45b82b1378becfe1, 0eedda158b0c5deb25dfde72a0b5c8d8ced674a6,
15623dc9c9f2c6cf3fffefc5b3a5d2d79f0d5f54, 24856564c1ea46bb0a5615a00b0c674d18ab69a1,
2961d7f579bc8d8455aab564f2581299e8770961, 2bb7550a048a4b00e59d1d64568641ec53a291d4,
4ed7132e0eccdaa1bb58171e5961a06256523ed0, 72f9b453accc0892d656db08c875a84fafdb2f05,
94298a3e79fcb7ef8eda198a28bf926ab5aba60b, 98e62ac7203dae578d9dabe632dd328de57bb6a3.
"""
import argparse
import json
import os
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../../models")]
import gguf  # noqa: E402
import llamacpp_checkpoints as checkpoints  # noqa: E402
import safetensors  # noqa: E402
from llamacpp_dense import DENSE_MODELS  # noqa: E402
from llamacpp_models import MIXTURES, tensors  # noqa: E402

MODELS = MIXTURES | DENSE_MODELS


def latent_keys(s):
    """Since March 2025 the absorbed form's sizes, as of one key head; before, those of all heads."""
    found = {"attention.q_lora_rank": s["r_q"], "attention.kv_lora_rank": s["r"], "rope.dimension_count": s["pe"]}
    if "yarn" in s:
        found |= {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 16,
                  "rope.scaling.yarn_log_multiplier": 0.1 * s["yarn"]}
    if "together" in s:
        return found
    return found | {"attention.head_count_kv": 1, "attention.key_length": s["r"] + s["pe"],
                    "attention.value_length": s["r"], "attention.key_length_mla": s["d_k"],
                    "attention.value_length_mla": s["d_v"]}


def gated_keys(s):
    """Of the models with gates, from their converter and what its graphs need."""
    local = [bool(kind) for kind in s.get("local", [])] + [True] * s.get("guessers", 0)
    experts = {"expert_gating_func": 2, "expert_weights_norm": True, "expert_weights_scale": s.get("factor")}
    window = {"attention.sliding_window": s.get("window")}
    dims, bases = s.get("dims"), s["base"]
    own = {"afmoe": experts | window | {"expert_shared_count": 1, "leading_dense_block_count": 1},
           "laguna": experts | window | {
               "expert_shared_feed_forward_length": s["shared"], "leading_dense_block_count": 1,
               "rope.freq_base_swa": 5000.0, **({"rope.dimension_count": dims[0], "rope.dimension_count_swa": dims[-1]}
                                                if isinstance(dims, list) else {})},
           "llama4": {"interleave_moe_layer_step": 2, "leading_dense_block_count": 0, "expert_used_count": 1,
                      "context_length": 10000},
           "mimo2": window | {"attention.sliding_window_pattern": local, "rope.freq_base_swa": 100.0,
                              "attention.value_scale": s.get("value"), "rope.dimension_count": 8},
           "step35": experts | window | {
               "attention.sliding_window_pattern": local, "expert_shared_feed_forward_length": s["shared"],
               "swiglu_clamp_exp": s.get("clamp"), "swiglu_clamp_shexp": s.get("clamp_shared"),
               "leading_dense_block_count": 1, "moe_every_n_layers": 1, "rope.dimension_count": s["d_k"]},
           "bailingmoe2": experts | {"leading_dense_block_count": 1, "expert_shared_count": 2,
                                     "nextn_predict_layers": 0}}.get(s["kind"], {})
    if isinstance(bases, list):
        own |= {"rope.freq_base": bases[0], "rope.freq_base_swa": bases[1]}
    return own


def keys(s):
    """As ferrox' scripts write them: what an architecture's own files do not have is missing."""
    key_heads = s["K"] + s["K"][-1:] * s.get("guessers", 0) if isinstance(s["K"], list) else s["K"]
    found = {"block_count": s["layers"] + s.get("guessers", 0), "context_length": 64, "embedding_length": s["d"],
             "feed_forward_length": s["ff"], "attention.head_count": s["H"], "attention.head_count_kv": key_heads,
             "attention.key_length": s["d_k"], "attention.value_length": s["d_v"],
             "attention.layer_norm_rms_epsilon": s["eps"], "rope.freq_base": s["base"],
             "rope.dimension_count": s.get("dims", s["d_k"])}
    if s["E"] > 0:
        found |= {"expert_count": s["E"], "expert_used_count": 2, "expert_feed_forward_length": s["I"]}
    found |= gated_keys(s) | s["keys"] | (latent_keys(s) if "r" in s else {})
    return {"general.architecture": s["kind"]} | {f"{s['kind']}.{key}": gguf.U32(v) if type(v) is int else v
                                                  for key, v in found.items() if v is not None}


def in_two(s, found):
    """W_kv_b as the two tensors of the absorbed form; that of the keys is transposed."""
    nope, result = s["d_k"] - s["pe"], {}
    for tensor, x in found.items():
        if "attn_kv_b" not in tensor:
            result[tensor] = x
            continue
        by_head = x.reshape(s["H"], nope + s["d_v"], s["r"])
        result[tensor.replace("kv_b", "k_b")] = by_head[:, :nope].swapaxes(1, 2)
        result[tensor.replace("kv_b", "v_b")] = by_head[:, nope:]
    return result


def write_gguf(path, s):
    found = in_two(s, tensors(s)) if "r" in s and "together" not in s else tensors(s)
    gguf.write(path, keys(s), {name: (0, x.shape, gguf.encode("F32", x)) for name, x in found.items()})


def write_checkpoint(folder, s):
    config, found = checkpoints.checkpoint(s, tensors(s))
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file, indent=2)
    safetensors.write(os.path.join(folder, "model.safetensors"), {name: ("F32", x) for name, x in found.items()})


def main():
    options = argparse.ArgumentParser()
    options.add_argument("out")
    options.add_argument("names", nargs="*", default=list(MODELS))
    given = options.parse_args()
    os.makedirs(given.out, exist_ok=True)
    for name in given.names:
        s = MODELS[name]
        if s["kind"] in checkpoints.BOTH and not s.keys() & {"together", "guessers", "in_one"}:
            write_checkpoint(os.path.join(given.out, name), s)
        write_gguf(os.path.join(given.out, name + ".gguf"), s)
    # llama4's long text: a chunk of 8192 tokens and eight more.
    np.save(os.path.join(given.out, "long.npy"), np.array([[3 + (i * 7919 + 13) % 45 for i in range(8200)]]))


if __name__ == "__main__":
    main()
