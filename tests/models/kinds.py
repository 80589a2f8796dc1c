#!/usr/bin/env python3
"""Writes small random checkpoints of kinds of layers that are named and not computed, under the published names.

    /usr/bin/python3 tests/models/kinds.py OUTDIR

tests/data/kinds/NAME.json is the user's file of OUTDIR/NAME. All lengths differ, so that one that is read as another
is an error.
"""
import json
import os
import sys

import numpy as np

import safetensors

D, HEADS, KV, HEAD, WIDE, TOKENS = 20, 6, 2, 8, 44, 50
EXPERTS, CHOSEN, INNER, SHARED = 5, 3, 14, 18
STATES, GROUPS, KEY, VALUE, TAPS = 6, 2, 7, 9, 4
rng = np.random.default_rng(50)


def linear(name, out, inputs, bias=False):
    tensors = {name + ".weight": (out, inputs)}
    return tensors | ({name + ".bias": (out,)} if bias else {})


def attention(at, out="o_proj", queries=HEADS * HEAD, bias=False):
    return (linear(at + "q_proj", queries, D, bias) | linear(at + "k_proj", KV * HEAD, D, bias)
            | linear(at + "v_proj", KV * HEAD, D, bias) | linear(at + out, D, HEADS * HEAD))


def gated(at, inner, names=("gate_proj", "up_proj", "down_proj")):
    return linear(at + names[0], inner, D) | linear(at + names[1], inner, D) | linear(at + names[2], D, inner)


def experts(at, names=("gate_proj", "up_proj", "down_proj")):
    tensors = {}
    for expert in range(EXPERTS):
        tensors |= gated(f"{at}{expert}.", INNER, names)
    return tensors


def mamba(at, norm=True):
    channels = STATES * VALUE + 2 * GROUPS * KEY
    return (linear(at + "in_proj", STATES * VALUE + channels + STATES, D) | linear(at + "out_proj", D, STATES * VALUE)
            | {at + "conv1d.weight": (channels, 1, TAPS), at + "conv1d.bias": (channels,)}
            | {at + name: (STATES,) for name in ("A_log", "D", "dt_bias")}
            | ({at + "norm.weight": (STATES * VALUE,)} if norm else {}))


def norms(at, *names):
    return {f"{at}{name}.weight": (D,) for name in names}


def ends(embedding="model.embed_tokens", norm="model.norm", head=True):
    return {embedding + ".weight": (TOKENS, D), norm + ".weight": (D,)} | (linear("lm_head", TOKENS, D) if head else {})


def layers(count, of_layer, stack="model.layers."):
    tensors = {}
    for number in range(count):
        tensors |= of_layer(f"{stack}{number}.", number)
    return tensors


LLAMA_NORMS = ("input_layernorm", "post_attention_layernorm")


def mixtral(at, number):
    return (norms(at, *LLAMA_NORMS) | attention(at + "self_attn.") | linear(at + "block_sparse_moe.gate", EXPERTS, D)
            | experts(at + "block_sparse_moe.experts.", ("w1", "w3", "w2")))


def qwen3_next(at, number):
    group = STATES // GROUPS
    linear_attention = (
        linear(at + "linear_attn.in_proj_qkvz", GROUPS * 2 * KEY + 2 * GROUPS * group * VALUE, D)
        | linear(at + "linear_attn.in_proj_ba", 2 * STATES, D) | linear(at + "linear_attn.out_proj", D, STATES * VALUE)
        | {at + "linear_attn.conv1d.weight": (2 * GROUPS * KEY + STATES * VALUE, 1, TAPS),
           at + "linear_attn.A_log": (STATES,), at + "linear_attn.dt_bias": (STATES,),
           at + "linear_attn.norm.weight": (VALUE,)})
    softmax = attention(at + "self_attn.", queries=2 * HEADS * HEAD) | {
        at + "self_attn.q_norm.weight": (HEAD,), at + "self_attn.k_norm.weight": (HEAD,)}
    return (norms(at, *LLAMA_NORMS) | (softmax if number % 4 == 3 else linear_attention)
            | linear(at + "mlp.gate", EXPERTS, D) | experts(at + "mlp.experts.") | gated(at + "mlp.shared_expert.", SHARED)
            | linear(at + "mlp.shared_expert_gate", 1, D))


def nemotron_h(at, number):
    up_down = {}
    for expert in range(EXPERTS):
        up_down |= linear(f"{at}mixer.experts.{expert}.up_proj", INNER, D) | linear(f"{at}mixer.experts.{expert}.down_proj", D, INNER)
    mixer = (mamba(at + "mixer."), attention(at + "mixer."),
             linear(at + "mixer.up_proj", WIDE, D) | linear(at + "mixer.down_proj", D, WIDE),
             linear(at + "mixer.gate", EXPERTS, D) | {at + "mixer.gate.e_score_correction_bias": (EXPERTS,)} | up_down
             | linear(at + "mixer.shared_experts.up_proj", SHARED, D)
             | linear(at + "mixer.shared_experts.down_proj", D, SHARED))
    return norms(at, "norm") | mixer[number]


def falcon_h1(at, number):
    return (norms(at, "input_layernorm", "pre_ff_layernorm") | attention(at + "self_attn.")
            | mamba(at + "mamba.", norm=False) | gated(at + "feed_forward.", WIDE))


def lfm2(at, number):
    convolution = (linear(at + "conv.in_proj", 3 * D, D) | linear(at + "conv.out_proj", D, D)
                   | {at + "conv.conv.weight": (D, 1, TAPS)})
    softmax = attention(at + "self_attn.", "out_proj") | {
        at + "self_attn.q_layernorm.weight": (HEAD,), at + "self_attn.k_layernorm.weight": (HEAD,)}
    return (norms(at, "operator_norm", "ffn_norm") | (softmax if number == 2 else convolution)
            | gated(at + "feed_forward.", WIDE, ("w1", "w3", "w2")))


def deepseek_v3(at, number):
    own, shared, q_rank, rank = 10, 4, 12, 16
    latent = (linear(at + "self_attn.q_a_proj", q_rank, D) | linear(at + "self_attn.q_b_proj", HEADS * (own + shared), q_rank)
              | linear(at + "self_attn.kv_a_proj_with_mqa", rank + shared, D)
              | linear(at + "self_attn.kv_b_proj", HEADS * (own + VALUE), rank)
              | linear(at + "self_attn.o_proj", D, HEADS * VALUE)
              | {at + "self_attn.q_a_layernorm.weight": (q_rank,), at + "self_attn.kv_a_layernorm.weight": (rank,)})
    mixture = (linear(at + "mlp.gate", EXPERTS, D) | {at + "mlp.gate.e_score_correction_bias": (EXPERTS,)}
               | experts(at + "mlp.experts.") | gated(at + "mlp.shared_experts.", SHARED))
    return norms(at, *LLAMA_NORMS) | latent | (mixture if number > 0 else gated(at + "mlp.", WIDE))


def hunyuan(at, number):
    return (norms(at, *LLAMA_NORMS) | attention(at + "self_attn.") | gated(at + "mlp.", WIDE)
            | {f"{at}self_attn.{name}_layernorm.weight": (HEAD,) for name in ("query", "key")})


def seed_oss(at, number):
    return norms(at, *LLAMA_NORMS) | attention(at + "self_attn.", bias=True) | gated(at + "mlp.", WIDE)


def apertus(at, number):
    return (norms(at, "attention_layernorm", "feedforward_layernorm") | attention(at + "self_attn.")
            | {f"{at}self_attn.{name}_norm.weight": (HEAD,) for name in "qk"}
            | linear(at + "mlp.up_proj", WIDE, D) | linear(at + "mlp.down_proj", D, WIDE)
            | {at + "mlp.act_fn.alpha_p": (1,), at + "mlp.act_fn.alpha_n": (1,)})


COMMON = dict(hidden_size=D, num_attention_heads=HEADS, num_key_value_heads=KV, vocab_size=TOKENS, rms_norm_eps=1e-5,
              rope_theta=10000.0, hidden_act="silu", tie_word_embeddings=False, max_position_embeddings=128)
MIXTURE = dict(num_experts_per_tok=CHOSEN, norm_topk_prob=True)
DENSE = dict(head_dim=HEAD, intermediate_size=WIDE)
GROUPED = dict(scoring_func="sigmoid", n_group=1, topk_group=1, routed_scaling_factor=2.5)
MODELS = {
    "mixtral": (mixtral, 2, {}, MIXTURE | dict(head_dim=HEAD, num_local_experts=EXPERTS, intermediate_size=INNER)),
    "qwen3_next": (qwen3_next, 4, {}, MIXTURE | dict(
        head_dim=HEAD, num_experts=EXPERTS, moe_intermediate_size=INNER, linear_num_value_heads=STATES,
        linear_num_key_heads=GROUPS, linear_key_head_dim=KEY, linear_value_head_dim=VALUE, linear_conv_kernel_dim=TAPS,
        partial_rotary_factor=0.25, full_attention_interval=4)),
    "nemotron_h": (nemotron_h, 4, dict(embedding="backbone.embeddings", norm="backbone.norm_f"), MIXTURE | GROUPED | DENSE | dict(
        mamba_num_heads=STATES, n_groups=GROUPS, ssm_state_size=KEY, mamba_head_dim=VALUE, conv_kernel=TAPS,
        hybrid_override_pattern="M*-E", mlp_hidden_act="relu2")),
    "falcon_h1": (falcon_h1, 2, dict(norm="model.final_layernorm"), DENSE | dict(
        mamba_n_heads=STATES, mamba_n_groups=GROUPS, mamba_d_state=KEY, mamba_d_head=VALUE, mamba_d_conv=TAPS,
        key_multiplier=1.0)),
    "lfm2": (lfm2, 3, dict(norm="model.embedding_norm", head=False), DENSE | dict(
        norm_eps=1e-5, conv_L_cache=TAPS, rope_theta=1e6, tie_word_embeddings=True,
        layer_types=["conv", "conv", "full_attention"])),
    "deepseek_v3": (deepseek_v3, 2, {}, MIXTURE | GROUPED | dict(
        n_routed_experts=EXPERTS, n_shared_experts=1, moe_intermediate_size=INNER, intermediate_size=WIDE, q_lora_rank=12,
        kv_lora_rank=16, qk_nope_head_dim=10, qk_rope_head_dim=4, v_head_dim=VALUE, first_k_dense_replace=1,
        num_key_value_heads=HEADS)),
    "hunyuan": (hunyuan, 2, {}, DENSE | dict(model_type="hunyuan_v1_dense", use_qk_norm=True)),
    "seed_oss": (seed_oss, 2, {}, DENSE | dict(attention_bias=True)),
    "apertus": (apertus, 2, {}, DENSE | dict(hidden_act="xielu", qk_norm=True)),
}

if __name__ == "__main__":
    for model, (of_layer, count, of_ends, config) in MODELS.items():
        folder = os.path.join(sys.argv[1], model)
        os.makedirs(folder, exist_ok=True)
        stack = "backbone.layers." if model == "nemotron_h" else "model.layers."
        shapes = layers(count, of_layer, stack) | ends(**of_ends)
        safetensors.write(folder + "/model.safetensors",
                          {name: ("F32", rng.normal(size=shape) * 0.3) for name, shape in shapes.items()})
        with open(folder + "/config.json", "w", encoding="utf-8") as file:
            json.dump(dict(model_type=model, num_hidden_layers=count) | COMMON | config, file, indent=1)
