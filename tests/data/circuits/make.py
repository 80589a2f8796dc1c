#!/usr/bin/python3
"""What `circuits` must say of data/bard-gpt2 and data/bard-llama, by NumPy on whole d_model × d_model
matrices: no factor, no shared key/value head, no rotation is taken from the program.

    /usr/bin/python3 tests/data/circuits/make.py
"""
import json
import os
import struct

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, "..", "..", "..", "data")


def load(folder):
    raw = open(os.path.join(DATA, folder, "model.safetensors"), "rb").read()
    size = struct.unpack("<Q", raw[:8])[0]
    tensors = {}
    for name, entry in json.loads(raw[8:8 + size]).items():
        if name == "__metadata__":
            continue
        first, last = entry["data_offsets"]
        part = raw[8 + size + first:8 + size + last]
        if entry["dtype"] == "BF16":
            numbers = (np.frombuffer(part, np.uint16).astype(np.uint32) << 16).view(np.float32)
        else:
            numbers = np.frombuffer(part, {"F32": np.float32, "F16": np.float16}[entry["dtype"]])
        tensors[name] = numbers.reshape(entry["shape"]).astype(np.float64)
    return tensors, json.load(open(os.path.join(DATA, folder, "config.json")))


def gpt2(t, config):
    """Layers of heads (W_q, W_k, W_v, W_o), W_E and W_U; x is centred, then multiplied by the gain."""
    top = "transformer." if "transformer.wte.weight" in t else ""
    d, heads = config["n_embd"], config["n_head"]
    d_k, centre = d // heads, np.eye(d) - 1 / d
    layers = []
    for n in range(config["n_layer"]):
        at = f"{top}h.{n}."
        W = centre @ np.diag(t[at + "ln_1.weight"]) @ t[at + "attn.c_attn.weight"]
        W_o = t[at + "attn.c_proj.weight"]
        cut = [slice(h * d_k, (h + 1) * d_k) for h in range(heads)]
        layers.append([(W[:, :d][:, c], W[:, d:2 * d][:, c], W[:, 2 * d:][:, c], W_o[c]) for c in cut])
    W_E = t[top + "wte.weight"]
    return layers, W_E, centre @ np.diag(t[top + "ln_f.weight"]) @ t.get("lm_head.weight", W_E).T


def llama(t, config, offset):
    heads, kv = config["num_attention_heads"], config["num_key_value_heads"]
    d_k = config.get("head_dim") or config["hidden_size"] // heads
    turn = np.zeros((d_k, d_k))  # q R: a query `offset` tokens behind its key
    for i in range(d_k // 2):
        angle, j = offset * config.get("rope_theta", 1e4) ** (-2 * i / d_k), i + d_k // 2
        turn[i, i] = turn[j, j] = np.cos(angle)
        turn[j, i], turn[i, j] = -np.sin(angle), np.sin(angle)
    layers = []
    for n in range(config["num_hidden_layers"]):
        at = f"model.layers.{n}."
        gain = np.diag(t[at + "input_layernorm.weight"])
        W_q, W_k, W_v, W_o = (t[f"{at}self_attn.{x}_proj.weight"].T for x in "qkvo")
        of = lambda W, h: gain @ W[:, h * d_k:(h + 1) * d_k]
        layers.append([(of(W_q, h) @ turn, of(W_k, h * kv // heads), of(W_v, h * kv // heads),
                        W_o[h * d_k:(h + 1) * d_k]) for h in range(heads)])
    W_E = t["model.embed_tokens.weight"]
    return layers, W_E, np.diag(t["model.norm.weight"]) @ t.get("lm_head.weight", W_E).T


def share(matrix):
    values = np.linalg.eigvals(matrix)
    return values.sum().real / np.abs(values).sum()


def rank(values):
    p = values / values.sum()
    p = p[p > 0]
    return float(np.exp(-(p * np.log(p)).sum()))


def measured(layers, W_E, W_U):
    heads, pairs, norm = [], [], np.linalg.norm
    for n, layer in enumerate(layers):
        for h, (q, k, v, o) in enumerate(layer):
            QK, OV, width = q @ k.T, v @ o, q.shape[1]
            qk, ov = (np.linalg.svd(m, compute_uv=False)[:width] for m in (QK, OV))
            values = sorted(np.abs(np.linalg.eigvals(OV)))[-width:][::-1]
            heads.append({"layer": n, "head": h, "qk_rank": rank(qk), "qk_max": qk[0],
                          "ov_rank": rank(ov), "ov_max": ov[0], "ov_positive": share(OV),
                          "copying": share(W_E @ OV @ W_U), "qk_singular_values": list(qk),
                          "ov_singular_values": list(ov), "ov_eigenvalue_sizes": values})
    for kind, of in {"q": lambda x: x[0] @ x[1].T, "k": lambda x: x[1] @ x[0].T, "v": lambda x: x[2] @ x[3]}.items():
        for n, layer in enumerate(layers):
            for h, earlier in enumerate(layer):
                A = earlier[2] @ earlier[3]
                for m in range(n + 1, len(layers)):
                    for g, later in enumerate(layers[m]):
                        B = of(later)
                        pairs.append(norm(A @ B) / norm(A) / norm(B))
    return {"heads": heads, "compositions": pairs}


for name, parts in {"bard-gpt2": gpt2(*load("bard-gpt2")), "bard-llama": llama(*load("bard-llama"), 3)}.items():
    with open(os.path.join(HERE, name + ".json"), "w") as file:
        json.dump(measured(*parts), file)
        file.write("\n")
