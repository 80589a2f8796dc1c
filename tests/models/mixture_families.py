"""Families whose feed-forwards are mixtures of experts: records as those of families.py.

Written from the papers (Jiang et al. 2024 for Mixtral; Dai et al. 2024, DeepSeek-AI 2024 for DeepSeek; Muennighoff et al.
2024 for OLMoE …) and from Transformers' modeling_*.py, whose places are named where a paper says nothing.
"""
from dataclasses import dataclass, replace
from typing import Callable

import numpy as np

from families import Family, Tensor, frequencies, head_width, linear, qwen_window, rope_base, rope_scaling, scaled_rope
from forward import ACTIVATIONS, Attention, Block, FeedForward, Head, Latent, Linear, Mixture, Model, Norm, Rope, of_width, swiglu_oai

GATED = ("gate_proj", "up_proj", "down_proj")
FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def rotation(c, dims):
    return scaled_rope(c, dims, rope_base(c), rope_scaling(c))


def as_pairs(rope, before=0):
    return replace(rope, adjacent=True, before=before)


@dataclass
class Way:
    """What a family does otherwise than Mixtral."""
    # attention
    qkv_bias: Callable = lambda c: c.get("attention_bias", False)
    o_bias: Callable = lambda c: c.get("attention_bias", False)
    mlp_bias: Callable = lambda c: False
    head_norms: Callable = lambda c: False    # q and k are normed: "head" by head, or all heads' numbers at once, "width"
    norm_names: tuple = ("q_norm", "k_norm")
    norm_last: bool = False
    rope: Callable = lambda c, n: rotation(c, head_width(c))
    scale: Callable = lambda c: head_width(c) ** -0.5
    window: Callable = lambda c, n: None
    latent: bool = False
    sinks: bool = False
    attention: str = "self_attn."
    fused: str = ""                           # name of the one map for q, k and v
    o_name: str = "o_proj"
    # the model
    embed: str = "embed_tokens"
    tied: bool = False
    head_bias: Callable = lambda c: False
    head: Callable = lambda c, rows: rows     # what the table of the head is taken as
    eps: float = 1e-6
    rows: Callable = lambda c: 1.0            # multiplies embeddings,
    adds: Callable = lambda c: 1.0            # what blocks add,
    divides: Callable = lambda c: 1.0         # and divides logits
    # the mixture
    sparse: Callable = lambda c, n: True      # is layer n one?
    count: str = "num_experts"
    chosen: Callable = lambda c, n: c["num_experts_per_tok"]
    width: Callable = lambda c: c["moe_intermediate_size"]
    router: str = "mlp.gate"
    router_bias: bool = False
    choosing: tuple = ()                      # names of the bias for choosing; a file has the first
    choosing_shape: Callable = lambda E: (E,)
    choosing_kind: str = "bias"
    experts: str = "mlp.experts."
    parts: tuple = GATED
    stored: str = "apart"                     # "halves": one tensor of all experts, gate rows first; "columns": gpt-oss'
    shared: str = ""                          # names below it, or of its two maps
    shared_width: Callable = lambda c: 0
    shared_fused: bool = False
    shared_gate: str = ""
    clamp: Callable = lambda c: None
    route: Callable = lambda c: {}            # fields of Mixture


# Tensors -------------------------------------------------------------------------------------

def gain(name, width):
    return {f"{name}.weight": Tensor((width,), "gain")}


def attention_tensors(way, c, at):
    d, H, d_k = c["hidden_size"], c["num_attention_heads"], head_width(c)
    K, names = c.get("num_key_value_heads", H), {}
    if way.latent:
        r, bias = c["kv_lora_rank"], c.get("attention_bias", False)
        nope, pe, d_v = c["qk_nope_head_dim"], c["qk_rope_head_dim"], c["v_head_dim"]
        if c.get("q_lora_rank"):
            names |= linear(c["q_lora_rank"], d, bias, at + "q_a_proj") | gain(at + "q_a_layernorm", c["q_lora_rank"])
            names |= linear(H * (nope + pe), c["q_lora_rank"], False, at + "q_b_proj")
        else:
            names |= linear(H * (nope + pe), d, False, at + "q_proj")
        names |= linear(r + pe, d, bias, at + "kv_a_proj_with_mqa") | gain(at + "kv_a_layernorm", r)
        return names | linear(H * (nope + d_v), r, False, at + "kv_b_proj") | linear(d, H * d_v, bias, at + "o_proj")
    if way.fused:
        names |= linear((H + 2 * K) * d_k, d, way.qkv_bias(c), at + way.fused)
    else:
        for x, heads in (("q", H), ("k", K), ("v", K)):
            names |= linear(heads * d_k, d, way.qkv_bias(c), f"{at}{x}_proj")
    if way.head_norms(c):
        whole = way.head_norms(c) == "width"
        for name, heads in zip(way.norm_names, (H, K)):
            names |= gain(at + name, heads * d_k if whole else d_k)
    if way.sinks:
        names[at + "sinks"] = Tensor((H,), "bias")
    return names | linear(d, H * d_k, way.o_bias(c), at + way.o_name)


def gated_tensors(at, parts, d, width, bias=False):
    gate, up, down = parts
    return linear(width, d, bias, at + gate) | linear(width, d, bias, at + up) | linear(d, width, bias, at + down)


def mixture_tensors(way, c, at):
    d, I = c["hidden_size"], way.width(c)
    E = c[way.count]
    names = linear(E, d, way.router_bias, at + way.router)
    if way.choosing:
        names[at + way.choosing[0]] = Tensor(way.choosing_shape(E), way.choosing_kind)
    if way.stored == "apart":
        for e in range(E):
            names |= gated_tensors(f"{at}{way.experts}{e}.", way.parts, d, I, way.mlp_bias(c))
    elif way.stored == "halves":
        both, down = way.parts
        names |= {f"{at}{way.experts}{both}.weight": Tensor((E, 2 * I, d), "matrix", d),
                  f"{at}{way.experts}{down}.weight": Tensor((E, d, I), "matrix", I)}
    else:  # large enough that the clamp is met
        names |= {f"{at}{way.experts}gate_up_proj": Tensor((E, d, 2 * I), "matrix", d / 9),
                  f"{at}{way.experts}gate_up_proj_bias": Tensor((E, 2 * I), "bias"),
                  f"{at}{way.experts}down_proj": Tensor((E, I, d), "matrix", 36 * I),
                  f"{at}{way.experts}down_proj_bias": Tensor((E, d), "bias")}
    shared = way.shared_width(c)
    if shared and way.shared_fused:
        names |= linear(2 * shared, d, False, f"{at}{way.shared}input_linear") | \
            linear(d, shared, False, f"{at}{way.shared}output_linear")
    elif shared:
        names |= gated_tensors(at + way.shared, GATED, d, shared, way.mlp_bias(c))
    if way.shared_gate:
        names |= linear(1, d, False, at + way.shared_gate)
    return names


def tensors(way, c):
    d, V = c["hidden_size"], c["vocab_size"]
    names = {f"model.{way.embed}.weight": Tensor((V, d), "embedding")}
    for n in range(c["num_hidden_layers"]):
        at = f"model.layers.{n}."
        names |= gain(at + "input_layernorm", d) | attention_tensors(way, c, at + way.attention)
        names |= gain(at + "post_attention_layernorm", d)
        names |= mixture_tensors(way, c, at) if way.sparse(c, n) else \
            gated_tensors(at + "mlp.", GATED, d, c["intermediate_size"], way.mlp_bias(c))
    names |= gain("model.norm", d)
    if not c.get("tie_word_embeddings", way.tied):
        names |= linear(V, d, way.head_bias(c), "lm_head")
    return names


# Models --------------------------------------------------------------------------------------

def attention(way, c, l, n):
    H, d_k, eps = c["num_attention_heads"], head_width(c), c.get("rms_norm_eps", way.eps)
    K = c.get("num_key_value_heads", H)
    common = {"rope": way.rope(c, n), "window": way.window(c, n)}
    if way.latent:
        return latent_attention(way, c, l, common)
    if way.fused:
        q, k, v = l.rows(way.fused, H * d_k, K * d_k, K * d_k)
    else:
        q, k, v = (l.linear(f"{x}_proj") for x in "qkv")
    if kind := way.head_norms(c):
        wrap = of_width if kind == "width" else lambda norm: norm
        common |= dict(zip(("q_norm", "k_norm"), (wrap(Norm("rms", eps, l[f"{x}.weight"])) for x in way.norm_names)))
    return Attention(q, k, v, l.linear(way.o_name), H, K, way.scale(c), norm_last=way.norm_last,
                     sinks=l["sinks"] if way.sinks else None, **common)


def latent_attention(way, c, l, common):
    """Rows of kv_b_proj: by head its keys' part without position, then its values. The norms inside have 1e-6 of their
    own (Transformers, modeling_deepseek_v3.py)."""
    H, r = c["num_attention_heads"], c["kv_lora_rank"]
    nope, pe, d_v = c["qk_nope_head_dim"], c["qk_rope_head_dim"], c["v_head_dim"]
    both = l["kv_b_proj.weight"].reshape(H, nope + d_v, r)
    k, v = (Linear(part.reshape(-1, r).T) for part in (both[:, :nope], both[:, nope:]))
    latent = Latent(l.linear("kv_a_proj_with_mqa"), Norm("rms", 1e-6, l["kv_a_layernorm.weight"]))
    q = l.linear("q_b_proj" if c.get("q_lora_rank") else "q_proj")
    if c.get("q_lora_rank"):
        latent.q, latent.q_norm = l.linear("q_a_proj"), Norm("rms", 1e-6, l["q_a_layernorm.weight"])
    return Attention(q, k, v, l.linear("o_proj"), H, H, way.scale(c), latent=latent, **common)


def gated(maps, act):
    gate, up, down = maps
    return FeedForward(gate, down, act, up)


def unpacked(blocks, scales):
    """MXFP4 (OCP Microscaling 1.0): two numbers a byte, the low half first; 32 have a power of two in common."""
    numbers = np.stack([FP4[blocks & 15], FP4[blocks >> 4]], -1).reshape(*blocks.shape[:-1], -1)
    return (numbers * 2.0 ** (scales[..., None].astype(float) - 127)).reshape(*blocks.shape[:-2], -1)


def stacked(l, name):
    """E, in, out as gpt-oss stores it, plain or in MXFP4, where rows are outputs."""
    if name + "_blocks" in l:
        return unpacked(l[name + "_blocks"], l[name + "_scales"]).swapaxes(1, 2)
    return l[name]


def experts(way, c, l, act):
    E, I = c[way.count], way.width(c)
    if way.stored == "columns":
        of_gate, of_up = swiglu_oai(way.clamp(c))
        both, down = stacked(l, way.experts + "gate_up_proj"), stacked(l, way.experts + "down_proj")
        b, b_down = l[way.experts + "gate_up_proj_bias"], l[way.experts + "down_proj_bias"]
        return [FeedForward(Linear(both[e][:, ::2], b[e][::2]), Linear(down[e], b_down[e]), of_gate,
                            Linear(both[e][:, 1::2], b[e][1::2]), of_up=of_up) for e in range(E)]
    # As Transformers 5 holds one of 4, or as Granite's file has it.
    for both, down in ((f"{way.experts}{way.parts[0]}.weight", f"{way.experts}{way.parts[-1]}.weight"),
                       ("mlp.experts.gate_up_proj", "mlp.experts.down_proj")):
        if both in l:
            return [gated((Linear(l[both][e, :I].T), Linear(l[both][e, I:].T), Linear(l[down][e].T)), act) for e in range(E)]
    return [gated([l.linear(f"{way.experts}{e}.{x}") for x in way.parts], act) for e in range(E)]


def shared_expert(way, c, l, act):
    width = way.shared_width(c)
    if not width:
        return None
    if way.shared_fused:
        return gated([*l.rows(way.shared + "input_linear", width, width), l.linear(way.shared + "output_linear")], act)
    return gated([l.linear(way.shared + x) for x in GATED], act)


def mixture(way, c, l, n):
    act = ACTIVATIONS[c.get("hidden_act", "silu")]
    router = way.router if way.router + ".weight" in l else "mlp.gate"  # Transformers 5 calls Mixtral's so
    bias = next((l[name].reshape(-1) for name in way.choosing if name in l), 0.0)
    return Mixture(l.linear(router), experts(way, c, l, act), way.chosen(c, n), choosing_bias=bias,
                   shared=shared_expert(way, c, l, act), shared_gate=l.linear(way.shared_gate) if way.shared_gate else None,
                   **way.route(c))


def model(way, c, w):
    eps, adds = c.get("rms_norm_eps", way.eps), way.adds(c)
    norm = lambda l, name: Norm("rms", eps, l[f"{name}.weight"])
    add = lambda x: adds * x
    blocks = []
    for n in range(c["num_hidden_layers"]):
        l = w.under(f"model.layers.{n}.")
        feed = mixture(way, c, l, n) if way.sparse(c, n) else \
            gated([l.linear(f"mlp.{x}") for x in GATED], ACTIVATIONS[c.get("hidden_act", "silu")])
        before, after = norm(l, "input_layernorm"), norm(l, "post_attention_layernorm")
        norms = {"n1": before, "n2": after} if adds == 1 else {"n1": before, "n2": add, "n3": after, "n4": add}
        blocks.append(Block("pre" if adds == 1 else "sandwich", attention(way, c, l.under(way.attention), n), feed, **norms))
    table = w[f"model.{way.embed}.weight"]
    tied = c.get("tie_word_embeddings", way.tied)
    rows = way.head(c, table if tied else w["lm_head.weight"])
    head = Head(Linear(rows.T / way.divides(c), (0.0 if tied else w.get("lm_head.bias")) / way.divides(c)))
    return Model(lambda ids: way.rows(c) * table[ids], blocks, norm(w, "model.norm"), head)


def mixtures(name, config, length, **ways):
    way = Way(**ways)
    return Family(name, config, length, lambda c: tensors(way, c), lambda c, w: model(way, c, w))


def said(name, cls, **keys):
    return {"architectures": [cls + "ForCausalLM"], "model_type": name, "attention_dropout": 0.0, "bos_token_id": 1,
            "eos_token_id": 2, "hidden_act": "silu", "initializer_range": 0.02, "max_position_embeddings": 64,
            "num_hidden_layers": 3, "rms_norm_eps": 1e-06, "rope_theta": 10000.0, "tie_word_embeddings": False,
            "torch_dtype": "bfloat16", "use_cache": True, "vocab_size": 67} | keys


def renormalised(key="norm_topk_prob", default=False):
    return lambda c: {"weight": "renormalised" if c.get(key, default) else "as_is"}


# Mixtral, Qwen, OLMoE ------------------------------------------------------------------------

MIXTRAL = mixtures("mixtral", said(
    "mixtral", "Mixtral", hidden_size=48, intermediate_size=28, num_attention_heads=6, num_key_value_heads=2,
    num_local_experts=7, num_experts_per_tok=2, output_router_logits=False, rms_norm_eps=1e-5, rope_theta=1000000.0,
    router_aux_loss_coef=0.02, sliding_window=None), 9,
    qkv_bias=lambda c: False, o_bias=lambda c: False, window=lambda c, n: c.get("sliding_window"), count="num_local_experts",
    width=lambda c: c["intermediate_size"], router="block_sparse_moe.gate", experts="block_sparse_moe.experts.",
    parts=("w1", "w3", "w2"), chosen=lambda c, n: c.get("num_experts_per_tok", 2), route=lambda c: {"weight": "renormalised"})


def qwen_sparse(c, n):
    """Transformers, modeling_qwen3_moe.py: not in mlp_only_layers, and each decoder_sparse_step-th."""
    return n not in (c.get("mlp_only_layers") or []) and (n + 1) % c.get("decoder_sparse_step", 1) == 0


QWEN2_MOE = mixtures("qwen2_moe", said(
    "qwen2_moe", "Qwen2Moe", hidden_size=48, intermediate_size=52, num_attention_heads=6, num_key_value_heads=2,
    decoder_sparse_step=1, max_window_layers=3, mlp_only_layers=[], moe_intermediate_size=20, norm_topk_prob=False,
    num_experts=10, num_experts_per_tok=3, output_router_logits=False, rope_theta=1000000.0, router_aux_loss_coef=0.001,
    shared_expert_intermediate_size=36, sliding_window=32, use_sliding_window=False), 9,
    qkv_bias=lambda c: c.get("qkv_bias", True), o_bias=lambda c: False, window=qwen_window, sparse=qwen_sparse,
    shared="mlp.shared_expert.", shared_width=lambda c: c["shared_expert_intermediate_size"],
    shared_gate="mlp.shared_expert_gate", route=renormalised())

QWEN3_MOE = mixtures("qwen3_moe", said(
    "qwen3_moe", "Qwen3Moe", hidden_size=44, head_dim=10, intermediate_size=52, num_attention_heads=6, num_key_value_heads=3,
    attention_bias=False, decoder_sparse_step=1, max_window_layers=3, mlp_only_layers=[], moe_intermediate_size=20,
    norm_topk_prob=True, num_experts=8, num_experts_per_tok=3, output_router_logits=False, rope_scaling=None,
    rope_theta=1000000.0, router_aux_loss_coef=0.001, sliding_window=None, use_sliding_window=False), 9,
    head_norms=lambda c: "head", window=qwen_window, sparse=qwen_sparse, route=renormalised())

OLMOE = mixtures("olmoe", said(
    "olmoe", "Olmoe", hidden_size=48, intermediate_size=20, num_attention_heads=6, num_key_value_heads=3,
    attention_bias=False, clip_qkv=None, norm_topk_prob=False, num_experts=9, num_experts_per_tok=4,
    output_router_logits=False, rms_norm_eps=1e-5, rope_scaling=None, router_aux_loss_coef=0.01), 9,
    head_norms=lambda c: "width", eps=1e-5, width=lambda c: c["intermediate_size"], route=renormalised())


# gpt-oss -------------------------------------------------------------------------------------

GPT_OSS = mixtures("gpt_oss", said(
    "gpt_oss", "GptOss", hidden_size=48, head_dim=12, intermediate_size=28, num_attention_heads=6, num_key_value_heads=2,
    attention_bias=True, experts_per_token=3, initial_context_length=16, max_position_embeddings=512,
    layer_types=["sliding_attention", "full_attention", "sliding_attention"], num_experts_per_tok=3, num_local_experts=8,
    output_router_logits=False, pad_token_id=0, rms_norm_eps=1e-5, rope_theta=150000, router_aux_loss_coef=0.9,
    rope_scaling={"beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0, "original_max_position_embeddings": 16,
                  "rope_type": "yarn", "truncate": False}, sliding_window=4, swiglu_limit=7.0), 9,
    qkv_bias=lambda c: c.get("attention_bias", True), o_bias=lambda c: c.get("attention_bias", True), sinks=True, eps=1e-5,
    window=lambda c, n: c["sliding_window"] if c["layer_types"][n] == "sliding_attention" else None,
    count="num_local_experts", width=lambda c: c["intermediate_size"], router="mlp.router", router_bias=True,
    stored="columns", clamp=lambda c: c.get("swiglu_limit", 7.0), route=lambda c: {"score": "logits", "weight": "softmax_chosen"})


# DeepSeek ------------------------------------------------------------------------------------

def after_the_first(c, n):
    """Transformers, and for moe_layer_freq DeepSeek's own modeling_deepseek.py."""
    return n >= c.get("first_k_dense_replace", 0) and n % c.get("moe_layer_freq", 1) == 0


def shared_of(count):
    return lambda c: c["moe_intermediate_size"] * (c.get(count) or 0)


DEEPSEEK_MIXTURE = dict(sparse=after_the_first, count="n_routed_experts", shared="mlp.shared_experts.",
                        shared_width=shared_of("n_shared_experts"))

DEEPSEEK = mixtures("deepseek", said(
    "deepseek", "Deepseek", hidden_size=48, intermediate_size=52, num_attention_heads=6, num_key_value_heads=3,
    attention_bias=False, aux_loss_alpha=0.001, first_k_dense_replace=1, moe_intermediate_size=20, moe_layer_freq=1,
    n_routed_experts=10, n_shared_experts=2, norm_topk_prob=False, num_experts_per_tok=4, pretraining_tp=1,
    rope_scaling=None, scoring_func="softmax", seq_aux=True), 9,
    route=renormalised(), **DEEPSEEK_MIXTURE)


def latent_rope(c, n):
    """On the last part of a head, pairs side by side (modeling_deepseek_v2.py; V3 has them so unless rope_interleave is
    false). Transformers' V3 leaves the turned numbers in another order, the same for q and k."""
    rope = rotation(c, c["qk_rope_head_dim"])
    return replace(rope, adjacent=c.get("rope_interleave", True), before=c["qk_nope_head_dim"])


def latent_scale(c):
    """DeepSeek's own code multiplies by the square of YaRN's factor of mscale_all_dim."""
    scale, scaling = (c["qk_nope_head_dim"] + c["qk_rope_head_dim"]) ** -0.5, rope_scaling(c) or {}
    if scaling.get("mscale_all_dim") and scaling["factor"] > 1:
        scale *= (0.1 * scaling["mscale_all_dim"] * np.log(scaling["factor"]) + 1) ** 2
    return scale


LATENT = dict(latent=True, rope=latent_rope, scale=latent_scale)


def v2_route(c):
    """Never divided by their sum in Transformers; DeepSeek's own code has either that or the factor, which published
    configs make the same."""
    groups = {"groups": c["n_group"], "kept_groups": c["topk_group"], "group_score": "maximum"}
    return {"factor": c["routed_scaling_factor"]} | (groups if c["topk_method"] == "group_limited_greedy" else {})


DEEPSEEK_V2 = mixtures("deepseek_v2", said(
    "deepseek_v2", "DeepseekV2", hidden_size=48, intermediate_size=52, num_attention_heads=5, num_key_value_heads=5,
    attention_bias=False, aux_loss_alpha=0.001, ep_size=1, first_k_dense_replace=1, kv_lora_rank=22, q_lora_rank=26,
    qk_nope_head_dim=10, qk_rope_head_dim=6, v_head_dim=14, moe_intermediate_size=20, moe_layer_freq=1, n_group=4,
    n_routed_experts=12, n_shared_experts=2, norm_topk_prob=False, num_experts_per_tok=3, pretraining_tp=1,
    rope_scaling=None, routed_scaling_factor=2.5, scoring_func="softmax", seq_aux=True, topk_group=2,
    topk_method="group_limited_greedy"), 9, route=v2_route, **LATENT, **DEEPSEEK_MIXTURE)


def noaux(c):
    """DeepSeek V3, §2.1.2, and those that follow it. Groups that are not kept: DeepSeek's own code and late Transformers set
    minus infinity, early Transformers 0; make.py sees to it that both choose the same here."""
    groups = {"groups": c["n_group"], "kept_groups": c["topk_group"]} if c.get("n_group", 1) > 1 else {}
    return {"score": "sigmoid", "weight": "renormalised" if c.get("norm_topk_prob", True) else "as_is",
            "factor": c.get("routed_scaling_factor", 1.0)} | groups


DEEPSEEK_V3 = mixtures("deepseek_v3", said(
    "deepseek_v3", "DeepseekV3", hidden_size=48, intermediate_size=52, num_attention_heads=5, num_key_value_heads=5,
    attention_bias=False, ep_size=1, first_k_dense_replace=1, kv_lora_rank=22, q_lora_rank=26, qk_nope_head_dim=10,
    qk_rope_head_dim=6, v_head_dim=14, moe_intermediate_size=20, moe_layer_freq=1, n_group=4, n_routed_experts=12,
    n_shared_experts=1, norm_topk_prob=True, num_experts_per_tok=3, num_nextn_predict_layers=1, pretraining_tp=1,
    rope_scaling=None, routed_scaling_factor=2.5, scoring_func="sigmoid", topk_group=2, topk_method="noaux_tc"), 9,
    choosing=("mlp.gate.e_score_correction_bias",), route=noaux, **LATENT, **DEEPSEEK_MIXTURE)

KIMI_K2 = replace(DEEPSEEK_V3, name="kimi_k2", config=DEEPSEEK_V3.config | {
    "model_type": "kimi_k2", "n_group": 1, "topk_group": 1, "num_nextn_predict_layers": 0, "routed_scaling_factor": 2.827,
    "max_position_embeddings": 512, "rope_scaling": {
        "beta_fast": 1.0, "beta_slow": 1.0, "factor": 32.0, "mscale": 1.0, "mscale_all_dim": 1.0,
        "original_max_position_embeddings": 16, "type": "yarn"}})

GLM4_MOE = mixtures("glm4_moe", said(
    "glm4_moe", "Glm4Moe", hidden_size=44, head_dim=12, intermediate_size=52, num_attention_heads=6, num_key_value_heads=2,
    attention_bias=True, first_k_dense_replace=1, moe_intermediate_size=20, n_group=1, n_routed_experts=8,
    n_shared_experts=1, norm_topk_prob=True, num_experts_per_tok=3, num_nextn_predict_layers=1, partial_rotary_factor=0.5,
    rms_norm_eps=1e-5, rope_scaling=None, rope_theta=1000000, routed_scaling_factor=1.5, topk_group=1, use_qk_norm=True), 9,
    o_bias=lambda c: False, head_norms=lambda c: "head" if c.get("use_qk_norm") else False, eps=1e-5,
    rope=lambda c, n: rotation(c, int(head_width(c) * c.get("partial_rotary_factor", 0.5))),
    choosing=("mlp.gate.e_score_correction_bias",), route=noaux, **DEEPSEEK_MIXTURE)

DOTS1 = mixtures("dots1", said(
    "dots1", "Dots1", hidden_size=44, head_dim=10, intermediate_size=52, num_attention_heads=6, num_key_value_heads=6,
    attention_bias=False, first_k_dense_replace=1, max_window_layers=3, moe_intermediate_size=20, moe_layer_freq=1, n_group=1,
    n_routed_experts=9, n_shared_experts=2, norm_topk_prob=True, num_experts_per_tok=3, rope_scaling=None,
    routed_scaling_factor=2.5, scoring_func="noaux_tc", sliding_window=None, topk_group=1, topk_method="noaux_tc"), 9,
    head_norms=lambda c: "head", choosing=("mlp.gate.e_score_correction_bias",),
    window=lambda c, n: c["sliding_window"] if n >= c["max_window_layers"] else None,
    route=lambda c: noaux({"norm_topk_prob": False} | c), **DEEPSEEK_MIXTURE)


# Granite -------------------------------------------------------------------------------------

GRANITE = dict(
    tied=True, scale=lambda c: c.get("attention_multiplier", 1.0), rows=lambda c: c.get("embedding_multiplier", 1.0),
    adds=lambda c: c.get("residual_multiplier", 1.0), divides=lambda c: c.get("logits_scaling", 1.0), count="num_local_experts",
    width=lambda c: c["intermediate_size"], router="block_sparse_moe.router.layer", experts="block_sparse_moe.",
    parts=("input_linear", "output_linear"), stored="halves", route=lambda c: {"score": "logits", "weight": "softmax_chosen"})
GRANITE_KEYS = dict(
    hidden_size=48, intermediate_size=20, num_attention_heads=6, num_key_value_heads=2, attention_bias=False,
    attention_multiplier=0.25, embedding_multiplier=6.0, logits_scaling=4.0, num_experts_per_tok=3, num_local_experts=8,
    output_router_logits=False, residual_multiplier=0.22, rope_scaling=None, router_aux_loss_coef=0.001,
    tie_word_embeddings=True)
GRANITEMOE = mixtures("granitemoe", said("granitemoe", "GraniteMoe", **GRANITE_KEYS), 9, **GRANITE)
GRANITEMOESHARED = mixtures("granitemoeshared", said(
    "granitemoeshared", "GraniteMoeShared", **GRANITE_KEYS, shared_intermediate_size=34), 9, shared="shared_mlp.",
    shared_width=lambda c: c.get("shared_intermediate_size", 0), shared_fused=True, **GRANITE)


# ERNIE, MiniMax, Hunyuan, Ling, EXAONE -------------------------------------------------------

def ernie_sparse(c, n):
    last = c.get("moe_layer_end_index", -1)
    last = c["num_hidden_layers"] - 1 if last == -1 else last
    return (n + 1) % c.get("moe_layer_interval", 1) == 0 and c.get("moe_layer_start_index", 1) <= n <= last


ERNIE4_5_MOE = mixtures("ernie4_5_moe", said(
    "ernie4_5_moe", "Ernie4_5_Moe", hidden_size=48, intermediate_size=52, num_attention_heads=6, num_key_value_heads=2,
    moe_capacity=[8, 8, 8], moe_gate="topk", moe_intermediate_size=20, moe_k=3, moe_layer_end_index=3, moe_layer_interval=1,
    moe_layer_start_index=1, moe_norm_min=1e-12, moe_num_experts=8, moe_num_shared_experts=2, moe_use_aux_free=True,
    num_hidden_layers=4, num_nextn_predict_layers=1, pad_token_id=0, rms_norm_eps=1e-5, rope_theta=500000,
    tie_word_embeddings=True, use_bias=False), 9,
    qkv_bias=lambda c: c.get("use_bias", False), o_bias=lambda c: c.get("use_bias", False),
    mlp_bias=lambda c: c.get("use_bias", False), head_bias=lambda c: c.get("use_bias", False), tied=True, eps=1e-5,
    rope=lambda c, n: as_pairs(rotation(c, head_width(c))), sparse=ernie_sparse, count="moe_num_experts",
    chosen=lambda c, n: c["moe_k"], choosing=("mlp.moe_statics.e_score_correction_bias",), choosing_shape=lambda E: (1, E),
    choosing_kind="small bias", shared="mlp.shared_experts.", shared_width=shared_of("moe_num_shared_experts"),
    route=lambda c: {"weight": "renormalised"})

MINIMAX_M2 = mixtures("minimax_m2", said(
    "minimax_m2", "MiniMaxM2", hidden_size=44, head_dim=12, intermediate_size=20, num_attention_heads=6, num_key_value_heads=2,
    attn_type_list=[1, 1, 1], mtp_transformer_layers=1, num_experts_per_tok=3, num_local_experts=8, num_mtp_modules=3,
    output_router_logits=False, qk_norm_type="per_layer", rope_theta=5000000, rotary_dim=6, router_aux_loss_coef=0.001,
    router_jitter_noise=0.0, scoring_func="sigmoid", shared_intermediate_size=0, sliding_window=None, use_mtp=True,
    use_qk_norm=True, use_routing_bias=True), 9,
    qkv_bias=lambda c: False, o_bias=lambda c: False, head_norms=lambda c: "width", rope=lambda c, n: rotation(c, c["rotary_dim"]),
    count="num_local_experts", width=lambda c: c["intermediate_size"], router="block_sparse_moe.gate",
    choosing=("block_sparse_moe.e_score_correction_bias",), experts="block_sparse_moe.experts.", parts=("w1", "w3", "w2"),
    route=lambda c: {"score": "sigmoid", "weight": "renormalised"})


def hunyuan_rope(c, n):
    """alpha stretches the base as NTK-aware scaling does, whatever the length (modeling_hunyuan_v1_dense.py)."""
    scaling, d = rope_scaling(c) or {}, head_width(c)
    if scaling.get("type", scaling.get("rope_type")) == "dynamic" and scaling.get("alpha"):
        return Rope(frequencies(d, rope_base(c) * scaling["alpha"] ** (d / (d - 2))))
    return rotation(c, d)


HUNYUAN = dict(head_norms=lambda c: "head", norm_names=("query_layernorm", "key_layernorm"), norm_last=True,
               rope=hunyuan_rope, eps=1e-5)
ALPHA = {"alpha": 1000.0, "beta_fast": 32, "beta_slow": 1, "factor": 1.0, "mscale": 1.0, "mscale_all_dim": 0.0, "type": "dynamic"}

HUNYUAN_DENSE = mixtures("hunyuan_v1_dense", said(
    "hunyuan_v1_dense", "HunYuanDenseV1", hidden_size=44, head_dim=12, intermediate_size=52, num_attention_heads=6,
    num_key_value_heads=2, attention_bias=False, attention_head_dim=12, eod_token_id=3, mlp_bias=False, norm_type="rms",
    pad_token_id=0, rms_norm_eps=1e-5, rope_scaling=ALPHA, tie_word_embeddings=True, use_qk_norm=True), 9,
    sparse=lambda c, n: False, **HUNYUAN)


def of_layer(value, n):
    return value[n] if isinstance(value, list) else value


HUNYUAN_MOE = mixtures("hunyuan_v1_moe", said(
    "hunyuan_v1_moe", "HunYuanMoEV1", hidden_size=48, head_dim=8, intermediate_size=28, num_attention_heads=6,
    num_key_value_heads=2, attention_bias=False, attention_head_dim=8, eod_token_id=3, mlp_bias=False,
    moe_drop_tokens=False, moe_intermediate_size=[28, 28, 28], moe_layer_num_skipped=0,
    moe_random_routing_dropped_token=False, moe_topk=[3, 3, 3], norm_topk_prob=True, norm_type="rms", num_experts=8,
    num_shared_expert=[1, 1, 1], pad_token_id=0, rms_norm_eps=1e-5, rope_scaling=ALPHA, tie_word_embeddings=True,
    use_cla=False, use_mixed_mlp_moe=True, use_qk_norm=True), 9,
    chosen=lambda c, n: of_layer(c["moe_topk"], n), width=lambda c: c["intermediate_size"], router="mlp.gate.wg",
    shared="mlp.shared_mlp.", shared_width=lambda c: c["intermediate_size"], route=lambda c: {"weight": "renormalised"}, **HUNYUAN)


def norm_head(c, rows):
    """Ling with norm_head: each column of the table by its length (inclusionAI's modeling_bailing_moe.py)."""
    return rows / (np.sqrt((rows * rows).sum(0)) + 1e-7) if c.get("norm_head") else rows


BAILING_MOE = mixtures("bailing_moe", said(
    "bailing_moe", "BailingMoe", hidden_size=48, head_dim=10, intermediate_size=52, num_attention_heads=6,
    num_key_value_heads=2, embedding_dropout=0.0, first_k_dense_replace=0, max_window_layers=3, moe_intermediate_size=20,
    norm_head=False, norm_softmax=False, norm_topk_prob=True, num_experts=8, num_experts_per_tok=3, num_shared_experts=2,
    output_dropout=0.0, output_router_logits=False, pad_token_id=0, rope_scaling=None, rope_theta=600000, use_bias=False,
    use_qkv_bias=False), 9,
    attention="attention.", fused="query_key_value", o_name="dense", qkv_bias=lambda c: c.get("use_qkv_bias", False),
    o_bias=lambda c: c.get("use_bias", False), embed="word_embeddings", head=norm_head, sparse=after_the_first,
    shared="mlp.shared_experts.", shared_width=shared_of("num_shared_experts"), route=renormalised(default=True))


def exaone_window(c, n):
    return c["sliding_window"] if c["layer_types"][n] == "sliding_attention" else None


def exaone_sparse(c, n):
    """mlp_layer_types of Transformers 5, is_moe_layer of K-EXAONE's first config; else after the first dense ones."""
    if c.get("mlp_layer_types"):
        return c["mlp_layer_types"][n] == "sparse"
    if c.get("is_moe_layer"):
        return c["is_moe_layer"][n]
    return n >= c.get("first_k_dense_replace", 1)


EXAONE_MOE = mixtures("exaone_moe", said(
    "exaone_moe", "ExaoneMoe", hidden_size=44, head_dim=12, intermediate_size=52, num_attention_heads=6, num_key_value_heads=2,
    first_k_dense_replace=1, layer_types=["sliding_attention"] * 3 + ["full_attention"],
    mlp_layer_types=["dense", "sparse", "sparse", "sparse"], moe_intermediate_size=20, n_group=1, norm_topk_prob=True,
    num_experts=8, num_experts_per_tok=3, num_hidden_layers=4, num_shared_experts=1, pad_token_id=0, rms_norm_eps=1e-5,
    rope_scaling=None, rope_theta=1000000, routed_scaling_factor=2.5, scoring_func="sigmoid", sliding_window=4,
    sliding_window_pattern="LLLG", topk_group=1, topk_method="noaux_tc"), 9,
    qkv_bias=lambda c: False, o_bias=lambda c: False, head_norms=lambda c: "head", eps=1e-5, window=exaone_window,
    rope=lambda c, n: rotation(c, head_width(c)) if not c.get("sliding_window") or exaone_window(c, n) else None,
    sparse=exaone_sparse, choosing=("mlp.gate.e_score_correction_bias", "mlp.e_score_correction_bias"),
    shared="mlp.shared_experts.", shared_width=shared_of("num_shared_experts"), route=noaux)


MIXTURES = [MIXTRAL, QWEN2_MOE, QWEN3_MOE, OLMOE, GPT_OSS, DEEPSEEK, DEEPSEEK_V2, DEEPSEEK_V3, KIMI_K2, GLM4_MOE,
            GRANITEMOE, GRANITEMOESHARED, ERNIE4_5_MOE, MINIMAX_M2, HUNYUAN_DENSE, HUNYUAN_MOE, DOTS1, BAILING_MOE, EXAONE_MOE]
