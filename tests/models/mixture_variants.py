"""The checkpoints of mixtures that are written: for each family the usual one, and one for each trap."""
import re

import numpy as np

from mixture_families import (BAILING_MOE, DEEPSEEK, DEEPSEEK_V2, DEEPSEEK_V3, DOTS1, ERNIE4_5_MOE, EXAONE_MOE, GLM4_MOE, GPT_OSS,
                              GRANITEMOE, GRANITEMOESHARED, HUNYUAN_DENSE, HUNYUAN_MOE, KIMI_K2, MINIMAX_M2, MIXTRAL, OLMOE,
                              QWEN2_MOE, QWEN3_MOE)
from variants import LEFT_OUT, Variant

OF_EXPERT = re.compile(r"(model\.layers\.\d+\.)(?:mlp|block_sparse_moe)\.experts\.(\d+)\.(\w+)\.weight")


def without_experts(name):
    return None if OF_EXPERT.fullmatch(name) else name.replace(".block_sparse_moe.gate.", ".mlp.gate.")


def stacked(c, tensors):
    """As Transformers 5 holds experts: all gates' rows and then all others' in one tensor, (E, 2 I, d) and (E, d, I)."""
    layers = {}
    for name, (dtype, array) in tensors.items():
        if found := OF_EXPERT.fullmatch(name):
            layers.setdefault(found[1], {}).setdefault(found[3], {})[int(found[2])] = array
    result = {}
    for at, parts in layers.items():
        gate, up, down = (np.stack([parts[x][e] for e in range(len(parts[x]))]) for x in
                          (("w1", "w3", "w2") if "w1" in parts else ("gate_proj", "up_proj", "down_proj")))
        result |= {f"{at}mlp.experts.gate_up_proj": (dtype, np.concatenate([gate, up], 1)),
                   f"{at}mlp.experts.down_proj": (dtype, down)}
    return result


def without_columns(name):
    return None if re.search(r"experts\.(gate_up|down)_proj$", name) else name


def mxfp4(c, tensors):
    """As OpenAI published: 16 bytes a block of 32 numbers of a row, outputs first, and a byte for their power of two."""
    E, d, I, rng, result = c["num_local_experts"], c["hidden_size"], c["intermediate_size"], np.random.default_rng(12), {}
    for n in range(c["num_hidden_layers"]):
        for name, rows, inputs, power in (("gate_up_proj", 2 * I, d, 122), ("down_proj", d, I, 118)):
            at = f"model.layers.{n}.mlp.experts.{name}"
            result[at + "_blocks"] = ("U8", rng.integers(0, 256, (E, rows, inputs // 32, 16), dtype=np.uint8))
            result[at + "_scales"] = ("U8", rng.integers(power, power + 4, (E, rows, inputs // 32), dtype=np.uint8))
    return result


def next_token_layer(c, tensors):
    """The layer behind the last that guesses a token more: no part of the model."""
    L, d, rng = c["num_hidden_layers"], c["hidden_size"], np.random.default_rng(13)
    last, at = f"model.layers.{L - 1}.", f"model.layers.{L}."
    dtype = tensors["model.norm.weight"][0]
    vectors = {f"{at}{x}.weight": (dtype, rng.standard_normal(d)) for x in ("enorm", "hnorm", "shared_head.norm")}
    return {at + n[len(last):]: t for n, t in tensors.items() if n.startswith(last)} | vectors | {
        at + "eh_proj.weight": (dtype, rng.standard_normal((d, 2 * d))), at + "embed_tokens.weight": tensors["model.embed_tokens.weight"],
        at + "shared_head.head.weight": tensors["lm_head.weight"]}


def bias_in_full(name):
    return "F32" if "e_score_correction_bias" in name else "BF16"


YARN = {"beta_fast": 32, "beta_slow": 1, "factor": 40, "original_max_position_embeddings": 16, "type": "yarn"}

MIXTURE_VARIANTS = [
    # Mixtral
    Variant("mixtral", MIXTRAL, "softmax of all, the best two, divided by their sum; w1 gate, w3 up, w2 down"),
    Variant("mixtral-bf16", MIXTRAL, "bfloat16, sharded: an expert's parts in two files", {"tie_word_embeddings": True}, "BF16", shards=3),
    Variant("mixtral-window", MIXTRAL, "sliding_window; num_experts_per_tok left out is 2; head_dim of its own",
            {"sliding_window": 4, "num_experts_per_tok": LEFT_OUT, "head_dim": 10}),
    Variant("mixtral-batch", MIXTRAL, "three texts, padded on the right; three experts a token", {"num_experts_per_tok": 3},
            lengths=(9, 4, 7)),
    Variant("mixtral-stacked", MIXTRAL, "as Transformers 5 holds it: mlp.gate, mlp.experts.gate_up_proj (E, 2I, d), gate rows first",
            rename=without_experts, extra=stacked),
    # Qwen
    Variant("qwen2_moe", QWEN2_MOE, "softmax of all, not divided; a shared expert with a gate; biases on q, k, v"),
    Variant("qwen2_moe-norm", QWEN2_MOE, "norm_topk_prob; decoder_sparse_step 2 and mlp_only_layers: layer 1 alone is a mixture",
            {"norm_topk_prob": True, "decoder_sparse_step": 2, "mlp_only_layers": [3], "num_hidden_layers": 4}),
    Variant("qwen2_moe-silent", QWEN2_MOE, "norm_topk_prob, decoder_sparse_step, mlp_only_layers left out: false, 1, none",
            {"norm_topk_prob": LEFT_OUT, "decoder_sparse_step": LEFT_OUT, "mlp_only_layers": LEFT_OUT,
             "tie_word_embeddings": True}),
    Variant("qwen3_moe", QWEN3_MOE, "norm_topk_prob; q_norm, k_norm a head; head_dim · heads ≠ d_model"),
    Variant("qwen3_moe-as-is", QWEN3_MOE, "norm_topk_prob left out is false; mlp_only_layers [0]; attention_bias; tied",
            {"norm_topk_prob": LEFT_OUT, "mlp_only_layers": [0], "attention_bias": True, "tie_word_embeddings": True}),
    Variant("qwen3_moe-stacked", QWEN3_MOE, "as Transformers 5 holds it: mlp.experts.gate_up_proj (E, 2I, d), gate rows first",
            rename=without_experts, extra=stacked),
    # OLMoE
    Variant("olmoe", OLMOE, "softmax of all, not divided; norms of q and k over all heads' numbers"),
    Variant("olmoe-norm", OLMOE, "norm_topk_prob; as many key heads as heads", {"norm_topk_prob": True, "num_key_value_heads": 6}),
    # gpt-oss
    Variant("gpt_oss", GPT_OSS, "the best three logits, softmax of them; columns gate, up, gate, up …; clamp 7; sinks, windows, yarn"),
    Variant("gpt_oss-bf16", GPT_OSS, "the same in bfloat16, sharded", dtype="BF16", shards=2),
    Variant("gpt_oss-truncated", GPT_OSS, "truncate left out: yarn's ramp begins and ends at whole numbers, as a GGUF's",
            {"rope_scaling": {k: v for k, v in GPT_OSS.config["rope_scaling"].items() if k != "truncate"}}),
    Variant("gpt_oss-mxfp4", GPT_OSS, "experts as _blocks and _scales, rows gate, up, gate, up …",
            {"hidden_size": 64, "intermediate_size": 96, "num_local_experts": 5, "quantization_config": {
                "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"],
                "quant_method": "mxfp4"}}, "BF16", rename=without_columns, extra=mxfp4),
    # DeepSeek
    Variant("deepseek", DEEPSEEK, "the first: LLaMA's attention; softmax, as it is; shared experts; layer 0 dense"),
    Variant("deepseek-norm", DEEPSEEK, "norm_topk_prob; moe_layer_freq 2: layer 2 alone is a mixture; no shared experts",
            {"norm_topk_prob": True, "moe_layer_freq": 2, "num_hidden_layers": 4, "n_shared_experts": None}),
    Variant("deepseek_v2", DEEPSEEK_V2, "latent attention; the best groups by their maximum; scores times the factor, not divided"),
    Variant("deepseek_v2-lite", DEEPSEEK_V2, "q_lora_rank null; greedy",
            {"q_lora_rank": None, "topk_method": "greedy", "n_group": 1, "topk_group": 1, "routed_scaling_factor": 1.0}),
    Variant("deepseek_v2-yarn", DEEPSEEK_V2, "yarn with mscale and mscale_all_dim: the scale of scores times a square",
            {"rope_scaling": YARN | {"mscale": 0.707, "mscale_all_dim": 0.707}, "max_position_embeddings": 640}),
    Variant("deepseek_v3", DEEPSEEK_V3, "sigmoid; a bias for choosing; two of four groups by their two best; divided, times the factor"),
    Variant("deepseek_v3-bf16", DEEPSEEK_V3, "bfloat16, the bias in float32, sharded; a layer behind the last that guesses ahead",
            {}, "BF16", bias_in_full, extra=next_token_layer, shards=3),
    Variant("deepseek_v3-batch", DEEPSEEK_V3, "two texts, padded on the right; no dense layer; attention_bias",
            {"first_k_dense_replace": 0, "attention_bias": True}, lengths=(9, 5)),
    Variant("deepseek_v3-yarn", DEEPSEEK_V3, "yarn with mscale and mscale_all_dim of 1; two shared experts",
            {"rope_scaling": YARN | {"mscale": 1.0, "mscale_all_dim": 1.0}, "max_position_embeddings": 640, "n_shared_experts": 2}),
    Variant("deepseek_v3-one-group", DEEPSEEK_V3, "as Kimi K2 and Moonlight: one group, q_lora_rank null; norm_topk_prob false",
            {"n_group": 1, "topk_group": 1, "q_lora_rank": None, "norm_topk_prob": False}),
    Variant("deepseek_v3-halves", DEEPSEEK_V3, "rope_interleave false: halves of the rotated part",
            {"rope_interleave": False, "n_group": 3, "topk_group": 1}),
    Variant("kimi_k2", KIMI_K2, "DeepSeek V3 by another model_type: one group; yarn whose beta_fast and beta_slow are the same"),
    # GLM
    Variant("glm4_moe", GLM4_MOE, "sigmoid with a bias; half of a head rotates, in halves; norms of q and k before; a layer "
            "behind the last that guesses ahead", extra=next_token_layer),
    Variant("glm4_moe-air", GLM4_MOE, "use_qk_norm false: no norms; norm_topk_prob false",
            {"use_qk_norm": False, "norm_topk_prob": False, "num_nextn_predict_layers": LEFT_OUT}),
    # Granite
    Variant("granitemoe", GRANITEMOE, "the best three logits, softmax of them; input_linear: gate rows first; four multipliers; tied"),
    Variant("granitemoe-silent", GRANITEMOE, "without the multipliers, which are 1; untied; attention_bias",
            {"attention_multiplier": LEFT_OUT, "embedding_multiplier": LEFT_OUT, "logits_scaling": LEFT_OUT,
             "residual_multiplier": LEFT_OUT, "tie_word_embeddings": False, "attention_bias": True}),
    Variant("granitemoeshared", GRANITEMOESHARED, "a shared expert beside the mixture: shared_mlp"),
    # ERNIE
    Variant("ernie4_5_moe", ERNIE4_5_MOE, "softmax and a bias (1, E) for choosing, divided; pairs rotate; from layer 1 on; tied"),
    Variant("ernie4_5_moe-bias", ERNIE4_5_MOE, "use_bias: on every map but the router, lm_head's too; moe_layer_interval 2; no shared",
            {"use_bias": True, "moe_layer_interval": 2, "moe_layer_end_index": LEFT_OUT, "moe_num_shared_experts": 0,
             "tie_word_embeddings": False}),
    Variant("ernie4_5_moe-to-2", ERNIE4_5_MOE, "moe_layer_end_index 2: the last layer is dense; moe_layer_start_index 0",
            {"moe_layer_start_index": 0, "moe_layer_end_index": 2}),
    # MiniMax
    Variant("minimax_m2", MINIMAX_M2, "sigmoid with a bias, divided; norms of q and k over all heads' numbers; rotary_dim 6 of 12"),
    # Hunyuan
    Variant("hunyuan_v1_dense", HUNYUAN_DENSE, "no mixture; norms of q and k after the rotation: q_norm is made of q_rope; alpha; tied"),
    Variant("hunyuan_v1_dense-plain", HUNYUAN_DENSE, "no rope_scaling; untied; attention_bias",
            {"rope_scaling": None, "tie_word_embeddings": False, "attention_bias": True}),
    Variant("hunyuan_v1_moe", HUNYUAN_MOE, "softmax, divided, a shared expert; norms of q and k after the rotation; moe_topk a list"),
    Variant("hunyuan_v1_moe-numbers", HUNYUAN_MOE, "moe_topk a number; no rope_scaling; untied",
            {"moe_topk": 2, "rope_scaling": None, "tie_word_embeddings": False}),
    # dots, Ling, EXAONE
    Variant("dots1", DOTS1, "sigmoid with a bias, divided, times the factor; norms of q and k a head; layer 0 dense"),
    Variant("dots1-window", DOTS1, "norm_topk_prob left out is false; a window from layer max_window_layers on",
            {"norm_topk_prob": LEFT_OUT, "sliding_window": 4, "max_window_layers": 2}),
    Variant("bailing_moe", BAILING_MOE, "softmax, divided; q, k, v in one map; shared experts; word_embeddings, attention.dense"),
    Variant("bailing_moe-dense-first", BAILING_MOE, "first_k_dense_replace 1; use_qkv_bias; norm_topk_prob false; tied",
            {"first_k_dense_replace": 1, "use_qkv_bias": True, "norm_topk_prob": False, "tie_word_embeddings": True}),
    Variant("bailing_moe-norm-head", BAILING_MOE, "norm_head: lm_head's columns by their lengths", {"norm_head": True}),
    Variant("exaone_moe", EXAONE_MOE, "sigmoid with a bias, divided, times the factor; layers with windows alone rotate; layer 0 dense"),
    Variant("exaone_moe-published", EXAONE_MOE, "is_moe_layer says which layers are dense; the bias is mlp.e_score_correction_bias; groups",
            {"mlp_layer_types": LEFT_OUT, "is_moe_layer": [False, True, False, True], "n_group": 2, "topk_group": 1},
            rename=lambda n: n.replace("mlp.gate.e_score", "mlp.e_score")),
    Variant("exaone_moe-full", EXAONE_MOE, "no windows: every layer rotates; first_k_dense_replace alone",
            {"mlp_layer_types": LEFT_OUT, "sliding_window": None, "sliding_window_pattern": None, "first_k_dense_replace": 2,
             "layer_types": ["full_attention"] * 4}),
]
