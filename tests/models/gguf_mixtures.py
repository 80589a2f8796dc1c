"""What llama.cpp's converter does to checkpoints of mixtures (its conversion/*.py): names, keys, tensors that become one."""
import re

import numpy as np

ENDS = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
BLOCK = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
         "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
         "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate",
         "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
         **{f"mlp.experts.{x}_proj": f"ffn_{x}_exps" for x in ("gate", "up", "down")},
         **{f"mlp.shared_experts.{x}_proj": f"ffn_{x}_shexp" for x in ("gate", "up", "down")},
         "mlp.gate": "ffn_gate_inp", "mlp.gate.e_score_correction": "exp_probs_b"}
LATENT = BLOCK | {"self_attn.q_a_proj": "attn_q_a", "self_attn.q_a_layernorm": "attn_q_a_norm", "self_attn.q_b_proj": "attn_q_b",
                  "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa", "self_attn.kv_a_layernorm": "attn_kv_a_norm",
                  "self_attn.kv_b_proj": "attn_kv_b", "self_attn.k_b_proj": "attn_k_b", "self_attn.v_b_proj": "attn_v_b"}
POST_NORM = BLOCK | {"post_attention_layernorm": "post_attention_norm"}
GUESSER = {"eh_proj": "nextn.eh_proj", "enorm": "nextn.enorm", "hnorm": "nextn.hnorm", "embed_tokens": "nextn.embed_tokens",
           "shared_head.head": "nextn.shared_head_head", "shared_head.norm": "nextn.shared_head_norm"}
GRANITE = BLOCK | {"block_sparse_moe.router.layer": "ffn_gate_inp"}
HUNYUAN = BLOCK | {"self_attn.query_layernorm": "attn_q_norm", "self_attn.key_layernorm": "attn_k_norm", "mlp.gate.wg": "ffn_gate_inp",
                   **{f"mlp.shared_mlp.{x}_proj": f"ffn_{x}_shexp" for x in ("gate", "up", "down")}}
AT = "model.layers"
MODELS = {  # as gguf.py's
    "mixtral": ("llama", ENDS, BLOCK | {"block_sparse_moe.gate": "ffn_gate_inp"}, AT),
    "qwen2_moe": ("qwen2moe", ENDS, BLOCK | {
        "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
        **{f"mlp.shared_expert.{x}_proj": f"ffn_{x}_shexp" for x in ("gate", "up", "down")}}, AT),
    "qwen3_moe": ("qwen3moe", ENDS, BLOCK, AT), "olmoe": ("olmoe", ENDS, BLOCK, AT),
    "gpt_oss": ("gpt-oss", ENDS, POST_NORM | {"mlp.router": "ffn_gate_inp", "self_attn.sinks": "attn_sinks"}, AT),
    "deepseek": ("deepseek", ENDS, BLOCK, AT), "deepseek_v2": ("deepseek2", ENDS, LATENT, AT),
    "deepseek_v3": ("deepseek2", ENDS, LATENT, AT), "kimi_k2": ("deepseek2", ENDS, LATENT, AT),
    "glm4_moe": ("glm4moe", ENDS, POST_NORM | GUESSER, AT),
    "granitemoe": ("granitemoe", ENDS, GRANITE, AT), "granitemoeshared": ("granitemoe", ENDS, GRANITE, AT),
    "ernie4_5_moe": ("ernie4_5-moe", ENDS, BLOCK | {"mlp.moe_statics.e_score_correction": "exp_probs_b"}, AT),
    "minimax_m2": ("minimax-m2", ENDS, BLOCK | {"block_sparse_moe.gate": "ffn_gate_inp",
                                                "block_sparse_moe.e_score_correction": "exp_probs_b"}, AT),
    "hunyuan_v1_moe": ("hunyuan-moe", ENDS, HUNYUAN, AT), "hunyuan_v1_dense": ("hunyuan-dense", ENDS, HUNYUAN, AT),
    "dots1": ("dots1", ENDS, BLOCK, AT),
    "bailing_moe": ("bailingmoe", ENDS | {"model.word_embeddings": "token_embd"}, BLOCK | {"attention.dense": "attn_output"}, AT),
    "exaone_moe": ("exaone-moe", ENDS, BLOCK | {"mlp.e_score_correction": "exp_probs_b"}, AT)}
OF_LATENT = ("deepseek_v2", "deepseek_v3", "kimi_k2")
PERMUTED = ("granitemoe", "deepseek", "bailingmoe")  # beside llama
WINDOWED = ("llama", "gpt-oss", "exaone-moe")  # the converter says nothing of others' windows
ALWAYS_FULL = ("ffn_gate_inp", "ffn_gate_inp_shexp")  # float32 in a file of any type

EXPERT = re.compile(r"(model\.layers\.\d+\.)(?:mlp|block_sparse_moe)\.experts\.(\d+)\.(\w+)\.weight")
PARTS = {"w1": "gate_proj", "w3": "up_proj", "w2": "down_proj"}


# Tensors -------------------------------------------------------------------------------------

def mxfp4_blocks(blocks, scales):
    """Two numbers of a byte stand side by side in a checkpoint; here byte j has numbers j and j + 16 of its block."""
    numbers = np.stack([blocks & 15, blocks >> 4], -1).reshape(*blocks.shape[:-1], 32)
    return np.concatenate([scales[..., None], numbers[..., :16] | numbers[..., 16:] << 4], -1).astype(np.uint8)


def halves(name, both, gate, up):
    """Rows of the gate, then as many of the other."""
    return dict(zip((gate, up), np.split(both, 2, axis=-2)))


def columns(at, part, array):
    """gpt-oss: E, in, out; outputs of gate and up take turns. Biases: E, out."""
    ending = "bias" if part.endswith("_bias") else "weight"
    rows = array if ending == "bias" else array.swapaxes(1, 2)
    if part.startswith("down_proj"):
        return {f"{at}down_proj.{ending}": rows}
    return {f"{at}gate_proj.{ending}": rows[:, ::2], f"{at}up_proj.{ending}": rows[:, 1::2]}


def apart(c, name, array, together):
    """A checkpoint's tensor under the names that the converter's table has; none if it is not taken."""
    layer = re.match(r"model\.layers\.(\d+)\.", name)
    if layer and int(layer[1]) >= c["num_hidden_layers"] and c["model_type"] != "glm4_moe":
        return {}
    at, _, last = name.rpartition(".")
    if last.endswith("e_score_correction_bias"):
        return {f"{at}.e_score_correction.bias": array}
    if last == "sinks":
        return {name + ".weight": array}
    if found := re.fullmatch(r"(.*\.mlp\.experts\.)((?:gate_up|down)_proj(?:_bias)?)", name):
        if c["model_type"] == "gpt_oss":
            return columns(found[1], found[2], array)
        if found[2] == "down_proj":
            return {name + ".weight": array}
        return halves(name, array, found[1] + "gate_proj.weight", found[1] + "up_proj.weight")
    if found := re.fullmatch(r"(.*\.)(block_sparse_moe|shared_mlp)\.(input|output)_linear\.weight", name):
        to = found[1] + ("mlp.experts." if found[2] == "block_sparse_moe" else "mlp.shared_experts.")
        return {to + "down_proj.weight": array} if found[3] == "output" else \
            halves(name, array, to + "gate_proj.weight", to + "up_proj.weight")
    if name.endswith("attention.query_key_value.weight"):
        H, K = c["num_attention_heads"], c["num_key_value_heads"]
        parts = np.split(array, np.cumsum([H, K]) * (len(array) // (H + 2 * K)))
        return {name.replace("attention.query_key_value", f"self_attn.{x}_proj"): part for x, part in zip("qkv", parts)}
    if name.endswith("kv_b_proj.weight") and not together:
        nope = c["qk_nope_head_dim"]
        both = array.reshape(c["num_attention_heads"], nope + c["v_head_dim"], -1)
        return {name.replace("kv_b", "k_b"): both[:, :nope].swapaxes(1, 2), name.replace("kv_b", "v_b"): both[:, nope:]}
    if name == "lm_head.weight" and c.get("norm_head"):
        return {name: array / (np.sqrt((array * array).sum(0)) + 1e-7)}
    return {name: array}


def prepared(c, tensors, together):
    """name -> (dtype, array), before the table of names; arrays of "MXFP4" are bytes. together: one kv_b, as in files
    before March 2025."""
    result, experts = {}, {}
    for name, (dtype, array) in tensors.items():
        if found := EXPERT.fullmatch(name):
            part = f"{found[1]}mlp.experts.{PARTS.get(found[3], found[3])}.weight"
            experts.setdefault(part, (dtype, {}))[1][int(found[2])] = array
        elif name.endswith("_blocks"):
            at, part = name.rsplit(".", 1)
            data = mxfp4_blocks(array, tensors[name.replace("_blocks", "_scales")][1])
            parts = {"down_proj": data} if part == "down_proj_blocks" else {"gate_proj": data[:, ::2], "up_proj": data[:, 1::2]}
            result |= {f"{at}.{x}.weight": ("MXFP4", d) for x, d in parts.items()}
        elif not name.endswith("_scales"):
            result |= {n: (dtype, a) for n, a in apart(c, name, np.asarray(array), together).items()}
    merged = {n: (dtype, np.stack([by_number[e] for e in range(len(by_number))])) for n, (dtype, by_number) in experts.items()}
    return result | {n: t for n, t in merged.items() if apart(c, n, t[1], together)}


# Keys ----------------------------------------------------------------------------------------

def first(c, *names):
    return next((c[n] for n in names if c.get(n) is not None), None)


def of_one(value):
    return value[0] if isinstance(value, list) else value


def keys(c, together):
    """What the converter writes beside the keys of dense models, by name below the architecture's."""
    kind = c["model_type"]
    found = {"expert_count": first(c, "num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"),
             "expert_used_count": of_one(first(c, "num_experts_per_tok", "moe_k", "moe_topk")),
             "expert_group_count": c.get("n_group"), "expert_group_used_count": c.get("topk_group"),
             "expert_gating_func": {"softmax": 1, "sigmoid": 2, "noaux_tc": 2}.get(c.get("scoring_func"))}
    if kind == "mixtral":
        found["expert_used_count"] = found["expert_used_count"] or 2  # Transformers' default
    if kind == "hunyuan_v1_dense":
        found = {}
    if kind not in ("mixtral", "granitemoe", "granitemoeshared", "olmoe", "hunyuan_v1_dense"):
        width = c["intermediate_size"] if kind in ("gpt_oss", "minimax_m2") else c["moe_intermediate_size"]
        found["expert_feed_forward_length"] = of_one(width)
    if kind in ("qwen2_moe", "granitemoeshared"):
        found["expert_shared_feed_forward_length"] = first(c, "shared_expert_intermediate_size", "shared_intermediate_size")
    if kind in ("deepseek", *OF_LATENT, "glm4_moe", "dots1", "bailing_moe", "exaone_moe"):
        found |= {"leading_dense_block_count": c["first_k_dense_replace"],
                  "expert_shared_count": first(c, "n_shared_experts", "num_shared_experts"),
                  "expert_weights_scale": float(c.get("routed_scaling_factor", 1.0))}
    if kind in ("glm4_moe", "dots1", "bailing_moe", "exaone_moe") or kind in OF_LATENT and c.get("norm_topk_prob"):
        found["expert_weights_norm"] = c.get("norm_topk_prob", False)
    if kind in OF_LATENT:
        found |= latent_keys(c, together)
    if kind == "glm4_moe":
        found |= {"expert_gating_func": 2, "nextn_predict_layers": c.get("num_nextn_predict_layers"),
                  "block_count": c["num_hidden_layers"] + (c.get("num_nextn_predict_layers") or 0)}
    if kind == "ernie4_5_moe":
        shared = c["moe_num_shared_experts"]
        found |= {"interleave_moe_layer_step": c["moe_layer_interval"], "leading_dense_block_count": c["moe_layer_start_index"],
                  "expert_shared_count": shared}
        if shared > 0:  # a number that is that of the published models alone
            found["expert_shared_feed_forward_length"] = c["intermediate_size"] // c["num_key_value_heads"]
    if kind == "hunyuan_v1_moe":
        found |= {"expert_shared_feed_forward_length": c["intermediate_size"], "expert_shared_count": of_one(c["num_shared_expert"])}
    if kind == "exaone_moe":
        found |= {"expert_shared_feed_forward_length": c["moe_intermediate_size"] * c["num_shared_experts"],
                  "nextn_predict_layers": 0, "rope.scaling.type": "none"}
        if c.get("sliding_window"):
            found["attention.sliding_window_pattern"] = [x == "sliding_attention" for x in c["layer_types"]]
    if kind == "deepseek":
        found["rope.scaling.type"] = "none"
    if kind == "minimax_m2":
        found["rope.dimension_count"] = c["rotary_dim"]
    return {n: v for n, v in (found | hunyuan_keys(c)).items() if v is not None}


def latent_keys(c, together):
    """Since March 2025 the absorbed form's sizes, as of one key head; before those of all heads."""
    nope, pe, r, scaling = c["qk_nope_head_dim"], c["qk_rope_head_dim"], c["kv_lora_rank"], c.get("rope_scaling") or {}
    old = {"attention.head_count_kv": c["num_key_value_heads"], "attention.key_length": nope + pe,
           "attention.value_length": c["v_head_dim"]}
    new = {"attention.head_count_kv": 1, "attention.key_length": r + pe, "attention.value_length": r,
           "attention.key_length_mla": nope + pe, "attention.value_length_mla": c["v_head_dim"]}
    multiplier = scaling.get("mscale_all_dim")
    return {"attention.q_lora_rank": c.get("q_lora_rank"), "attention.kv_lora_rank": r, "rope.dimension_count": pe,
            "rope.scaling.yarn_log_multiplier": None if multiplier is None else 0.1 * multiplier} | (old if together else new)


def hunyuan_keys(c):
    """alpha is in the base; a length is written that no config has."""
    scaling = c.get("rope_scaling") or {}
    if scaling.get("type") != "dynamic" or not scaling.get("alpha"):
        return {}
    d = c["head_dim"]
    return {"rope.freq_base": c["rope_theta"] * scaling["alpha"] ** (d / (d - 2)), "rope.scaling.type": "none",
            "rope.scaling.factor": 1.0, "rope.scaling.original_context_length": 262144, "context_length": 262144}
