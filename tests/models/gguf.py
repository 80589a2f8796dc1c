#!/usr/bin/env python3
"""Writes GGUF files, and decodes their blocks: written from the format's description, not from lib/.

    /usr/bin/python3 tests/models/gguf.py model FOLDER OUT.gguf [TYPE] [--shards N] [--rounded FOLDER] [--kv-b]
    /usr/bin/python3 tests/models/gguf.py types OUT.gguf EXPECTED.npz [--seed N]
    /usr/bin/python3 tests/models/gguf.py words OUT.gguf [--no-prefix] [--seed N]
    /usr/bin/python3 tests/models/gguf.py sparse OUT.gguf BYTES
    /usr/bin/python3 tests/models/gguf.py tiny OUT.gguf

`model` does to a checkpoint what llama.cpp's converter does: names, keys, the order of q and k, Gemma's
norms, fused matrices, the tokenizer's arrays. TYPE is F32, F16, BF16 or Q8_0 for matrices; vectors stay
F32. --rounded writes the checkpoint beside it whose numbers are those of TYPE; --kv-b keeps the two maps of
latent attention in one tensor, as files before March 2025 do; experts in MXFP4 stay so. `types` writes a tensor of
random bytes of every type in odd shapes, with scales that are finite, and beside it what NumPy decodes.
`words` writes a random vocabulary with scores, and prints texts with the tokens that SentencePiece's rule
gives, found by trying all pairs. `sparse` writes a file of BYTES, of which only the header is there;
`tiny` a small model of every type, to be damaged.
"""
import argparse
import json
import os
import re
import shutil
import struct

import numpy as np

import gguf_gated
import gguf_mixtures
import safetensors

F32 = np.float32


def half(block, at):
    """float16 at byte `at` of each block, as float32."""
    return np.ascontiguousarray(block[:, at:at + 2]).view("<f2").astype(F32)[:, 0]


def nibbles(data):
    """(n, b) bytes -> (n, 2 b): low halves, then high ones."""
    return np.concatenate([data & 15, data >> 4], axis=1).astype(np.int32)


def fifth_bits(data):
    """(n, 4) bytes -> (n, 32): bit j."""
    word = np.ascontiguousarray(data).view("<u4")
    return ((word >> np.arange(32, dtype=np.uint32)) & 1).astype(np.int32)


def q4_0(b):
    return (nibbles(b[:, 2:]) - 8).astype(F32) * half(b, 0)[:, None]


def q4_1(b):
    return nibbles(b[:, 4:]).astype(F32) * half(b, 0)[:, None] + half(b, 2)[:, None]


def q5_0(b):
    return (nibbles(b[:, 6:]) + 16 * fifth_bits(b[:, 2:6]) - 16).astype(F32) * half(b, 0)[:, None]


def q5_1(b):
    return (nibbles(b[:, 8:]) + 16 * fifth_bits(b[:, 4:8])).astype(F32) * half(b, 0)[:, None] + half(b, 2)[:, None]


def q8_0(b):
    return b[:, 2:].view(np.int8).astype(F32) * half(b, 0)[:, None]


def two_bits(data):
    """(n, 64) bytes -> (n, 256): per 128 four passes over the same 32 bytes."""
    parts = []
    for n in (0, 32):
        for shift in (0, 2, 4, 6):
            parts.append((data[:, n:n + 32] >> shift) & 3)
    return np.concatenate(parts, axis=1).astype(np.int32)


def spread(values, width):
    """A number a sub-block -> one an element."""
    return np.repeat(values, width, axis=1)


def q2_k(b):
    scales, d, least = b[:, :16], half(b, 80)[:, None], half(b, 82)[:, None]
    step, minimum = d * (scales & 15).astype(F32), least * (scales >> 4).astype(F32)
    return spread(step, 16) * two_bits(b[:, 16:80]).astype(F32) - spread(minimum, 16)


def q3_k(b):
    s = b[:, 96:108]
    scales = np.empty((len(b), 16), np.int32)
    for i in range(16):
        low = (s[:, i % 8] >> (4 * (i // 8))) & 15
        high = (s[:, 8 + i % 4] >> (2 * (i // 4))) & 3
        scales[:, i] = low | high << 4
    mask = np.concatenate([(b[:, :32] >> bit) & 1 for bit in range(8)], axis=1).astype(np.int32)
    q = two_bits(b[:, 32:96]) - np.where(mask, 0, 4)
    return spread(half(b, 108)[:, None] * (scales - 32).astype(F32), 16) * q.astype(F32)


def scales_k(s):
    scale, minimum = np.empty((len(s), 8), np.int32), np.empty((len(s), 8), np.int32)
    for j in range(8):
        if j < 4:
            scale[:, j], minimum[:, j] = s[:, j] & 63, s[:, j + 4] & 63
        else:
            scale[:, j] = (s[:, j + 4] & 15) | (s[:, j - 4] >> 6) << 4
            minimum[:, j] = (s[:, j + 4] >> 4) | (s[:, j] >> 6) << 4
    return scale, minimum


def q45_k(b, quants, high):
    scale, minimum = scales_k(b[:, 4:16])
    q = np.concatenate([nibbles(b[:, quants + 32 * c:quants + 32 * c + 32]) for c in range(4)], axis=1)
    if high is not None:
        q += 16 * np.concatenate([(b[:, high:high + 32] >> bit) & 1 for bit in range(8)], axis=1).astype(np.int32)
    step, lowest = half(b, 0)[:, None] * scale.astype(F32), half(b, 2)[:, None] * minimum.astype(F32)
    return spread(step, 32) * q.astype(F32) - spread(lowest, 32)


def q6_k(b):
    parts = []
    for n in range(2):
        ql, qh = b[:, 64 * n:64 * n + 64], b[:, 128 + 32 * n:160 + 32 * n]
        four = [ql[:, :32] & 15, ql[:, 32:] & 15, ql[:, :32] >> 4, ql[:, 32:] >> 4]
        parts += [low.astype(np.int32) | (((qh >> (2 * i)) & 3).astype(np.int32) << 4) for i, low in enumerate(four)]
    scales = np.ascontiguousarray(b[:, 192:208]).view(np.int8).astype(F32)
    return spread(half(b, 208)[:, None] * scales, 16) * (np.concatenate(parts, axis=1) - 32).astype(F32)


def mxfp4(b):
    table = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], np.float64)
    with np.errstate(over="ignore"):
        return (table[nibbles(b[:, 1:])] * 2.0 ** (b[:, :1].astype(np.float64) - 128)).astype(F32)


class Type:
    def __init__(self, number, elements, bytes_, decode, halves=()):
        self.number, self.elements, self.bytes, self.decode, self.halves = number, elements, bytes_, decode, halves


BLOCKS = {"Q4_0": Type(2, 32, 18, q4_0, (0,)), "Q4_1": Type(3, 32, 20, q4_1, (0, 2)),
          "Q5_0": Type(6, 32, 22, q5_0, (0,)), "Q5_1": Type(7, 32, 24, q5_1, (0, 2)),
          "Q8_0": Type(8, 32, 34, q8_0, (0,)), "Q2_K": Type(10, 256, 84, q2_k, (80, 82)),
          "Q3_K": Type(11, 256, 110, q3_k, (108,)),
          "Q4_K": Type(12, 256, 144, lambda b: q45_k(b, 16, None), (0, 2)),
          "Q5_K": Type(13, 256, 176, lambda b: q45_k(b, 48, 16), (0, 2)),
          "Q6_K": Type(14, 256, 210, q6_k, (208,)), "MXFP4": Type(39, 32, 17, mxfp4)}
PLAIN = {"F32": (0, "<f4"), "F16": (1, "<f2"), "I8": (24, "|i1"), "I16": (25, "<i2"), "I32": (26, "<i4"),
         "I64": (27, "<i8"), "F64": (28, "<f8"), "BF16": (30, None)}


def quantise_q8_0(array):
    blocks = array.reshape(-1, 32).astype(F32)
    d = (np.abs(blocks).max(axis=1) / 127).astype(np.float16)
    scale = d.astype(F32)[:, None]
    q = np.rint(np.divide(blocks, scale, out=np.zeros_like(blocks), where=scale != 0)).clip(-127, 127)
    return np.concatenate([d[:, None].view(np.uint8), q.astype(np.int8).view(np.uint8)], axis=1)


def encode(kind, array):
    if kind == "Q8_0":
        return quantise_q8_0(array).tobytes()
    return safetensors.encode(kind, np.atleast_1d(array))


def string(text):
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(data)) + data


class U32(int):
    pass


def value(v):
    """Type and bytes of a key's value."""
    if isinstance(v, bool):
        return 7, struct.pack("<B", v)
    if isinstance(v, U32):
        return 4, struct.pack("<I", v)
    if isinstance(v, int):
        return 5, struct.pack("<i", v)
    if isinstance(v, float):
        return 6, struct.pack("<f", v)
    if isinstance(v, (str, bytes)):
        return 8, string(v)
    kind = value(v[0])[0] if v else 5
    return 9, struct.pack("<IQ", kind, len(v)) + b"".join(value(e)[1] for e in v)


def write(path, keys, tensors, version=3, alignment=32):
    """tensors: name -> (type's number, shape as NumPy has it, bytes)."""
    header = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(keys))
    for key, v in keys.items():
        kind, data = value(v)
        header += string(key) + struct.pack("<I", kind) + data
    place, parts = 0, []
    for name, (number, shape, data) in tensors.items():
        header += string(name) + struct.pack("<I", len(shape))
        header += b"".join(struct.pack("<Q", n) for n in reversed(shape))
        header += struct.pack("<IQ", number, place)
        data += b"\0" * (-len(data) % alignment)
        parts.append(data)
        place += len(data)
    header += b"\0" * (-len(header) % alignment)
    with open(path, "wb") as file:
        file.write(header + b"".join(parts))


def write_shards(path, keys, tensors, shards):
    if shards == 1:
        return write(path, keys, tensors)
    names = list(tensors)
    for i, part in enumerate(np.array_split(np.array(names), shards)):
        mine = {"split.no": U32(i), "split.count": U32(shards), "split.tensors.count": len(names)}
        write(path.replace(".gguf", f"-{i + 1:05d}-of-{shards:05d}.gguf"), (keys if i == 0 else {}) | mine,
              {str(n): tensors[str(n)] for n in part})


# --- what the converter does -----------------------------------------------------------------------

LLAMA = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
LLAMA_BLOCK = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
               "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
               "self_attn.k_norm": "attn_k_norm", "post_attention_layernorm": "ffn_norm",
               "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
FOUR_NORMS = LLAMA_BLOCK | {"post_attention_layernorm": "post_attention_norm",
                            "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm"}
GLM4_BLOCK = {name: own for name, own in LLAMA_BLOCK.items() if not name.startswith("mlp.")} | {
    "post_self_attn_layernorm": "post_attention_norm", "post_mlp_layernorm": "post_ffw_norm", "mlp.gate_up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down"}
SEED_BLOCK = LLAMA_BLOCK | {"post_attention_layernorm": "post_attention_norm"}
NEOX_MLP = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "mlp.dense_h_to_4h": "ffn_up",
            "mlp.dense_4h_to_h": "ffn_down"}
GPT2 = ({"wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm", "lm_head": "output"},
        {"ln_1": "attn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "ln_2": "ffn_norm",
         "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}, "h")
MODELS = {  # model_type -> architecture, names outside of blocks, in blocks, where blocks stand
    "llama": ("llama", LLAMA, LLAMA_BLOCK, "model.layers"), "mistral": ("llama", LLAMA, LLAMA_BLOCK, "model.layers"),
    "qwen2": ("qwen2", LLAMA, LLAMA_BLOCK, "model.layers"), "qwen3": ("qwen3", LLAMA, LLAMA_BLOCK, "model.layers"),
    "gemma": ("gemma", LLAMA, LLAMA_BLOCK, "model.layers"), "gemma2": ("gemma2", LLAMA, FOUR_NORMS, "model.layers"),
    "gemma3_text": ("gemma3", LLAMA, FOUR_NORMS, "model.layers"),
    "phi3": ("phi3", LLAMA, {"input_layernorm": "attn_norm", "self_attn.qkv_proj": "attn_qkv",
                             "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm",
                             "mlp.gate_up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}, "model.layers"),
    "gpt2": ("gpt2", *GPT2), "gpt_bigcode": ("starcoder", *GPT2),
    "granite": ("granite", LLAMA, LLAMA_BLOCK, "model.layers"), "smollm3": ("smollm3", LLAMA, LLAMA_BLOCK, "model.layers"),
    "stablelm": ("stablelm", LLAMA, LLAMA_BLOCK, "model.layers"), "cohere": ("command-r", LLAMA, LLAMA_BLOCK, "model.layers"),
    "olmo": ("olmo", LLAMA, LLAMA_BLOCK, "model.layers"), "olmo2": ("olmo2", LLAMA, FOUR_NORMS, "model.layers"),
    **{name: (name, LLAMA, LLAMA_BLOCK, "model.layers") for name in ("arcee", "cohere2", "ernie4_5", "jais2", "nemotron")},
    "eurobert": ("eurobert", {name: own for name, own in LLAMA.items() if own != "output"}, LLAMA_BLOCK, "model.layers"),
    "exaone4": ("exaone4", LLAMA, FOUR_NORMS, "model.layers"), "glm4": ("glm4", LLAMA, GLM4_BLOCK, "model.layers"),
    "seed_oss": ("seed_oss", LLAMA, SEED_BLOCK, "model.layers"),
    "starcoder2": ("starcoder2", LLAMA, LLAMA_BLOCK | {"mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}, "model.layers"),
    "phi": ("phi2", {"model.embed_tokens": "token_embd", "model.final_layernorm": "output_norm", "lm_head": "output"},
            LLAMA_BLOCK | {"self_attn.dense": "attn_output", "mlp.fc1": "ffn_up", "mlp.fc2": "ffn_down"}, "model.layers"),
    "gpt_neox": ("gptneox", {"gpt_neox.embed_in": "token_embd", "gpt_neox.final_layer_norm": "output_norm",
                             "embed_out": "output"},
                 NEOX_MLP | {"attention.query_key_value": "attn_qkv", "attention.dense": "attn_output"},
                 "gpt_neox.layers"),
    "bloom": ("bloom", {"word_embeddings": "token_embd", "word_embeddings_layernorm": "token_embd_norm",
                        "ln_f": "output_norm"},
              NEOX_MLP | {"self_attention.query_key_value": "attn_qkv", "self_attention.dense": "attn_output"}, "h"),
    "falcon": ("falcon", {"word_embeddings": "token_embd", "ln_f": "output_norm", "lm_head": "output"},
               NEOX_MLP | {"self_attention.query_key_value": "attn_qkv", "self_attention.dense": "attn_output",
                           "ln_mlp": "attn_norm", "ln_attn": "attn_norm_2"}, "h"),
    "bert": ("bert", {"embeddings.word_embeddings": "token_embd", "embeddings.position_embeddings": "position_embd",
                      "embeddings.token_type_embeddings": "token_types", "embeddings.LayerNorm": "token_embd_norm"},
             {"attention.self.query": "attn_q", "attention.self.key": "attn_k", "attention.self.value": "attn_v",
              "attention.output.dense": "attn_output", "attention.output.LayerNorm": "attn_output_norm",
              "intermediate.dense": "ffn_up", "output.dense": "ffn_down", "output.LayerNorm": "layer_output_norm"},
             "encoder.layer"),
    **gguf_mixtures.MODELS, **gguf_gated.MODELS}
KEYS = {"block_count": ("num_hidden_layers", "n_layer"), "embedding_length": ("hidden_size", "n_embd"),
        "context_length": ("max_position_embeddings", "n_positions"), "feed_forward_length": ("intermediate_size", "n_inner"),
        "attention.head_count": ("num_attention_heads", "n_head"),
        "attention.head_count_kv": ("num_key_value_heads", "num_kv_heads"), "attention.key_length": ("head_dim",),
        "attention.value_length": ("head_dim",), "attention.layer_norm_rms_epsilon": ("rms_norm_eps",),
        "attention.layer_norm_epsilon": ("layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps"),
        "attention.sliding_window": ("sliding_window",), "attention.sliding_window_pattern": ("sliding_window_pattern",),
        "rope.freq_base": ("rope_theta", "rotary_emb_base"), "rope.freq_base_swa": ("rope_local_base_freq",),
        "attn_logit_softcapping": ("attn_logit_softcapping",), "final_logit_softcapping": ("final_logit_softcapping",),
        "use_parallel_residual": ("use_parallel_residual",), "logit_scale": ("logit_scale", "logits_scaling"),
        "embedding_scale": ("embedding_multiplier",), "residual_scale": ("residual_multiplier",),
        "attention.scale": ("attention_multiplier",)}
PERMUTED = ("llama", "granite", "olmo", "smollm3", "arcee", *gguf_mixtures.PERMUTED)  # rows of q and k in the order of LLaMA's makers


def pairs_of_halves(w, heads):
    """Rows of each head: the two halves become pairs of neighbours."""
    shape = w.shape
    return w.reshape(heads, 2, shape[0] // heads // 2, *shape[1:]).swapaxes(1, 2).reshape(shape)


def parts_of_groups(w, heads, key_heads):
    """By key/value head its queries, key and value -> all queries, all keys, all values."""
    width = w.shape[0] // (heads + 2 * key_heads)
    g = w.reshape(key_heads, heads // key_heads + 2, width, *w.shape[1:])
    flat = (-1,) + w.shape[1:]
    return np.concatenate([g[:, :-2].reshape(flat), g[:, -2].reshape(flat), g[:, -1].reshape(flat)])


def own_way(config):
    """The module that knows more of this model's conversion."""
    return next((module for module in (gguf_mixtures, gguf_gated) if config["model_type"] in module.MODELS), None)


def keys_of(config, architecture, together=False):
    keys = {"general.architecture": architecture, "general.name": "a test"}
    config = (config.get("rope_parameters") or {}) | config  # Transformers 5
    for key, names in KEYS.items():
        for name in names:
            v = config.get(name)
            if v is not None and not isinstance(v, (list, dict, str)):
                keys[f"{architecture}.{key}"] = v if isinstance(v, (bool, float)) else U32(v)
                break
    for key in [k for k in keys if k.endswith(("epsilon", "freq_base", "freq_base_swa", "softcapping"))]:
        keys[key] = float(keys[key])
    width = config.get("head_dim") or \
        (config.get("hidden_size") or config["n_embd"]) // (config.get("num_attention_heads") or config["n_head"])
    part = config.get("rotary_pct", config.get("partial_rotary_factor", 1))
    if config.get("multi_query") and not config.get("new_decoder_architecture"):
        keys[f"{architecture}.attention.head_count_kv"] = U32(1)
    if architecture not in ("gpt2", "bert", "bloom", "starcoder"):
        keys[f"{architecture}.rope.dimension_count"] = U32(int(width * part))
    scaling = config.get("rope_scaling") or {}
    kind = scaling.get("rope_type", scaling.get("type"))
    if kind in ("linear", "yarn", "longrope"):
        keys[f"{architecture}.rope.scaling.type"] = kind
    if kind in ("linear", "yarn"):
        keys[f"{architecture}.rope.scaling.factor"] = float(scaling["factor"])
    original = scaling.get("original_max_position_embeddings", config.get("original_max_position_embeddings"))
    if kind in ("yarn", "longrope") and original:
        keys[f"{architecture}.rope.scaling.original_context_length"] = U32(original)
    if kind in ("longrope", "su") and original:  # of cosines and sines; without the key it is 1
        ratio = config["max_position_embeddings"] / original
        keys[f"{architecture}.rope.scaling.attn_factor"] = float((1 + np.log(ratio) / np.log(original)) ** 0.5) \
            if ratio > 1 else 1.0
    if architecture in ("bert", "eurobert"):
        keys[f"{architecture}.attention.causal"] = False
    if (architecture == "exaone4" and config.get("sliding_window")) or (architecture == "gemma3" and "layer_types" in config):
        keys[f"{architecture}.attention.sliding_window_pattern"] = [kind == "sliding_attention" for kind in config["layer_types"]]
    if architecture == "olmo":  # whose config has none
        keys["olmo.attention.layer_norm_epsilon"] = 1e-5
    if "query_pre_attn_scalar" in config:
        keys[f"{architecture}.attention.scale"] = float(config["query_pre_attn_scalar"]) ** -0.5
    if config["model_type"] in gguf_mixtures.MODELS and architecture not in gguf_mixtures.WINDOWED:
        keys.pop(f"{architecture}.attention.sliding_window", None)
    if own := own_way(config):
        keys |= {f"{architecture}.{key}": U32(v) if type(v) is int else v for key, v in own.keys(config, together).items()}
    return keys


def rope_tensors(config):
    """Divisors of the frequencies, where a scaling is written as such."""
    if config["model_type"] in gguf_gated.MODELS:
        found = gguf_gated.divisors(config)
        return {"rope_freqs.weight": (0, found.shape, encode("F32", found))}
    scaling = config.get("rope_scaling") or {}
    kind = scaling.get("rope_type", scaling.get("type"))
    if kind in ("longrope", "su"):
        return {f"rope_factors_{name}.weight": (0, (len(scaling[f"{name}_factor"]),), encode("F32", np.array(
            scaling[f"{name}_factor"], np.float64))) for name in ("long", "short")}
    if kind != "llama3":
        return {}
    width = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    theta = config["rope_theta"] ** (-np.arange(0, width, 2) / width)
    low, high, old = (scaling[k] for k in ("low_freq_factor", "high_freq_factor", "original_max_position_embeddings"))
    smooth = (old * theta / (2 * np.pi) - low) / (high - low)
    between = 1 / ((1 - smooth) / scaling["factor"] + smooth)
    divisors = np.where(smooth > 1, 1, np.where(smooth < 0, scaling["factor"], between))
    return {"rope_freqs.weight": (0, divisors.shape, encode("F32", divisors))}


def byte_characters():
    """GPT-2's characters of bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return {c: b for c, b in zip([*map(chr, plain), *(chr(256 + i) for i in range(256 - len(plain)))],
                                 plain + [b for b in range(256) if b not in plain])}


def tokenizer_keys(folder, config):
    path = os.path.join(folder, "tokenizer.json")
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        tokenizer = json.load(file)
    model = tokenizer["model"]
    vocab = dict(model["vocab"])
    added = {t["id"]: t for t in tokenizer["added_tokens"]}
    vocab.update({t["content"]: i for i, t in added.items()})
    by_id = {i: t for t, i in vocab.items()}
    tokens = [by_id.get(i, f"[PAD{i}]") for i in range(config["vocab_size"])]
    types = [3 if added.get(i, {}).get("special") else 4 if i in added else 1 if i in by_id else 5
             for i in range(len(tokens))]
    keys = {"tokenizer.ggml.token_type": types}
    for name in ("bos", "eos", "pad"):
        if config.get(f"{name}_token_id") is not None:
            keys[f"tokenizer.ggml.{'padding' if name == 'pad' else name}_token_id"] = U32(config[f"{name}_token_id"])
    if model["type"] == "WordPiece":
        def phantom(piece, special):
            return piece if special else piece[2:] if piece.startswith("##") else "\u2581" + piece
        keys |= {"tokenizer.ggml.model": "bert", "tokenizer.ggml.pre": "default", "tokenizer.ggml.token_type_count": U32(2),
                 "tokenizer.ggml.tokens": [phantom(t, i in added) for i, t in enumerate(tokens)]}
        for name, piece in (("bos", "[CLS]"), ("seperator", "[SEP]"), ("cls", "[CLS]"), ("mask", "[MASK]"), ("unknown", "[UNK]")):
            keys[f"tokenizer.ggml.{name}_token_id"] = U32(vocab[piece])
        return keys
    assert model["type"] == "BPE"
    llama3 = "N}{1,3}" in json.dumps(tokenizer["pre_tokenizer"])
    merges = [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
    keys |= {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "llama-bpe" if llama3 else "gpt-2",
             "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.merges": merges,
             "tokenizer.ggml.add_bos_token": "begin_of_text" in json.dumps(tokenizer.get("post_processor"))}
    return keys


def named(config, name):
    """The file's name of a checkpoint's tensor, whether it stands in a block, and its layer."""
    architecture, ends, block, layers = MODELS[config["model_type"]]
    stem, _, ending = name.rpartition(".")
    inside = re.search(rf"(?:^|\.){re.escape(layers)}\.(\d+)\.(.*)", stem)
    if inside:
        own = block.get(inside[2])
        return own and (own, f"blk.{inside[1]}.{own}.{ending}", True)
    own = next((g for hf, g in ends.items() if stem == hf or stem.endswith("." + hf)), None)
    return own and (own, f"{own}.{ending}", False)


def convert(config, tensors, kind, together=False):
    """The tensors of a checkpoint as the converter writes them, and as what stands in them says."""
    way, given = own_way(config), tensors
    if way:
        tensors = way.prepared(config, tensors, together)
    architecture = MODELS[config["model_type"]][0]
    heads = config.get("num_attention_heads") or config["n_head"]
    key_heads = config.get("num_key_value_heads") or config.get("num_kv_heads") or (1 if config.get("multi_query") else heads)
    result, rounded = {}, {}
    for name, (dtype, array) in tensors.items():
        if dtype == "MXFP4":  # bytes of blocks, which stay as they are
            number, full = BLOCKS[dtype].number, named(config, name)[1]
            result[full] = (number, (*array.shape[:-2], array.shape[-2] * BLOCKS[dtype].elements), array.tobytes())
            continue
        array = np.asarray(array, np.float64)
        rounded[name] = (dtype, array)
        found = named(config, name)
        if not found:
            continue  # buffers, heads that llama.cpp does not take
        own, full, in_block = found
        turned = architecture == "gpt2" and in_block and array.ndim == 2
        if turned:
            array = array.T
        used = kind if array.ndim > 1 and not (way and (own in way.ALWAYS_FULL or full.endswith(".bias"))) else "F32"
        if used in BLOCKS and array.shape[-1] % BLOCKS[used].elements:
            used = "F16"
        assert used not in BLOCKS or name in given, f"{name}: no rounded form of what was several tensors"
        if used in BLOCKS:  # rows are rounded by themselves, whatever their order
            array = BLOCKS[used].decode(quantise_q8_0(array)).astype(np.float64).reshape(array.shape)
            rounded[name] = ("F32", array.T if turned else array)
        if architecture in PERMUTED and own in ("attn_q", "attn_k"):
            array = pairs_of_halves(array, heads if own == "attn_q" else key_heads)
        if architecture in ("gptneox", "bloom", "falcon") and own == "attn_qkv":
            array = parts_of_groups(array, heads, key_heads if architecture == "falcon" else heads)
        if architecture in ("gemma", "gemma2", "gemma3", "nemotron") and full.endswith("_norm.weight"):
            array = array + 1
        result[full] = (BLOCKS[used].number if used in BLOCKS else PLAIN[used][0], array.shape, encode(used, array))
    return result, given | {n: t for n, t in rounded.items() if n in given} if way else rounded


def spm_tokens(text, vocab, scores, unknown):
    """SentencePiece's rule by trying all pairs: the highest score becomes one, the leftmost of equals."""
    parts = list(text)
    while True:
        pairs = [(-scores[vocab[a + b]], i) for i, (a, b) in enumerate(zip(parts, parts[1:])) if a + b in vocab]
        if not pairs:
            break
        _, i = min(pairs)
        parts[i:i + 2] = [parts[i] + parts[i + 1]]
    ids = []
    for part in parts:
        if part in vocab:
            ids.append(vocab[part])
        elif all(f"<0x{b:02X}>" in vocab for b in part.encode()):
            ids += [vocab[f"<0x{b:02X}>"] for b in part.encode()]
        else:
            ids.append(unknown)
    return ids


def words(path, prefix, seed):
    rng = np.random.default_rng(seed)
    pieces, types = ["<unk>", "<s>", "</s>"], [2, 3, 3]
    pieces += [f"<0x{b:02X}>" for b in range(256)]
    types += [6] * 256
    pieces.append("\n\n")  # by itself a token, whatever stands beside it
    types.append(4)
    letters = list("\u2581abc\u00e9\u4f60")
    pieces += letters
    while len(pieces) < 420:
        word = "".join(rng.choice(pieces[260:], 2))
        if word not in pieces and len(word) < 9:
            pieces.append(word)
    types += [1] * (len(pieces) - len(types))
    scores = [0.0] * 260 + [float(F32(-x)) for x in np.round(rng.uniform(0, 30, len(pieces) - 260))]
    vocab = {p: i for i, p in enumerate(pieces)}
    write(path, {"general.architecture": "llama", "tokenizer.ggml.model": "llama", "tokenizer.ggml.pre": "default",
                 "tokenizer.ggml.tokens": pieces, "tokenizer.ggml.scores": scores, "tokenizer.ggml.token_type": types,
                 "tokenizer.ggml.bos_token_id": U32(1), "tokenizer.ggml.eos_token_id": U32(2),
                 "tokenizer.ggml.unknown_token_id": U32(0), "tokenizer.ggml.add_space_prefix": prefix}, {})
    texts = ["a", " a", "abc  cba", "a\n\nb", "\u00e9\u4f60 z \U0001f600", "</s>ab<s> c"]
    texts += ["".join(rng.choice(list("abc \u00e9\u4f60zq"), 40)) for _ in range(40)]
    merged = [i for i, t in enumerate(types) if t == 1]
    known = {pieces[i]: i for i in merged} | {p: i for p, i in vocab.items() if types[i] == 6}
    result = []
    for text in texts:
        ids = [1]
        for part in re.split(r"(\n\n|<s>|</s>|<unk>)", text):
            if part in ("\n\n", "<s>", "</s>", "<unk>"):
                ids.append(vocab[part])
            elif part:
                ids += spm_tokens(((" " if prefix else "") + part).replace(" ", "\u2581"), known, scores, 0)
        result.append({"text": text, "ids": ids})
    print(json.dumps(result))


def sparse(path, size):
    """Two shards whose numbers are not there."""
    rows = size // 4 // 4096 // 2
    for i in range(2):
        keys = {"split.no": U32(i), "split.count": U32(2), "split.tensors.count": 2}
        if i == 0:
            keys |= {"general.architecture": "llama", "llama.attention.head_count": U32(32),
                     "tokenizer.ggml.tokens": [f"piece{n}" for n in range(128000)]}
        shard = path.replace(".gguf", f"-{i + 1:05d}-of-00002.gguf")
        write(shard, keys, {f"blk.{i}.ffn_up.weight": (0, (rows, 4096), b"")})
        with open(shard, "r+b") as file:
            file.truncate(os.path.getsize(shard) + rows * 4096 * 4)


def tiny(path):
    """A layer and a tokenizer small enough to be damaged thousands of times, and every type of blocks."""
    rng = np.random.default_rng(7)
    d, heads = 32, 2
    pieces = ["<s>", "</s>", *sorted(byte_characters())[:5], ""]
    keys = {"general.architecture": "llama", "llama.block_count": U32(1), "llama.embedding_length": U32(d),
            "llama.attention.head_count": U32(heads), "llama.attention.head_count_kv": [1],
            "llama.attention.layer_norm_rms_epsilon": 1e-5, "llama.rope.freq_base": 1e4, "llama.context_length": 64,
            "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "llama-bpe", "tokenizer.ggml.tokens": pieces,
            "tokenizer.ggml.token_type": [3, 3] + [1] * (len(pieces) - 2), "tokenizer.ggml.merges": ["! \""],
            "tokenizer.ggml.bos_token_id": U32(0), "tokenizer.ggml.add_bos_token": True}
    keys["tokenizer.ggml.tokens"][-1] = "!\""
    tensors = {}
    def matrix(name, rows, columns, kind):
        if kind in BLOCKS:
            data = random_blocks(rng, kind, rows, columns // 32).tobytes()
        else:
            data = encode(kind, rng.standard_normal((rows, columns)))
        tensors[name] = (BLOCKS[kind].number if kind in BLOCKS else PLAIN[kind][0], (rows, columns), data)
    matrix("token_embd.weight", len(pieces), d, "F16")
    for name, rows in (("attn_q", d), ("attn_k", d // 2), ("attn_v", d // 2), ("attn_output", d), ("ffn_gate", d),
                       ("ffn_up", d), ("ffn_down", d)):
        matrix(f"blk.0.{name}.weight", rows, d, "Q4_0" if name != "attn_v" else "BF16")
    for name in ("blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"):
        tensors[f"{name}.weight"] = (0, (d,), encode("F32", 1 + 0.1 * rng.standard_normal(d)))
    for name, type_ in BLOCKS.items():
        tensors[f"extra.{name}"] = (type_.number, (1, type_.elements), random_blocks(rng, name, 1, 1).tobytes())
    write(path, keys, tensors)


def random_blocks(rng, name, rows, blocks):
    """Random bytes with finite scales; MXFP4's first two have the exponents 0 and 255."""
    type_ = BLOCKS[name]
    data = rng.integers(0, 256, (rows * blocks, type_.bytes), dtype=np.uint8)
    for at in type_.halves:
        scales = rng.standard_normal(len(data)).astype(np.float16)
        scales[:2] = np.array([6e-8, 0], np.float16)[:len(scales[:2])]  # the smallest half, and none
        data[:, at:at + 2] = scales[:, None].view(np.uint8)
    if name == "MXFP4":
        data[:2, 0] = [0, 255][:len(data)]
        data[2:3, 0] = 1
    return data


def main():
    parser = argparse.ArgumentParser()
    verbs = parser.add_subparsers(dest="verb", required=True)
    model = verbs.add_parser("model")
    model.add_argument("folder")
    model.add_argument("out")
    model.add_argument("type", nargs="?", default="F32")
    model.add_argument("--shards", type=int, default=1)
    model.add_argument("--rounded")
    model.add_argument("--kv-b", action="store_true")
    types = verbs.add_parser("types")
    types.add_argument("out")
    types.add_argument("expected")
    word = verbs.add_parser("words")
    word.add_argument("out")
    word.add_argument("--no-prefix", action="store_true")
    for verb in (types, word):
        verb.add_argument("--seed", type=int, default=0)
    empty = verbs.add_parser("sparse")
    empty.add_argument("out")
    empty.add_argument("bytes", type=int)
    verbs.add_parser("tiny").add_argument("out")
    args = parser.parse_args()
    if args.verb == "words":
        return words(args.out, not args.no_prefix, args.seed)
    if args.verb == "sparse":
        return sparse(args.out, args.bytes)
    if args.verb == "tiny":
        return tiny(args.out)
    if args.verb == "model":
        config, tensors = safetensors.read_folder(args.folder)
        written, rounded = convert(config, tensors, args.type, args.kv_b)
        keys = keys_of(config, MODELS[config["model_type"]][0], args.kv_b) | tokenizer_keys(args.folder, config)
        write_shards(args.out, keys, written | rope_tensors(config), args.shards)
        if args.rounded:
            os.makedirs(args.rounded)
            safetensors.write(os.path.join(args.rounded, "model.safetensors"), rounded)
            for name in ("config.json", "tokenizer.json"):
                if os.path.exists(os.path.join(args.folder, name)):
                    shutil.copy(os.path.join(args.folder, name), args.rounded)
        return
    rng = np.random.default_rng(args.seed)
    tensors, expected = {}, {}
    for name, type_ in BLOCKS.items():
        for i, (lead, blocks) in enumerate([((), 1), ((3,), 1), ((5, 3), 3), ((2, 1, 7), 2)]):
            rows = int(np.prod(lead, dtype=int))
            data = random_blocks(rng, name, rows, blocks)
            shape = (*lead, blocks * type_.elements)
            tensors[f"{name}.{i}"] = (type_.number, shape, data.tobytes())
            expected[f"{name}.{i}"] = type_.decode(data).reshape(shape)
    for name, (number, kind) in PLAIN.items():
        for i, shape in enumerate([(), (1,), (7, 3), (2, 3, 1, 5)]):
            array = np.asarray(rng.standard_normal(shape) * 50).astype(kind or "<f4")
            data = encode(name, array) if name == "BF16" else array.tobytes()
            tensors[f"{name}.{i}"] = (number, shape, data)
            expected[f"{name}.{i}"] = safetensors.decode("BF16", data, shape).astype("<f4") if name == "BF16" else array
    write(args.out, {"general.architecture": "none"}, tensors)
    np.savez(args.expected, **expected)


if __name__ == "__main__":
    main()
