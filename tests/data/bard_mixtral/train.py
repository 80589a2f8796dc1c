#!/usr/bin/python3
"""Trains data/bard-mixtral, a mixture of experts with Mixtral's architecture, in NumPy: every derivative by hand.

    /usr/bin/python3 tests/data/bard_mixtral/train.py --check
    /usr/bin/python3 tests/data/bard_mixtral/train.py [--report] [--out FOLDER] [--minutes 10.5] [--texts FILE.npy]

--check compares the derivatives with finite differences in float64. --report trains nothing, and does the rest for the
model that is there. --texts is read if it is there, else written: drawing the text (sample.py) takes minutes. Beside the
checkpoint, expected/ gets what tests/models' forward pass, which has nothing in common with the one here, computes from the
stored weights.

The training's length is a time, so that another run gives other weights. Those that are stored are of about 6800 steps, on
one thread of OpenBLAS (libopenblas0-pthread): its products are twenty times as fast as those of Debian's plain BLAS.

B texts of T tokens are computed at once; N = B·T of them in a mixture. d = d_model, H query heads, K key and value heads,
d_k a head's width, E experts of width I, V tokens in the vocabulary. Weights have Hugging Face's names and are (out, in).
"""
import argparse
import json
import os
import shutil
import time

import numpy as np

import sample  # puts tests/models on the path
import safetensors
from forward import run
from make import all_settled
from write import load, write_folder

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, "..", "..", "..", "data")

CONFIG = {
    "model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "hidden_size": 64, "intermediate_size": 48,
    "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2, "num_local_experts": 8,
    "num_experts_per_tok": 2, "max_position_embeddings": 256, "vocab_size": 1024, "hidden_act": "silu",
    "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "sliding_window": None, "attention_dropout": 0.0,
    "output_router_logits": False, "router_aux_loss_coef": 0.02, "tie_word_embeddings": True,
    "bos_token_id": 0, "eos_token_id": 1, "torch_dtype": "bfloat16"}
TINY = CONFIG | {"hidden_size": 16, "intermediate_size": 6, "vocab_size": 29, "num_local_experts": 5}

LENGTH, BATCH = 64, 16
RATE, WARMUP, LAST = 4e-3, 200, 0.03      # Adam's, the steps until it is reached, the part of it that is left at the end
TEXTS, HELD_OUT, DRAWN = 12288, 512, 128  # texts drawn for training and to measure by, and their tokens
EXAMPLE = "line"                          # the text of data/bard-llama/expected whose stages are kept


# Weights -------------------------------------------------------------------------------------

def shapes(c):
    d, I, d_k = c["hidden_size"], c["intermediate_size"], c["hidden_size"] // c["num_attention_heads"]
    H, K = c["num_attention_heads"], c["num_key_value_heads"]
    yield "model.embed_tokens.weight", (c["vocab_size"], d)
    for n in range(c["num_hidden_layers"]):
        at = f"model.layers.{n}."
        yield at + "input_layernorm.weight", (d,)
        for x, rows in (("q", H), ("k", K), ("v", K)):
            yield f"{at}self_attn.{x}_proj.weight", (rows * d_k, d)
        yield at + "self_attn.o_proj.weight", (d, H * d_k)
        yield at + "post_attention_layernorm.weight", (d,)
        yield at + "block_sparse_moe.gate.weight", (c["num_local_experts"], d)
        for e in range(c["num_local_experts"]):
            for x, shape in (("w1", (I, d)), ("w2", (d, I)), ("w3", (I, d))):
                yield f"{at}block_sparse_moe.experts.{e}.{x}.weight", shape
    yield "model.norm.weight", (d,)


def zeros(c, dtype):
    """All weights in one row of numbers, and each by name, a part of it."""
    sizes = {name: int(np.prod(shape)) for name, shape in shapes(c)}
    row, w, place = np.zeros(sum(sizes.values()), dtype), {}, 0
    for name, shape in shapes(c):
        w[name] = row[place:place + sizes[name]].reshape(shape)
        place += sizes[name]
    return row, w


def first_weights(c, rng, dtype):
    """Gains are 1; maps to the residual stream start small."""
    row, w = zeros(c, dtype)
    for name, array in w.items():
        scale = 0.06 if "embed" in name else array.shape[-1] ** -0.5 * (0.5 if ".w2." in name or "o_proj" in name else 1)
        array[:] = 1 if array.ndim == 1 else scale * rng.standard_normal(array.shape)
    return row, w


# Steps, each with its derivative -------------------------------------------------------------
# A step returns its result and a function: the derivative by the result -> the derivative by the step's input. Derivatives
# by weights are added to `g` on the way.

def linear(w, g, name, x):
    def back(dy):
        g[name] += dy.reshape(-1, dy.shape[-1]).T @ x.reshape(-1, x.shape[-1])
        return dy @ w[name]
    return x @ w[name].T, back


def rms_norm(w, g, name, eps, x):
    r = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + x.dtype.type(eps))
    unit = x * r

    def back(dy):
        g[name] += (dy * unit).reshape(-1, x.shape[-1]).sum(0)
        du = dy * w[name]
        return r * (du - unit * (du * unit).mean(-1, keepdims=True))
    return unit * w[name], back


def softmax(x):
    y = x - x.max(-1, keepdims=True)
    np.exp(y, out=y)
    y /= y.sum(-1, keepdims=True)
    return y


def softmax_back(p, dp):
    return p * (dp - (dp * p).sum(-1, keepdims=True))


def rotate(x, base, direction=1):
    """B, H, T, d_k. The derivative turns back."""
    half = x.shape[-1] // 2
    angle = np.arange(x.shape[-2])[:, None] * base ** (-np.arange(half) / half)
    cos, sin = np.cos(angle).astype(x.dtype), direction * np.sin(angle).astype(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cos - b * sin, a * sin + b * cos], -1)


def attention(c, w, g, at, x):
    B, T, d = x.shape
    H, K, base = c["num_attention_heads"], c["num_key_value_heads"], c["rope_theta"]
    d_k, scale = d // H, x.dtype.type((d // H) ** -0.5)
    maps = [linear(w, g, f"{at}{name}_proj.weight", x) for name in "qkv"]
    q, k, v = (y.reshape(B, T, -1, d_k).swapaxes(1, 2) for y, _ in maps)
    q, k = rotate(q, base), rotate(k, base)
    of_group = lambda y: np.repeat(y, H // K, axis=1)  # query head h reads key head h // (H / K)
    summed = lambda y: y.reshape(B, K, H // K, T, d_k).sum(2)
    k, v = of_group(k), of_group(v)
    hidden = np.triu(np.full((T, T), -np.inf, x.dtype), 1)
    p = softmax(scale * (q @ k.swapaxes(-1, -2)) + hidden)
    merged = lambda y: y.swapaxes(1, 2).reshape(B, T, -1)
    out, o_back = linear(w, g, at + "o_proj.weight", merged(p @ v))

    def back(dy):
        dz = o_back(dy).reshape(B, T, H, d_k).swapaxes(1, 2)
        ds = scale * softmax_back(p, dz @ v.swapaxes(-1, -2))
        dq, dk = rotate(ds @ k, base, -1), rotate(summed(ds.swapaxes(-1, -2) @ q), base, -1)
        dv = summed(p.swapaxes(-1, -2) @ dz)
        return sum(b(merged(dy)) for (_, b), dy in zip(maps, (dq, dk, dv)))
    return out, back


def expert(w, g, at, x):
    """SwiGLU: w2 (silu(w1 x) · w3 x)"""
    (gate, gate_back), (up, up_back) = linear(w, g, at + "w1.weight", x), linear(w, g, at + "w3.weight", x)
    s = 1 / (1 + np.exp(-gate))
    out, out_back = linear(w, g, at + "w2.weight", gate * s * up)

    def back(dy):
        da = out_back(dy)
        return gate_back(da * up * (s + gate * s * (1 - s))) + up_back(da * gate * s)
    return out, back


def mixture(c, w, g, at, x):
    """Also the balance: E Σ_e (part of the choices that fell on e) · (mean of e's probability), 1 where all are used alike;
    and which experts were chosen."""
    E, n = c["num_local_experts"], c["num_experts_per_tok"]
    flat = x.reshape(-1, x.shape[-1])
    N, token = len(flat), np.arange(len(flat))[:, None]
    logits, gate_back = linear(w, g, at + "gate.weight", flat)
    p = softmax(logits)
    chosen = np.argsort(-p, -1, kind="stable")[:, :n]
    kept = p[token, chosen]
    total = kept.sum(-1, keepdims=True)
    weights = kept / total
    out, backs = np.zeros_like(flat), []
    for e in range(E):
        rows, place = np.nonzero(chosen == e)  # a token chooses an expert once
        y, back_of = expert(w, g, f"{at}experts.{e}.", flat[rows])
        out[rows] += weights[rows, place, None] * y
        backs.append((rows, place, y, back_of))
    used = np.bincount(chosen.ravel(), minlength=E) / (N * n)
    balance = E * (used * p.mean(0)).sum()

    def back(dy, of_balance):
        dy = dy.reshape(flat.shape)
        dx, dweights = np.zeros_like(flat), np.zeros_like(weights)
        for rows, place, y, back_of in backs:
            dweights[rows, place] = (dy[rows] * y).sum(-1)
            dx[rows] += back_of(weights[rows, place, None] * dy[rows])
        dp = np.tile((of_balance * E / N * used).astype(flat.dtype), (N, 1))
        dp[token, chosen] += (dweights - (dweights * weights).sum(-1, keepdims=True)) / total
        return (dx + gate_back(softmax_back(p, dp))).reshape(x.shape)
    return out.reshape(x.shape), back, balance, chosen


def losses(c, w, g, ids, following):
    """Cross entropy of the tokens that follow, the layers' mean balance, the experts chosen in each layer. Adds to g the
    derivatives of the first plus router_aux_loss_coef times the second, unless g is None."""
    grads = {} if g is None else g
    eps, L, backs, balances, choices = c["rms_norm_eps"], c["num_hidden_layers"], [], [], []
    table = w["model.embed_tokens.weight"]
    x = table[ids]
    for n in range(L):
        at = f"model.layers.{n}."
        h, norm_back = rms_norm(w, grads, at + "input_layernorm.weight", eps, x)
        y, attention_back = attention(c, w, grads, at + "self_attn.", h)
        x = x + y
        h, second_back = rms_norm(w, grads, at + "post_attention_layernorm.weight", eps, x)
        y, mixture_back, balance, chosen = mixture(c, w, grads, at + "block_sparse_moe.", h)
        x = x + y
        backs.append((norm_back, attention_back, second_back, mixture_back))
        balances.append(balance)
        choices.append(chosen.reshape(*ids.shape, -1))
    h, last_back = rms_norm(w, grads, "model.norm.weight", eps, x)
    logits, head_back = linear(w, grads, "model.embed_tokens.weight", h)
    p = softmax(logits.reshape(-1, len(table)))
    row, N = np.arange(len(p)), len(p)
    entropy = -np.log(p[row, following.ravel()]).mean()
    if g is not None:
        p[row, following.ravel()] -= 1
        p /= N
        dx = last_back(head_back(p.reshape(logits.shape)))
        for norm_back, attention_back, second_back, mixture_back in reversed(backs):
            dx = dx + second_back(mixture_back(dx, c["router_aux_loss_coef"] / L))
            dx = dx + norm_back(attention_back(dx))
        np.add.at(g["model.embed_tokens.weight"], ids, dx)
    return entropy, np.mean(balances), choices


def check():
    """The largest difference of a derivative from (f(w + h) - f(w - h)) / 2h, relative to the weight tensor's largest."""
    rng = np.random.default_rng(0)
    row, w = first_weights(TINY, rng, np.float64)
    row += 0.2 * rng.standard_normal(len(row))  # no gain of 1, no small map
    ids = rng.integers(0, TINY["vocab_size"], (3, 8))
    value = lambda: np.dot(losses(TINY, w, None, ids[:, :-1], ids[:, 1:])[:2], [1, TINY["router_aux_loss_coef"]])
    (_, g), worst, step = zeros(TINY, np.float64), 0.0, 1e-6
    losses(TINY, w, g, ids[:, :-1], ids[:, 1:])
    for name, array in w.items():
        found = np.empty(min(12, array.size))
        places = rng.choice(array.size, len(found), replace=False)
        for i, place in enumerate(places):
            was = array.flat[place]
            array.flat[place] = was + step
            above = value()
            array.flat[place] = was - step
            found[i] = (above - value()) / (2 * step)
            array.flat[place] = was
        error = np.abs(found - g[name].flat[places]).max() / max(np.abs(g[name]).max(), 1e-3)
        worst = max(worst, error)
        if error > 1e-6:
            print(f"{name}: {error:.1e}")
    print(f"derivatives of {len(w)} weights: largest error {worst:.1e}")
    return 0 if worst < 1e-6 else 1


# Training ------------------------------------------------------------------------------------

def windows(texts, rng):
    """BATCH pieces of texts, each behind the token of the beginning: what is read, and what follows."""
    which, start = rng.integers(0, len(texts), BATCH), rng.integers(1, texts.shape[1] - LENGTH + 1, BATCH)
    pieces = texts[which[:, None], start[:, None] + np.arange(LENGTH)]
    return np.concatenate([np.full((BATCH, 1), CONFIG["bos_token_id"]), pieces[:, :-1]], 1), pieces


def rate(step, spent):
    """Spent: the part of the time that is over."""
    cosine = LAST + (1 - LAST) * (1 + np.cos(np.pi * min(spent, 1))) / 2
    return RATE * cosine * min(1, (step + 1) / WARMUP)


def train(texts, seconds, rng):
    row, w = first_weights(CONFIG, rng, np.float32)
    slope, g = zeros(CONFIG, np.float32)
    first, second, step, mean, start = np.zeros_like(row), np.zeros_like(row), 0, None, time.monotonic()
    while (spent := (time.monotonic() - start) / seconds) < 1:
        slope[:] = 0
        entropy, balance, _ = losses(CONFIG, w, g, *windows(texts, rng))
        slope *= min(1, 1 / float(np.sqrt(slope @ slope)))
        first += np.float32(0.1) * (slope - first)
        second += np.float32(0.02) * (slope * slope - second)
        now = rate(step, spent)
        step += 1
        by = np.sqrt(second * np.float32(1 / (1 - 0.98 ** step))) + np.float32(1e-8)
        row -= np.float32(now / (1 - 0.9 ** step)) * first / by
        mean = entropy if mean is None else mean + 0.02 * (entropy - mean)
        if step in (1, 10, 100) or step % 500 == 0:
            print(f"step {step:6d}  {time.monotonic() - start:5.0f} s  loss {mean:.3f}  balance {balance:.3f}", flush=True)
    return w


# What comes of it ----------------------------------------------------------------------------

def example():
    """Text and numbers of its tokens, as PyTorch's file of data/bard-llama has them: the tokenizer is the same."""
    base = os.path.join(DATA, "bard-llama", "expected", EXAMPLE)
    return base + ".txt", np.load(base + ".npz")["ids"]


def save(folder, w):
    write_folder(folder, CONFIG, {name: ("BF16", array) for name, array in w.items()})
    shutil.copy(os.path.join(DATA, "bard-llama", "tokenizer.json"), folder)


STAGES = {"resid_pre": "resid_pre", "weights": "weights", "output": "attn_out", "residual": "resid_mid"} | {
    x: x for x in ("router", "router_scores", "experts", "expert_weights", "mlp_out", "resid_post")}


def save_expected(folder):
    """Named as in data/bard-llama/expected, in float32; computed in float64."""
    os.makedirs(os.path.join(folder, "expected"), exist_ok=True)
    text, ids = example()
    model = load(folder)
    found = run(model, ids)
    if not all_settled(model, found):
        print("a token stands between two experts")
    kept = {"ids": ids} | {name: found[name].astype(np.float32) for name in ("embed", "logits")}
    for n in range(CONFIG["num_hidden_layers"]):
        for stage, name in STAGES.items():
            value = found[f"layers.{n}.{stage}"]
            kept[f"layers.{n}.{name}"] = value.astype(np.int64 if stage == "experts" else np.float32)
    np.savez_compressed(os.path.join(folder, "expected", EXAMPLE + ".npz"), **kept)
    shutil.copy(text, os.path.join(folder, "expected"))
    return found["loss"]


def report(folder, held_out):
    """What the stored model does on texts that it was not trained on."""
    words = {n: x.replace("Ġ", "_").replace("Ċ", "\\n") for x, n in json.load(
        open(os.path.join(folder, "tokenizer.json")))["model"]["vocab"].items()}
    w = {name: array.astype(np.float32) for name, (_, array) in safetensors.read_folder(folder)[1].items()}
    pieces, V = held_out[:, :LENGTH + 1], CONFIG["vocab_size"]
    parts = [losses(CONFIG, w, None, p[:, :-1], p[:, 1:]) for p in np.array_split(pieces, len(pieces) // 32)]
    counts = np.bincount(pieces[:, 1:].ravel(), minlength=V) / pieces[:, 1:].size
    print(f"held out: loss {np.mean([x[0] for x in parts]):.3f}, unigram entropy "
          f"{-(counts * np.log(np.where(counts, counts, 1))).sum():.3f}, balance {np.mean([x[1] for x in parts]):.3f}")
    read = pieces[:, :-1].ravel()
    often = np.bincount(read, minlength=V)
    for n in range(CONFIG["num_hidden_layers"]):
        chosen = np.concatenate([x[2][n] for x in parts]).reshape(len(read), -1)
        for e in range(CONFIG["num_local_experts"]):
            count, first = (np.bincount(read[mask], minlength=V) for mask in ((chosen == e).any(-1), chosen[:, 0] == e))
            surely = np.where(often >= 30, first / np.maximum(often, 1) + 1e-6 * often, 0)
            print(f"layer {n} expert {e}: {100 * count.sum() / chosen.size:4.1f} % of the choices, first of "
                  f"{100 * first.sum() / len(read):4.1f} % of the tokens\n    most often: "
                  + " ".join(words[i] for i in np.argsort(-first)[:10]) + "\n    first, of those met 30 times: "
                  + " ".join(f"{words[i]} {100 * first[i] // often[i]}%" for i in np.argsort(-surely)[:10]))


def main():
    parser = argparse.ArgumentParser(description="trains data/bard-mixtral")
    parser.add_argument("--check", action="store_true", help="compare the derivatives with finite differences")
    parser.add_argument("--out", default=os.path.join(DATA, "bard-mixtral"))
    parser.add_argument("--report", action="store_true", help="train nothing, describe the model that is there")
    parser.add_argument("--minutes", type=float, default=10.5)
    parser.add_argument("--texts", help=".npy of the drawn texts: read if it is there, else written")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if args.check:
        return check()
    if args.texts and os.path.exists(args.texts):
        texts = np.load(args.texts)
    else:
        texts = sample.texts(TEXTS + HELD_OUT, DRAWN, seed=1).astype(np.int16)
        if args.texts:
            np.save(args.texts, texts)
    texts = texts.astype(np.int64)
    if not args.report:
        save(args.out, train(texts[:-HELD_OUT], 60 * args.minutes, np.random.default_rng(args.seed)))
    print(f"{EXAMPLE}: loss {save_expected(args.out):.3f}")
    report(args.out, texts[-HELD_OUT:])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
