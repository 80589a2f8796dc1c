"""The checkpoints that are written: for each family the usual one, and one for each trap."""
from dataclasses import dataclass, field
from typing import Callable

import numpy as np

from families import (ALBERT, BERT, DISTILBERT, GEMMA, GEMMA2, GEMMA3, GEMMA3_NESTED, GPT2, LLAMA, MISTRAL, NANOGPT, NEOX,
                      PHI3, QWEN2, QWEN3, ROBERTA, TRANSFORMER_LENS as TL, VAULTGEMMA, Family)

LEFT_OUT = object()  # of the config


@dataclass
class Variant:
    name: str
    family: Family
    notes: str
    config: dict = field(default_factory=dict)  # what differs from the family's
    dtype: str = "F32"
    dtype_of: Callable = None                   # tensor name -> dtype, where the file mixes them
    rename: Callable = None                     # names in the file; None leaves a tensor out
    extra: Callable = None                      # config, tensors -> further tensors of the file
    shards: int = 1
    lengths: tuple = ()                         # of the texts of a batch, padded on the right
    pads: tuple = ()                            # places of a padding token inside a lone text


def without(prefix, keep=lambda name: True):
    """A base model saved alone: its names lose their first part, the head is not there."""
    return lambda name: name[len(prefix):] if name.startswith(prefix) and keep(name) else None


def copy_of(source, name):
    return lambda c, tensors: {name: tensors[source]}


def causal_buffers(layers, at, size, dtype="F32"):
    """attn.bias: a mask of 0 and 1, not a bias; attn.masked_bias: its constant."""
    tril = np.tril(np.ones((1, 1, size, size)))
    return {f"{at.format(n)}bias": (dtype, tril) for n in range(layers)} | \
           {f"{at.format(n)}masked_bias": ("F32", np.array(-1e4)) for n in range(layers)}


def gpt2_published(c, tensors):
    return {n.removeprefix("transformer."): t
            for n, t in causal_buffers(c["n_layer"], "transformer.h.{}.attn.", c["n_ctx"]).items()
            if "masked" not in n}


def neox_published(c, tensors):
    n, d_k = c["num_hidden_layers"], c["hidden_size"] // c["num_attention_heads"]
    size = int(d_k * c["rotary_pct"])
    theta = c["rotary_emb_base"] ** (-np.arange(0, size, 2) / size)
    at = "gpt_neox.layers.{}.attention."
    return causal_buffers(n, at, c["max_position_embeddings"], "BOOL") | \
        {f"{at.format(i)}rotary_emb.inv_freq": ("F32", theta) for i in range(n)}


def llama1_published(c, tensors):
    d_k = c["hidden_size"] // c["num_attention_heads"]
    return {f"model.layers.{n}.self_attn.rotary_emb.inv_freq": ("F32", 1e4 ** (-np.arange(0, d_k, 2) / d_k))
            for n in range(c["num_hidden_layers"])}


def tl_buffers(c, tensors):
    mask = np.tril(np.ones((c["n_ctx"], c["n_ctx"]), bool))
    return {f"blocks.{n}.attn.mask": ("BOOL", mask) for n in range(c["n_layers"])} | \
           {f"blocks.{n}.attn.IGNORE": ("F32", np.array(-np.inf)) for n in range(c["n_layers"])}


def tl_rotary_buffers(c, tensors):
    angle = np.arange(c["n_ctx"])[:, None] / 1e4 ** (np.arange(c["rotary_dim"] // 2) * 2 / c["rotary_dim"])
    angle = np.repeat(angle, 2, -1)
    return tl_buffers(c, tensors) | {f"blocks.{n}.attn.rotary_{f}": ("F32", getattr(np, f)(angle))
                                     for n in range(c["n_layers"]) for f in ("sin", "cos")}


def pooler(base):
    def extra(c, tensors):
        d, rng = c["hidden_size"], np.random.default_rng(7)
        return {f"{base}pooler.dense.weight": ("F32", rng.standard_normal((d, d))),
                f"{base}pooler.dense.bias": ("F32", rng.standard_normal(d))}
    return extra


def bert_published(c, tensors):
    rng = np.random.default_rng(8)
    return pooler("bert.")(c, tensors) | {
        "bert.embeddings.position_ids": ("I64", np.arange(c["max_position_embeddings"])[None, :]),
        "cls.seq_relationship.weight": ("F32", rng.standard_normal((2, c["hidden_size"]))),
        "cls.seq_relationship.bias": ("F32", rng.standard_normal(2))}


def vision_tower(c, tensors):
    """Layers of another model beside the ones that are meant."""
    v, rng = c["vision_config"], np.random.default_rng(9)
    d, names = v["hidden_size"], {}
    for n in range(v["num_hidden_layers"]):
        at = f"vision_tower.vision_model.encoder.layers.{n}."
        for x in ("q_proj", "k_proj", "v_proj", "out_proj"):
            names[f"{at}self_attn.{x}.weight"] = ("BF16", rng.standard_normal((d, d)))
            names[f"{at}self_attn.{x}.bias"] = ("BF16", rng.standard_normal(d))
        for x in ("layer_norm1", "layer_norm2"):
            names[f"{at}{x}.weight"] = names[f"{at}{x}.bias"] = ("BF16", rng.standard_normal(d))
    names["multi_modal_projector.mm_soft_emb_norm.weight"] = ("BF16", rng.standard_normal(d))
    return names


def albert_published(c, tensors):
    rng, d = np.random.default_rng(11), c["hidden_size"]
    return {"albert.pooler.weight": ("F32", rng.standard_normal((d, d))),
            "albert.pooler.bias": ("F32", rng.standard_normal(d)),
            "albert.embeddings.position_ids": ("I64", np.arange(c["max_position_embeddings"])[None, :]),
            "predictions.decoder.weight": tensors["albert.embeddings.word_embeddings.weight"],
            "predictions.decoder.bias": tensors["predictions.bias"],
            "sop_classifier.classifier.weight": ("F32", rng.standard_normal((2, d))),
            "sop_classifier.classifier.bias": ("F32", rng.standard_normal(2))}


def old_layer_norm(name):
    return name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")


LLAMA31_ROPE = {"factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                "original_max_position_embeddings": 64, "rope_type": "llama3"}
GEMMA3_TYPES = ["full_attention", "sliding_attention", "sliding_attention", "full_attention"]

VARIANTS = [
    # GPT-2
    Variant("gpt2", GPT2, "tied head missing from the file; Conv1D (in, out); n_inner; tanh GELU"),
    Variant("gpt2-base-names", GPT2, "as openai-community/gpt2: no prefix, no lm_head, h.N.attn.bias is a mask buffer",
            {"n_inner": None}, rename=without("transformer."), extra=gpt2_published),
    Variant("gpt2-untied", GPT2, "untied lm_head; epsilon 0.02; exact GELU; float16",
            {"tie_word_embeddings": False, "layer_norm_epsilon": 0.02, "activation_function": "gelu"}, "F16"),
    Variant("gpt2-quick-gelu", GPT2, "quick GELU; scores also divided by layer + 1; tied head in the file too",
            {"activation_function": "quick_gelu", "scale_attn_by_inverse_layer_idx": True},
            extra=copy_of("transformer.wte.weight", "lm_head.weight")),
    Variant("gpt2-batch", GPT2, "three texts, padded on the right; no score scale; relu; sharded",
            {"scale_attn_weights": False, "activation_function": "relu"}, lengths=(9, 4, 7), shards=3),
    # nanoGPT
    Variant("nanogpt", NANOGPT, "names of a compiled model (_orig_mod.), (out, in), exact GELU, mask buffer, tied copy",
            rename=lambda n: "_orig_mod." + n,
            extra=lambda c, t: {f"_orig_mod.{n}": x for n, x in
                                ({"lm_head.weight": t["transformer.wte.weight"]}
                                 | {n: x for n, x in causal_buffers(c["n_layer"], "transformer.h.{}.attn.",
                                                                    c["block_size"]).items()
                                    if "masked" not in n}).items()}),
    Variant("nanogpt-no-bias", NANOGPT, "no biases anywhere, norms included; no lm_head in the file; float64",
            {"bias": False}, "F64"),
    # LLaMA
    Variant("llama1", LLAMA, "config without num_key_value_heads and rope_theta; rotary_emb.inv_freq buffers; untied",
            {"tie_word_embeddings": LEFT_OUT}, "F16", extra=llama1_published),
    Variant("llama2-gqa", LLAMA, "grouped keys and values; sharded; epsilon 0.01; attention_bias and mlp_bias",
            {"num_key_value_heads": 2, "rms_norm_eps": 0.01, "attention_bias": True, "mlp_bias": True},
            "BF16", shards=2),
    Variant("llama2-linear-rope", LLAMA, "rope_scaling with the old key type: linear",
            {"rope_scaling": {"type": "linear", "factor": 2.5}, "num_key_value_heads": 6, "rope_theta": 10000.0},
            "F16"),
    Variant("llama3-base", LLAMA, "base model saved alone: no prefix, no head, so no logits",
            {"architectures": ["LlamaModel"], "num_key_value_heads": 3, "rope_theta": 500000.0,
             "rms_norm_eps": 1e-5}, "BF16", rename=without("model.")),
    Variant("llama3.1", LLAMA, "rope_scaling llama3, a frequency in each band; norms in float32, the rest bfloat16",
            {"num_key_value_heads": 3, "head_dim": 16, "rope_theta": 500000.0, "rope_scaling": LLAMA31_ROPE,
             "rms_norm_eps": 1e-5, "max_position_embeddings": 512, "attention_bias": False, "mlp_bias": False},
            "BF16", dtype_of=lambda n: "F32" if "norm" in n else "BF16"),
    Variant("llama3.2", LLAMA, "tied head missing from the file; head_dim · heads ≠ d_model; a batch with padding",
            {"num_key_value_heads": 2, "head_dim": 16, "rope_theta": 500000.0, "tie_word_embeddings": True,
             "rms_norm_eps": 1e-5}, "BF16", lengths=(5, 13, 8, 10)),
    Variant("llama-rope-parameters", LLAMA, "config of Transformers 5: rope_parameters, dtype",
            {"num_key_value_heads": 2, "dtype": "float32", "torch_dtype": LEFT_OUT, "head_dim": 12,
             "rope_parameters": LLAMA31_ROPE | {"rope_theta": 3000.0}}),
    Variant("llama-dynamic", LLAMA, "rope_scaling dynamic; the text is longer than max_position_embeddings",
            {"num_key_value_heads": 2, "max_position_embeddings": 8,
             "rope_scaling": {"type": "dynamic", "factor": 4.0}}),
    Variant("llama-dynamic-short", LLAMA, "the same, the text is shorter: nothing is scaled",
            {"num_key_value_heads": 3, "rope_scaling": {"rope_type": "dynamic", "factor": 4.0}}, "F16"),
    Variant("llama-yarn-mscale", LLAMA, "yarn with DeepSeek's keys: mscale and mscale_all_dim that differ",
            {"head_dim": 16, "rope_theta": 10000.0, "max_position_embeddings": 2560, "rope_scaling": {
                "beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0, "mscale_all_dim": 0.707,
                "original_max_position_embeddings": 64, "type": "yarn"}}),
    Variant("llama-yarn-one-beta", LLAMA, "yarn as Kimi K2 has it: beta_fast and beta_slow are the same",
            {"head_dim": 16, "max_position_embeddings": 2048, "rope_scaling": {
                "beta_fast": 1.0, "beta_slow": 1.0, "factor": 32.0, "mscale": 1.0, "mscale_all_dim": 1.0,
                "original_max_position_embeddings": 64, "type": "yarn"}}),
    Variant("llama-yarn-one-pair", LLAMA, "the same without rounding: the ramp begins and ends at one place",
            {"head_dim": 16, "max_position_embeddings": 2048, "rope_scaling": {
                "beta_fast": 2.0, "beta_slow": 2.0, "factor": 32.0, "truncate": False,
                "original_max_position_embeddings": 64, "rope_type": "yarn"}}),
    # Mistral
    Variant("mistral", MISTRAL, "sliding window of 5: the query's own key and 4 before", dtype="BF16"),
    Variant("mistral-no-window", MISTRAL, "sliding_window null, head_dim null", {"sliding_window": None,
            "head_dim": None, "rope_theta": 1000000.0}),
    Variant("mistral-nemo", MISTRAL, "head_dim · heads ≠ d_model; window larger than the text",
            {"head_dim": 16, "sliding_window": 4096}, "BF16"),
    # Qwen
    Variant("qwen2", QWEN2, "biases on q, k, v without a key that says so; sliding_window not in use", dtype="BF16"),
    Variant("qwen2-window", QWEN2, "use_sliding_window: from layer max_window_layers on", {"use_sliding_window": True}),
    Variant("qwen2.5", QWEN2, "tied head missing from the file; epsilon 0.01",
            {"tie_word_embeddings": True, "rms_norm_eps": 0.01, "max_window_layers": 4}, "BF16"),
    Variant("qwen2.5-yarn", QWEN2, "rope_scaling yarn as Qwen2.5's card says to add it",
            {"rope_scaling": {"factor": 4.0, "original_max_position_embeddings": 64, "type": "yarn"},
             "max_position_embeddings": 64}, "BF16"),
    Variant("qwen3-yarn", QWEN3, "yarn without rounding (truncate false, as GPT-OSS), an attention factor of its own",
            {"rope_scaling": {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0,
                              "truncate": False, "original_max_position_embeddings": 4096,
                              "attention_factor": 1.1}, "max_position_embeddings": 131072}),
    Variant("qwen3", QWEN3, "q_norm, k_norm per head, before rope; head_dim · heads ≠ d_model; tied", dtype="BF16"),
    Variant("qwen3-one-head", QWEN3, "one head: q_norm is as wide as the projection, only model_type tells",
            {"num_attention_heads": 1, "num_key_value_heads": 1}),
    Variant("qwen3-untied", QWEN3, "untied; attention_bias; epsilon 0.05; a batch with padding",
            {"tie_word_embeddings": False, "attention_bias": True, "rms_norm_eps": 0.05}, lengths=(13, 6)),
    # Phi-3
    Variant("phi3", PHI3, "fused qkv_proj and gate_up_proj (gate first); window 5", dtype="BF16"),
    Variant("phi4-mini", PHI3, "partial rotary: 12 of 16; grouped; tied; window larger than the text",
            {"num_key_value_heads": 2, "partial_rotary_factor": 0.75, "tie_word_embeddings": True,
             "sliding_window": 262144, "hidden_size": 96, "intermediate_size": 70}, "BF16"),
    Variant("phi3-longrope", PHI3, "longrope; the text is longer than the original length: long_factor",
            {"max_position_embeddings": 256, "original_max_position_embeddings": 8, "sliding_window": None,
             "rope_scaling": {"type": "longrope", "short_factor": [1.0, 1.05, 1.1, 1.25, 1.4, 1.5],
                              "long_factor": [1.08, 1.11, 1.14, 4.34, 21.5, 64.3]}}, "BF16"),
    Variant("phi3-su", PHI3, "longrope by its first name; a shorter text: short_factor, and partial rotary 12 of 16",
            {"max_position_embeddings": 512, "original_max_position_embeddings": 64, "hidden_size": 96,
             "partial_rotary_factor": 0.75, "rope_scaling": {
                 "type": "su", "short_factor": [1.0, 1.05, 1.1, 1.25, 1.4, 1.5],
                 "long_factor": [1.08, 1.11, 1.14, 4.34, 21.5, 64.3]}}),
    # Gemma
    Variant("gemma", GEMMA, "√d rounded to bfloat16; gain 1 + w; one key head; tied without a key that says so",
            dtype="BF16"),
    Variant("gemma-old-config", GEMMA, "hidden_act gelu alone, which means tanh; √d rounded to float16; epsilon 0.01",
            {"hidden_activation": LEFT_OUT, "rms_norm_eps": 0.01, "num_key_value_heads": 3}, "F16"),
    Variant("gemma-of-4-relu", GEMMA, "hidden_act relu of Transformers 4.40, which computed tanh GELU",
            {"hidden_activation": None, "hidden_act": "relu", "transformers_version": "4.40.0"}),
    Variant("gemma-of-5-relu", GEMMA, "hidden_act of Transformers 5 is computed",
            {"hidden_activation": LEFT_OUT, "hidden_act": "relu", "transformers_version": "5.17.0"}),
    Variant("vaultgemma", VAULTGEMMA, "Gemma 2 with the two norms before alone"),
    Variant("gemma2", GEMMA2, "softcaps, four norms, windows on even layers, query_pre_attn_scalar; float32"),
    Variant("gemma2-bf16", GEMMA2, "the same, √d rounded to bfloat16; a batch with padding (whose last rows "
            "the window leaves without any key); sharded",
            {"torch_dtype": "bfloat16"}, "BF16", lengths=(13, 7, 10), shards=2),
    Variant("gemma2-null-caps", GEMMA2, "null is no cap", {"attn_logit_softcapping": None, "final_logit_softcapping": None}),
    Variant("gemma2-silent-caps", GEMMA2, "without the keys 50 and 30",
            {"attn_logit_softcapping": LEFT_OUT, "final_logit_softcapping": LEFT_OUT}),
    Variant("gemma3", GEMMA3, "q_norm, k_norm with 1 + w; sliding_window_pattern 3; two rope bases", dtype="BF16"),
    Variant("gemma3-layer-types", GEMMA3, "layer_types says which layers slide; float32",
            {"layer_types": GEMMA3_TYPES, "sliding_window_pattern": LEFT_OUT, "_sliding_window_pattern": 3}),
    Variant("gemma3-rope-parameters", GEMMA3, "config of Transformers 5: rope_parameters by layer type; logit softcap",
            {"layer_types": GEMMA3_TYPES, "sliding_window_pattern": LEFT_OUT, "rope_theta": LEFT_OUT,
             "rope_local_base_freq": LEFT_OUT, "rope_scaling": LEFT_OUT, "final_logit_softcapping": 6.0,
             "torch_dtype": LEFT_OUT, "dtype": "bfloat16", "rope_parameters": {
                 "full_attention": {"factor": 4.0, "rope_theta": 1000000.0, "rope_type": "linear"},
                 "sliding_attention": {"rope_theta": 5000.0, "rope_type": "default"}}}, "BF16"),
    Variant("gemma3-both-sides", GEMMA3, "EmbeddingGemma: not causal, windows of half to each side; odd",
            {"layer_types": GEMMA3_TYPES, "sliding_window_pattern": LEFT_OUT, "use_bidirectional_attention": True}),
    Variant("gemma3-nested", GEMMA3_NESTED, "text_config with all defaults left out (8 heads of 256), linear rope on "
            "global layers, language_model.model. prefix, a vision tower beside", dtype="BF16", extra=vision_tower),
    Variant("gemma3-nested-new-names", GEMMA3_NESTED, "model.language_model. prefix; text_config in full",
            {"text_config": {k: v for k, v in GEMMA3.config.items() if k != "architectures"}}, "BF16",
            rename=lambda n: n.replace("language_model.model.", "model.language_model.")),
    # GPT-NeoX
    Variant("neox-parallel", NEOX, "parallel with two norms; fused per head; rotary 6 of 24; exact GELU; buffers",
            dtype="F16", extra=neox_published),
    Variant("neox-sequential", NEOX, "use_parallel_residual false; gelu_fast; other rope base; attention_bias false",
            {"use_parallel_residual": False, "hidden_act": "gelu_fast", "rotary_emb_base": 500, "rotary_pct": 1.0,
             "attention_bias": False, "layer_norm_eps": 0.01}),
    Variant("neox-batch", NEOX, "a batch with padding; tied", {"tie_word_embeddings": True}, lengths=(6, 13)),
    # BERT
    Variant("bert", BERT, "masked-word head, tied, with its bias; exact GELU; norms behind"),
    Variant("bert-old-names", BERT, "gamma and beta, pooler, seq_relationship, position_ids", rename=old_layer_norm,
            extra=bert_published),
    Variant("bert-base", BERT, "base model saved alone: no prefix, no head, so no logits; a batch with padding",
            {"architectures": ["BertModel"]}, "F16", rename=without("bert."), extra=pooler(""), lengths=(4, 11)),
    Variant("bert-untied", BERT, "decoder of its own; tanh GELU in layers and head; epsilon 0.01; padding",
            {"tie_word_embeddings": False, "hidden_act": "gelu_new", "layer_norm_eps": 0.01}, "BF16",
            lengths=(11, 6, 8)),
    Variant("bert-relative-key", BERT, "position_embedding_type relative_key: the learned positions stay in the file",
            {"position_embedding_type": "relative_key"}),
    Variant("bert-relative-key-query", BERT, "relative_key_query; a batch with padding",
            {"position_embedding_type": "relative_key_query"}, "F16", lengths=(11, 4, 7)),
    # ALBERT
    Variant("albert", ALBERT, "one layer's weights five times; tables narrower than the stream; tied head of their width",
            extra=albert_published),
    Variant("albert-groups", ALBERT, "two groups of two layers for five: 0 1 0 1 0 1 2 3 2 3; a batch with padding",
            {"num_hidden_groups": 2, "inner_group_num": 2, "hidden_act": "gelu"}, "F16", lengths=(5, 12)),
    Variant("albert-base", ALBERT, "base model saved alone: no prefix, no head",
            {"architectures": ["AlbertModel"], "num_hidden_groups": 5}, rename=without("albert.")),
    # RoBERTa
    Variant("roberta", ROBERTA, "positions from pad_id + 1 = 2; one token type"),
    Variant("roberta-padded", ROBERTA, "a batch with padding: padding has position pad_id; decoder copies in the file",
            lengths=(7, 11, 5), dtype="F16",
            extra=lambda c, t: {"lm_head.decoder.weight": t["roberta.embeddings.word_embeddings.weight"],
                                "lm_head.decoder.bias": t["lm_head.bias"]}),
    Variant("roberta-pads-inside", ROBERTA, "padding tokens inside a lone text without a mask: positions skip them; "
            "pad_id 3, so positions from 4", {"pad_token_id": 3, "max_position_embeddings": 28}, pads=(3, 7)),
    Variant("roberta-base", ROBERTA, "base model saved alone", {"architectures": ["RobertaModel"]},
            rename=without("roberta."), extra=pooler("")),
    Variant("roberta-silent-eps", ROBERTA, "without layer_norm_eps 1e-12, as Transformers has it", {"layer_norm_eps": LEFT_OUT}),
    # DistilBERT
    Variant("distilbert", DISTILBERT, "no token types; exact GELU; projector's copy in the file",
            extra=copy_of("distilbert.embeddings.word_embeddings.weight", "vocab_projector.weight")),
    Variant("distilbert-base", DISTILBERT, "base model saved alone; a batch with padding",
            {"architectures": ["DistilBertModel"]}, "F16", rename=without("distilbert."), lengths=(11, 3)),
    # TransformerLens
    Variant("tl-ln", TL, "LN, gelu_new, attn_scale of its own; mask and IGNORE buffers",
            {"attn_scale": 2.5, "eps": 0.01}, extra=tl_buffers),
    Variant("tl-lnpre-gelu", TL, "LNPre: norms without tensors; exact GELU", {"normalization_type": "LNPre",
            "act_fn": "gelu"}),
    Variant("tl-solu-ln", TL, "solu, then a norm inside the feed-forward", {"act_fn": "solu_ln"}),
    Variant("tl-rms-gated", TL, "RMS, gated silu (b_in is added after the product), rotary 8 of 12, rotary_base",
            {"normalization_type": "RMS", "act_fn": "silu", "gated_mlp": True, "positional_embedding_type": "rotary",
             "rotary_dim": 8, "rotary_base": 3000, "rotary_adjacent_pairs": False}, "BF16"),
    Variant("tl-rmspre-parallel", TL, "RMSPre, rotary on adjacent pairs, parallel; rotary buffers",
            {"normalization_type": "RMSPre", "act_fn": "gelu_new", "positional_embedding_type": "rotary",
             "rotary_dim": 10, "rotary_adjacent_pairs": True, "parallel_attn_mlp": True}, extra=tl_rotary_buffers),
    Variant("tl-no-norm", TL, "normalization_type null, so no final; relu; other output vocabulary; both directions",
            {"normalization_type": None, "act_fn": "relu", "d_vocab_out": 37, "attention_dir": "bidirectional",
             "attn_scale": 20.0}),
    Variant("tl-attn-only", TL, "attn_only; also scaled by 1 / (layer + 1); a batch with padding",
            {"attn_only": True, "act_fn": None, "d_mlp": None, "scale_attn_by_inverse_layer_idx": True},
            lengths=(10, 6)),
    Variant("tl-grouped", TL, "grouped heads: _W_K, _W_V; no score scale",
            {"n_heads": 6, "n_key_value_heads": 2, "use_attn_scale": False}, "F16"),
]
