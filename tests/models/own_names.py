#!/usr/bin/env python3
"""Five models under names that no family knows, each with its description, and what it computes.

    /usr/bin/python3 tests/models/own_names.py OUTDIR

OUTDIR/NAME holds config.json, model.safetensors, naming.json (--naming) and expected.npz.
"""
import json
import os
import sys

import numpy as np

import safetensors
from forward import ACTIVATIONS, Attention, Block, FeedForward, Head, Linear, Model, Norm, Rope, identity, run

RNG = np.random.default_rng(30)


def stored(tensors):
    """As float32 holds them."""
    return {name: np.asarray(a).astype(np.float32).astype(np.float64) for name, a in tensors.items()}


def matrix(*shape, inputs):
    return 1.2 * RNG.standard_normal(shape) / inputs ** 0.5


def vector(*shape):
    return 0.3 * RNG.standard_normal(shape)


def gain(n):
    return 1 + vector(n)


def batch_norm(w, b, mean, var, eps):
    """In inference."""
    return lambda x: (x - mean) / np.sqrt(var + eps) * w + b


# Before attention a batch norm, before the feed-forward RMS; keys and values in one, each key/value head's together;
# a gate behind its factor, stored (in, out); rotary; an untied head with a bias.

PRE = {"model_type": "harbour", "width": 48, "query_heads": 6, "kv_heads": 2, "depth": 3, "turn": 500.0, "tiny": 1e-5}
PRE_NAMING = """{
 "title": "Harbour",
 "layers": "harbour.berth_{layer}.",
 "block": "pre",
 "activation": "silu",
 "norm": {"kind": "rms", "eps": "config:tiny", "one_plus": true},
 "embed": [{"table": "harbour.words", "scale": "sqrt_d_model"}],
 "tensors": {
  "norm": {"kind": "batch", "weight": "before.weight", "eps": 0.01, "one_plus": false},
  "W_q": {"name": "ask.weight", "bias": "ask.shift"},
  "W_kv": {"name": "tell.weight", "split": "v,k", "by": "head"},
  "W_o": {"name": "merge.weight", "layout": "io"},
  "mlp.norm": "between.gain",
  "mlp.in_up": {"name": "widen.kernel", "layout": "io", "split": "up,in"},
  "mlp.out": "narrow.weight"
 },
 "final_norm": "harbour.last.gain",
 "head": {"name": "speak.weight", "softcap": 20, "scale": 0.5},
 "settings": {"num_heads": "config:query_heads", "num_kv_heads": "config:kv_heads", "causal": true,
              "rope": ["half", "none", "half"], "rope_base": "config:turn", "window_left": [-1, 3, -1]},
 "ignore": ["harbour.berth_{layer}.clock", "optimizer.*"]
}
"""


def pre():
    c, d, f, V = PRE, 48, 40, 61
    H, K, k = c["query_heads"], c["kv_heads"], 8
    t = stored({"harbour.words": 0.2 * RNG.standard_normal((V, d)), "harbour.last.gain": vector(d),
         "speak.weight": matrix(V, d, inputs=d), "speak.bias": vector(V), "optimizer.step": np.zeros(1)})
    blocks = []
    rms = lambda w: Norm("rms", c["tiny"], 1 + w)
    for n in range(c["depth"]):
        own = {"before.weight": gain(d), "before.bias": vector(d), "before.running_mean": vector(d),
               "before.running_var": 0.5 + RNG.random(d), "ask.weight": matrix(H * k, d, inputs=d), "ask.shift": vector(H * k),
               "tell.weight": matrix(2 * K * k, d, inputs=d), "tell.bias": vector(2 * K * k),
               "merge.weight": matrix(H * k, d, inputs=H * k), "merge.bias": vector(d),
               "between.gain": vector(d), "widen.kernel": matrix(d, 2 * f, inputs=d), "widen.bias": vector(2 * f),
               "narrow.weight": matrix(d, f, inputs=f), "clock": np.zeros(3)}
        own = stored(own)
        t |= {f"harbour.berth_{n}.{name}": a for name, a in own.items()}
        tell, tell_b = own["tell.weight"].reshape(K, 2, k, d), own["tell.bias"].reshape(K, 2, k)
        of = lambda i: Linear(tell[:, i].reshape(K * k, d).T, tell_b[:, i].reshape(K * k))
        wide, wide_b = own["widen.kernel"], own["widen.bias"]
        slides = n == 1
        blocks.append(Block(
            "pre", Attention(Linear(own["ask.weight"].T, own["ask.shift"]), of(1), of(0),
                             Linear(own["merge.weight"], own["merge.bias"]), H, K, k ** -0.5, True,
                             4 if slides else None,
                             rope=None if slides else Rope(c["turn"] ** (-np.arange(0, k, 2) / k))),
            FeedForward(Linear(wide[:, f:], wide_b[f:]), Linear(own["narrow.weight"].T), ACTIVATIONS["silu"],
                        up=Linear(wide[:, :f], wide_b[:f])),
            n1=batch_norm(*(own[f"before.{x}"] for x in ("weight", "bias", "running_mean", "running_var")), 0.01), n2=rms(own["between.gain"])))
    head = Head(Linear(0.5 * t["speak.weight"].T, 0.5 * t["speak.bias"]), softcap=20.0)
    return c, t, PRE_NAMING, Model(lambda ids: t["harbour.words"][ids] * np.sqrt(d), blocks,
                                   rms(t["harbour.last.gain"]), head), RNG.integers(0, V, 11)


# Behind attention and feed-forward, batch norms; three tables, normed, then a map to the width; a
# matrix of each head; a tied head behind a dense map to the tables' width.

POST = {"model_type": "orchard", "rows": 4, "levels": 2, "kind": "gelu"}
POST_NAMING = """{
 "layers": "trees.{layer}.",
 "block": "post",
 "activation": "config:kind",
 "norm": {"kind": "batch", "eps": 0.001},
 "embed": [{"table": "seed.token"}, {"table": "seed.place", "by": "position", "first": 2},
           {"table": "seed.sort", "by": "type"},
           {"norm": {"kind": "layer", "weight": "seed.norm.gamma", "eps": 1e-12}},
           {"linear": "seed.grow.weight", "layout": "oi"}],
 "tensors": {
  "W_q": {"name": "branch.{head}.ask.weight", "layout": "oi"},
  "W_k": {"name": "branch.{head}.key.weight", "layout": "oi"},
  "W_v": {"name": "branch.{head}.value.weight", "layout": "oi"},
  "W_o": {"name": "join.weight", "layout": "oi", "bias": false},
  "norm": "bn1.weight",
  "mlp.in": {"name": "ff.0.weight", "layout": "oi"},
  "mlp.out": {"name": "ff.2.weight", "layout": "oi"},
  "mlp.norm": {"weight": "bn2.weight", "mean": "bn2.mu", "variance": "bn2.var"}
 },
 "head": {"tied": true, "bias": "fruit.bias", "dense": {"name": "fruit.dense.weight", "layout": "io"},
          "activation": "relu", "norm": {"kind": "layer", "affine": false}},
 "settings": {"num_heads": "config:rows"}
}
"""


def post():
    c, E, d, f, V, H, k = POST, 20, 36, 28, 53, 4, 9
    t = stored({"seed.token": 0.7 * RNG.standard_normal((V, E)), "seed.place": vector(1, 17, E), "seed.sort": vector(3, E),
         "seed.norm.gamma": gain(E), "seed.norm.beta": vector(E), "seed.grow.weight": matrix(d, E, inputs=E),
         "seed.grow.bias": vector(d), "fruit.bias": vector(V), "fruit.dense.weight": matrix(d, E, inputs=d),
         "fruit.dense.bias": vector(E)})

    blocks = []
    for n in range(c["levels"]):
        own = {"join.weight": matrix(d, H * k, inputs=H * k), "join.bias": vector(d),
               "ff.0.weight": matrix(f, d, inputs=d), "ff.0.bias": vector(f),
               "ff.2.weight": matrix(d, f, inputs=f), "ff.2.bias": vector(d)}
        for norm, mean, var in (("bn1", "running_mean", "running_var"), ("bn2", "mu", "var")):
            own |= {f"{norm}.weight": gain(d), f"{norm}.bias": vector(d), f"{norm}.{mean}": vector(d),
                    f"{norm}.{var}": 0.5 + RNG.random(d)}
        for h in range(H):
            for x in ("ask", "key", "value"):
                own[f"branch.{h}.{x}.weight"] = matrix(k, d, inputs=d)
                if x != "key":
                    own[f"branch.{h}.{x}.bias"] = vector(k)
        own = stored(own)
        t |= {f"trees.{n}.{name}": a for name, a in own.items()}
        of = lambda x: Linear(np.concatenate([own[f"branch.{h}.{x}.weight"].T for h in range(H)], -1),
                              np.concatenate([own.get(f"branch.{h}.{x}.bias", np.zeros(k)) for h in range(H)]))
        norms = [batch_norm(own[f"{b}.weight"], own[f"{b}.bias"], own[f"{b}.{m}"], own[f"{b}.{v}"], 0.001)
                 for b, m, v in (("bn1", "running_mean", "running_var"), ("bn2", "mu", "var"))]
        blocks.append(Block(
            "post", Attention(of("ask"), of("key"), of("value"), Linear(own["join.weight"].T), H, H, k ** -0.5, False),
            FeedForward(Linear(own["ff.0.weight"].T, own["ff.0.bias"]), Linear(own["ff.2.weight"].T, own["ff.2.bias"]),
                        ACTIVATIONS["gelu"]), n1=norms[0], n2=norms[1]))
    norm = Norm("layer", 1e-12, t["seed.norm.gamma"], t["seed.norm.beta"])

    def embed(ids):
        places = t["seed.place"][0][2 + np.arange(ids.shape[-1])]
        return norm(t["seed.token"][ids] + places + t["seed.sort"][0]) @ t["seed.grow.weight"].T + t["seed.grow.bias"]

    bare = Norm("layer", 0.001)
    dense = Linear(t["fruit.dense.weight"], t["fruit.dense.bias"])
    head = Head(Linear(t["seed.token"].T, t["fruit.bias"]), lambda x: bare(np.maximum(dense(x), 0)))
    return c, t, POST_NAMING, Model(embed, blocks, None, head, causal=False), RNG.integers(0, V, 13)


# One layer's weights four times; attention and feed-forward beside each other without norms; tokens
# mapped to the width, then positions; queries, keys and values of each head together.

SHARED = {"model_type": "wheel", "turns": 4, "spokes": 3}
SHARED_NAMING = """{
 "layers": "wheel.",
 "num_layers": "config:turns",
 "block": "parallel",
 "activation": "gelu_new",
 "embed": [{"table": "hub.weight"}, {"linear": "hub.out", "layout": "io"}, {"table": "road", "by": "position"}],
 "tensors": {
  "W_qkv": {"name": "pull.kernel", "layout": "io", "split": "k,v,q", "by": "head"},
  "W_o": "push.weight",
  "mlp.in": "grip.weight",
  "mlp.out": {"name": "slip.weight", "bias": "slip_offset"}
 },
 "final_norm": {"weight": "rim.weight", "kind": "layer"},
 "head": {"name": "bell.weight"},
 "settings": {"num_heads": {"config": "spokes_or_heads|spokes", "default": 9}, "causal": true, "scale": "none",
              "softcap": 6}
}
"""


def shared():
    c, E, d, f, V, H, k = SHARED, 14, 30, 22, 47, 3, 10
    t = stored({"hub.weight": RNG.standard_normal((V, E)), "hub.out": matrix(E, d, inputs=E), "road": vector(19, d),
         "wheel.pull.kernel": 0.6 * matrix(d, 3 * H * k, inputs=d), "wheel.pull.bias": vector(3 * H * k),
         "wheel.push.weight": 0.4 * matrix(d, H * k, inputs=d), "wheel.grip.weight": matrix(f, d, inputs=d),
         "wheel.grip.bias": vector(f), "wheel.slip.weight": 0.4 * matrix(d, f, inputs=f),
         "wheel.slip_offset": vector(d), "rim.weight": gain(d), "rim.bias": vector(d),
         "bell.weight": matrix(V, d, inputs=d)})
    pull, pull_b = t["wheel.pull.kernel"].reshape(d, H, 3, k), t["wheel.pull.bias"].reshape(H, 3, k)
    of = lambda i: Linear(pull[:, :, i].reshape(d, H * k), pull_b[:, i].reshape(H * k))
    block = Block("parallel",
                  Attention(of(2), of(0), of(1), Linear(t["wheel.push.weight"].T), H, H, 1.0, True, softcap=6.0),
                  FeedForward(Linear(t["wheel.grip.weight"].T, t["wheel.grip.bias"]),
                              Linear(t["wheel.slip.weight"].T, t["wheel.slip_offset"]), ACTIVATIONS["gelu_new"]),
                  n1=identity, n2=identity)
    embed = lambda ids: t["hub.weight"][ids] @ t["hub.out"] + t["road"][:ids.shape[-1]]
    return c, t, SHARED_NAMING, Model(embed, [block] * c["turns"], Norm("layer", 1e-5, t["rim.weight"], t["rim.bias"]),
                                      Head(Linear(t["bell.weight"].T))), RNG.integers(0, V, (2, 9))


# The wheel's positions computed: as Vaswani et al. have them, before the linear map; as fairseq has them, counted from 2.

def waves(step, rows, before):
    def make():
        c, t, naming, model, ids = shared()
        table, linear = '{"table": "road", "by": "position"}', '{"linear": "hub.out", "layout": "io"}'
        naming = naming.replace(f"{linear}, {table}", f"{step}, {linear}" if before else f"{linear}, {step}")
        words, out, T = t["hub.weight"], t["hub.out"], ids.shape[-1]
        del t["road"]
        c = c | {"steps": T + 2}
        model.embed = (lambda ids: (words[ids] + rows(T, 14)) @ out) if before else (lambda ids: words[ids] @ out + rows(T, 30))
        return c, t, naming, model, ids
    return make


def vaswani(T, d):
    return np.array([[(np.cos if j % 2 else np.sin)(p / 10000 ** ((j - j % 2) / d)) for j in range(d)] for p in range(T)])


def fairseq(T, d):
    n = d // 2
    angle = np.outer(np.arange(2, T + 2), np.exp(-np.log(500.0) / (n - 1) * np.arange(n)))
    return 0.5 * np.concatenate([np.sin(angle), np.cos(angle)], 1)


def main():
    for name, make in (("pre", pre), ("post", post), ("shared", shared),
                       ("vaswani", waves('{"sinusoid": "interleaved"}', vaswani, True)),
                       ("fairseq", waves('{"sinusoid": "half", "inclusive": true, "base": 500, "length": "config:spokes_or_all|steps", '
                                         '"first": 2, "scale": 0.5}', fairseq, False))):
        config, tensors, naming, model, ids = make()
        folder = os.path.join(sys.argv[1], name)
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "config.json"), "w") as file:
            json.dump(config, file)
        with open(os.path.join(folder, "naming.json"), "w") as file:
            file.write(naming)
        safetensors.write(os.path.join(folder, "model.safetensors"), {n: ("F32", a) for n, a in tensors.items()})
        np.savez(os.path.join(folder, "expected.npz"), ids=ids, **run(model, ids))


if __name__ == "__main__":
    main()
