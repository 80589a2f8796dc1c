#!/usr/bin/env python3
"""Ports with one mistake each, drawn at random: family, mistake, layers, names, what is saved, precision.

    /usr/bin/python3 tests/models/unseen.py PROGRAM MODELS [--count N] [--seed N] [--only WORD] [--show] [-j N]

MODELS is a folder that make.py wrote. The port is written here, apart from forward.py and mistakes.py: a
loop over layers with switches, as porters write it. A case counts as named where the place that is wrong
has one of its causes, and no place that is right has one. Exit code 1 where fewer than nine of ten are.
"""
import argparse
import concurrent.futures
import copy
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

import safetensors
from clean import ROUND, SAVED, Saver
from forward import ACTIVATIONS, Norm, sigmoid
from mistakes import to_bfloat16
from write import load

MODELS = ("gpt2 gpt2-untied nanogpt llama-rope-parameters llama2-gqa llama3.1 llama3.2 mistral mistral-no-window qwen2-window "
          "qwen3-untied phi3-su gemma gemma2 gemma2-bf16 gemma3-layer-types neox-parallel neox-sequential bert roberta").split()


def table(tensors, *ends):
    return next((np.asarray(value[1], np.float64) for end in ends for name, value in tensors.items()
                 if name.endswith(end)), None)


class Port:
    """One text through a model. `of[n]` holds the switches of layer n, `at` those of the ends."""

    def __init__(self, folder):
        self.config, tensors = safetensors.read_folder(folder)
        self.config = self.config.get("text_config", self.config) | {"model_type": self.config.get("model_type", "")}
        self.model = copy.deepcopy(load(folder))
        self.blocks, self.type = self.model.blocks, self.config["model_type"].replace("_text", "")
        self.words = table(tensors, "word_embeddings.weight", "wte.weight", "embed_tokens.weight", "embed_in.weight")
        self.places = table(tensors, "position_embeddings.weight", "wpe.weight")
        self.types = table(tensors, "token_type_embeddings.weight")
        weight, bias = table(tensors, "embeddings.LayerNorm.weight"), table(tensors, "embeddings.LayerNorm.bias")
        self.embed_norm = None if weight is None else Norm("layer", self.config["layer_norm_eps"], weight, bias)
        self.first = 2 if self.type == "roberta" else 0
        d = self.words.shape[1]
        self.factor = 1.0
        if self.type.startswith("gemma"):
            stored = {"bfloat16": "bf16", "float16": "f16"}.get(self.config.get("torch_dtype"), "f32")
            self.factor = float(np.ravel(ROUND[stored](np.array([d ** 0.5])))[0])
        self.order = list(range(len(self.blocks)))
        self.of = [{} for _ in self.blocks]
        self.at = {}
        self.round = ROUND["f64"]

    # The computation ------------------------------------------------------------------------------

    def run(self, ids, padding=0, through=False):
        """`padding` rows stand before the text; positions are those of the mask, or count `through` it."""
        self.s, self.padding = {}, padding
        ids = np.concatenate([np.zeros(padding, int), np.asarray(ids)])
        self.positions = np.arange(len(ids)) if through else np.maximum(np.arange(len(ids)) - padding, 0)
        x = self.keep("embed", self.embedded(ids))
        self.states = []
        for n in self.order:
            self.states.append(x)
            x = self.layer(n, x)
        for n in range(len(self.blocks)):  # a layer that was left out hands on what it gets
            if n not in self.order:
                before = self.s[f"layers.{n - 1}.resid_post"] if n else self.s["embed"]
                self.s[f"layers.{n}.resid_pre"] = self.s[f"layers.{n}.resid_post"] = before
        final = self.keep("final", self.at.get("norm", self.model.final)(x)) if self.model.final else x
        self.states = [self.s[f"layers.{n}.resid_pre"] for n in range(len(self.blocks))] + [final]
        if self.model.head:
            head = self.model.head
            into = x if self.at.get("no_norm") else final
            y = head.decoder(head.transform(into))
            cap = self.at.get("cap", head.softcap)
            y = cap * np.tanh(y / cap) if cap else y
            self.keep("logits", self.at.get("logits", lambda y: y)(y))
        return self.s

    def keep(self, name, value):
        value = value if name.endswith(("scores", "scaled", "capped", "masked")) else self.round(value)
        self.s[name] = value
        return value

    def embedded(self, ids):
        x = self.words[ids] * self.at.get("factor", self.factor)
        if self.places is not None:
            x = x + self.at.get("places", lambda table, p: table[p])(self.places, self.positions + self.first)
        if self.types is not None:
            x = x + self.at.get("types", lambda t: t[0])(self.types)
        norm = self.at.get("embed_norm", self.embed_norm)
        return norm(x) if norm else x

    def layer(self, n, x):
        b, w, t = self.blocks[n], self.of[n], lambda name, value: self.keep(f"layers.{n}.{name}", value)
        x = t("resid_pre", x)
        A = lambda y: self.attention(b.attention, w, t, y)
        F = lambda y: self.feed(b.feed_forward, w, t, y)
        shape = w.get("shape", b.shape)
        if callable(shape):
            y = shape(b, t, x, A, F)
        elif shape == "post":
            r = b.n1(t("residual", x + A(x)))
            y = b.n2(r + F(r))
        elif shape == "parallel":
            y = x + A(b.n1(x)) + F(b.n2(x))
        elif shape == "sandwich":
            r = t("residual", x + t("attn_add", b.n2(A(b.n1(x)))))
            y = r + t("mlp_add", b.n4(F(b.n3(r))))
        else:
            r = t("residual", x + A(b.n1(x)))
            y = r + F(b.n2(r))
        return t("resid_post", y)

    def attention(self, a, w, t, x):
        T, cut = len(x), w.get("cut", lambda y, heads: y.reshape(T, heads, -1).transpose(1, 0, 2))
        x = t("x", x)
        q, k, v = (t(name, cut(map_(x), heads)) for name, map_, heads in
                   (("q", a.q, a.num_heads), ("k", a.k, a.num_kv_heads), ("v", a.v, a.num_kv_heads)))
        normed = (lambda y, norm: norm(y)) if a.q_norm else (lambda y, norm: y)
        if a.q_norm and not w.get("norm_late"):
            q, k = t("q_norm", a.q_norm(q)), t("k_norm", a.k_norm(k))
        if a.rope:
            turn = w.get("turn", lambda rope, y, p, which: rope(y, p))
            q, k = turn(a.rope, q, self.positions, "q"), turn(a.rope, k, self.positions, "k")
            if w.get("norm_late"):
                q, k = normed(q, a.q_norm), normed(k, a.k_norm)
            q, k = t("q_rope", q), t("k_rope", k)
        reads = w.get("reads", lambda h: h * a.num_kv_heads // a.num_heads)
        which = [reads(h) for h in range(a.num_heads)]
        s = t("scores", np.einsum("htd,hsd->hts", q, k[which]))
        s = t("scaled", s * a.scale)
        if a.softcap:
            s = t("capped", a.softcap * np.tanh(s / a.softcap))
        i, j = np.arange(T)[:, None], np.arange(T)[None]
        see = (j >= self.padding) & (w.get("see", lambda i, j: j <= i)(i, j) if a.causal else True)
        if a.window:
            see = see & (i - j < a.window)
        s = t("masked", np.where(see, s, -np.inf))
        top = np.where(np.isfinite(s.max(-1, keepdims=True)), s.max(-1, keepdims=True), 0)
        e = w.get("exp", np.exp)(s - top)
        p = t("weights", e / np.maximum(e.sum(-1, keepdims=True) + w.get("more", 0) * np.exp(-top), 1e-300))
        z = t("head_out", np.einsum("hts,hsd->htd", p, v[which]))
        joined = z.reshape(T, -1) if w.get("unmerged") else z.transpose(1, 0, 2).reshape(T, -1)
        return t("output", a.o(t("concat", joined)))

    def feed(self, f, w, t, x):
        x = t("mlp_x", x)
        pre = t("mlp_pre", f.pre(x))
        act = w.get("act", f.activation)
        if f.up is None:
            y = act(pre)
        else:
            up = t("mlp_up", f.up(x))
            y = w.get("product", lambda act, g, u: act(g) * u)(act, pre, up)
        return t("mlp_out", f.out(t("mlp_act", w.get("kept", lambda y: y)(y))))


# Mistakes ---------------------------------------------------------------------------------------

BUGS = []


def bug(ids, scope="layers", logits=True, models=None):
    """`ids` under which it may be told. scope: layers, embed, end, model (some layers of its own choice)."""
    def register(plant):
        BUGS.append((plant.__name__, set(ids.split()), scope, logits, plant, models))
        return plant
    return register


def switch(name, value, when=lambda port, b: True):
    def plant(port, n):
        if not when(port, port.blocks[n]):
            return False
        port.of[n][name] = value
    return plant


def gated(port, b):
    return b.feed_forward.up is not None


def plain(port, b):
    return b.feed_forward.up is None


def turned(port, b):
    return b.attention.rope is not None


def sequential(port, b):
    return b.shape == "pre"


def has(linear):
    return not isinstance(linear.bias, float)


def grouped(port, b):
    return 1 < b.attention.num_kv_heads < b.attention.num_heads


def simple(ids, name, *args, **more):
    bug(ids, **more)(type("", (), {"__name__": name, "__call__": lambda self, port, n: switch(*args)(port, n)})())


def layer_bug(ids, name, change, **more):
    """`change(port, block, layer)` -> False where the block has none of it."""
    bug(ids, **more)(type("", (), {"__name__": name, "__call__":
                                   lambda self, port, n: change(port, port.blocks[n], n)})())


def set_scale(of):
    def change(port, b, n):
        new = of(b.attention, port.words.shape[1])
        if abs(new / b.attention.scale - 1) < 1e-6:
            return False
        b.attention.scale = new
    return change


layer_bug("scale.missing", "scale_left_out", set_scale(lambda a, d: 1.0))
layer_bug("scale.d_model scale.constant", "scale_by_model_width", set_scale(lambda a, d: d ** -0.5))
layer_bug("scale.d_k scale.twice", "scale_by_head_width", set_scale(lambda a, d: a.scale ** 2))
layer_bug("scale.constant", "scale_twice_as_large", set_scale(lambda a, d: a.scale * 2))
simple("causal.missing", "sees_all", "see", lambda i, j: j >= 0, lambda p, b: b.attention.causal)
simple("causal.plus_one", "sees_next", "see", lambda i, j: j <= i + 1, lambda p, b: b.attention.causal)
simple("rope.missing", "not_turned", "turn", lambda rope, y, p, which: y, turned)
simple("rope.missing.k", "keys_not_turned", "turn", lambda r, y, p, which: y if which == "k" else r(y, p), turned)
simple("rope.offset", "keys_one_ahead", "turn", lambda r, y, p, which: r(y, p + (which == "k")), turned)
simple("rope.sign", "turned_back", "turn", lambda r, y, p, which: r(y, -p), turned)
simple("rope.positions rope.missing rope.offset", "one_position", "turn", lambda r, y, p, which: r(y, 0 * p + 3), turned, logits=False)
simple("rope.twice rope.scaling.added", "turned_twice", "turn", lambda r, y, p, which: r(r(y, p), p), turned)
simple("rope.positions rope.twice rope.scaling.added", "positions_doubled", "turn", lambda r, y, p, which: r(y, 2 * p), turned)


def other_pairs(r, y, p, which):
    r = copy.copy(r)
    r.adjacent = not r.adjacent
    return r(y, p)


simple("rope.style rope.pairs", "other_pairs", "turn", other_pairs, turned)


def all_dims(port, b, n):
    a = b.attention
    d = port_width(a)
    if not a.rope or callable(a.rope.frequencies) or 2 * len(a.rope.frequencies) >= d:
        return False
    a.rope = copy.copy(a.rope)
    a.rope.frequencies = 10000.0 ** (-np.arange(0, d, 2) / d)


def port_width(a):
    return a.q.weight.shape[1] // a.num_heads


layer_bug("rope.dims rope.frequencies", "all_dims_turned", all_dims)


def base_of(factor):
    def change(port, b, n):
        a = b.attention
        if not a.rope or callable(a.rope.frequencies):
            return False
        f = np.asarray(a.rope.frequencies)
        a.rope = copy.copy(a.rope)
        a.rope.frequencies = f * factor ** (-np.arange(len(f)) / len(f))
    return change


layer_bug("rope.base rope.frequencies rope.scaling.added rope.scaling.kind rope.scaling.missing", "base_tenfold", base_of(10.0))
layer_bug("rope.scaling.added rope.scaling.kind rope.scaling.missing rope.positions rope.scaling.inverted", "positions_halved", lambda port, b, n: switch(
    "turn", lambda r, y, p, which: r(y, p / 2), turned)(port, n))


def rows_left_in_gguf_order(port, b, n):
    """Converted rows are for pairs beside each other; the port turns halves."""
    a = b.attention
    if not a.rope or a.rope.adjacent or port.type not in ("llama", "mistral"):
        return False
    for part, heads in ((a.q, a.num_heads), (a.k, a.num_kv_heads)):
        d = part.weight.shape[1] // heads
        order = np.arange(d).reshape(2, d // 2).T.reshape(-1)
        part.weight = part.weight.reshape(-1, heads, d)[:, :, order].reshape(part.weight.shape)
        if has(part):
            part.bias = part.bias.reshape(heads, d)[:, order].reshape(-1)


layer_bug("rope.style rope.pairs weight.rows", "rows_left_in_gguf_order", rows_left_in_gguf_order)


def rows_of_wrong_heads(port, b, n):
    """Keys turned back as if they had as many heads as the queries."""
    a = b.attention
    if not a.rope or not grouped(port, b) or port.type not in ("llama", "mistral") or has(a.k):
        return False
    w = a.k.weight.T
    H_kv, H = a.num_kv_heads, a.num_heads
    d = len(w) // H_kv
    converted = w.reshape(H_kv, 2, d // 2, -1).swapaxes(1, 2).reshape(w.shape)
    if (len(w) // H) % 2:
        return False
    a.k.weight = converted.reshape(H, len(w) // H // 2, 2, -1).swapaxes(1, 2).reshape(w.shape).T


layer_bug("weight.rows", "rows_of_wrong_heads", rows_of_wrong_heads)
simple("gqa.tiled", "tiled", "reads", None, grouped)
simple("gqa.first", "first_head_for_all", "reads", lambda h: 0, grouped)
simple("heads.interleaved", "heads_interleaved", "cut",
       lambda y, heads: y.reshape(len(y), -1, heads).transpose(2, 0, 1),
       lambda p, b: b.attention.num_kv_heads == b.attention.num_heads, logits=False)
simple("heads.unmerged", "not_merged", "unmerged", True)
simple("softmax.plus_one", "off_by_one_softmax", "more", 1.0)
simple("softmax.base", "powers_of_two", "exp", np.exp2)


def exchange(one, other):
    def change(port, b, n):
        a, c = getattr(b.attention, one), getattr(b.attention, other)
        if a.weight.shape != c.weight.shape:
            return False
        a.weight, c.weight, a.bias, c.bias = c.weight, a.weight, c.bias, a.bias
    return change


layer_bug("swap.kv weight.order.QVK", "keys_for_values", exchange("k", "v"))
layer_bug("swap.qk weight.order.KQV", "queries_for_keys", exchange("q", "k"))


def transposed(which):
    def change(port, b, n):
        part = getattr(b.attention, which)
        if part.weight.shape[0] != part.weight.shape[1]:
            return False
        part.weight = part.weight.T
    return change


for letter in "qo":
    layer_bug(f"weight.transposed.{letter} output.transposed", f"transposed_{letter}", transposed(letter))


def bias_of(which, times):
    def change(port, b, n):
        part = getattr(b.attention if which in "qkvo" else b.feed_forward, which)
        if part is None or not has(part):
            return False
        part.bias = part.bias * times if times else 0.0
    return change


for letter in "qvo":
    layer_bug(f"bias.missing.{letter} bias.missing", f"no_bias_{letter}", bias_of(letter, 0))
layer_bug("bias.times.o", "bias_o_by_each_rank", bias_of("o", 2))
layer_bug("mlp.bias.times", "bias_down_by_each_rank", bias_of("out", 4))
layer_bug("mlp.bias.missing", "no_bias_up", bias_of("pre", 0))
layer_bug("mlp.bias.missing", "no_bias_down", bias_of("out", 0))


def attention_field(field, new, ids, name, **more):
    def change(port, b, n):
        old = getattr(b.attention, field)
        value = new(old)
        if value is False or value == old:
            return False
        setattr(b.attention, field, value)
    layer_bug(ids, name, change, **more)


attention_field("softcap", lambda c: None if c else False, "softcap.missing", "no_cap")
attention_field("softcap", lambda c: c * 0.6 if c else False, "softcap.value", "other_cap")
attention_field("softcap", lambda c: False if c else 3.0, "softcap.added", "cap_added")
attention_field("window", lambda w: w + 1 if w else False, "window.plus_one window.length", "window_longer")
attention_field("window", lambda w: None if w else False, "window.missing", "no_window")
attention_field("window", lambda w: False if w else 3, "window.added window.length", "window_everywhere",
                models="gemma2 gemma2-bf16 gemma3-layer-types qwen2-window mistral-no-window".split())


def qk_norm(edit):
    def change(port, b, n):
        if not b.attention.q_norm:
            return False
        return edit(b.attention)
    return change


def drop_qk(a):
    a.q_norm = a.k_norm = None


def exchange_qk(a):
    a.q_norm, a.k_norm = a.k_norm, a.q_norm


layer_bug("norm.missing", "no_qk_norm", qk_norm(drop_qk))
layer_bug("norm.exchanged", "qk_norms_exchanged", qk_norm(exchange_qk))
simple("norm.after_rope", "qk_norm_behind_rope", "norm_late", True, lambda p, b: b.attention.q_norm and b.attention.rope)

# Norms

SLOTS = {"n1": "first", "n2": "second", "n3": "third", "n4": "fourth"}


def altered(norm, how):
    new = copy.copy(norm)
    if how == "eps":
        new.eps = 1e-2
    if how == "one_plus":
        new.weight = norm.weight + 1
    if how == "minus_one":
        new.weight = norm.weight - 1
    if how == "bare":
        new.weight = 1.0
    if how == "no_bias":
        if isinstance(norm.bias, float):
            return None
        new.bias = 0.0
    if how == "kind":
        new.kind = "rms" if norm.kind == "layer" else "layer"
    if how == "sample":
        def run(x):
            y = x - x.mean(-1, keepdims=True) if norm.kind == "layer" else x
            return y / np.sqrt((y * y).sum(-1, keepdims=True) / (y.shape[-1] - 1) + norm.eps) * norm.weight + norm.bias
        return run
    if how == "missing":
        return lambda x: x
    if how == "twice":
        return lambda x: norm(norm(x))
    return new


FORMS = {"eps": "eps", "one_plus": "one_plus", "bare": "weight", "no_bias": "bias", "kind": "kind", "sample": "form",
         "missing": "missing", "twice": "twice"}


def norm_bug(slot, how):
    def change(port, b, n):
        norm = getattr(b, slot)
        if not isinstance(norm, Norm):
            return False
        new = altered(norm, how)
        if new is None:
            return False
        setattr(b, slot, new)
    return change


for slot, place in SLOTS.items():
    for how, word in FORMS.items():
        layer_bug(f"input_norm.{word} block_norm.{word}" + (" block_norm.form input_norm.form" if how == "sample" else ""),
                  f"norm_{place}_{how}", norm_bug(slot, how))


def norm_of_next(slot):
    def change(port, b, n):
        if not isinstance(getattr(b, slot), Norm):
            return False
        setattr(b, slot, getattr(port.original[(n + 1) % len(port.blocks)], slot))
    return change


for slot, place in (("n1", "first"), ("n2", "second")):
    layer_bug("block.weights.other input_norm.other block_norm.other", f"norm_{place}_of_next_layer", norm_of_next(slot), logits=False)


def one_norm_for_both(port, b, n):
    if b.shape == "post" or not isinstance(b.n2, Norm) or b.shape == "sandwich":
        return False
    b.n2 = b.n1


layer_bug("block_norm.other", "one_norm_for_both", one_norm_for_both)

# Feed-forward

for name in ("relu", "silu", "gelu", "gelu_new", "quick_gelu"):
    def other_activation(port, b, n, name=name):
        if b.feed_forward.activation is ACTIVATIONS[name]:
            return False
        port.of[n]["act"] = ACTIVATIONS[name]
    layer_bug("mlp.activation", f"activation_{name}", other_activation)
simple("mlp.activation", "no_activation", "act", lambda x: x)
simple("mlp.activation", "mish", "act", lambda x: x * np.tanh(np.logaddexp(0, x)))
simple("mlp.activation", "leaky_relu", "act", lambda x: np.where(x > 0, x, 0.01 * x))
simple("mlp.activation mlp.activation.sigmoid", "glu_by_sigmoid", "act", sigmoid, gated)
simple("mlp.swapped mlp.activated_other", "up_activated", "product", lambda act, g, u: g * act(u), gated)
simple("mlp.activation mlp.activated_other", "product_activated", "product", lambda act, g, u: act(g * u), gated)
simple("mlp.gate.missing", "gate_alone", "product", lambda act, g, u: act(g), gated)
simple("mlp.gate.missing", "up_alone", "product", lambda act, g, u: act(u), gated)
simple("mlp.gate.missing", "up_not_gated", "product", lambda act, g, u: u, gated)
simple("mlp.gate.added", "gate_and_up_added", "product", lambda act, g, u: act(g) + u, gated)
simple("mlp.rounded precision.bf16", "product_in_bf16", "kept", to_bfloat16, logits=False)
simple("mlp.rounded precision.f16", "product_in_f16", "kept", lambda y: np.float64(np.float16(y)), logits=False)


def cut_both(rows):
    def change(port, b, n):
        f = b.feed_forward
        if f.up is None or has(f.pre):
            return False
        both = np.concatenate([f.pre.weight, f.up.weight], 1)
        one, other = rows(both.shape[1])
        f.pre.weight, f.up.weight = both[:, one], both[:, other]
    return change


def quarters(n):
    part = np.split(np.arange(n), 4)
    return np.r_[part[0], part[2]], np.r_[part[1], part[3]]


layer_bug("mlp.interleaved", "fused_rows_interleaved", cut_both(lambda n: (np.arange(0, n, 2), np.arange(1, n, 2))))
layer_bug("mlp.sharded", "shards_joined_whole", cut_both(quarters))
layer_bug("mlp.swapped", "up_before_gate", cut_both(lambda n: (np.arange(n // 2, n), np.arange(n // 2))))
layer_bug("mlp.missing", "no_feed_forward", lambda port, b, n: setattr(b.feed_forward, "out", lambda x, w=b.feed_forward.out: 0 * w(x)))

# Blocks


def run_as(shape, when=sequential):
    return lambda port, b, n: switch("shape", shape, when)(port, n)


layer_bug("block.parallel", "run_beside", run_as("parallel"))
layer_bug("block.sequential", "run_behind", run_as("pre", lambda p, b: b.shape == "parallel"))
layer_bug("block_norm.place", "normed_behind_sum", run_as("post"))
layer_bug("block_norm.place", "normed_before_sum", run_as("pre", lambda p, b: b.shape == "post"))


def from_normed(b, t, x, A, F):
    x = b.n1(x)
    r = t("residual", x + A(x))
    return r + F(b.n2(r))


def to_normed_second(b, t, x, A, F):
    r = b.n2(t("residual", x + A(b.n1(x))))
    return r + F(r)


def no_residual(b, t, x, A, F):
    r = t("residual", x + A(b.n1(x)))
    return F(b.n2(r))


def residual_twice(b, t, x, A, F):
    r = t("residual", x + A(b.n1(x)))
    return x + r + F(b.n2(r))


def first_residual(b, t, x, A, F):
    r = t("residual", A(b.n1(x)))
    return r + F(b.n2(r))


def stream_of_before(b, t, x, A, F):
    r = t("residual", x + A(b.n1(x)))
    return x + F(b.n2(r))


layer_bug("block.residual.normalised", "residual_of_normed", run_as(from_normed))
layer_bug("block.residual.normalised", "second_residual_of_normed", run_as(to_normed_second))
layer_bug("block.residual.missing block.residual.apart", "no_second_residual", run_as(no_residual))
layer_bug("block.residual.missing", "no_first_residual", run_as(first_residual))
layer_bug("block.residual.original", "second_residual_from_before", run_as(stream_of_before))
layer_bug("block.residual.twice", "residual_added_twice", run_as(residual_twice))


def plain_sandwich(b, t, x, A, F):
    r = t("residual", x + A(b.n1(x)))
    return r + F(b.n3(r))


layer_bug("block_norm.missing", "no_norms_behind", run_as(plain_sandwich, lambda p, b: b.shape == "sandwich"))


def weights_of_next(what):
    def change(port, b, n):
        other = port.original[(n + 1) % len(port.blocks)]
        if what == "block":
            port.blocks[n] = copy.deepcopy(other)
        else:
            setattr(b, what, copy.deepcopy(getattr(other, what)))
    return change


for what in ("block", "attention", "feed_forward"):
    layer_bug("block.weights.other", f"{what}_of_next_layer", weights_of_next(what), logits=False)


@bug("block.skipped", scope="model")
def layer_left_out(port, rng):
    port.order.remove(int(rng.integers(len(port.blocks))))


@bug("block.twice", scope="model")
def layer_run_twice(port, rng):
    n = int(rng.integers(len(port.blocks)))
    port.order.insert(n, n)


@bug("block.weights.other", scope="model")
def layers_exchanged(port, rng):
    n = int(rng.integers(len(port.blocks) - 1))
    port.blocks[n], port.blocks[n + 1] = port.blocks[n + 1], port.blocks[n]


# Ends


def embed_bug(ids, name, change):
    bug(ids, scope="embed")(type("", (), {"__name__": name, "__call__": lambda self, port, rng: change(port)})())


def placed(rows):
    def change(port):
        if port.places is None:
            return False
        port.at["places"] = rows
    return change


for k in (1, 2):
    embed_bug("embed.positions.offset", f"positions_from_{k}", placed(lambda t, p, k=k: t[p + k]))
embed_bug("embed.positions.offset", "positions_before", lambda port: placed(lambda t, p: t[p - 2])(port) if port.first else False)
embed_bug("embed.positions.missing", "no_positions", placed(lambda t, p: 0 * t[p]))
embed_bug("embed.positions.same", "one_place_for_all", placed(lambda t, p: t[0 * p + p[0]]))
embed_bug("embed.positions.twice", "positions_added_twice", placed(lambda t, p: 2 * t[p]))


def factor(of, when=lambda port: True):
    def change(port):
        if not when(port):
            return False
        port.at["factor"] = of(port.factor, port.words.shape[1])
    return change


embed_bug("embed.scale", "rows_scaled", factor(lambda f, d: d ** 0.5, lambda p: p.factor == 1 and not p.embed_norm))
embed_bug("embed.scale", "rows_not_scaled", factor(lambda f, d: 1.0, lambda p: p.factor != 1))
embed_bug("embed.scale", "rows_scaled_by_width", factor(lambda f, d: float(d), lambda p: p.factor != 1))


def typed(of):
    def change(port):
        if port.types is None or len(port.types) < 2:
            return False
        port.at["types"] = of
    return change


embed_bug("embed.types", "no_types", typed(lambda t: 0 * t[0]))
embed_bug("embed.types", "type_one", typed(lambda t: t[1]))
for how in ("missing", "eps", "kind", "no_bias", "twice"):
    def embed_norm(port, how=how):
        if not port.embed_norm:
            return False
        port.at["embed_norm"] = altered(port.embed_norm, how)
    embed_bug("embed.norm.missing" if how == "missing" else "embed.norm.form embed.norm.twice", f"embed_norm_{how}", embed_norm)


def end_bug(ids, name, change):
    bug(ids, scope="end")(type("", (), {"__name__": name, "__call__": lambda self, port, rng: change(port)})())


for how, word in (("missing", "last_norm.missing head.norm.missing"), ("twice", "last_norm.twice"), ("eps", "last_norm.form"),
                  ("one_plus", "last_norm.form"), ("bare", "last_norm.form"), ("no_bias", "last_norm.form"), ("kind", "last_norm.form")):
    def last_norm(port, how=how):
        if not port.model.final:
            return False
        new = altered(port.model.final, how)
        if new is None:
            return False
        port.at["norm"] = new
    end_bug(word, f"last_norm_{how}", last_norm)


def last_norm_of_layer(port):
    if not port.model.final or port.blocks[-1].shape not in ("pre", "parallel"):
        return False
    port.at["norm"] = port.blocks[-1].n2


end_bug("last_norm.other last_norm.form", "last_norm_of_last_layer", last_norm_of_layer)


def at_end(name, value, when=lambda port: True):
    def change(port):
        if not port.model.head or not when(port):
            return False
        port.at[name] = value
    return change


def softmax(y):
    e = np.exp(y - y.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


end_bug("head.norm.missing last_norm.missing", "head_of_stream", at_end("no_norm", True, lambda p: p.model.final))
end_bug("head.softcap", "no_head_cap", at_end("cap", None, lambda p: p.model.head.softcap))
end_bug("head.softcap", "head_cap_added", at_end("cap", 30.0, lambda p: not p.model.head.softcap))
end_bug("head.softcap", "head_cap_of_scores", at_end("cap", 50.0, lambda p: p.model.head.softcap))
end_bug("head.softmax", "probabilities", at_end("logits", softmax))
end_bug("head.softmax", "log_probabilities", at_end("logits", lambda y: np.log(softmax(y))))
end_bug("head.scale", "logits_over_width", at_end("logits", lambda y: y / 8))


def other_head(port):
    if not port.model.head or port.model.head.decoder.weight.shape != port.words.T.shape or \
            np.array_equal(port.model.head.decoder.weight, port.words.T):
        return False
    port.model.head.decoder.weight = port.words.T


end_bug("head.tied", "head_tied", other_head)


def no_head_bias(port):
    if not port.model.head or not has(port.model.head.decoder):
        return False
    port.model.head.decoder.bias = 0.0


end_bug("head.bias", "no_head_bias", no_head_bias)


def no_transform(port):
    if not port.model.head or port.model.head.transform.__name__ == "identity":
        return False
    port.model.head.transform = lambda x: x


end_bug("head.dense", "no_head_transform", no_transform)

# What is saved --------------------------------------------------------------------------------------


class Captures:
    """Ways to save a run: name -> tensors, or None where the model has no such one."""

    def __init__(self, port, rng):
        self.port, self.s, self.rng = port, port.s, rng
        self.saver = Saver(port.s, port.model)
        self.saver.family, self.saver.ids = port.type, np.array(getattr(port, "text", []))
        self.saver.adds = "embed" if port.places is not None or port.factor != 1 else ""

    def some(self, tensors):
        """Half of what was saved, whole kinds of it."""
        kinds = sorted({strip(name) for name in tensors})
        kept = {kind for kind in kinds if self.rng.random() < 0.5}
        return {n: v for n, v in tensors.items() if strip(n) in kept} or tensors

    def everything(self):
        return dict(self.s)

    def states(self):
        return {"hidden_states": np.stack(self.port.states)[:, None]}

    def states_and_logits(self):
        return self.states() | self.end("logits")

    def end(self, name):
        return {name: self.s[name]} if name in self.s else {}

    def logits(self):
        return self.end("logits") or None

    def tool(self, name):
        return getattr(self.saver, name)()

    def streams(self):
        """The layers' outputs alone, as one file a tool that is not known writes."""
        way = self.rng.choice(["model.layers.{}", "h.{}.output", "blocks.{}.hook_resid_post", "l_out-{}", "layer_{}"])
        return {way.format(n): self.s[f"layers.{n}.resid_post"] for n in range(len(self.port.blocks))} | self.end("logits")

    def last_token(self):
        return {f"l_out-{n}": self.s[f"layers.{n}.resid_post"] for n in range(len(self.port.blocks))} | \
            ({"result_output": self.s["logits"][-1]} if "logits" in self.s else {})


def strip(name):
    return "".join(c for c in name if not c.isdigit())


WAYS = (["everything"] * 2 + ["states"] * 3 + ["states_and_logits"] * 2 + ["logits"] * 2 + ["streams"] * 2 + ["last_token"] +
        ["tool:llama_cpp", "tool:modules", "tool:nnsight", "tool:transformer_lens", "tool:vllm", "tool:numbered_states"] +
        ["some:llama_cpp", "some:modules", "some:transformer_lens", "some:vllm"])


def saved(port, rng, way):
    captures = Captures(port, rng)
    kind, _, name = way.partition(":")
    if not name:
        return getattr(captures, way)()
    tensors = captures.tool(name)
    return tensors and (captures.some(tensors) if kind == "some" else tensors)


# Of a tensor's root mean square: a difference that is told from rounding through a few layers.
SEEN = {"f64": 1e-3, "f32": 1e-3, "f16": 0.02, "bf16": 0.15}


def differs(a, b, least):
    if a.keys() != b.keys():
        return True
    for name in a:
        x, y = (np.where(np.isfinite(v[name]), v[name], 0) for v in (a, b))
        if x.shape != y.shape or np.abs(x - y).max() > least * max(np.sqrt((y * y).mean()), 1e-30):
            return True
    return False


# Cases ----------------------------------------------------------------------------------------------


def planted(folder, plant, scope, rng):
    """A port with the mistake, and the layers that have it; None where the model has nothing of it."""
    port = Port(folder)
    port.original = copy.deepcopy(port.blocks)
    if scope != "layers":
        return None if plant(port, rng) is False else (port, None)
    count, kind = len(port.blocks), rng.random()
    layers = list(range(count)) if kind < 0.55 else [int(rng.integers(count))] if kind < 0.8 else \
        list(range(int(rng.integers(1, count)), count))
    had = [n for n in layers if plant(port, n) is not False]
    for n in had:
        if port.of[n].get("reads", 0) is None:
            port.of[n]["reads"] = lambda h, k=port.blocks[n].attention.num_kv_heads: h % k
    return (port, had) if had else None


def draw(number, seed, models, only):
    rng = np.random.default_rng([seed, number])
    bugs = [b for b in BUGS if not only or any(word in b[0] for word in only)]
    for _ in range(2000):
        name, ids, scope, of_logits, plant, own = bugs[int(rng.integers(len(bugs)))]
        variant = str(rng.choice([m for m in own or MODELS if m in models]))
        folder, way = models[variant], str(rng.choice(WAYS))
        precision = str(rng.choice(["f32", "f32", "f32", "f64", "bf16", "f16"]))
        found = planted(folder, plant, scope, rng)
        if not found:
            continue
        port, layers = found
        everywhere = layers is None or len(layers) == len(port.blocks)
        if way == "logits" and not (of_logits and everywhere):
            continue
        V = len(port.words)
        ids_of_text = [int(x) for x in rng.integers(5, V, int(rng.integers(7, 11)))]
        right = Port(folder)
        right.round = port.round = ROUND[precision]
        state = rng.bit_generator.state
        right.run(ids_of_text), port.run(ids_of_text)
        tensors = saved(port, rng, way)
        if not tensors:
            continue
        rng.bit_generator.state = state
        if not differs(tensors, saved(right, rng, way), SEEN[precision]):
            continue
        return {"number": number, "bug": name, "ids": ids, "scope": scope, "layers": layers, "model": variant, "folder": folder,
                "text": ids_of_text, "way": way, "precision": precision,
                "tensors": {n: np.asarray(v, SAVED[precision]) for n, v in tensors.items()}}
    raise SystemExit("nothing can be planted")


def judged(case, code, out, err):
    """(verdict, what was told)"""
    if code == 2:
        return "error", err.strip()
    told = json.loads(out)
    places = {"": told} if "changes" in told else told
    causes = {at: {c["id"] for c in one["changes"]} | set(one["same_numbers"]) for at, one in places.items()}
    text = "; ".join(f"{at or 'end'}: {' '.join(sorted(ids))}{'' if places[at]['explained'] else ' (in part)'}"
                     for at, ids in causes.items() if ids or not places[at]["explained"]) or "agrees"
    good = [at for at, ids in causes.items() if ids & case["ids"]]
    rounds = {f"precision.{case['precision']}"}
    if not good:
        return ("misled" if any(ids - rounds for ids in causes.values()) else "missed"), text
    others = [at for at, ids in causes.items() if ids - rounds and not ids & case["ids"]]
    return ("extra" if others else "named"), text


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("models")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--keep")
    parser.add_argument("-j", type=int, default=2)
    args = parser.parse_args()
    folder = args.keep or tempfile.mkdtemp()
    os.makedirs(folder, exist_ok=True)
    models = {m: os.path.join(args.models, m) for m in MODELS if os.path.isdir(os.path.join(args.models, m))}

    def do(number):
        case = draw(number, args.seed, models, args.only)
        path = os.path.join(folder, f"{number}.npz")
        np.savez(path, **case.pop("tensors"))
        words = [args.program, "diagnose", case["folder"], "--ids", ",".join(map(str, case["text"])), "--quiet", "--threads", "1",
                 "--against", path]
        done = subprocess.run(words + ["--format", "json"], capture_output=True, text=True)
        verdict, text = judged(case, done.returncode, done.stdout, done.stderr)
        return case, verdict, text, words

    counts, by_way, by_precision = {}, {}, {}
    with concurrent.futures.ThreadPoolExecutor(args.j) as pool:
        for case, verdict, text, words in pool.map(do, range(args.first, args.first + args.count)):
            for table, key in ((counts, verdict), (by_way, (case["way"], verdict)), (by_precision, (case["precision"], verdict))):
                table[key] = table.get(key, 0) + 1
            if verdict != "named":
                print(f"{verdict} #{case['number']} {case['model']} {case['bug']} layers {case['layers']} {case['way']} "
                      f"{case['precision']}: {text}", flush=True)
                if args.show:
                    print("   ", " ".join(words), flush=True)
    for table in (by_way, by_precision):
        for key in sorted({k for k, _ in table}):
            row = {v: n for (k, v), n in table.items() if k == key}
            print(f"{key}: {row.get('named', 0)} of {sum(row.values())}  {row}")
    print(f"{counts.get('named', 0)} of {args.count} are named: {counts}")
    return 0 if counts.get("named", 0) >= 0.9 * args.count else 1


if __name__ == "__main__":
    sys.exit(main())
