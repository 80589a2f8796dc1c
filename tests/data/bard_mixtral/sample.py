"""Text for data/bard-mixtral: drawn from data/bard-llama, which was trained on Shakespeare's plays.

The plays themselves are not in this repository. Here the larger model stands for them: token by token, float32,
keys and values kept.
"""
import os
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "models"))
from safetensors import read_folder  # noqa: E402

TEACHER = os.path.join(HERE, "..", "..", "..", "data", "bard-llama")
TEMPERATURE = 0.8
AT_ONCE = 1024  # texts


def rms(x, weight, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def turned(x, position, base):
    """Rotary position embedding of one token's heads: …, d_k, halves (0, n/2), (1, n/2 + 1), …"""
    half = x.shape[-1] // 2
    angle = (position * base ** (-np.arange(half) / half)).astype(np.float32)
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)], -1)


def drawn(logits, rng):
    """A token of every row by its probability, with Gumbel's trick."""
    uniform = rng.random(logits.shape, dtype=np.float32)
    return (logits / TEMPERATURE - np.log(-np.log(uniform + 1e-12) + 1e-12)).argmax(-1)


def some_texts(c, w, count, length, rng):
    d, H, K = c["hidden_size"], c["num_attention_heads"], c["num_key_value_heads"]
    d_k, L, eps, base = d // H, c["num_hidden_layers"], c["rms_norm_eps"], c["rope_theta"]
    ids = np.full((count, length), c["bos_token_id"], np.int64)
    keys = np.empty((L, count, K, d_k, length), np.float32)
    values = np.empty((L, count, K, length, d_k), np.float32)
    for t in range(length - 1):
        x = w["model.embed_tokens.weight"][ids[:, t]]
        for n in range(L):
            l = lambda name: w[f"model.layers.{n}.{name}.weight"]
            h = rms(x, l("input_layernorm"), eps)
            q, k, v = ((h @ l(f"self_attn.{name}_proj").T).reshape(count, -1, d_k) for name in "qkv")
            keys[n, ..., t], values[n, :, :, t] = turned(k, t, base), v
            q = turned(q, t, base).reshape(count, K, H // K, d_k)
            scores = q @ keys[n, ..., :t + 1] / np.float32(d_k ** 0.5)
            e = np.exp(scores - scores.max(-1, keepdims=True))
            z = e / e.sum(-1, keepdims=True) @ values[n, :, :, :t + 1]
            x = x + z.reshape(count, d) @ l("self_attn.o_proj").T
            h = rms(x, l("post_attention_layernorm"), eps)
            gate = h @ l("mlp.gate_proj").T
            x = x + (gate / (1 + np.exp(-gate)) * (h @ l("mlp.up_proj").T)) @ l("mlp.down_proj").T
        logits = rms(x, w["model.norm.weight"], eps) @ w["lm_head.weight"].T
        logits[:, [c["bos_token_id"], c["eos_token_id"]]] = -np.inf
        ids[:, t + 1] = drawn(logits, rng)
    return ids


def texts(count, length, seed):
    """count, length: each text begins with the token of the beginning."""
    config, tensors = read_folder(TEACHER)
    weights = {name: array.astype(np.float32) for name, (_, array) in tensors.items()}
    rng = np.random.default_rng(seed)
    return np.concatenate([some_texts(config, weights, min(AT_ONCE, count - done), length, rng)
                           for done in range(0, count, AT_ONCE)])
