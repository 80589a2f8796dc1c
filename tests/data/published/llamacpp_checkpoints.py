"""llamacpp.py's models as the checkpoints that their makers publish: names, configs, layouts."""
import numpy as np

BOTH = ("afmoe", "bailingmoe2", "deepseek2", "gpt-oss", "laguna", "llama4", "mimo2", "step35")

ENDS = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
BLOCK = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "ffn_gate_inp": "mlp.gate",
         **{f"attn_{x}": f"self_attn.{x}_proj" for x in "qkv"}, "attn_output": "self_attn.o_proj",
         **{f"attn_{x}_norm": f"self_attn.{x}_norm" for x in "qk"}, "attn_gate": "self_attn.g_proj",
         **{f"ffn_{x}": f"mlp.{x}_proj" for x in ("gate", "up", "down")}}
LATENT = {"attn_q_a": "q_a_proj", "attn_q_a_norm": "q_a_layernorm", "attn_q_b": "q_b_proj", "attn_kv_b": "kv_b_proj",
          "attn_kv_a_mqa": "kv_a_proj_with_mqa", "attn_kv_a_norm": "kv_a_layernorm"}
OWN = {"afmoe": {"post_attention_norm": "post_attention_layernorm", "ffn_norm": "pre_mlp_layernorm",
                 "post_ffw_norm": "post_mlp_layernorm", "attn_gate": "self_attn.gate_proj",
                 "ffn_gate_inp": "mlp.router.gate"},
       "bailingmoe2": {"token_embd": "model.word_embeddings", "attn_qkv": "attention.query_key_value",
                       "attn_q_norm": "attention.query_layernorm", "attn_k_norm": "attention.key_layernorm",
                       "attn_output": "attention.dense"},
       "deepseek2": {part: "self_attn." + own for part, own in LATENT.items()},
       "gpt-oss": {"post_attention_norm": "post_attention_layernorm", "ffn_gate_inp": "mlp.router"},
       "llama4": {"ffn_gate_inp": "feed_forward.router",
                  **{f"ffn_{x}": f"feed_forward.{x}_proj" for x in ("gate", "up", "down")}},
       "step35": {"ffn_gate_inp": "moe.gate"}}
SHARED = {"laguna": "mlp.shared_expert.", "llama4": "feed_forward.shared_expert.", "step35": "share_expert."}
CHOOSING = {"afmoe": "mlp.expert_bias", "bailingmoe2": "mlp.gate.expert_bias", "step35": "moe.router_bias",
            "laguna": "mlp.experts.e_score_correction_bias"}
SINKS = {"gpt-oss": "self_attn.sinks", "mimo2": "self_attn.attention_sink_bias"}


# Configs -------------------------------------------------------------------------------------


def kinds(s):
    return ["sliding_attention" if local else "full_attention" for local in s["local"]]


NULLS = ("rope_scaling", "sliding_window", "n_shared_experts", "routed_scaling_factor")
NOAUX = dict(n_group=1, topk_group=1, norm_topk_prob=True, scoring_func="sigmoid", topk_method="noaux_tc")


def afmoe(s):
    return "Afmoe", dict(
        layer_types=kinds(s), sliding_window=s["window"], rope_theta=s["base"], mup_enabled=True, num_experts=s["E"],
        num_shared_experts=1, num_dense_layers=1, route_norm=True, route_scale=s["factor"], score_func="sigmoid",
        n_group=1, topk_group=1, global_attn_every_n_layers=4)


def bailing_moe_v2(s):
    return "BailingMoeV2", dict(
        first_k_dense_replace=1, moe_router_enable_expert_bias=True, norm_topk_prob=True,
        moe_shared_expert_intermediate_size=8, num_shared_experts=2, num_experts=s["E"], n_group=1, topk_group=1,
        partial_rotary_factor=1.0, routed_scaling_factor=s["factor"], score_function="sigmoid", use_bias=False,
        use_qk_norm=True, use_qkv_bias=False, use_rmsnorm=True, norm_head=False, rope_theta=s["base"])


def deepseek_v3(s):
    yarn = s.get("yarn") and {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 32,
                              "beta_slow": 1, "mscale": s["yarn"], "mscale_all_dim": s["yarn"]}
    return "DeepseekV3", dict(
        first_k_dense_replace=1, q_lora_rank=s["r_q"], kv_lora_rank=s["r"], v_head_dim=s["d_v"],
        qk_nope_head_dim=s["d_k"] - s["pe"], qk_rope_head_dim=s["pe"], n_routed_experts=s["E"], n_shared_experts=1,
        routed_scaling_factor=s["factor"], rope_theta=s["base"], rope_interleave=True, rope_scaling=yarn,
        head_dim=None, **NOAUX)


def gpt_oss(s):
    return "GptOss", dict(
        intermediate_size=s["I"], num_local_experts=s["E"], swiglu_limit=7.0, sliding_window=s["window"],
        layer_types=kinds(s), rope_theta=s["base"], rope_scaling=None, attention_bias=True)


def laguna(s):
    def rope(theta, dims):
        return {"rope_type": "default", "rope_theta": theta, "partial_rotary_factor": dims / s["d_k"]}

    return "Laguna", dict(
        num_experts=s["E"], gating="per-head" if isinstance(s["H"], list) else "per-element", layer_types=kinds(s),
        sliding_window=s.get("window"), moe_router_logit_softcapping=0.0,
        mlp_layer_types=["dense"] + ["sparse"] * (s["layers"] - 1), moe_routed_scaling_factor=s["factor"],
        num_attention_heads_per_layer=s["H"] if isinstance(s["H"], list) else [s["H"]] * s["layers"],
        rope_parameters={"full_attention": rope(10000.0, s["dims"][0]),
                         "sliding_attention": rope(5000.0, s["dims"][-1])},
        shared_expert_intermediate_size=s["shared"])


def llama4_text(s):
    return "Llama4", dict(
        intermediate_size=s["I"], intermediate_size_mlp=s["ff"], moe_intermediate_size=None, max_position_embeddings=10000,
        num_local_experts=s["E"], num_experts_per_tok=1, interleave_moe_layer_step=2, moe_layers=[1, 3],
        no_rope_layers=[1, 1, 1, 0], use_qk_norm=s["E"] == 16, attn_temperature_tuning=True, floor_scale=8192,
        attn_scale=0.1, attention_chunk_size=8192, rope_theta=s["base"], rope_scaling=None,
        tie_word_embeddings=s["last"] == "output_norm+1")


def mimo_v2_flash(s):
    return "MiMoV2Flash", dict(
        v_head_dim=s["d_v"], swa_head_dim=s["d_k"], swa_v_head_dim=s["d_v"], swa_num_attention_heads=4,
        swa_num_key_value_heads=2, num_key_value_heads=1, hybrid_layer_pattern=s["local"],
        sliding_window=s["window"], sliding_window_size=s["window"], partial_rotary_factor=0.667,
        rope_theta=s["base"], swa_rope_theta=100.0, attention_value_scale=s["value"],
        add_full_attention_sink_bias=True, add_swa_attention_sink_bias=True, moe_layer_freq=[1] * 3,
        n_routed_experts=s["E"], n_shared_experts=None, routed_scaling_factor=None, layernorm_epsilon=s["eps"],
        **NOAUX)


def step3p5(s):
    local = {"attention_type": "sliding_attention", "num_attention_heads": 4, "num_attention_groups": 2, "head_dim": 8}
    return "Step3p5", dict(
        num_attention_groups=1, layer_types=kinds(s), sliding_window=s["window"], attention_other_setting=local,
        moe_layers_enum="1,2,3", moe_num_experts=s["E"], moe_top_k=2, moe_router_activation="sigmoid",
        moe_router_scaling_factor=s["factor"], norm_expert_weight=True, use_moe_router_bias=True,
        share_expert_dim=s["shared"], use_head_wise_attn_gate=True, use_qk_norm=True,
        partial_rotary_factors=[dims / s["d_k"] for dims in s["dims"]], rope_theta=s["base"],
        swiglu_limits=s["clamp"], swiglu_limits_shared=s["clamp_shared"], zero_centered=True,
        num_key_value_heads=None, num_experts_per_tok=None)


CONFIGS = {"afmoe": afmoe, "bailingmoe2": bailing_moe_v2, "deepseek2": deepseek_v3, "gpt-oss": gpt_oss,
           "laguna": laguna, "llama4": llama4_text, "mimo2": mimo_v2_flash, "step35": step3p5}


def config_of(s):
    """Without what this maker's configs have no key for."""
    first = {key: s[key][0] if isinstance(s[key], list) else s[key] for key in "HK"}
    make = CONFIGS[s["kind"]]
    cls, own = make(s)
    config = dict(
        architectures=[cls + "ForCausalLM"], model_type=make.__name__, hidden_size=s["d"],
        intermediate_size=s["ff"], moe_intermediate_size=s["I"], num_hidden_layers=s["layers"], vocab_size=48,
        num_attention_heads=first["H"], num_key_value_heads=first["K"], head_dim=s["d_k"], num_experts_per_tok=2,
        max_position_embeddings=64, rms_norm_eps=s["eps"], hidden_act="silu", attention_bias=False,
        tie_word_embeddings=False, torch_dtype="float32") | own
    return {key: v for key, v in config.items() if v is not None or key in NULLS}


# Tensors -------------------------------------------------------------------------------------


def in_turns(gate, up):
    """gpt-oss: outputs of gate and up take turns."""
    return np.stack([gate, up], -1).reshape(*gate.shape[:-1], -1)


def stacked(kind, n, found):
    """All experts in one tensor, (E, in, out), gate and up in one: gpt-oss and llama4."""
    at = f"model.layers.{n}." + ("mlp.experts." if kind == "gpt-oss" else "feed_forward.experts.")
    gate, up, down = (found[f"blk.{n}.ffn_{x}_exps.weight"].swapaxes(1, 2) for x in ("gate", "up", "down"))
    if kind == "llama4":
        return {at + "gate_up_proj": np.concatenate([gate, up], -1), at + "down_proj": down}
    biases = [found[f"blk.{n}.ffn_{x}_exps.bias"] for x in ("gate", "up", "down")]
    return {at + "gate_up_proj": in_turns(gate, up), at + "gate_up_proj_bias": in_turns(*biases[:2]),
            at + "down_proj": down, at + "down_proj_bias": biases[2]}


def in_block(kind, n, part, ending, x):
    """One of llama.cpp's tensors under the maker's names."""
    at = f"model.layers.{n}."
    if part == "exp_probs_b":
        return {at + CHOOSING.get(kind, "mlp.gate.e_score_correction_bias"): x}
    if part == "attn_sinks":
        return {at + SINKS[kind]: x}
    if part.endswith("_shexp"):
        return {f"{at}{SHARED.get(kind, 'mlp.shared_experts.')}{part[4:-6]}_proj.weight": x}
    if not part.endswith("_exps"):
        return {f"{at}{(BLOCK | OWN.get(kind, {}))[part]}.{ending}": x}
    if kind == "step35":
        return {f"{at}moe.{part[4:-5]}_proj.weight": x}
    return {f"{at}mlp.experts.{e}.{part[4:-5]}_proj.weight": x[e] for e in range(len(x))}


def checkpoint(s, found):
    """The config and the tensors, by the maker's names, of found: those by llama.cpp's."""
    kind, tensors = s["kind"], {}
    for tensor, x in found.items():
        if kind == "step35" and "norm" in tensor:  # whose norms are stored around 0
            x = x.astype(float) - 1
        *block, part, ending = tensor.split(".")
        if not block:
            tensors[f"{(ENDS | OWN.get(kind, {}))[part]}.weight"] = x
        elif not (part.endswith("_exps") and kind in ("gpt-oss", "llama4")):
            tensors |= in_block(kind, block[1], part, ending, x)
        elif part == "ffn_gate_exps" and ending == "weight":
            tensors |= stacked(kind, block[1], found)
    return config_of(s), tensors
