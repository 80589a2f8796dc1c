"""The mixtures of llamacpp.py: their settings and, from a seed, their tensors by llama.cpp's names."""
import re

import numpy as np

# A layer's tensors in the order of drawing. A number is 0.25 × normal in float32; then NAME*2 is doubled and NAME+1 has
# 1 added. NAME~0.6 is 0.6 × normal and NAME~0.5+1.5 is 0.5 × normal + 1.5, rounded to float32 at the end.
PLAIN = "attn_norm attn_q attn_k attn_v attn_output ffn_norm"
NORMED = "attn_norm attn_q attn_k attn_v attn_q_norm attn_k_norm attn_output ffn_norm"
WIDE = "attn_norm attn_q*4 attn_k*4 attn_v attn_output ffn_norm"
BIASED = "attn_norm attn_q attn_k attn_v attn_q.bias attn_k.bias attn_v.bias"
GATED = "attn_q*4 attn_k*4 attn_v*4 attn_q_norm+1.5 attn_k_norm+1.5 attn_output attn_gate*6 ffn_norm+1"
LATENT = "attn_norm attn_q_a attn_q_a_norm attn_q_b attn_kv_a_mqa attn_kv_a_norm attn_kv_b attn_output ffn_norm"
DENSE = "ffn_gate ffn_up ffn_down"
EXPERTS = "ffn_gate_exps ffn_up_exps ffn_down_exps"
SHARED = "ffn_gate_shexp ffn_up_shexp ffn_down_shexp"
CHOSEN = f"ffn_gate_inp {EXPERTS} {SHARED}"
CORRECTED = f"ffn_gate_inp exp_probs_b.bias~0.6 {EXPERTS} {SHARED}"
ORDER = {  # attention, a dense feed-forward, a mixture
    "afmoe": (f"attn_norm+1 post_attention_norm+1 {GATED} post_ffw_norm+1", DENSE, CORRECTED),
    "bailingmoe": (PLAIN, "", CHOSEN),
    "bailingmoe2": ("attn_norm attn_qkv*4 attn_q_norm+1.5 attn_k_norm+1.5 attn_output ffn_norm", DENSE,
                    f"ffn_gate_inp exp_probs_b.bias {EXPERTS} {SHARED}"),
    "deepseek": (PLAIN, DENSE, CHOSEN),
    "deepseek2": (LATENT, DENSE, CORRECTED),
    "dots1": (NORMED, DENSE, CORRECTED),
    "ernie4_5-moe": (WIDE, DENSE, CORRECTED),
    "exaone-moe": ("attn_norm attn_q*4 attn_k*4 attn_v*4 attn_q_norm+1.5 attn_k_norm+1.5 attn_output ffn_norm", DENSE,
                   CORRECTED),
    "glm4moe": (f"{BIASED} attn_q_norm attn_k_norm attn_output post_attention_norm", DENSE, CORRECTED),
    "glm4moe_air": (f"{BIASED} attn_output post_attention_norm", DENSE, CORRECTED),
    "gpt-oss": ("attn_norm post_attention_norm attn_q attn_k attn_v attn_q.bias attn_k.bias attn_v.bias attn_output "
                "attn_output.bias attn_sinks*4", "",
                f"ffn_gate_inp ffn_gate_inp.bias {EXPERTS} ffn_gate_exps.bias ffn_up_exps.bias ffn_down_exps.bias"),
    "granitemoe": (WIDE, "", f"ffn_gate_inp*4 {EXPERTS} {SHARED}"),
    "hunyuan-moe": ("attn_norm attn_q attn_k attn_v attn_q_norm+1.5 attn_k_norm+1.5 attn_output ffn_norm", "", CHOSEN),
    "laguna": (f"attn_norm+1 {GATED}", DENSE, CORRECTED),
    "llama4": ("attn_norm+1 attn_q attn_k attn_v attn_output ffn_norm+1", DENSE, CHOSEN),
    "mimo2": ("attn_norm attn_q*4 attn_k*4 attn_v*4 attn_output*4 attn_sinks*4 ffn_norm", "",
              "ffn_gate_inp*4 ffn_gate_exps ffn_up_exps ffn_down_exps*4 exp_probs_b.bias*2"),
    "minimax-m2": (NORMED, "", f"ffn_gate_inp exp_probs_b.bias~0.6 {EXPERTS}"),
    "qwen3moe": (NORMED, "", f"ffn_gate_inp {EXPERTS}"),
    "step35": (f"attn_norm+1 {GATED}", "ffn_gate*4 ffn_up*4 ffn_down",
               "ffn_gate_inp exp_probs_b.bias~0.6 ffn_gate_exps*4 ffn_up_exps*4 ffn_down_exps ffn_gate_shexp*4 "
               "ffn_up_shexp*4 ffn_down_shexp")}
GUESSER = "attn_norm*8 attn_q*8 attn_k*8 attn_v*8 attn_q_norm+1.5 attn_k_norm+1.5 attn_output*8 ffn_norm*8 " \
          "ffn_gate*8 ffn_up*8 ffn_down*8 nextn.eh_proj nextn.enorm nextn.hnorm nextn.shared_head_norm"
RAISED = "output_norm+1 output"


def model(kind, seed, layers, d, keys={}, **more):
    """H heads and K of keys (lists: by layer), as wide as d_k and d_v; E experts of width I, shared ones of width
    shared; dense: layers with a feed-forward of width ff in their place. keys: what GGUF has beside those of sizes,
    None for one that it has not."""
    s = {"kind": kind, "seed": seed, "layers": layers, "d": d, "H": 4, "K": 2, "d_k": 8, "E": 6, "I": 16, "shared": 16,
         "ff": 40, "dense": [0], "eps": 1e-5, "base": 10000.0, "vocabulary": 48, "keys": keys, "first": "token_embd",
         "last": "output_norm output"} | more
    return {"d_v": s["d_k"], "order": ORDER.get(kind)} | s


SIGMOID = {"expert_gating_func": 2, "expert_weights_norm": True, "expert_weights_scale": 2.5}
LEADING = {"leading_dense_block_count": 1, "expert_shared_count": 1}
DEEPSEEK2 = model("deepseek2", 0xD5002, 2, 32, SIGMOID | LEADING, K=4, d_k=12, d_v=8, eps=1e-6, factor=2.5, r_q=16,
                  r=12, pe=4)
EXAONE = model("exaone-moe", 0xE4A0E, 4, 32, SIGMOID | LEADING | {
    "expert_shared_feed_forward_length": 16, "attention.sliding_window": 3}, ff=48)
PATTERN = {"attention.sliding_window_pattern": [True, True, True, False]}
GLM = model("glm4moe", 0x64114, 2, 32, SIGMOID | LEADING, d_k=16, dims=8)
LAGUNA = model("laguna", 0x1A60B, 4, 32, H=[2, 4, 4, 4], ff=48, shared=24, local=[0, 1, 1, 1], dims=[8] * 4, window=3,
               factor=2.5, last=RAISED)
LLAMA4 = model("llama4", 0x11A4, 4, 24, d_k=6, E=16, dense=[0, 2], last="output_norm+1")  # the head is token_embd
MIMO = model("mimo2", 0x3130, 3, 32, K=[2, 1, 2], d_k=12, d_v=8, ff=16, dense=[], local=[1, 0, 1], window=3,
             value=0.707)
STEP = model("step35", 0x57E935, 4, 24, H=[2, 4, 2, 4], K=[1, 2, 1, 2], E=4, shared=24, local=[0, 1, 0, 1],
             dims=[4, 8, 4, 8], window=3, base=[1e4, 5e3, 1e4, 5e3], factor=2.5, clamp=[0.0, 1.5, 0.0, 2.5],
             clamp_shared=[2.0, 3.0, 1.0, 0.0], last=RAISED)
MIXTURES = {
    "afmoe": model("afmoe", 0xAF0E, 4, 32, ff=48, local=[1, 1, 1, 0], window=3, base=5000.0, factor=2.5, last=RAISED),
    # Layer 0 is a mixture all the same: llama.cpp reads leading_dense_block_count without using it.
    "bailingmoe": model("bailingmoe", 0xBA111, 2, 24, LEADING | {
        "expert_shared_count": 2, "expert_weights_scale": 2.5, "expert_weights_norm": False},
                        I=12, shared=24, dense=[]),
    "bailingmoe2": model("bailingmoe2", 0xBA1112, 3, 24, d_k=6, I=12, factor=2.5),
    "deepseek": model("deepseek", 0xDEE951, 3, 32, LEADING | {"expert_shared_count": 2, "expert_weights_scale": 1.0},
                      I=12, shared=24),
    "deepseek2": DEEPSEEK2, "deepseek2_legacy": DEEPSEEK2 | {"together": True},
    "deepseek2_yarn_v2": DEEPSEEK2 | {"yarn": 0.707}, "deepseek2_yarn_v3": DEEPSEEK2 | {"yarn": 1.0},
    "deepseek2_yarn_legacy": DEEPSEEK2 | {"yarn": 0.707, "together": True},
    "dots1": model("dots1", 0xD0751, 2, 32, SIGMOID | LEADING, K=4, ff=24),
    "ernie4_5-moe": model("ernie4_5-moe", 0xE45E, 3, 24, LEADING | {
        "interleave_moe_layer_step": 1, "expert_shared_feed_forward_length": 12}, I=12, shared=12, E=4),
    "exaone-moe": EXAONE, "exaone-moe_array": EXAONE | {"keys": EXAONE["keys"] | PATTERN},
    "exaone-moe_mtp": EXAONE | {"keys": EXAONE["keys"] | PATTERN | {"nextn_predict_layers": 1}, "guessers": 1},
    "glm4moe": GLM, "glm4moe_air": GLM | {"order": ORDER["glm4moe_air"]},
    "gpt-oss": model("gpt-oss", 0xF3110, 2, 32, {"attention.sliding_window": 4}, ff=16, E=4, dense=[], local=[1, 0],
                     window=4),
    "granitemoe": model("granitemoe", 0x62471, 2, 24, {
        "logit_scale": 2.5, "residual_scale": 0.6, "embedding_scale": 2.0, "attention.scale": 0.9,
        "expert_feed_forward_length": None, "expert_shared_feed_forward_length": 20},
                        d_k=6, ff=16, E=4, shared=20, dense=[]),
    "hunyuan-moe": model("hunyuan-moe", 0x40C0DE, 2, 24, {
        "expert_shared_count": 1, "expert_shared_feed_forward_length": 20}, ff=12, I=12, shared=20, dense=[]),
    "laguna": model("laguna", 0x1A60A, 3, 32, ff=48, shared=24, local=[0] * 3, dims=[8] * 3, factor=2.5, last=RAISED),
    "laguna_swa": LAGUNA, "laguna_swa_rot": LAGUNA | {"dims": [8, 4, 4, 4]},
    "llama4": LLAMA4, "llama4_128e": LLAMA4 | {"E": 128, "last": RAISED},
    "mimo2": MIMO, "mimo2_novscale": MIMO | {"value": 1.0},
    # Of the same logits: MiMo-V2.5's fused matrix, and a further block, as files of today have three.
    "mimo2_fused": MIMO | {"in_one": True},
    "mimo2_mtp": MIMO | {"keys": {"nextn_predict_layers": 1}, "guessers": 1, "guesser": "attn_norm attn_q attn_k attn_v "
                         "attn_output ffn_norm ffn_gate ffn_up ffn_down nextn.eh_proj nextn.enorm nextn.hnorm"},
    "minimax-m2": model("minimax-m2", 0x6D2A2, 2, 32, {"expert_gating_func": 2}, d_k=16, dims=8, ff=16, dense=[],
                        whole_norms=True),
    "qwen3moe": model("qwen3moe", 0x93003, 2, 32, d_k=16, dense=[]),
    "step35": STEP, "step35_fused": STEP | {"in_one": True},
    "step35_noclamp": STEP | {"clamp": [0.0] * 4, "clamp_shared": [0.0] * 4}}


def at(value, n):
    return value[min(n, len(value) - 1)] if isinstance(value, list) else value


def latent(s):
    r_q, r, pe = s["r_q"], s["r"], s["pe"]
    return {"attn_q_a": (r_q, s["d"]), "attn_q_a_norm": (r_q,), "attn_q_b": (s["H"] * s["d_k"], r_q),
            "attn_kv_a_mqa": (r + pe, s["d"]), "attn_kv_a_norm": (r,),
            "attn_kv_b": (s["H"] * (s["d_k"] - pe + s["d_v"]), r)}


def shapes(s, n):
    """Of a layer's matrices and vectors but those of width d."""
    d, H, K, E, I, d_k, d_v = s["d"], at(s["H"], n), at(s["K"], n), s["E"], s["I"], s["d_k"], s["d_v"]
    whole = "whole_norms" in s
    found = {"attn_q": (H * d_k, d), "attn_k": (K * d_k, d), "attn_v": (K * d_v, d), "attn_qkv": ((H + 2 * K) * d_k, d),
             "attn_output": (d, H * d_v), "attn_gate": (H if isinstance(s["H"], list) else H * d_k, d),
             "attn_q_norm": (H * d_k if whole else d_k,), "attn_k_norm": (K * d_k if whole else d_k,),
             "attn_sinks": (H,), "ffn_gate_inp": (E, d), "exp_probs_b": (E, d), "nextn.eh_proj": (d, 2 * d)}
    for ending, width, before in (("", s["ff"], ()), ("_exps", I, (E,)), ("_shexp", s["shared"], ())):
        found |= {f"ffn_{x}{ending}": (*before, width, d) for x in ("gate", "up")}
        found[f"ffn_down{ending}"] = (*before, d, width)
    return found | (latent(s) if "r" in s else {}) | s.get("shapes", {})


def drawn(rng, words, sizes, d):
    """name.weight or name.bias -> numbers, of what is written above; a bias has a number for each row."""
    result = {}
    for word in words.split():
        tensor, deviation, change, by = re.fullmatch(r"([a-z_.2]+?)(?:~([\d.]+))?([*+]?)([\d.]*)", word).groups()
        stem, bias = tensor.removesuffix(".bias"), tensor.endswith(".bias")
        size = sizes.get(stem, (d,))
        x = rng.standard_normal((size[:-1] or size) if bias else size) * float(deviation or 0.25)
        if deviation and by:
            x = x + float(by)
        x = x.astype(np.float32)
        if not deviation and by:
            x = x * np.float32(by) if change == "*" else x + np.float32(by)
        result[f"{stem}.{'bias' if bias else 'weight'}"] = x
    return result


def in_one(tensors):
    """Queries, keys and values as one tensor."""
    found = {name: x for name, x in tensors.items() if not name.startswith(("attn_q.", "attn_k.", "attn_v."))}
    for ending in ("weight", "bias"):
        if f"attn_q.{ending}" in tensors:
            found[f"attn_qkv.{ending}"] = np.concatenate([tensors[f"attn_{x}.{ending}"] for x in "qkv"])
    return found


def tensors(s):
    """By llama.cpp's names, float32."""
    rng, d = np.random.default_rng(s["seed"]), s["d"]
    attention, dense, mixture = s["order"]
    ends = {"token_embd": (s["vocabulary"], d), "output": (s["vocabulary"], d)}
    result = drawn(rng, s["first"], ends, d)
    for n in range(s["layers"] + s.get("guessers", 0)):
        words = s.get("guesser", GUESSER) if n >= s["layers"] else f"{attention} {dense if n in s['dense'] else mixture}"
        block = drawn(np.random.default_rng(1) if "guesser" in s and n >= s["layers"] else rng, words, shapes(s, n), d)
        result |= {f"blk.{n}.{name}": x for name, x in (in_one(block) if "in_one" in s else block).items()}
    return result | drawn(rng, s["last"], ends, d)
