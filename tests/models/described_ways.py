#!/usr/bin/env python3
"""What a description says, a model for each way of saying it, and what it computes by docs/describing.md.

    /usr/bin/python3 tests/models/described_ways.py OUTDIR

OUTDIR/WAY holds config.json, model.safetensors, naming.json (--naming) and expected.npz. All ways begin with one
model, whose axes have different lengths; each changes what it is about.
"""
import copy
import json
import os
import sys

import numpy as np

import safetensors
from forward import ACTIVATIONS, Attention, Block, FeedForward, Head, Linear, Model, Norm, identity, run

d, H, K, k, f, V, T, LAYERS = 24, 4, 2, 5, 14, 23, 7, 2
EPS = 0.01
NAMING = {
    "layers": "l.{layer}.", "block": "pre", "activation": "gelu", "norm": {"kind": "layer", "eps": EPS},
    "embed": [{"table": "words.weight"}],
    "tensors": {"W_q": "q.weight", "W_k": "k.weight", "W_v": "v.weight", "W_o": "o.weight", "mlp.in": "in.weight",
                "mlp.out": "out.weight", "norm": "n1.weight", "mlp.norm": "n2.weight"},
    "final_norm": "last.weight", "head": {"name": "say.weight"},
    "settings": {"num_heads": H, "num_kv_heads": K, "causal": True}}


class Way:
    """A model in the making: `own` has what each layer is computed from, `ends` what the others are, in float32's
    numbers; `stored` makes of a layer the tensors of the file, which stand where `place` says."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.naming, self.config = copy.deepcopy(NAMING), {"model_type": "ways"}
        self.stored, self.place = dict, lambda n, name: f"l.{n}.{name}"
        self.own = [self.layer() for _ in range(LAYERS)]
        self.ends = {"words.weight": self.draw(V, d), "last.weight": self.draw(d, about=1), "last.bias": self.draw(d),
                     "say.weight": self.draw(V, d), "say.bias": self.draw(V)}
        self.blocks = lambda own: self.block(own)
        self.embed = lambda ids: self.ends["words.weight"][ids]
        self.final = lambda: self.norm(self.ends, "last")
        self.head = lambda: Head(Linear(self.ends["say.weight"].T, self.ends["say.bias"]))

    def draw(self, *shape, about=0):
        return (about + 0.4 * self.rng.standard_normal(shape)).astype(np.float32).astype(np.float64)

    def layer(self):
        own = {}
        for name, rows, columns in (("q", H * k, d), ("k", K * k, d), ("v", K * k, d), ("o", d, H * k), ("in", f, d), ("out", d, f)):
            own |= {f"{name}.weight": self.draw(rows, columns), f"{name}.bias": self.draw(rows)}
        for name in ("n1", "n2", "n3", "n4"):
            own |= {f"{name}.weight": self.draw(d, about=1), f"{name}.bias": self.draw(d)}
        return own

    def say(self, **tensors):
        """Of the layers' tensors; None takes a key away."""
        for key, value in tensors.items():
            key = key.replace("__", ".")
            self.naming["tensors"].pop(key, None) if value is None else self.naming["tensors"].__setitem__(key, value)

    def norm(self, own, name, kind="layer", eps=EPS):
        return Norm(kind, eps, own[name + ".weight"], own.get(name + ".bias", 0.0))

    def linear(self, own, name):
        return Linear(own[name + ".weight"].T, own.get(name + ".bias", 0.0))

    def attention(self, own, **others):
        q, k_, v, o = (others.pop(x, None) or self.linear(own, x) for x in "qkvo")
        return Attention(q, k_, v, o, H, K, k ** -0.5, **others)

    def block(self, own, shape="pre", n1="n1", n2="n2", n3=None, n4=None, attention=None, feed=None):
        norms = [self.norm(own, n) if isinstance(n, str) else n or identity for n in (n1, n2, n3, n4)]
        if feed is None and shape != "attention only":
            feed = FeedForward(self.linear(own, "in"), self.linear(own, "out"), ACTIVATIONS["gelu"])
        return Block(shape, attention or self.attention(own), feed, *norms)

    def drop(self, *names):
        for own in self.own + [self.ends]:
            for name in names:
                own.pop(name, None)

    def model(self):
        return Model(self.embed, [self.blocks(own) for own in self.own], self.final(), self.head())

    def write(self, folder):
        tensors = {self.place(n, name): a for n, own in enumerate(self.own) for name, a in self.stored(own).items()} | self.ends
        os.makedirs(folder)
        with open(folder + "/config.json", "w") as file:
            json.dump(self.config, file)
        with open(folder + "/naming.json", "w") as file:
            json.dump(self.naming, file, indent=1)
        safetensors.write(folder + "/model.safetensors", {n: ("F32", a) for n, a in tensors.items()})
        ids = self.rng.integers(0, V, T)
        np.savez(folder + "/expected.npz", ids=ids, **run(self.model(), ids))


WAYS = {}


def way(function):
    WAYS[function.__name__.replace("_", "-")] = function
    return function


def shaped(name, block, says={}, **norms):
    def make(w):
        w.naming["block"] = block
        w.say(**says)
        used = [n for n in norms.values() if isinstance(n, str)]
        w.drop(*(f"{n}.{x}" for n in ("n1", "n2", "n3", "n4") if n not in used for x in ("weight", "bias")))
        shape = {"post_inside": "inside", "attention_only": "attention only"}.get(block, block)
        if block == "attention_only":
            w.drop("in.weight", "in.bias", "out.weight", "out.bias")
        w.blocks = lambda own: w.block(own, shape, **norms)
    WAYS[name] = make


both, neither = {"n1": "n1", "n2": "n2"}, {"norm": None, "mlp__norm": None}
shaped("pre", "pre", **both)
shaped("pre-first-norm", "pre", {"mlp__norm": None}, n1="n1", n2=None)
shaped("pre-second-norm", "pre", {"norm": None}, n1=None, n2="n2")
shaped("pre-no-norm", "pre", neither, n1=None, n2=None)
shaped("post", "post", **both)
shaped("post-first-norm", "post", {"mlp__norm": None}, n1="n1", n2=None)
shaped("post-second-norm", "post", {"norm": None}, n1=None, n2="n2")
shaped("parallel", "parallel", **both)
shaped("parallel-one-norm", "parallel", {"mlp__norm": None}, n1="n1", n2="n1")
shaped("parallel-second-norm", "parallel", {"norm": None}, n1=None, n2="n2")
shaped("parallel-no-norm", "parallel", neither, n1=None, n2=None)
shaped("parallel-kind-none", "parallel", {"mlp__norm": {"kind": "none"}}, n1="n1", n2=None)
shaped("post-inside", "post_inside", **both)
shaped("post-inside-second-norm", "post_inside", {"norm": None}, n1=None, n2="n2")
shaped("attention-only", "attention_only", {"mlp__norm": None, "mlp__in": None, "mlp__out": None}, n1="n1", n2=None)
AFTER = {"mlp__norm": "n3.weight", "post_norm": "n2.weight", "mlp__post_norm": "n4.weight"}
shaped("sandwich", "sandwich", AFTER, n1="n1", n2="n2", n3="n3", n4="n4")
shaped("sandwich-outer-norms", "sandwich", AFTER | neither, n1=None, n2="n2", n3=None, n4="n4")


@way
def sandwich_bias_of_norms(w):
    """What a norm after attention adds where nothing is added to its input."""
    WAYS["sandwich"](w)
    w.drop("o.bias")


@way
def parallel_null(w):
    shaped("", "parallel", {}, n1="n1", n2=None)
    WAYS.pop("")(w)
    w.naming["tensors"]["mlp.norm"] = None


@way
def parallel_batch_norm(w):
    w.naming["block"] = "parallel"
    w.say(norm={"kind": "batch", "weight": "n1.weight"}, mlp__norm=None)
    w.drop("n2.weight", "n2.bias", "n3.weight", "n3.bias", "n4.weight", "n4.bias")
    for own in w.own:
        own |= {"n1.running_mean": w.draw(d), "n1.running_var": np.maximum(4 * np.abs(w.draw(d, about=1)), 2)}

    def block(own):
        n = lambda x: (x - own["n1.running_mean"]) / np.sqrt(own["n1.running_var"] + EPS) * own["n1.weight"] + own["n1.bias"]
        return w.block(own, "parallel", n, n)
    w.blocks = block


def plain(w):
    """Norms before, of which there are two."""
    w.drop("n3.weight", "n3.bias", "n4.weight", "n4.bias")
    return w


def renamed(own, old, new):
    return {new if name == old else name: a for name, a in own.items()}


@way
def no_biases(w):
    """Biases in the file that the description denies."""
    numbers = lambda own: own | {n: w.draw(len(own[n[:-4] + "weight"])) for n in (x[:-6] + "bias" for x in own if x.endswith("weight"))}
    plain(w).naming["final_norm"] = {"weight": "last.weight", "bias": False}
    w.naming["head"]["bias"] = False
    w.say(**{key.replace(".", "__"): {"weight" if "norm" in key else "name": name, "bias": False}
             for key, name in NAMING["tensors"].items()})
    w.drop(*(n for n in w.own[0] if n.endswith("bias")))
    w.stored = numbers
    w.final = lambda: Norm("layer", EPS, w.ends["last.weight"])
    w.head = lambda: Head(Linear(w.ends["say.weight"].T))


@way
def no_biases_in_the_file(w):
    plain(w).drop(*(n for n in list(w.own[0]) + list(w.ends) if n.endswith("bias")))
    w.head = lambda: Head(Linear(w.ends["say.weight"].T))


@way
def biases_by_name(w):
    moved = ("q", "k", "v", "o", "n1", "in")
    plain(w).stored = lambda own: {"shift_" + n[:-5] if n.endswith("bias") and n[:-5] in moved else n: a for n, a in own.items()}
    w.say(b_q="shift_q", b_k="shift_k", W_v={"name": "v.weight", "bias": "shift_v"}, b_o="shift_o",
          norm={"weight": "n1.weight", "bias": "shift_n1"}, mlp__in={"name": "in.weight", "bias": "shift_in"})
    w.naming["final_norm"] = {"weight": "last.weight", "bias": "last.bias"}


@way
def optional(w):
    plain(w).own[1].pop("k.bias")
    w.stored = lambda own: renamed(own, "k.bias", "shift")
    w.say(b_k={"name": "shift", "optional": True})


@way
def values(w):
    numbers = [0.5 - 0.25 * i for i in range(K * k)]
    plain(w).stored = lambda own: {name: a for name, a in own.items() if name != "v.bias"}
    for own in w.own:
        own["v.bias"] = np.array(numbers)
    w.say(b_v={"values": numbers})


@way
def times(w):
    plain(w)
    for own in w.own:
        own |= {"ls1.gamma": w.draw(d, about=1), "ls2.gamma": w.draw(d, about=1)}
    w.say(W_o={"name": "o.weight", "times": "ls1.gamma"}, mlp__out={"name": "out.weight", "times": "ls2.gamma"})

    def block(own):
        scaled = dict(own)
        for name, by in (("o", "ls1.gamma"), ("out", "ls2.gamma")):
            scaled[name + ".weight"] = own[name + ".weight"] * own[by][:, None]
            scaled[name + ".bias"] = own[name + ".bias"] * own[by]
        return w.block(scaled)
    w.blocks = block


@way
def times_and_a_bias_by_key(w):
    times(w)
    w.stored = lambda own: renamed(own, "o.bias", "shift")
    w.say(b_o="shift")


def fused(name, key, split, by=None, own_bias=False, layout="oi"):
    """Parts side by side in one tensor's outputs: all of each, or each key/value head's together."""
    parts, G = split.split(","), H // K

    def joined(own, ending):
        rows = [own[part + ending] for part in parts]
        if by == "head":
            rows = [r.reshape(K, (G if part == "q" else 1) * k, *r.shape[1:]) for part, r in zip(parts, rows)]
            return np.concatenate(rows, 1).reshape(-1, *rows[0].shape[2:])
        return np.concatenate(rows)

    def stored(own):
        weight = joined(own, ".weight")
        return {n: a for n, a in own.items() if n.split(".")[0] not in parts} | {
            "joined.weight": weight.T if layout == "io" else weight, "joined_shift" if own_bias else "joined.bias": joined(own, ".bias")}

    def make(w):
        plain(w).stored = stored
        w.say(**{"W_" + part: None for part in parts})
        w.say(**{key: {"name": "joined.weight", "split": split} | ({"by": by} if by else {}) | ({"layout": layout} if layout != "oi" else {})})
        if own_bias:
            w.say(**{"b" + key[1:]: "joined_shift"})
    WAYS[name] = make


fused("qkv", "W_qkv", "q,k,v")
fused("qkv-in-another-order", "W_qkv", "v,q,k", layout="io")
fused("qkv-by-head", "W_qkv", "q,k,v", by="head")
fused("qkv-by-head-in-another-order", "W_qkv", "k,q,v", by="head")
fused("qkv-by-head-and-a-bias-by-key", "W_qkv", "k,q,v", by="head", own_bias=True)
fused("kv", "W_kv", "k,v")
fused("kv-by-head", "W_kv", "v,k", by="head", layout="io")
fused("qk", "W_qk", "k,q")


@way
def layouts(w):
    turned = {"q": lambda a: a.reshape(H, k, d).transpose(0, 2, 1), "k": lambda a: a.reshape(K, k, d).transpose(2, 0, 1),
              "o": lambda a: a.reshape(d, H, k).transpose(1, 2, 0), "v": np.transpose, "in": np.transpose, "out": np.transpose}
    of = lambda name: turned.get(name[:-7], lambda a: a) if name.endswith("weight") else lambda a: a
    plain(w).stored = lambda own: {name: of(name)(a) for name, a in own.items()}
    w.say(W_q={"name": "q.weight", "layout": "hio"}, W_k={"name": "k.weight", "layout": "iho"},
          W_v={"name": "v.weight", "layout": "io"}, W_o={"name": "o.weight", "layout": "hio"},
          mlp__in={"name": "in.weight", "layout": "io"}, mlp__out={"name": "out.weight", "layout": "io"})
    w.ends["say.weight"] = w.ends["say.weight"].T
    w.naming["head"]["layout"] = "io"
    w.head = lambda: Head(Linear(w.ends["say.weight"], w.ends["say.bias"]))


@way
def one_tensor_a_head(w):
    def stored(own):
        to = {n: a for n, a in own.items() if n[0] not in "qv"}
        for name, heads in (("q", H), ("v", K)):
            for h in range(heads):
                to |= {f"{name}.{h}.{x}": own[f"{name}.{x}"][h * k:(h + 1) * k] for x in ("weight", "bias")}
        return to
    plain(w).stored = stored
    w.say(W_q="q.{head}.weight", W_v={"name": "v.{head}.weight"})


@way
def numbers_that_are_computed(w):
    """Attention and feed-forward take turns in one list; a name with {layer} is whole."""
    plain(w).place = lambda n, name: f"m.{2 * n + 1 + (name.split('.')[0] in ('in', 'out', 'n2'))}.{name}"
    w.naming["layers"] = ""
    w.say(**{key.replace(".", "__"): "m.{2*layer+%d}.%s" % (1 + key.startswith("mlp"), name)
             for key, name in NAMING["tensors"].items()})


@way
def gated(w):
    plain(w)
    for own in w.own:
        own |= {"gate.weight": w.draw(f, d), "gate.bias": w.draw(f)}
    w.say(mlp__in="gate.weight", mlp__up="in.weight")
    w.blocks = lambda own: w.block(own, feed=FeedForward(w.linear(own, "gate"), w.linear(own, "out"), ACTIVATIONS["gelu"],
                                                         up=w.linear(own, "in")))


@way
def gated_in_one(w):
    gated(w)
    w.stored = lambda own: {n: a for n, a in own.items() if n.split(".")[0] not in ("in", "gate")} | {
        "wide." + x: np.concatenate([own["in." + x], own["gate." + x]]) for x in ("weight", "bias")}
    w.say(mlp__in=None, mlp__up=None, mlp__in_up={"name": "wide.weight", "split": "up,in"})


@way
def product_bias(w):
    gated(w)
    for own in w.own:
        own["shift"] = own.pop("in.bias")
    w.say(mlp__product_bias="shift")
    w.blocks = lambda own: w.block(own, feed=FeedForward(w.linear(own, "gate"), w.linear(own, "out"), ACTIVATIONS["gelu"],
                                                         up=Linear(own["in.weight"].T), act_bias=own["shift"]))


@way
def inner_norm(w):
    plain(w)
    for own in w.own:
        own |= {"mid.weight": w.draw(f, about=1), "mid.bias": w.draw(f)}
    w.say(mlp__inner_norm="mid.weight")
    w.blocks = lambda own: w.block(own, feed=FeedForward(w.linear(own, "in"), w.linear(own, "out"), ACTIVATIONS["gelu"],
                                                         act_norm=w.norm(own, "mid")))


def deviation(eps, weight=1.0, bias=0.0):
    """The Annotated Transformer's."""
    return lambda x: weight * (x - x.mean(-1, keepdims=True)) / (x.std(-1, ddof=1, keepdims=True) + eps) + bias


@way
def std(w):
    plain(w).naming["norm"] = {"kind": "std", "eps": 1e-12}
    of = lambda own, n: deviation(1e-12, own[n + ".weight"], own[n + ".bias"])
    w.blocks = lambda own: w.block(own, n1=of(own, "n1"), n2=of(own, "n2"))
    w.final = lambda: of(w.ends, "last")


@way
def std_without_weights(w):
    plain(w).drop(*(f"{n}.{x}" for n in ("n1", "n2", "last") for x in ("weight", "bias")))
    w.naming["norm"] = {"kind": "std", "eps": 1e-12, "affine": False}
    w.say(norm={}, mlp__norm={}, mlp__inner_norm={})
    w.naming["final_norm"] = {}
    n = deviation(1e-12)
    w.blocks = lambda own: w.block(own, n1=n, n2=n, feed=FeedForward(w.linear(own, "in"), w.linear(own, "out"),
                                                                     ACTIVATIONS["gelu"], act_norm=n))
    w.final = lambda: n


@way
def norms_without_weights(w):
    plain(w).drop(*(f"{n}.{x}" for n in ("n1", "n2", "last") for x in ("weight", "bias")))
    w.say(norm={"affine": False, "kind": "rms", "eps": 0.25}, mlp__norm={"affine": False})
    w.naming["final_norm"] = {"kind": "rms", "affine": False}
    w.blocks = lambda own: w.block(own, n1=Norm("rms", 0.25), n2=Norm("layer", EPS))
    w.final = lambda: Norm("rms", EPS)


@way
def norms_of_several_kinds(w):
    plain(w).drop("n2.bias", "last.bias")
    w.config |= {"tiny": 0.5, "other": 0.125}
    w.say(norm={"weight": "n1.weight", "one_plus": True, "eps": "config:absent|tiny"}, mlp__norm={"kind": "rms", "weight": "n2.weight"})
    w.naming["final_norm"] = {"kind": "rms", "one_plus": True, "weight": "last.weight", "eps": {"config": "none", "default": 0.25}}
    w.blocks = lambda own: w.block(own, n1=Norm("layer", 0.5, 1 + own["n1.weight"], own["n1.bias"]), n2=Norm("rms", EPS, own["n2.weight"]))
    w.final = lambda: Norm("rms", 0.25, 1 + w.ends["last.weight"])


@way
def no_final_norm(w):
    plain(w).drop("last.weight", "last.bias")
    w.naming["final_norm"] = None
    w.final = lambda: None


@way
def queries_and_keys_normalised(w):
    plain(w)
    for own in w.own:
        own |= {"qn.weight": w.draw(k, about=1), "qn.bias": w.draw(k), "kn.weight": w.draw(k, about=1), "kn.bias": w.draw(k)}
    w.say(q_norm="qn.weight", k_norm="kn.weight")
    w.naming["settings"] |= {"qk_norm": "layer", "qk_norm_eps": 0.03}
    w.blocks = lambda own: w.block(own, attention=w.attention(
        own, q_norm=w.norm(own, "qn", eps=0.03), k_norm=w.norm(own, "kn", eps=0.03)))


@way
def sinks(w):
    plain(w)
    for own in w.own:
        own["sink"] = w.draw(H)
    w.say(sinks="sink")
    w.blocks = lambda own: w.block(own, attention=w.attention(own, sinks=own["sink"]))


@way
def settings_of_each_layer(w):
    w.config |= {"look": 2, "cap": 3.0}
    plain(w).naming["settings"] |= {"window_left": [-1, "config:look"], "softcap": "config:cap", "scale": 0.7}

    def block(own):
        a = w.attention(own, softcap=3.0, window=3 if own is w.own[1] else None)
        a.scale = 0.7
        return w.block(own, attention=a)
    w.blocks = block


@way
def head_scaled_and_capped(w):
    plain(w).naming["head"] |= {"scale": 0.5, "softcap": "config:cap"}
    w.config |= {"cap": 1.5}
    w.head = lambda: Head(Linear(0.5 * w.ends["say.weight"].T, 0.5 * w.ends["say.bias"]), softcap=1.5)


@way
def head_behind_a_dense_map(w):
    plain(w).ends |= {"dense.weight": w.draw(9, d), "dense.bias": w.draw(9), "hn.weight": w.draw(9, about=1), "hn.bias": w.draw(9),
                      "say.weight": w.draw(V, 9)}
    w.naming["head"] |= {"dense": "dense.weight", "activation": "silu", "norm": {"weight": "hn.weight", "eps": 0.2}}
    dense, norm = w.linear(w.ends, "dense"), w.norm(w.ends, "hn", eps=0.2)
    w.head = lambda: Head(Linear(w.ends["say.weight"].T, w.ends["say.bias"]), lambda x: norm(ACTIVATIONS["silu"](dense(x))))


@way
def tied_head(w):
    plain(w).ends["shift"] = w.ends.pop("say.bias")
    w.drop("say.weight")
    w.naming["head"] = {"tied": True, "bias": "shift"}
    w.head = lambda: Head(Linear(w.ends["words.weight"].T, w.ends["shift"]))


@way
def embedding(w):
    """A linear map of the sum, then a norm."""
    plain(w).ends |= {"words.weight": w.draw(V, 9), "places": w.draw(20, 9), "kinds": w.draw(3, 9), "wide.weight": w.draw(d, 9),
                      "wide.bias": w.draw(d), "en.weight": w.draw(d, about=1), "en.bias": w.draw(d)}
    w.naming["embed"] = [{"table": "words.weight", "scale": "sqrt_d_model"},
                         {"table": "places", "by": "position", "first": 3, "scale": 2}, {"table": "kinds", "by": "type"},
                         {"linear": "wide.weight"}, {"norm": {"weight": "en.weight", "eps": 0.05}}]
    e, norm = w.ends, w.norm(w.ends, "en", eps=0.05)
    w.embed = lambda ids: norm((np.sqrt(d) * e["words.weight"][ids] + 2 * e["places"][3:3 + len(ids)] + e["kinds"][0])
                               @ e["wide.weight"].T + e["wide.bias"])


@way
def embedding_without_a_bias(w):
    """The tokens' rows alone are mapped; the map's bias and the norm's are denied."""
    plain(w).ends |= {"words.weight": w.draw(V, 9), "wide.kernel": w.draw(9, d), "wide.bias": w.draw(d), "places": w.draw(20, d),
                      "en.weight": w.draw(d, about=1), "en.bias": w.draw(d)}
    w.naming["embed"] = [{"table": "words.weight"}, {"linear": "wide.kernel", "layout": "io", "bias": False},
                         {"table": "places", "by": "position"}, {"norm": {"weight": "en.weight", "bias": False}}]
    e = w.ends
    w.embed = lambda ids: Norm("layer", EPS, e["en.weight"])(e["words.weight"][ids] @ e["wide.kernel"] + e["places"][:len(ids)])


def main():
    for seed, (name, make) in enumerate(WAYS.items()):
        w = Way(seed)
        make(w)
        w.write(os.path.join(sys.argv[1], name))


if __name__ == "__main__":
    main()
