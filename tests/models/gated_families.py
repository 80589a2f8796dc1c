"""Families whose attention has a gate behind the heads, or something else new: records as those of families.py.

Written from Transformers' modeling_*.py and configuration_*.py, from mlx-lm's and vLLM's models, whose places are named where
they differ or where only one of them says it.
"""
from dataclasses import replace

import numpy as np

from families import Tensor, frequencies, head_width, linear, rope_base, rope_scaling
from forward import ACTIVATIONS, Linear, Mixture, Norm, Rope, Side
from gated_recipe import Heads, family, rotation
from mixture_families import after_the_first, gain, gated, noaux, said, shared_of
from safetensors import rounded


# AFMoE: Trinity ------------------------------------------------------------------------------

def afmoe_layer(c, n):
    """Layers with windows alone rotate; every global_attn_every_n_layers-th has none, unless layer_types say otherwise."""
    every = c.get("global_attn_every_n_layers", 4)
    kinds = c.get("layer_types") or [("sliding" if (i + 1) % every else "full") + "_attention" for i in range(n + 1)]
    local, d_k = kinds[n] == "sliding_attention", c.get("head_dim", 128)
    return Heads(c["num_attention_heads"], c["num_key_value_heads"], d_k, rope=rotation(c, d_k) if local else None,
                 window=c["sliding_window"] if local else None, gate="gate_proj", gate_rows=d_k)


def afmoe_route(c):
    """route_norm, score_func and groups as mlx-lm and vLLM have them: Transformers has sigmoid, always divided, no groups."""
    named = {"norm_topk_prob": c.get("route_norm", True), "routed_scaling_factor": c.get("route_scale", 1.0)}
    return noaux(c | named) | {"score": c.get("score_func", "sigmoid")}


AFMOE = family("afmoe", {k: v for k, v in said(
    "afmoe", "Afmoe", hidden_size=44, head_dim=10, intermediate_size=52, num_attention_heads=6, num_key_value_heads=2,
    global_attn_every_n_layers=4, layer_types=["sliding_attention"] * 3 + ["full_attention"], moe_intermediate_size=20,
    mup_enabled=True, n_group=1, num_dense_layers=1, num_expert_groups=1, num_experts=8, num_experts_per_tok=3,
    num_hidden_layers=4, num_limited_groups=1, num_shared_experts=1, rms_norm_eps=1e-5, rope_scaling=None, route_norm=True,
    route_scale=2.826, score_func="sigmoid", sliding_window=4, topk_group=1, use_grouped_mm=True).items()
    if k not in ("bos_token_id", "eos_token_id")}, 9,
    layer=afmoe_layer, eps=lambda c: c.get("rms_norm_eps", 1e-5),
    norms=("input_layernorm", "post_attention_layernorm", "pre_mlp_layernorm", "post_mlp_layernorm"),
    rows=lambda c, dtype: c["hidden_size"] ** 0.5 if c.get("mup_enabled") else 1.0,
    sparse=lambda c, n: n >= c.get("num_dense_layers", 1), router="router.gate", choosing=("expert_bias",),
    shared="mlp.shared_experts.", shared_width=shared_of("num_shared_experts"), route=afmoe_route)


# Qwen3-Next, Qwen3.5: softmax layers ----------------------------------------------------------

def qwen_layer(c, n):
    """Each full_attention_interval-th layer, unless layer_types say otherwise. A head's rows of q_proj: its q, then its gate."""
    every = c.get("full_attention_interval", 4)
    kinds = c.get("layer_types") or [("linear" if (i + 1) % every else "full") + "_attention" for i in range(n + 1)]
    if kinds[n] != "full_attention":
        return None
    d_k, parameters = c.get("head_dim", 256), c.get("rope_parameters") or {}
    part = parameters.get("partial_rotary_factor", c.get("partial_rotary_factor", 0.25))
    bias = c.get("attention_bias", False)
    return Heads(c["num_attention_heads"], c["num_key_value_heads"], d_k, rope=rotation(c, int(d_k * part)), bias=bias,
                 o_bias=bias, gate="q_proj", gate_rows=d_k)


def delta_net(c, at, n):
    """A linear layer's tensors, of which nothing is computed here; qwen3_next has two maps, qwen3_5 four."""
    if qwen_layer(c, n):
        return {}
    d, K, V, k, v = (c[x] for x in ("hidden_size", "linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim",
                                    "linear_value_head_dim"))
    at += "linear_attn."
    rows = {"in_proj_qkvz": 2 * K * k + 2 * V * v, "in_proj_ba": 2 * V} if c["model_type"] == "qwen3_next" else \
        {"in_proj_qkv": 2 * K * k + V * v, "in_proj_z": V * v, "in_proj_b": V, "in_proj_a": V}
    names = {f"{at}{name}.weight": Tensor((count, d), "matrix", d) for name, count in rows.items()}
    return names | linear(d, V * v, False, at + "out_proj") | gain(at + "norm", v) | {
        at + "conv1d.weight": Tensor((2 * K * k + V * v, 1, c["linear_conv_kernel_dim"]), "matrix", c["linear_conv_kernel_dim"]),
        at + "A_log": Tensor((V,), "bias"), at + "dt_bias": Tensor((V,), "gain")}


DELTA_NET = dict(linear_conv_kernel_dim=4, linear_key_head_dim=7, linear_num_key_heads=2, linear_num_value_heads=6,
                 linear_value_head_dim=9)

QWEN3_NEXT = family("qwen3_next", said(
    "qwen3_next", "Qwen3Next", hidden_size=44, head_dim=16, intermediate_size=52, num_attention_heads=6, num_key_value_heads=2,
    decoder_sparse_step=1, full_attention_interval=4, mlp_only_layers=[], moe_intermediate_size=20, norm_topk_prob=True,
    num_experts=5, num_experts_per_tok=3, num_hidden_layers=4, output_router_logits=False, partial_rotary_factor=0.25,
    rope_scaling=None, rope_theta=10000000, router_aux_loss_coef=0.001, shared_expert_intermediate_size=18,
    use_sliding_window=False, **DELTA_NET), 9,
    layer=qwen_layer, offset=True, others=delta_net, sparse=lambda c, n: True, shared="mlp.shared_expert.",
    shared_width=lambda c: c["shared_expert_intermediate_size"], shared_gate="mlp.shared_expert_gate",
    route=lambda c: {"weight": "renormalised"})

QWEN3_5 = family("qwen3_5_text", {k: v for k, v in said(
    "qwen3_5_text", "Qwen3_5", hidden_size=44, head_dim=24, intermediate_size=52, num_attention_heads=6, num_key_value_heads=2,
    attention_bias=False, attn_output_gate=True, dtype="bfloat16", full_attention_interval=4,
    layer_types=["linear_attention"] * 3 + ["full_attention"], mamba_ssm_dtype="float32", mlp_only_layers=[],
    mtp_num_hidden_layers=1, mtp_use_dedicated_embeddings=False, num_hidden_layers=4, rope_parameters={
        "mrope_interleaved": True, "mrope_section": [1, 1, 1], "partial_rotary_factor": 0.25, "rope_theta": 10000000,
        "rope_type": "default"}, **DELTA_NET).items() if k not in ("rope_theta", "torch_dtype", "bos_token_id")}, 9,
    layer=qwen_layer, offset=True, others=delta_net)
QWEN3_5_NESTED = family("qwen3_5", {
    "architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5", "image_token_id": 61,
    "text_config": {k: v for k, v in QWEN3_5.config.items() if k != "architectures"}, "tie_word_embeddings": False,
    "video_token_id": 62, "vision_end_token_id": 63, "vision_start_token_id": 64, "vision_config": {
        "depth": 2, "hidden_size": 24, "model_type": "qwen3_5", "num_heads": 4, "out_hidden_size": 44, "patch_size": 16}}, 9,
    layer=qwen_layer, offset=True, others=delta_net, text=lambda c: c["text_config"], prefix="model.language_model.")


# Laguna: XS.2, M.1 ---------------------------------------------------------------------------

LAGUNA_ROPE = {"full_attention": {"partial_rotary_factor": 0.5, "rope_theta": 500000.0, "rope_type": "default"},
               "sliding_attention": {"partial_rotary_factor": 1.0, "rope_theta": 10000.0, "rope_type": "default"}}


def laguna_rope(c, kind):
    """rope_parameters by kind of layer, or the keys that M.1 and vLLM's oldest form have; left out they are LAGUNA_ROPE."""
    given = c.get("rope_parameters") or (rope_scaling(c) or {}) | ({"rope_theta": c["rope_theta"]} if "rope_theta" in c else {})
    if any(isinstance(x, dict) for x in given.values()) or not given:
        given = (given or LAGUNA_ROPE)[kind]
    part = given.get("partial_rotary_factor", c.get("partial_rotary_factor", 1.0))
    return rotation(c, int(c["head_dim"] * part), given["rope_theta"], given)


def laguna_layer(c, n):
    kind = (c.get("layer_types") or ["full_attention"] * (n + 1))[n]
    heads = (c.get("num_attention_heads_per_layer") or [c["num_attention_heads"]] * (n + 1))[n]
    bias, each = c.get("attention_bias", False), c.get("gating", True) == "per-element"
    return Heads(heads, c["num_key_value_heads"], c["head_dim"], rope=laguna_rope(c, kind), bias=bias, o_bias=bias, gate="g_proj",
                 window=c["sliding_window"] if kind == "sliding_attention" else None, gate_rows=c["head_dim"] if each else 1,
                 gate_act="softplus")


def laguna_sparse(c, n):
    return c["mlp_layer_types"][n] == "sparse" if c.get("mlp_layer_types") else n > 0


def laguna_route(c):
    cap = c.get("moe_router_logit_softcapping")
    return {"score": "sigmoid", "weight": "renormalised", "factor": c.get("moe_routed_scaling_factor", 1.0), "cap": cap or None}


LAGUNA = family("laguna", said(
    "laguna", "Laguna", hidden_size=44, head_dim=12, intermediate_size=52, num_attention_heads=4, num_key_value_heads=2,
    attention_bias=False, bos_token_id=2, decoder_sparse_step=1, eos_token_id=[2, 24], gating="per-head",
    gating_types=["per_head"] * 4, layer_types=["full_attention"] + ["sliding_attention"] * 3, max_position_embeddings=512,
    mlp_layer_types=["dense"] + ["sparse"] * 3, mlp_only_layers=[0], moe_apply_router_weight_on_input=False,
    moe_intermediate_size=20, moe_routed_scaling_factor=2.5, moe_router_logit_softcapping=0.0, norm_topk_prob=True,
    num_attention_heads_per_layer=[4, 6, 6, 6], num_experts=8, num_experts_per_tok=3, num_hidden_layers=4, pad_token_id=3,
    rope_parameters={
        "full_attention": {"attention_factor": 1.3465735902799727, "beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0,
                           "original_max_position_embeddings": 16, "partial_rotary_factor": 0.5, "rope_theta": 500000.0,
                           "rope_type": "yarn"},
        "sliding_attention": {"partial_rotary_factor": 1.0, "rope_theta": 10000.0, "rope_type": "default"}},
    router_aux_loss_coef=0.0, shared_expert_intermediate_size=18, sliding_window=4), 9,
    layer=laguna_layer, sparse=laguna_sparse,
    choosing=("experts.e_score_correction_bias", "gate.e_score_correction_bias"), shared="mlp.shared_expert.",
    shared_width=lambda c: c["shared_expert_intermediate_size"], route=laguna_route)
del LAGUNA.config["rope_theta"]


# Step 3.5 ------------------------------------------------------------------------------------

def of_list(values, n, default=None):
    """A list may be longer than the layers (those that guess ahead stand behind), or shorter; one number is every layer's."""
    if isinstance(values, list):
        return values[n] if n < len(values) else default
    return default if values is None else values


def step_layer(c, n):
    """vLLM, step3p5.py: head counts of their own where the kind is attention_other_setting's; scaling where yarn_only_types
    says so, or everywhere."""
    kind = (c.get("layer_types") or ["sliding_attention", "full_attention"] * n + ["sliding_attention"])[n]
    other = c.get("attention_other_setting") or {}
    own = other if kind == other.get("attention_type", "sliding_attention") else {}
    d_k, only = c["head_dim"], c.get("yarn_only_types")
    scaling = {"rope_type": "default"} if only and kind not in only else c.get("rope_scaling")
    dims = int(d_k * of_list(c.get("partial_rotary_factors"), n, 1.0))
    heads, kv = (own.get(key, c[key]) for key in ("num_attention_heads", "num_attention_groups"))
    return Heads(heads, kv, d_k, rope=rotation(c, dims, of_list(c.get("rope_theta"), n, 10000.0), scaling),
                 window=c["sliding_window"] if kind == "sliding_attention" else None,
                 gate="g_proj" if c.get("use_head_wise_attn_gate", True) else "", gate_rows=1)


def step_sparse(c, n):
    listed = c.get("moe_layers_enum")
    return n in [int(x) for x in listed.split(",")] if listed else n > 0


STEP_KINDS = ["full_attention"] + ["sliding_attention"] * 3
STEP3P5 = family("step3p5", {k: v for k, v in said(
    "step3p5", "Step3p5", hidden_size=44, head_dim=12, intermediate_size=52, num_attention_heads=4, num_attention_groups=2,
    att_impl_type="GQA", attention_other_setting={
        "attention_type": "sliding_attention", "head_dim": 12, "num_attention_groups": 3, "num_attention_heads": 6,
        "true_head_dim": 12},
    layer_types=STEP_KINDS * 2, max_position_embeddings=8192, max_seq_len=8192, moe_every_n_layer=1, moe_intermediate_size=20,
    moe_layer_offset=0, moe_layers_enum="2,3,4", moe_num_experts=8, moe_router_activation="sigmoid",
    moe_router_scaling_factor=3.0, moe_top_k=3, need_fp32_gate=True, norm_expert_weight=True, num_hidden_layers=5,
    num_nextn_predict_layers=3, partial_rotary_factors=[0.5, 1.0, 1.0, 1.0] * 2, rope_scaling={
        "factor": 2.0, "high_freq_factor": 32.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 4096,
        "rope_type": "llama3"},
    rope_theta=[5000000.0, 10000.0, 10000.0, 10000.0] * 2, share_expert_dim=18, sink=False, sliding_window=4,
    swiglu_limits=[0.0, 0.0, 0.0, 1.5, 1.5, 0.0, 0.0, 0.0], swiglu_limits_shared=[0.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0],
    use_head_wise_attn_gate=True, use_moe=True, use_moe_router_bias=True, use_qk_norm=True, use_rope_layers=[],
    yarn_only_types=["full_attention"], zero_centered=True).items()
    if k not in ("attention_dropout", "hidden_act", "initializer_range", "rms_norm_eps", "use_cache")}, 9,
    layer=step_layer, offset=True, eps=lambda c: c.get("rms_norm_eps", 1e-5), sparse=step_sparse, mixture="moe.",
    count=lambda c: c["moe_num_experts"], chosen=lambda c: c["moe_top_k"], choosing=("router_bias",), stored="parts",
    clamp=lambda c, n: of_list(c.get("swiglu_limits"), n), dense_clamp=lambda c, n: of_list(c.get("swiglu_limits_shared"), n),
    shared="share_expert.", shared_width=lambda c: c["share_expert_dim"],
    route=lambda c: noaux({"norm_topk_prob": c.get("norm_expert_weight", True),
                           "routed_scaling_factor": c.get("moe_router_scaling_factor", 3.0)}))


# MiMo V2 Flash -------------------------------------------------------------------------------

def mimo_layer(c, n):
    """Keys of the published config; or of Transformers' own, where layers with windows have twice the key heads and a sink."""
    bias, factor = c.get("attention_bias", False), c.get("attention_value_scale")
    if c.get("layer_types"):
        kind, twice = c["layer_types"][n], 2 if c["layer_types"][n] == "sliding_attention" else 1
        given = c["rope_parameters"][kind]
        return Heads(c["num_attention_heads"], twice * c["num_key_value_heads"], c["head_dim"], c["v_head_dim"],
                     rope=rotation(c, int(c["head_dim"] * given.get("partial_rotary_factor", 0.334)), given["rope_theta"], given),
                     window=c["sliding_window"] if twice == 2 else None, bias=bias, norm="",
                     sinks="attention_sink_bias" if twice == 2 else "", v_factor=c.get("attention_value_scale", 0.707) or 1.0)
    local = c["hybrid_layer_pattern"][n] == 1
    at = lambda key: c[("swa_" if local else "") + key]
    sink = c.get("add_swa_attention_sink_bias") if local else c.get("add_full_attention_sink_bias")
    return Heads(at("num_attention_heads"), at("num_key_value_heads"), at("head_dim"), at("v_head_dim"), bias=bias, norm="",
                 rope=rotation(c, int(at("head_dim") * c.get("partial_rotary_factor", 1.0)), at("rope_theta")),
                 window=c["sliding_window_size"] if local else None, sinks="attention_sink_bias" if sink else "",
                 v_factor=factor or 1.0)


def mimo_sparse(c, n):
    return c["mlp_layer_types"][n] == "sparse" if c.get("mlp_layer_types") else c["moe_layer_freq"][n] == 1


MIMO_V2_FLASH = family("mimo_v2_flash", {k: v for k, v in said(
    "mimo_v2_flash", "MiMoV2Flash", hidden_size=44, head_dim=18, intermediate_size=52, num_attention_heads=4,
    num_key_value_heads=2, add_full_attention_sink_bias=False, add_swa_attention_sink_bias=True, attention_bias=False,
    attention_chunk_size=4, attention_value_scale=0.707, hybrid_block_size=None, hybrid_layer_pattern=[0, 1, 1, 1],
    layernorm_epsilon=1e-5, moe_intermediate_size=20, moe_layer_freq=[0, 1, 1, 1], n_group=1, n_routed_experts=8,
    n_shared_experts=None, norm_topk_prob=True, num_experts_per_tok=3, num_hidden_layers=4, partial_rotary_factor=0.334,
    rope_theta=5000000, routed_scaling_factor=None, scoring_func="sigmoid", sliding_window=4, sliding_window_size=4,
    swa_head_dim=18, swa_num_attention_heads=6, swa_num_key_value_heads=3, swa_rope_theta=10000, swa_v_head_dim=10, topk_group=1,
    topk_method="noaux_tc", v_head_dim=10).items() if k not in ("bos_token_id", "eos_token_id", "rms_norm_eps")}, 9,
    layer=mimo_layer, eps=lambda c: c.get("layernorm_epsilon", c.get("rms_norm_eps", 1e-5)), sparse=mimo_sparse,
    count=lambda c: c["n_routed_experts"], choosing=("gate.e_score_correction_bias",),
    route=lambda c: noaux(c | {"routed_scaling_factor": c.get("routed_scaling_factor") or 1.0}))


# Llama 4 -------------------------------------------------------------------------------------

def llama4_layer(c, n):
    """modeling_llama4.py. no_rope_layers has a 0 where a layer does not rotate; none or an empty list: each
    no_rope_layer_interval-th. Such layers see everything and have the temperature, the others see their chunk."""
    turns = (c.get("no_rope_layers") or [(i + 1) % c.get("no_rope_layer_interval", 4) for i in range(n + 1)])[n]
    chunked = c["layer_types"][n] == "chunked_attention" if c.get("layer_types") else turns
    d_k, bias = head_width(c), c.get("attention_bias", False)
    floor, strength = c.get("floor_scale", 8192), c.get("attn_scale", 0.1)
    warm = c.get("attn_temperature_tuning", True) and not turns
    return Heads(c["num_attention_heads"], c["num_key_value_heads"], d_k, bias=bias, o_bias=bias,
                 rope=replace(rotation(c, d_k, rope_base(c, 500000.0)), adjacent=True) if turns else None,
                 norm="plain" if turns and c.get("use_qk_norm", True) else "", norm_last=True,
                 chunk=c.get("attention_chunk_size", 8192) if chunked else None,
                 temperature=(lambda at: 1 + strength * np.log1p((at + 1) // floor)) if warm else None)


def llama4_sparse(c, n):
    """moe_layers, or each interleave_moe_layer_step-th."""
    step = c.get("interleave_moe_layer_step", 1)
    return n in c["moe_layers"] if c.get("moe_layers") is not None else n % step == step - 1


LLAMA4_KEYS = {k: v for k, v in said(
    "llama4_text", "Llama4", hidden_size=44, head_dim=12, intermediate_size=20, intermediate_size_mlp=52, num_attention_heads=6,
    num_key_value_heads=2, attention_bias=False, attention_chunk_size=5, attn_scale=0.1, attn_temperature_tuning=True,
    floor_scale=4, for_llm_compressor=False, interleave_moe_layer_step=1, max_position_embeddings=512, moe_layers=[0, 1, 2, 3],
    no_rope_layers=[1, 1, 1, 0], num_experts_per_tok=1, num_hidden_layers=4, num_local_experts=6, output_router_logits=False,
    pad_token_id=3, rms_norm_eps=1e-5, rope_scaling={
        "factor": 16.0, "high_freq_factor": 1.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 64,
        "rope_type": "llama3"},
    rope_theta=500000.0, router_aux_loss_coef=0.001, router_jitter_noise=0.0, use_qk_norm=True).items()}
LLAMA4_WAYS = dict(
    layer=llama4_layer, eps=lambda c: c.get("rms_norm_eps", 1e-5), sparse=llama4_sparse, dense="feed_forward.",
    mixture="feed_forward.", width=lambda c, n: c["intermediate_size_mlp"], count=lambda c: c["num_local_experts"],
    inner=lambda c: c["intermediate_size"], chosen=lambda c: c.get("num_experts_per_tok", 1), router="router", stored="inputs",
    shared="feed_forward.shared_expert.", shared_width=lambda c: c["intermediate_size"],
    route=lambda c: {"score": "sigmoid", "weigh_input": True})
LLAMA4_TEXT = family("llama4_text", LLAMA4_KEYS, 9, **LLAMA4_WAYS)
LLAMA4 = family("llama4", {
    "architectures": ["Llama4ForConditionalGeneration"], "model_type": "llama4", "boi_token_index": 61, "eoi_token_index": 62,
    "image_token_index": 63, "text_config": {k: v for k, v in LLAMA4_KEYS.items() if k != "architectures"},
    "tie_word_embeddings": False, "torch_dtype": "bfloat16", "vision_config": {
        "hidden_act": "gelu", "hidden_size": 24, "image_size": 28, "intermediate_size": 40, "model_type": "llama4_vision_model",
        "num_attention_heads": 4, "num_hidden_layers": 2, "patch_size": 14}}, 9,
    text=lambda c: c["text_config"], prefix="language_model.model.", head="language_model.lm_head", **LLAMA4_WAYS)


# Gemma 4 -------------------------------------------------------------------------------------

def gemma4_kinds(c):
    """configuration_gemma4.py: each sixth layer is full unless layer_types say otherwise (mlx-lm: fifth), the last always."""
    kinds = [("full" if n % 6 == 5 else "sliding") + "_attention" for n in range(c["num_hidden_layers"])]
    return (c.get("layer_types") or kinds)[:-1] + ["full_attention"]


def shares(c, n):
    return n >= c["num_hidden_layers"] - c.get("num_kv_shared_layers", 0)


def proportional(d_k, given):
    """Of all pairs the first few turn, as fast as if the whole head did: modeling_rope_utils.py."""
    turning = int(given.get("partial_rotary_factor", 1.0) * d_k // 2)
    still = np.arange(d_k // 2) >= turning
    return Rope(np.where(still, 0, frequencies(d_k, given["rope_theta"])) / given.get("factor", 1.0))


GEMMA4_ROPE = {"full_attention": {"partial_rotary_factor": 0.25, "rope_theta": 1000000.0, "rope_type": "proportional"},
               "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"}}


def gemma4_layer(c, n):
    kinds = gemma4_kinds(c)
    full, given = kinds[n] == "full_attention", (c.get("rope_parameters") or GEMMA4_ROPE)[kinds[n]]
    both = full and c.get("attention_k_eq_v", False)
    d_k = c.get("global_head_dim", 512) if full else c["head_dim"]
    rope = proportional(d_k, given) if given["rope_type"] == "proportional" else rotation(c, d_k, given["rope_theta"], given)
    own = [i for i in range(c["num_hidden_layers"]) if kinds[i] == kinds[n] and not shares(c, i)]
    kv = (both and c.get("num_global_key_value_heads")) or c["num_key_value_heads"]
    return Heads(c["num_attention_heads"], kv, d_k, scale=1.0, rope=rope, window=None if full else c["sliding_window"],
                 v_is_k=both, v_norm=True, keys_of=own[-1] if shares(c, n) else None)


def gemma4_others(c, at, n):
    d, small = c["hidden_size"], c.get("hidden_size_per_layer_input", 256)
    names = {at + "layer_scalar": Tensor((1,), "gain")}
    if c.get("enable_moe_block"):
        names |= gemma4_mixture_tensors(c, at)
    if small:
        names |= linear(small, d, False, at + "per_layer_input_gate") | linear(d, small, False, at + "per_layer_projection")
        names |= gain(at + "post_per_layer_input_norm", d)
    return names


def gemma4_more(c):
    d, small = c["hidden_size"], c.get("hidden_size_per_layer_input", 256)
    all_layers = small and c["num_hidden_layers"] * small
    return {"embed_tokens_per_layer.weight": Tensor((c["vocab_size_per_layer_input"], all_layers), "embedding")} \
        | linear(all_layers, d, False, "per_layer_model_projection") | gain("per_layer_projection_norm", small) if small else {}


def gemma4_mixture_tensors(c, at):
    """enable_moe_block: a router with a scale of its own, experts beside the dense feed-forward, three more norms."""
    d, E, I = c["hidden_size"], c["num_experts"], c["moe_intermediate_size"]
    names = linear(E, d, False, at + "router.proj") | {
        at + "router.scale": Tensor((d,), "gain"), at + "router.per_expert_scale": Tensor((E,), "gain"),
        at + "experts.gate_up_proj": Tensor((E, 2 * I, d), "matrix", d), at + "experts.down_proj": Tensor((E, d, I), "matrix", I)}
    for name in ("post_feedforward_layernorm_1", "pre_feedforward_layernorm_2", "post_feedforward_layernorm_2"):
        names |= gain(at + name, d)
    return names


def gemma4_mixture(c, l, dense):
    """Gemma4TextDecoderLayer: post_1(mlp(pre(h))) + post_2(experts(pre_2(h))), experts by softmax of rms(h) · scale / √d."""
    eps, act, I = c.get("rms_norm_eps", 1e-6), ACTIVATIONS[c["hidden_activation"]], c["moe_intermediate_size"]
    both, down = (l[f"experts.{x}"].swapaxes(1, 2) for x in ("gate_up_proj", "down_proj"))
    experts = [gated((Linear(both[e][:, :I]), Linear(both[e][:, I:]), Linear(down[e])), act) for e in range(len(both))]
    return Mixture(
        l.linear("router.proj"), experts, c["top_k_experts"], weight="renormalised", factors=l["router.per_expert_scale"],
        shared=dense, router_norm=Norm("rms", eps, l["router.scale"] * c["hidden_size"] ** -0.5),
        experts_norm=Norm("rms", eps, l["pre_feedforward_layernorm_2.weight"]),
        sum_norm=Norm("rms", eps, l["post_feedforward_layernorm_2.weight"]),
        shared_norm=Norm("rms", eps, l["post_feedforward_layernorm_1.weight"]))


def gemma4_finish(c, l, block):
    if c.get("enable_moe_block"):
        block = replace(block, feed_forward=gemma4_mixture(c, l, block.feed_forward))
    side = None
    if "per_layer_input_gate.weight" in l:
        side = Side(l.linear("per_layer_input_gate"), ACTIVATIONS[c["hidden_activation"]], l.linear("per_layer_projection"),
                    Norm("rms", c.get("rms_norm_eps", 1e-6), l["post_per_layer_input_norm.weight"]))
    return replace(block, side=side, factor=l["layer_scalar"])


def gemma4_embeds(c, w):
    """Of each token and layer: a row of its own table and a map of what enters the first block, which is normed."""
    if "embed_tokens_per_layer.weight" not in w:
        return None
    small, table = c.get("hidden_size_per_layer_input", 256), w["embed_tokens_per_layer.weight"]
    factor = rounded(w.dtype("embed_tokens_per_layer.weight"), small ** 0.5)
    norm = Norm("rms", c.get("rms_norm_eps", 1e-6), w["per_layer_projection_norm.weight"])
    project, by_layer = w.linear("per_layer_model_projection"), lambda x: x.reshape(*x.shape[:-1], -1, small)
    return lambda ids, x: (norm(by_layer(project(x) * c["hidden_size"] ** -0.5)) + by_layer(factor * table[ids])) / np.sqrt(2)


GEMMA4_KEYS = dict(
    attention_bias=False, attention_dropout=0.0, attention_k_eq_v=True, bos_token_id=2, dtype="bfloat16", enable_moe_block=False,
    eos_token_id=1, final_logit_softcapping=7.0, global_head_dim=20, head_dim=12, hidden_activation="gelu_pytorch_tanh",
    hidden_size=44, hidden_size_per_layer_input=0, initializer_range=0.02, intermediate_size=52,
    layer_types=["sliding_attention", "sliding_attention", "full_attention"] * 2, max_position_embeddings=512,
    model_type="gemma4_text", moe_intermediate_size=None, num_attention_heads=6, num_experts=None, num_global_key_value_heads=2,
    num_hidden_layers=6, num_key_value_heads=3, num_kv_shared_layers=0, pad_token_id=0, rms_norm_eps=1e-6,
    rope_parameters=GEMMA4_ROPE, sliding_window=4, tie_word_embeddings=True, top_k_experts=None,
    use_bidirectional_attention="vision", use_cache=True, use_double_wide_mlp=False, vocab_size=67, vocab_size_per_layer_input=71)
GEMMA4_WAYS = dict(
    layer=gemma4_layer, tied=True, rows=lambda c, dtype: rounded(dtype, c["hidden_size"] ** 0.5),
    norms=("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"),
    softcap=lambda c: c.get("final_logit_softcapping"), activation=lambda c: c.get("hidden_activation", "gelu_pytorch_tanh"),
    width=lambda c, n: c["intermediate_size"] * (2 if c.get("use_double_wide_mlp") and shares(c, n) else 1),
    others=gemma4_others, more=gemma4_more, finish=gemma4_finish, embeds=gemma4_embeds)
GEMMA4_TEXT = family("gemma4_text", {"architectures": ["Gemma4ForCausalLM"]} | GEMMA4_KEYS, 9, **GEMMA4_WAYS)
GEMMA4 = family("gemma4", {
    "architectures": ["Gemma4ForConditionalGeneration"], "model_type": "gemma4", "audio_config": None, "boi_token_id": 60,
    "dtype": "bfloat16", "eoi_token_id": 61, "eos_token_id": [1, 3], "image_token_id": 62, "initializer_range": 0.02,
    "text_config": GEMMA4_KEYS, "tie_word_embeddings": True, "video_token_id": 63, "vision_config": {
        "head_dim": 6, "hidden_size": 24, "intermediate_size": 40, "model_type": "gemma4_vision", "num_attention_heads": 4,
        "num_hidden_layers": 2, "num_key_value_heads": 4, "patch_size": 16}}, 9,
    text=lambda c: c["text_config"], prefix="model.language_model.", **GEMMA4_WAYS)


# Gemma 3n ------------------------------------------------------------------------------------

def gemma3n_layer(c, n):
    """modeling_gemma3n.py; each fifth layer is full unless layer_types say otherwise (configuration_gemma3n.py)."""
    kinds = c.get("layer_types") or [("full" if i % 5 == 4 else "sliding") + "_attention" for i in range(c["num_hidden_layers"])]
    full, given = kinds[n] == "full_attention", (c.get("rope_parameters") or {}).get(kinds[n], {})
    base = given.get("rope_theta") or (c.get("rope_theta", 1e6) if full else c.get("rope_local_base_freq", 1e4))
    own = [i for i in range(c["num_hidden_layers"]) if kinds[i] == kinds[n] and not shares(c, i)]
    return Heads(c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"], scale=1.0, rope=rotation(c, c["head_dim"], base),
                 window=None if full else c.get("sliding_window", 512), v_norm=True, keys_of=own[-1] if shares(c, n) else None)


def gemma3n_others(c, at, n):
    """What is around attention, of which nothing is computed here: four streams, and a path of low rank."""
    d, small, streams = c["hidden_size"], c["hidden_size_per_layer_input"], c["altup_num_inputs"]
    names = linear(small, d, False, at + "per_layer_input_gate") | linear(d, small, False, at + "per_layer_projection")
    names |= linear(streams ** 2, streams, False, at + "altup.prediction_coefs")
    names |= linear(streams, streams, False, at + "altup.correction_coefs") | linear(streams, d, False, at + "altup.modality_router")
    names |= linear(c["laurel_rank"], d, False, at + "laurel.linear_left") | linear(d, c["laurel_rank"], False, at + "laurel.linear_right")
    names |= gain(at + "altup.router_norm", d) | gain(at + "laurel.post_laurel_norm", d)
    return names | gain(at + "post_per_layer_input_norm", d) | {at + "altup.correct_output_scale": Tensor((d,), "gain")}


GEMMA3N_KEYS = dict(
    activation_sparsity_pattern=[0.95, 0.95, 0.0, 0.0, 0.0, 0.0], altup_active_idx=0, altup_coef_clip=120.0, altup_correct_scale=True,
    altup_lr_multiplier=1.0, altup_num_inputs=4, attention_bias=False, attention_dropout=0.0, final_logit_softcapping=30.0,
    head_dim=12, hidden_activation="gelu_pytorch_tanh", hidden_size=44, hidden_size_per_layer_input=8, initializer_range=0.02,
    intermediate_size=[52] * 6, laurel_rank=5, layer_types=["sliding_attention"] * 2 + ["full_attention"] +
    ["sliding_attention", "sliding_attention", "full_attention"], max_position_embeddings=512, model_type="gemma3n_text",
    num_attention_heads=6, num_hidden_layers=6, num_key_value_heads=2, num_kv_shared_layers=2, rms_norm_eps=1e-6,
    rope_local_base_freq=10000.0, rope_scaling=None, rope_theta=1000000.0, sliding_window=4, torch_dtype="bfloat16",
    use_cache=True, vocab_size=67, vocab_size_per_layer_input=64)
GEMMA3N_WAYS = dict(
    layer=gemma3n_layer, tied=True, layers_alone=True, others=gemma3n_others, width=lambda c, n: c["intermediate_size"][n],
    norms=GEMMA4_WAYS["norms"], activation=lambda c: c["hidden_activation"])
GEMMA3N_TEXT = family("gemma3n_text", {"architectures": ["Gemma3nForCausalLM"]} | GEMMA3N_KEYS, 9, **GEMMA3N_WAYS)
GEMMA3N = family("gemma3n", {
    "architectures": ["Gemma3nForConditionalGeneration"], "model_type": "gemma3n", "text_config": GEMMA3N_KEYS,
    "torch_dtype": "bfloat16"}, 9, text=lambda c: c["text_config"], prefix="model.language_model.", **GEMMA3N_WAYS)


# Ling 2.0 ------------------------------------------------------------------------------------

def ling_layer(c, n):
    """inclusionAI's modeling_bailing_moe_v2.py; Ling-1T says rotary_dim for partial_rotary_factor."""
    d_k = head_width(c)
    dims = c.get("rotary_dim") or int(d_k * c.get("partial_rotary_factor", 1.0))
    return Heads(c["num_attention_heads"], c["num_key_value_heads"], d_k, bias=c.get("use_qkv_bias", False),
                 o_bias=c.get("use_bias", False), rope=rotation(c, dims), norm="head" if c.get("use_qk_norm", True) else "")


BAILING_MOE_V2 = family("bailing_moe_v2", said(
    "bailing_moe_v2", "BailingMoeV2", hidden_size=44, head_dim=12, intermediate_size=52, num_attention_heads=6,
    num_key_value_heads=2, embedding_dropout=0.0, first_k_dense_replace=1, max_window_layers=3, moe_intermediate_size=20,
    moe_router_enable_expert_bias=True, moe_shared_expert_intermediate_size=20, n_group=4, norm_topk_prob=True, num_experts=12,
    num_experts_per_tok=3, num_nextn_predict_layers=0, num_shared_experts=1, output_dropout=0.0, output_router_logits=False,
    pad_token_id=3, partial_rotary_factor=0.5, rope_scaling=None, rope_theta=600000, routed_scaling_factor=2.5,
    router_dtype="fp32", score_function="sigmoid", topk_group=2, use_bias=False, use_qk_norm=True, use_qkv_bias=False,
    use_rmsnorm=True), 9,
    layer=ling_layer, attention="attention.", fused="query_key_value", q_names=("query_layernorm", "key_layernorm"),
    o_name="dense", embed="word_embeddings", sparse=after_the_first, choosing=("gate.expert_bias",), shared="mlp.shared_experts.",
    shared_width=shared_of("num_shared_experts"), route=lambda c: noaux(c | {"norm_topk_prob": True}))


GATED = [AFMOE, QWEN3_NEXT, QWEN3_5, QWEN3_5_NESTED, LAGUNA, STEP3P5, MIMO_V2_FLASH, LLAMA4_TEXT, LLAMA4, GEMMA4_TEXT, GEMMA4,
         BAILING_MOE_V2, GEMMA3N_TEXT, GEMMA3N]
