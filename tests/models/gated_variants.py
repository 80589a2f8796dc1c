"""The checkpoints of gated and other new attention that are written: for each family the usual one, and one for each trap."""
import numpy as np

from gated_families import (AFMOE, BAILING_MOE_V2, GEMMA3N, GEMMA3N_KEYS, GEMMA3N_TEXT, GEMMA4, GEMMA4_KEYS, GEMMA4_TEXT, LAGUNA, LLAMA4, LLAMA4_TEXT, MIMO_V2_FLASH,
                            QWEN3_5, QWEN3_5_NESTED, QWEN3_NEXT, STEP3P5)
from mixture_variants import OF_EXPERT, stacked
from variants import LEFT_OUT, Variant


def in_full(*parts):
    """bfloat16 but for tensors whose names have one of the parts."""
    return lambda name: "F32" if any(part in name for part in parts) else "BF16"


def without_experts(name):
    return None if OF_EXPERT.fullmatch(name) else name


def laguna_renamed(name):
    name = name.replace("mlp.experts.e_score", "mlp.gate.e_score").replace("mlp.shared_expert.", "mlp.shared_experts.")
    return without_experts(name)


def vision_model(c, tensors):
    """Layers of another model beside the ones that are meant."""
    v, rng = c["vision_config"], np.random.default_rng(14)
    d, names = v["hidden_size"], {}
    for n in range(v["num_hidden_layers"]):
        at = f"vision_model.model.layers.{n}.self_attn."
        for x in ("q_proj", "k_proj", "v_proj", "o_proj"):
            names |= {f"{at}{x}.weight": ("BF16", rng.standard_normal((d, d))), f"{at}{x}.bias": ("BF16", rng.standard_normal(d))}
    return names | {"multi_modal_projector.linear_1.weight": ("BF16", rng.standard_normal((44, d)))}


def gemma4_tower(c, tensors):
    d, rng, names = c["vision_config"]["hidden_size"], np.random.default_rng(15), {}
    for n in range(c["vision_config"]["num_hidden_layers"]):
        at = f"model.vision_tower.encoder.layers.{n}.self_attn."
        names |= {f"{at}{x}_proj.linear.weight": ("BF16", rng.standard_normal((d, d))) for x in "qkvo"}
        names |= {f"{at}{x}.weight": ("BF16", rng.standard_normal(d // 4)) for x in ("q_norm", "k_norm")}
    return names | {"model.embed_vision.embedding_projection.weight": ("BF16", rng.standard_normal((44, d)))}


def unused_keys(c, tensors):
    """Keys and values of layers that take others' are in the published files, and read by nothing."""
    text, rng = c.get("text_config", c), np.random.default_rng(16)
    layers, shared, result = text["num_hidden_layers"], text["num_kv_shared_layers"], {}
    for name, (dtype, array) in tensors.items():
        for n in range(shared):
            source = f"layers.{layers - 2 * shared + n}.self_attn."  # of the same kind
            if source + "k_" in name or source + "v_" in name:
                name = name.replace(source, f"layers.{layers - shared + n}.self_attn.")
                result[name] = (dtype, rng.standard_normal(array.shape))
    return result


SMALL = {"attention_k_eq_v": False, "hidden_size_per_layer_input": 8, "num_global_key_value_heads": None, "num_hidden_layers": 5,
         "num_key_value_heads": 1, "num_kv_shared_layers": 2, "use_bidirectional_attention": None, "use_double_wide_mlp": True,
         "layer_types": ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention"]}

MOE = {"enable_moe_block": True, "moe_intermediate_size": 20, "num_experts": 6, "num_hidden_layers": 4, "top_k_experts": 2,
       "layer_types": ["sliding_attention", "sliding_attention", "full_attention", "full_attention"]}

LAGUNA_M1 = {
    "gating": "per-element", "gating_types": LEFT_OUT, "layer_types": LEFT_OUT, "mlp_layer_types": ["dense"] * 2 + ["sparse"] * 2,
    "mlp_only_layers": [0, 1], "moe_routed_scaling_factor": 1.0, "num_attention_heads": 6,
    "num_attention_heads_per_layer": LEFT_OUT, "partial_rotary_factor": 1.0, "rope_parameters": LEFT_OUT,
    "rope_theta": 500000.0, "rope_scaling": {
        "attention_factor": 1.0, "beta_fast": 64.0, "beta_slow": 1.0, "factor": 32.0, "original_max_position_embeddings": 64,
        "rope_type": "yarn"}}

MIMO_NATIVE = {x: LEFT_OUT for x in MIMO_V2_FLASH.config if x.startswith(("swa_", "add_", "hybrid_"))} | {x: LEFT_OUT for x in (
    "attention_chunk_size", "attention_value_scale", "layernorm_epsilon", "moe_layer_freq", "n_shared_experts",
    "partial_rotary_factor", "rope_theta", "scoring_func", "sliding_window_size", "topk_method")} | {
        "layer_types": ["full_attention"] + ["sliding_attention"] * 3, "mlp_layer_types": ["dense"] + ["sparse"] * 3,
        "num_attention_heads": 8, "rms_norm_eps": 1e-5, "rope_parameters": {
            "full_attention": {"partial_rotary_factor": 0.334, "rope_theta": 5000000.0, "rope_type": "default"},
            "sliding_attention": {"partial_rotary_factor": 0.334, "rope_theta": 10000.0, "rope_type": "default"}},
        "routed_scaling_factor": 1.0}

def left_out(*keys, **others):
    return {key: LEFT_OUT for key in keys} | others


GATED_VARIANTS = [
    # AFMoE
    Variant("afmoe", AFMOE, "a gate an element; windows of 4 on three of four layers, which alone rotate; four norms; √d; "
            "layer 0 dense"),
    Variant("afmoe-bf16", AFMOE, "bfloat16, norms and the bias for choosing in float32, sharded", {"num_shared_experts": 2},
            "BF16", in_full("norm", "expert_bias"), shards=3),
    Variant("afmoe-batch", AFMOE, "three texts, padded on the right; layer_types left out: each second layer is global; "
            "mup_enabled false; two dense layers; tied",
            left_out("layer_types", global_attn_every_n_layers=2, mup_enabled=False, num_dense_layers=2,
            tie_word_embeddings=True),
            lengths=(9, 4, 7)),
    Variant("afmoe-groups", AFMOE, "as mlx-lm and vLLM read it: two of four groups, route_norm false",
            {"n_group": 4, "topk_group": 2, "route_norm": False, "num_experts": 12}),
    Variant("afmoe-stacked", AFMOE, "as Transformers 5 holds it: mlp.experts.gate_up_proj (E, 2I, d), gate rows first; no shared "
            "expert", {"num_shared_experts": 0, "num_key_value_heads": 6}, rename=without_experts, extra=stacked),
    Variant("afmoe-wide", AFMOE, "heads as wide together as the model: the gate of W_o's result is no error of shapes",
            {"hidden_size": 60, "intermediate_size": 68}),
    # Qwen3-Next, Qwen3.5
    Variant("qwen3_next", QWEN3_NEXT, "lone softmax layer 3: q and gate by head in q_proj; 1 + w norms; rotation on 4 of 16"),
    Variant("qwen3_next-bf16", QWEN3_NEXT, "bfloat16, sharded; layer_types: layers 1 and 3; attention_bias; a half rotates",
            left_out("full_attention_interval", layer_types=["linear_attention", "full_attention"] * 2, attention_bias=True,
                     partial_rotary_factor=0.5), "BF16", shards=2),
    Variant("qwen3_next-silent", QWEN3_NEXT, "partial_rotary_factor and full_attention_interval left out: 0.25 and 4; a key head "
            "for each head", left_out("partial_rotary_factor", "full_attention_interval", num_key_value_heads=6)),
    Variant("qwen3_next-wide", QWEN3_NEXT, "heads as wide together as the model", {"hidden_size": 96}),
    Variant("qwen3_5_text", QWEN3_5, "lone softmax layer 3: rope_parameters with sections, which text does not tell apart; 6 of "
            "24", dtype="BF16"),
    Variant("qwen3_5_text-f32", QWEN3_5, "rope_parameters without partial_rotary_factor: a quarter",
            left_out("layer_types", rope_parameters={"rope_theta": 5000, "rope_type": "default"})),
    Variant("qwen3_5", QWEN3_5_NESTED, "as published: text_config, model.language_model. names; lone softmax layer 3",
            dtype="BF16", shards=2),
    # Laguna
    Variant("laguna", LAGUNA, "a gate a head, softplus; 4 and 6 heads; yarn on half a head in the full layer, plain in windows; "
            "layer 0 dense; names of the file: mlp.experts.e_score_correction_bias, mlp.shared_expert"),
    Variant("laguna-bf16", LAGUNA, "bfloat16, the bias for choosing in float32, sharded; softcap of the router's logits",
            {"moe_router_logit_softcapping": 2.0}, "BF16", in_full("e_score"), shards=3),
    Variant("laguna-m.1", LAGUNA, "a gate an element; every layer full, yarn from rope_theta and rope_scaling; two dense layers; "
            "three texts, padded on the right", LAGUNA_M1, lengths=(9, 4, 7)),
    Variant("laguna-m.1-published", LAGUNA, "config.json as published: one object of rope_parameters and sliding_window 0, no "
            "layer_types", left_out("layer_types", gating="per-element", sliding_window=0, rope_parameters={
                "full_attention": {**LAGUNA.config["rope_parameters"]["full_attention"], "partial_rotary_factor": 1.0}})),
    Variant("laguna-silent", LAGUNA, "gating, rope_parameters, layer_types, heads by layer, mlp_layer_types left out: a head, "
            "base 500000 on a half, full, one count, layer 0 dense; tied",
            left_out("gating", "gating_types", "rope_parameters", "layer_types", "num_attention_heads_per_layer",
                     "mlp_layer_types", "moe_router_logit_softcapping", "mlp_only_layers", tie_word_embeddings=True)),
    Variant("laguna-stacked", LAGUNA, "names that Transformers has while it runs: mlp.experts.gate_up_proj (E, 2I, d), gate rows "
            "first, mlp.gate.e_score_correction_bias, mlp.shared_experts; attention_bias",
            {"gating": True, "attention_bias": True}, rename=laguna_renamed, extra=stacked),
    # Step 3.5
    Variant("step3p5", STEP3P5, "a gate a head; 6 heads of 3 on windows, 4 of 2 elsewhere; 1 + w norms; llama3 scaling and half "
            "a head on full layers; clamps of the last layers; moe.router_bias; epsilon 1e-5 without a key; lists longer than "
            "the layers"),
    Variant("step3p5-bf16", STEP3P5, "bfloat16, router and its bias in float32, sharded; tied", {"tie_word_embeddings": True},
            "BF16", in_full("moe.gate.", "router_bias"), shards=3),
    Variant("step3p5-batch", STEP3P5, "three texts, padded on the right; yarn on every layer; no gate; the same head counts "
            "everywhere",
            left_out("yarn_only_types", use_head_wise_attn_gate=False, attention_other_setting=None, rope_theta=10000.0,
                     rope_scaling={"factor": 4.0, "original_max_position_embeddings": 16, "rope_type": "yarn"}),
            lengths=(9, 4, 7)),
    Variant("step3p5-silent", STEP3P5, "moe_layers_enum, partial_rotary_factors, limits, factor, norm_expert_weight left out: "
            "from layer 1 on, whole heads, none, 3, divided",
            left_out("moe_layers_enum", "partial_rotary_factors", "swiglu_limits", "swiglu_limits_shared",
                     "moe_router_scaling_factor", "norm_expert_weight", "use_head_wise_attn_gate", rms_norm_eps=0.01)),
    Variant("step3p5-clamped", STEP3P5, "clamps of a dense layer, of shared experts and of experts, each its own",
            {"swiglu_limits": [0.0, 0.0, 1.0, 1.25, 1.5], "swiglu_limits_shared": [0.5, 0.0, 0.75, 0.0, 1.0]}),
    # MiMo V2 Flash
    Variant("mimo_v2_flash", MIMO_V2_FLASH, "heads of 18 for keys and 10 for values; sinks and 6 heads of 3 on windows; two "
            "bases, 6 of 18 rotate; values times 0.707; layer 0 dense; routed_scaling_factor null"),
    Variant("mimo_v2_flash-bf16", MIMO_V2_FLASH, "bfloat16, the bias for choosing in float32, sharded; no factor of values",
            left_out("attention_value_scale"), "BF16", in_full("e_score"), shards=3),
    Variant("mimo_v2_flash-batch", MIMO_V2_FLASH, "three texts, padded on the right; sinks on full layers, none on windows; "
            "heads of other widths there; two of four groups; attention_bias",
            {"add_full_attention_sink_bias": True, "add_swa_attention_sink_bias": False, "swa_head_dim": 12, "swa_v_head_dim": 8,
             "n_group": 4, "topk_group": 2, "routed_scaling_factor": 1.5, "attention_bias": True}, lengths=(9, 4, 7)),
    Variant("mimo_v2_flash-native", MIMO_V2_FLASH, "Transformers' own config: layer_types, rope_parameters by kind, "
            "rms_norm_eps; windows have twice the key heads; the values' factor left out is 0.707", MIMO_NATIVE),
    Variant("mimo_v2", MIMO_V2_FLASH, "the model_type of V2.5", {"model_type": "mimo_v2"}),
    # Llama 4
    Variant("llama4_text", LLAMA4_TEXT, "pairs side by side; weightless norms behind the rotation; chunks of 5; layer 3 without "
            "rotation, sees all, temperature from position 3 on; the best expert, σ on its input; a shared one"),
    Variant("llama4_text-bf16", LLAMA4_TEXT, "bfloat16, sharded; two experts; no norms of q, k; layers 1 and 3 alone are "
            "mixtures", left_out("moe_layers", num_experts_per_tok=2, use_qk_norm=False, interleave_moe_layer_step=2), "BF16",
            shards=3),
    Variant("llama4_text-dense", LLAMA4_TEXT, "no mixture, tied; no temperature; an empty no_rope_layers, each third does not "
            "rotate; no chunk is met; three texts, padded on the right",
            {"moe_layers": [], "tie_word_embeddings": True, "attn_temperature_tuning": False, "no_rope_layers": [],
             "no_rope_layer_interval": 3, "attention_chunk_size": 64, "rope_scaling": None}, lengths=(9, 4, 7)),
    Variant("llama4_text-silent", LLAMA4_TEXT, "defaults: no_rope_layers, moe_layers, the temperature's keys but its floor, "
            "use_qk_norm; rope_parameters",
            left_out("no_rope_layers", "moe_layers", "attn_temperature_tuning", "attn_scale", "use_qk_norm", "rope_theta",
                     "rope_scaling", "interleave_moe_layer_step", "num_experts_per_tok", floor_scale=2,
                     rope_parameters={"rope_theta": 20000.0, "rope_type": "default"})),
    Variant("llama4", LLAMA4, "model_type llama4: text_config, language_model.model. names, a vision tower beside; layer_types; "
            "layers 1 and 3 alone are mixtures; the temperature's key a number",
            {"text_config": LLAMA4.config["text_config"] | {
                "attn_temperature_tuning": 4, "layer_types": ["chunked_attention"] * 3 + ["full_attention"],
                "moe_layers": [1, 3]}}, "BF16", extra=vision_model, shards=2),
    # Gemma 4
    Variant("gemma4_text", GEMMA4_TEXT, "as 31B: heads of 12, and of 20 on full layers, where keys before their norm are values; "
            "proportional rotation; scale 1, v_norm without weight, norms with w; layer_scalar; softcap of logits"),
    Variant("gemma4", GEMMA4, "as published: text_config, model.language_model. names, a vision tower beside; √d rounded to "
            "bfloat16; sharded", {}, "BF16", extra=gemma4_tower, shards=3),
    Variant("gemma4_text-e", GEMMA4_TEXT, "as E2B: the last two of five layers take keys and values of layers 1 and 2, twice as "
            "wide; per-layer embeddings; unused k_proj, k_norm, v_proj of those layers in the file", SMALL, extra=unused_keys),
    Variant("gemma4_text-e-batch", GEMMA4_TEXT, "three texts, padded on the right, bfloat16; without the unused tensors; as E4B "
            "not wider", SMALL | {"use_double_wide_mlp": False, "num_key_value_heads": 2}, "BF16", lengths=(9, 4, 7)),
    Variant("gemma4-e", GEMMA4, "E-size under text_config", {"text_config": GEMMA4_KEYS | SMALL}, "BF16", extra=unused_keys),
    Variant("gemma4_text-silent", GEMMA4_TEXT, "rope_parameters, layer_types, softcap, sharing left out: full is each sixth "
            "layer and the last; num_global_key_value_heads without attention_k_eq_v is not read; untied",
            left_out("rope_parameters", "layer_types", "final_logit_softcapping", "num_kv_shared_layers", "attention_k_eq_v",
                     "use_double_wide_mlp", "enable_moe_block", "use_bidirectional_attention", num_hidden_layers=7,
                     tie_word_embeddings=False)),
    Variant("gemma4_text-moe", GEMMA4_TEXT, "as 26B-A4B: two of six experts beside the dense feed-forward, each with norms; the "
            "router's own norm, its scale / √d; a factor an expert", MOE),
    Variant("gemma4-moe", GEMMA4, "the same under text_config; bfloat16, three texts, padded on the right; three of five experts",
            {"text_config": GEMMA4_KEYS | MOE | {"num_experts": 5, "top_k_experts": 3}}, "BF16", lengths=(9, 4, 7)),
    # Gemma 3n
    Variant("gemma3n_text", GEMMA3N_TEXT, "lone layers: scale 1, v_norm without weight, norms with w; the last two of six take "
            "keys and values of layers 3 and 2; windows of 4, another base there", extra=unused_keys),
    Variant("gemma3n", GEMMA3N, "as published: text_config, model.language_model. names; bfloat16, sharded; layer_types and "
            "num_kv_shared_layers left out: each fifth layer sees all", {"text_config": {
                k: v for k, v in GEMMA3N_KEYS.items() if k not in ("layer_types", "num_kv_shared_layers")}}, "BF16", shards=2),
    Variant("gemma3n_text-v5", GEMMA3N_TEXT, "as Transformers 5 saves it: rope_parameters for each kind", left_out(
        "rope_theta", "rope_local_base_freq", "rope_scaling", rope_parameters={
            "full_attention": {"rope_theta": 500000.0, "rope_type": "default"},
            "sliding_attention": {"rope_theta": 5000.0, "rope_type": "default"}})),
    # Ling 2.0
    Variant("bailing_moe_v2", BAILING_MOE_V2, "query_key_value, norms of q and k a head before the rotation of a half; sigmoid, "
            "two of four groups, mlp.gate.expert_bias; a shared expert; layer 0 dense"),
    Variant("bailing_moe_v2-bf16", BAILING_MOE_V2, "as Ling-mini publishes it: model_type bailing_moe, only architectures tell; "
            "bfloat16, the bias in float32, sharded", {"model_type": "bailing_moe"}, "BF16", in_full("expert_bias"), shards=3),
    Variant("bailing_moe_v2-batch", BAILING_MOE_V2, "as Ling-1T: rotary_dim for partial_rotary_factor; one group; norm_topk_prob "
            "false is not read; use_qkv_bias; two dense layers; three texts, padded on the right",
            left_out("partial_rotary_factor", rotary_dim=6, n_group=1, topk_group=1, norm_topk_prob=False, use_qkv_bias=True,
                     first_k_dense_replace=2, num_shared_experts=2, moe_shared_expert_intermediate_size=40), lengths=(9, 4, 7)),
]
