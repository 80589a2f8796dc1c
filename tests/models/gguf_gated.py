"""What llama.cpp's converter does to Gemma 4 (its conversion/gemma.py): names, keys, divisors of frequencies."""
import re

import numpy as np

ENDS = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
        "model.embed_tokens_per_layer": "per_layer_token_embd",
        "model.per_layer_model_projection": "per_layer_model_proj", "model.per_layer_projection_norm": "per_layer_proj_norm"}
BLOCK = {"input_layernorm": "attn_norm", "post_attention_layernorm": "post_attention_norm",
         "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm",
         **{f"self_attn.{x}_proj": f"attn_{x}" for x in "qkv"}, "self_attn.o_proj": "attn_output",
         **{f"self_attn.{x}_norm": f"attn_{x}_norm" for x in "qk"},
         **{f"mlp.{x}_proj": f"ffn_{x}" for x in ("gate", "up", "down")},
         "per_layer_input_gate": "inp_gate", "per_layer_projection": "proj", "post_per_layer_input_norm": "post_norm",
         "layer_scalar": "layer_output_scale", "router.proj": "ffn_gate_inp", "router": "ffn_gate_inp",
         "experts.factors": "ffn_down_exps", "experts.gate_up_proj": "ffn_gate_up_exps", "experts.down_proj": "ffn_down_exps",
         "experts.gate_proj": "ffn_gate_exps", "experts.up_proj": "ffn_up_exps",
         "pre_feedforward_layernorm_2": "pre_ffw_norm_2", "post_feedforward_layernorm_1": "post_ffw_norm_1",
         "post_feedforward_layernorm_2": "post_ffw_norm_2"}
MODELS = {"gemma4_text": ("gemma4", ENDS, BLOCK, "model.layers")}  # as gguf.py's
ALWAYS_FULL = ("ffn_gate_inp",)


def prepared(c, tensors, _together):
    """name -> (dtype, array), before the table of names."""
    def own(name):
        if name.endswith("router.per_expert_scale"):
            return name.replace("router.per_expert_scale", "experts.factors.scale")
        return name + ".weight" if name.endswith(("layer_scalar", "experts.gate_up_proj", "experts.down_proj")) else name
    found = {own(name): (dtype, np.asarray(array)) for name, (dtype, array) in tensors.items()}
    # As NVFP4's files have it, here in every second layer: the experts' two first maps apart.
    for name in [name for name in found if re.search(r"\.\d*[13579]\.experts\.gate_up_proj\.weight$", name)]:
        dtype, both = found.pop(name)
        for part, array in zip(("gate", "up"), np.split(both, 2, axis=1)):
            found[name.replace("gate_up", part)] = (dtype, array)
    return found


def windowed(c):
    return [kind == "sliding_attention" for kind in c["layer_types"]]


def keys(c, _together):
    full, local = (c["rope_parameters"][f"{kind}_attention"] for kind in ("full", "sliding"))
    shared, layers, width = c["num_kv_shared_layers"], c["num_hidden_layers"], c["intermediate_size"]
    found = {"attention.sliding_window_pattern": windowed(c), "attention.shared_kv_layers": shared,
             "embedding_length_per_layer_input": c["hidden_size_per_layer_input"],
             "attention.key_length": c["global_head_dim"], "attention.value_length": c["global_head_dim"],
             "attention.key_length_swa": c["head_dim"], "attention.value_length_swa": c["head_dim"],
             "rope.freq_base": full["rope_theta"], "rope.freq_base_swa": local["rope_theta"],
             "rope.dimension_count": c["global_head_dim"], "rope.dimension_count_swa": c["head_dim"]}
    if c["use_double_wide_mlp"]:
        found["feed_forward_length"] = [width * (1 if n < layers - shared else 2) for n in range(layers)]
    if c["num_global_key_value_heads"]:
        by_kind = {True: c["num_key_value_heads"], False: c["num_global_key_value_heads"]}
        found["attention.head_count_kv"] = [by_kind[local] for local in windowed(c)]
    if c["enable_moe_block"]:
        found |= {"expert_count": c["num_experts"], "expert_used_count": c["top_k_experts"],
                  "expert_feed_forward_length": c["moe_intermediate_size"]}
    return found


def divisors(c):
    """Of layers without a window: pairs that do not turn are divided by 1e30."""
    half = c["global_head_dim"] // 2
    turned = int(c["global_head_dim"] * c["rope_parameters"]["full_attention"]["partial_rotary_factor"] / 2)
    return np.where(np.arange(half) < turned, 1.0, 1e30)
