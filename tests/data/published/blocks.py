#!/usr/bin/env python3
"""Writes models of one layer whose mixture's input and output other projects published: numbers in blocks/.

    /usr/bin/python3 tests/data/published/blocks.py OUT

groups    x3haloed/mimo-prismwing (Apache-2.0, © 2026 Chadwick Kirby), evals/fixtures/tiny/moe-noaux-tc-swiglu.json of
          commit 61849a53ae9448dc7b9fff7206d086d20ccfc8d1: DeepSeek V3's choice, the better of two groups of two
          experts. The source's own tolerance is 1e-14.
mixtral   microsoft/onnxruntime (MIT, © Microsoft), onnxruntime/test/contrib_ops/moe_test.cc of commit
          008fbd2ec5c0836fffe2b31e112bb2b43df48440, MoETest_Mixtral: the best two of eight experts. Its router's logits
          are given, not computed.

Attention adds 0, and the norm before the mixture makes of the tokens' embeddings what the source gives.
"""
import json
import os
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../models"))
import safetensors  # noqa: E402

EPS, AT = 1e-6, "model.layers.0."


def said(name, cls, tokens, width, **keys):
    return {"architectures": [cls + "ForCausalLM"], "model_type": name, "vocab_size": tokens, "hidden_size": width,
            "num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1, "max_position_embeddings": 64,
            "rms_norm_eps": EPS, "rope_theta": 10000.0, "hidden_act": "silu", "attention_bias": False,
            "tie_word_embeddings": False, "torch_dtype": "float64"} | keys


def around(embedding, norm):
    """All but the attention and the mixture."""
    width = len(norm)
    return {"model.embed_tokens.weight": embedding, "lm_head.weight": np.eye(len(embedding), width),
            "model.norm.weight": np.ones(width), AT + "input_layernorm.weight": np.ones(width),
            AT + "post_attention_layernorm.weight": norm}


def groups(given):
    """The norm's weight is such that x / weight has a mean square of 1 - eps in both tokens."""
    x, d = given["x"], 3
    left = d * (1 - EPS) - 2 * x[:, 1]**2  # the middle one of 1 / weight² is 2
    norm = 1 / np.sqrt(np.insert(np.linalg.solve(x[:, ::2]**2, left), 1, 2.0))
    shapes = {"q_proj": (4, d), "kv_a_proj_with_mqa": (4, d), "kv_b_proj": (4, 2), "o_proj": (d, 2)}
    t = around(x / norm, norm)
    t |= {f"{AT}self_attn.{name}.weight": np.zeros(shape) for name, shape in shapes.items()}
    t |= {AT + "self_attn.kv_a_layernorm.weight": np.ones(2), AT + "mlp.gate.weight": given["router"],
          AT + "mlp.gate.e_score_correction_bias": given["bias"]}
    for part in ("gate", "up", "down"):
        t |= {f"{AT}mlp.experts.{e}.{part}_proj.weight": given[part][e] for e in range(4)}
    return said("deepseek_v3", "DeepseekV3", 2, d, intermediate_size=2, moe_intermediate_size=2,
                first_k_dense_replace=0, q_lora_rank=None, kv_lora_rank=2, qk_nope_head_dim=2, qk_rope_head_dim=2,
                v_head_dim=2, n_routed_experts=4, n_shared_experts=None, num_experts_per_tok=2, n_group=2,
                topk_group=1, routed_scaling_factor=1.0, norm_topk_prob=True, scoring_func="sigmoid",
                topk_method="noaux_tc"), t, given["output"]


def mixtral(given):
    """Beside x each token has a coordinate of its own: it makes the mean square 1, and its column has the logits."""
    x, (tokens, width) = given["x"], given["x"].shape
    d = width + tokens
    own = np.sqrt(d * (1 - EPS) - (x * x).sum(1))

    def wider(w):
        return np.pad(w, ((0, 0), (0, d - w.shape[1])))

    t = around(np.hstack([x, np.diag(own)]), np.ones(d))
    t |= {f"{AT}self_attn.{part}_proj.weight": np.zeros((d, d)) for part in "qkvo"}
    t[AT + "block_sparse_moe.gate.weight"] = np.hstack([np.zeros((8, width)), given["router"].T / own])
    for e in range(8):
        at = f"{AT}block_sparse_moe.experts.{e}."
        t |= {at + "w1.weight": wider(given["gate"][e]), at + "w3.weight": wider(given["up"][e]),
              at + "w2.weight": wider(given["down"][e].T).T}
    return said("mixtral", "Mixtral", tokens, d, head_dim=d, intermediate_size=8, num_local_experts=8,
                num_experts_per_tok=2, sliding_window=None), t, wider(given["output"])


def main():
    for name, model in (("groups", groups), ("mixtral", mixtral)):
        with open(os.path.join(HERE, "blocks", name + ".json")) as file:
            given = {key: np.array(value) for key, value in json.load(file).items()}
        config, tensors, output = model(given)
        folder = os.path.join(sys.argv[1], name)
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "config.json"), "w") as file:
            json.dump(config, file, indent=2)
        safetensors.write(os.path.join(folder, "model.safetensors"), {n: ("F64", w) for n, w in tensors.items()})
        np.savez(os.path.join(folder, "expected.npz"), ids=np.arange(len(output)), mlp_out=output)


if __name__ == "__main__":
    main()
