#!/usr/bin/env python3
"""Layers under the names of libraries and tutorials, each computed as NumPy does in float64.

    /usr/bin/python3 tests/models/named.py PROGRAM

A row is a library: the names of its weights and how it stores them. Every size differs from every other. The order of
axes is proven by the shapes; where it is not, a warning names the other one. Then numbered heads, and names that stay
unknown: asked about in one line, which is right once it is copied.
"""
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile

import numpy as np

import safetensors
from unread import attention, write_torch

T, S, D, H, D_K, D_V, D_OUT = 5, 3, 10, 2, 4, 7, 9
RNG = np.random.default_rng(54)
PROGRAM, FINDS, RUNS = "", [], 0


def drawn(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


X, Y = drawn(T, D), drawn(S, D)
W = {"q": drawn(D, H * D_K), "k": drawn(D, H * D_K), "v": drawn(D, H * D_V), "o": drawn(H * D_V, D_OUT)}
B = {name: drawn(array.shape[1]) for name, array in W.items()}
NONE = {name: 0 * array for name, array in B.items()}


def expected(b, x=X, y=None, w=W):
    y = x if y is None else y
    return attention(x @ w["q"] + b["q"], y @ w["k"] + b["k"], y @ w["v"] + b["v"], H) @ w["o"].astype(np.float64) + b["o"]


def linear(names, weight=".weight", bias=".bias", turned=True):
    """nn.Linear's: (out, in)."""
    tensors = {}
    for letter, name in zip("qkvo", names.split()):
        tensors[name + weight] = W[letter].T if turned else W[letter]
        if bias:
            tensors[name + bias] = B[letter]
    return tensors


def by_heads(names, weight, bias):
    """Keras and Flax: (in, heads, width), and (heads, width, out) of the output."""
    tensors = {}
    for letter, name in zip("qkvo", names.split()):
        width = W[letter].shape[1] // H
        whole = W[letter].reshape(H, -1, D_OUT) if letter == "o" else W[letter].reshape(D, H, width)
        tensors[name + weight] = whole
        if bias:
            tensors[name + bias] = B[letter] if letter == "o" else B[letter].reshape(H, width)
    return tensors


def numbered(first, of="W_q W_k W_v", turned=False):
    tensors = {}
    for letter, name in zip("qkv", of.split()):
        for h, part in enumerate(np.split(W[letter], H, axis=1)):
            tensors[name.replace("#", str(h + first)) if "#" in name else f"{name}{h + first}"] = part.T if turned else part
    return tensors


KERAS = list(by_heads("q k v o", ".w", ".b").values())
LIBRARIES = {
    # what: (tensors, the biases are there)
    "Keras 3, .weights.h5": (by_heads("query_dense key_dense value_dense output_dense", "/vars/0", "/vars/1"), B),
    "Keras 3, paths": (by_heads("mha/query mha/key mha/value mha/attention_output", "/kernel", "/bias"), B),
    "get_weights()": ({f"arr_{i}": a for i, a in enumerate(KERAS)}, B),
    "get_weights() without biases": ({f"arr_{i}": a for i, a in enumerate(KERAS[::2])}, NONE),
    "MLX": (linear("query_proj key_proj value_proj out_proj"), B),
    "MLX without biases": (linear("query_proj key_proj value_proj out_proj", bias=""), NONE),
    "Equinox": (linear("query_proj key_proj value_proj output_proj"), B),
    "Haiku": (linear("mha/query mha/key mha/value mha/linear", "/w", "/b", turned=False), B),
    "Haiku of AlphaFold": (by_heads("query key value output", "_w", "") | {"output_b": B["o"]}, NONE | {"o": B["o"]}),
    "diffusers": ({k: a for k, a in linear("to_q to_k to_v to_out.0").items() if k.endswith("weight") or "out" in k},
                  NONE | {"o": B["o"]}),
    "ESPnet": (linear("linear_q linear_k linear_v linear_out"), B),
    "OpenFold": (linear("linear_q linear_k linear_v linear_o"), B),
    "nn.Linear W_q": (linear("W_q W_k W_v W_o"), B),
    "nn.Linear w_q, fused output": (linear("attn.w_q attn.w_k attn.w_v attn.w_concat"), B),
    "nn.Linear W_query": (linear("W_query W_key W_value out_proj"), B),
    "nn.Linear w_qs": (linear("slf_attn.w_qs slf_attn.w_ks slf_attn.w_vs slf_attn.fc", bias=""), NONE),
    "nn.Linear q_linear": (linear("q_linear k_linear v_linear out"), B),
    "nn.Linear queries": (linear("queries keys values fc_out"), B),
    "nn.Linear query": (linear("query key value fc_out"), B),
    "modules of heads": (numbered(0, "sa.heads.#.query.weight sa.heads.#.key.weight sa.heads.#.value.weight", True)
                         | {"sa.proj.weight": W["o"].T, "sa.proj.bias": B["o"]}, NONE | {"o": B["o"]}),
    "modules of heads, short": (numbered(0, "heads.#.q.weight heads.#.k.weight heads.#.v.weight", True)
                                | {"proj.weight": W["o"].T}, NONE),
    "numbered heads from 1": (numbered(1) | {"W_o": W["o"]}, NONE),
    "numbered heads from 0, (out, in)": (numbered(0, "W_q_ Wk W_V", True) | {"W_o": W["o"]}, NONE),
    "numbered heads with biases": (numbered(1) | {f"b_{n}{h + 1}": part for n in "qkv" for h, part in
                                                  enumerate(np.split(B[n], H))} | {"W_o": W["o"], "b_o": B["o"]}, B),
    "numbered outputs": (numbered(1) | {f"W_o{h + 1}": part for h, part in enumerate(np.split(W["o"], H))}, NONE),
}


def start(folder, *words):
    global RUNS
    RUNS += 1
    done = subprocess.run([PROGRAM, *words], cwd=folder, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def find(what, *said):
    FINDS.append(f"{what}: " + " ".join(str(one) for one in said))


def output(what, folder, words, right, says=""):
    code, out, err = start(folder, "show", *words, "-s", "output", "-f", "json")
    if code:
        return find(what, words, code, err)
    said = np.array(json.loads(out)["output"]["data"])
    if said.shape != right.shape or not np.allclose(said, right, rtol=1e-4, atol=1e-4):
        find(what, words, "other numbers", said.shape, right.shape)
    if says not in err or (not says and "warning: " in err):
        find(what, "says", err, "expected", says)


def refused(what, folder, words, *said):
    code, _, err = start(folder, "show", *words)
    errors = [line for line in err.splitlines() if line.startswith("mha-inspect: ")]
    if code != 2 or len(errors) != 1 or not all(one in errors[0] for one in said):
        find(what, words, code, err, "expected", said)


def libraries(folder):
    heads = ["--num-heads", str(H)]
    np.save(os.path.join(folder, "x.npy"), X)
    for what, (tensors, b) in LIBRARIES.items():
        split = any(word in what for word in ("heads", "Keras", "get_", "AlphaFold", "outputs"))
        for name in ("a.npz", "a.safetensors", "a.pt"):
            path = os.path.join(folder, name)
            if name == "a.npz":
                np.savez(path, **tensors)
            elif name == "a.pt":
                write_torch(path, tensors)
            else:
                safetensors.write(path, {n: ("F32", a) for n, a in tensors.items()})
            output(f"{what}, {name}", folder, ["X=x.npy", name, *([] if split else heads)], expected(b))
        if split and "get_" not in what:
            refused(f"{what}, other heads", folder, ["X=x.npy", "a.npz", "--num-heads", "7"], "7")
    with open(os.path.join(folder, "weights.json"), "w") as file:
        json.dump([a.tolist() for a in KERAS], file)
    output("get_weights() as JSON", folder, ["X=x.npy", "weights.json"], expected(B), "")


def orders(folder):
    """What shapes do not prove is asked; what they contradict is an error."""
    square = {n: drawn(D, D) for n in "qkvo"}
    b = {n: drawn(D) for n in "qkvo"}
    np.save(os.path.join(folder, "x.npy"), X)
    tensors = {f"{name}.{part}": array for letter, name in zip("qkvo", "query key value output".split())
               for part, array in (("weight", square[letter]), ("bias", b[letter]))}
    right = {"in, out": expected(b, w=square), "out, in": expected(b, w={n: a.T for n, a in square.items()})}
    np.savez(os.path.join(folder, "square.npz"), **tensors)
    write_torch(os.path.join(folder, "square.pt"), tensors)
    heads = ["--num-heads", str(H)]
    output("square, asked", folder, ["X=x.npy", "square.npz", *heads], right["out, in"], "--naming burn")
    output("square, PyTorch's", folder, ["X=x.npy", "square.pt", *heads], right["out, in"])
    output("square, burn's", folder, ["X=x.npy", "square.npz", "--naming", "burn", *heads], right["in, out"])
    for what, names in (("MLX", "query_proj key_proj value_proj out_proj"), ("Haiku", "query key value linear")):
        turned = what == "Haiku"  # the other way round
        np.savez(os.path.join(folder, "turned.npz"), **linear(names, ".w" if turned else ".weight", "", turned))
        refused(f"{what}, the other order", folder, ["X=x.npy", "turned.npz", *heads], "has 10 columns")


def pooling(folder):
    """timm's: learned queries, keys and values in one; CLIP's: the queries are the mean's."""
    latent, square = drawn(1, 2, D), {n: drawn(D, D) for n in "qkvo"}
    b = {n: drawn(D) for n in "qkvo"}
    np.save(os.path.join(folder, "y.npy"), Y)
    kv = np.concatenate([square["k"], square["v"]]), np.concatenate([b["k"], b["v"]])
    pool = {"attn_pool.latent": latent, "attn_pool.q.weight": square["q"], "attn_pool.q.bias": b["q"],
            "attn_pool.kv.weight": kv[0], "attn_pool.kv.bias": kv[1], "attn_pool.proj.weight": square["o"],
            "attn_pool.proj.bias": b["o"]}
    np.savez(os.path.join(folder, "pool.npz"), **pool)
    right = expected(b, latent[0], Y, {n: a.T for n, a in square.items()})
    output("timm's pool", folder, ["X_kv=y.npy", "pool.npz", "--num-heads", str(H)], right)
    np.savez(os.path.join(folder, "norm.npz"), **pool, **{"attn_pool.q_norm.weight": drawn(D // H)})
    refused("timm's pool with a norm", folder, ["X_kv=y.npy", "norm.npz", "--num-heads", str(H)], "normalisation of queries")
    clip = linear("attnpool.q_proj attnpool.k_proj attnpool.v_proj attnpool.c_proj")
    np.savez(os.path.join(folder, "clip.npz"), **clip, **{"attnpool.positional_embedding": drawn(T, D)})
    np.save(os.path.join(folder, "mean.npy"), X[:1])
    output("CLIP's pool", folder, ["X=mean.npy", "X_kv=y.npy", "clip.npz", "--num-heads", str(H)], expected(B, X[:1], Y))


def not_computed(folder):
    for what, names, more, says in (
            ("OpenFold's gate", "linear_q linear_k linear_v linear_o", {"linear_g.weight": drawn(H * D_V, D)}, "gate"),
            ("ESPnet's positions", "linear_q linear_k linear_v linear_out", {"linear_pos.weight": drawn(D, D)}, "positions"),
            ("diffusers' norm", "to_q to_k to_v to_out.0", {"norm_q.weight": drawn(D_K)}, "normalisation of queries")):
        np.savez(os.path.join(folder, "more.npz"), **linear(names), **more)
        refused(what, folder, ["X=x.npy", "more.npz", "--num-heads", str(H)], says)


def unknown(folder):
    """Numbered layers of unknown names: the bindings of one layer in a line, right once it is copied."""
    layers = {f"net.{n}.mix.{name}": W[letter].T * (n + 1) for n in (0, 1) for letter, name in zip("qkvo", "ask tell give join".split())}
    layers |= {f"net.{n}.mix.{name}.bias": drawn(3) for n in (0, 1) for name in ("ask", "tell")}
    np.savez(os.path.join(folder, "unknown.npz"), **layers)
    for words in (["X=x.npy", "unknown.npz"], ["X=x.npy", "unknown.npz", "--num-heads", str(H)]):
        code, _, err = start(folder, "show", *words)
        line = re.search(r"write (.*?)(?: \(with @OI|; W_)", err)
        if code != 2 or not line:
            find("unknown layers", words, code, err)
            continue
        output("unknown layers, copied", folder, ["X=x.npy", *shlex.split(line[1]), "--num-heads", str(H)], expected(NONE))


def main():
    global PROGRAM
    PROGRAM = os.path.abspath(sys.argv[1])
    for part in (libraries, orders, pooling, not_computed, unknown):
        with tempfile.TemporaryDirectory() as folder:
            np.save(os.path.join(folder, "x.npy"), X)
            part(folder)
    for one in FINDS:
        print(one)
    print(f"{RUNS} runs, {len(FINDS)} finds")
    sys.exit(1 if FINDS else 0)


if __name__ == "__main__":
    main()
