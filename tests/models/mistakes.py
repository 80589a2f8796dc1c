"""Mistakes that ports of whole models make, planted in the reference of this folder.

Each is an edit of a forward.Model, or another way to run its blocks; none is taken from lib/. `ids`
are the names under which `diagnose` may tell it: where numbers cannot decide, several.
"""
import copy
from dataclasses import dataclass
from typing import Callable, Optional

import numpy as np

import forward
from forward import ACTIVATIONS, Norm, Rope, Trace, attend, beside, feed, identity


@dataclass
class Mistake:
    name: str
    ids: str                      # that tell it, separated by spaces
    plant: Callable               # Port -> False where the model does not have what it is about
    seen_in_logits: bool = False  # promised from logits alone: an end, every layer, or one run of a layer


class Port:
    """A model that runs as a port of it does."""

    def __init__(self, model, config):
        self.model, self.config = copy.deepcopy(model), config
        self.shape = {}             # layer -> how its block runs
        self.order = list(range(len(model.blocks)))
        self.head_input = None      # what the head gets: "stream"
        self.logits = identity
        self.feed = feed            # how a feed-forward runs
        self.attend = attend        # how attention runs

    @property
    def blocks(self):
        return self.model.blocks

    def attention(self, edit):
        for block in self.blocks:
            if edit(block.attention) is False:
                return False

    def feed_forward(self, edit):
        if self.blocks[0].feed_forward is None:
            return False
        for block in self.blocks:
            if edit(block.feed_forward) is False:
                return False

    def run_as(self, shape, only=None):
        for n in range(len(self.blocks)):
            if only is None or n == only:
                self.shape[n] = shape

    def run(self, ids):
        t, states = Trace(), {}
        ids = np.asarray(ids)
        x = t("embed", self.model.embed(ids))
        embeds = self.model.layer_embeds(ids, x) if self.model.layer_embeds else None
        for place, n in enumerate(self.order):
            block = self.blocks[n]
            t.prefix = f"layers.{n}."
            x = t("resid_pre", x)
            states.setdefault(n, x)
            run_block = self.shape.get(n) or forward.SHAPES[block.shape]
            x = run_block(block, t, x, lambda y: self.attend(block.attention, t, y, None),
                          lambda y: self.feed(block.feed_forward, t, y))
            if block.side:
                x = x + beside(block.side, t, x, embeds[..., n, :])
            x = t("resid_post", block.factor * x)
        t.prefix = ""
        for n in set(range(len(self.blocks))) - set(self.order):  # what a skipped layer hands on
            before = t.stages[f"layers.{n - 1}.resid_post"] if n else t.stages["embed"]
            t.stages[f"layers.{n}.resid_pre"] = t.stages[f"layers.{n}.resid_post"] = before
            states[n] = before
        stream = x
        if self.model.final:
            x = t("final", self.model.final(x))
        if self.model.head:
            head = self.model.head
            logits = head.decoder(head.transform(stream if self.head_input == "stream" else x))
            if head.softcap:
                logits = head.softcap * np.tanh(logits / head.softcap)
            t("logits", self.logits(logits))
        self.states = np.stack([states[n] for n in range(len(self.blocks))] + [x])[:, None]
        return {name: value for name, value in t.stages.items() if not name.endswith("head_result")}


# Norms -----------------------------------------------------------------------------------------

def other(norm, **changes):
    result = copy.copy(norm)
    for name, value in changes.items():
        setattr(result, name, value)
    return result


def as_layer(norm):
    return other(norm, kind="layer")


def as_rms(norm):
    return other(norm, kind="rms")


def norm_edits(norm):
    """(suffix, norm) of every other form that differs."""
    plain = isinstance(norm.weight, float)
    yield "kind", as_layer(norm) if norm.kind == "rms" else as_rms(norm)
    yield "eps", other(norm, eps=1e-2 if norm.eps != 1e-2 else 1e-5)
    if not plain:
        yield "one_plus", other(norm, weight=norm.weight + 1)
        yield "weight", other(norm, weight=1.0)
        if not isinstance(norm.bias, float):
            yield "bias", other(norm, bias=0.0)
    yield "missing", identity


def of_norm(slot, suffix):
    def plant(port):
        for block in port.blocks:
            norm = getattr(block, slot)
            if norm is identity or block.feed_forward is None and slot != "n1":
                return False
            edits = dict(norm_edits(norm))
            if suffix not in edits:
                return False
            setattr(block, slot, edits[suffix])
    return plant


def minus_one(slot):
    """Gemma's weights taken as they lie in the file."""
    def plant(port):
        if not port.config.get("model_type", "").startswith("gemma"):
            return False
        for block in port.blocks:
            norm = getattr(block, slot)
            if norm is identity:
                return False
            setattr(block, slot, other(norm, weight=norm.weight - 1))
    return plant


def norm_mistakes():
    for slot, place in (("n1", "first"), ("n2", "second"), ("n3", "third"), ("n4", "fourth")):
        for suffix in ("kind", "eps", "one_plus", "weight", "bias", "missing"):
            ids = f"input_norm.{suffix} block_norm.{suffix}"
            yield Mistake(f"norm.{place}.{suffix}", ids, of_norm(slot, suffix), True)
        yield Mistake(f"norm.{place}.minus_one", "input_norm.one_plus block_norm.one_plus", minus_one(slot), True)

    def exchanged(port):
        for block in port.blocks:
            if block.n2 is identity or block.n1 is identity or block.shape not in ("pre", "parallel"):
                return False
            block.n1, block.n2 = block.n2, block.n1
    yield Mistake("norm.exchanged", "block_norm.other", exchanged, True)

    def second_is_first(port):
        for block in port.blocks:
            if block.n2 is identity or block.n1 is identity or block.shape not in ("pre", "parallel"):
                return False
            block.n2 = block.n1
    yield Mistake("norm.second_is_first", "block_norm.other", second_is_first, True)

    def post_for_pre(port):
        if port.blocks[0].shape != "pre" or port.blocks[0].n1 is identity:
            return False
        port.run_as(forward.post)
    yield Mistake("norm.place.post", "block_norm.place", post_for_pre, True)

    def pre_for_post(port):
        if port.blocks[0].shape != "post":
            return False
        port.run_as(forward.pre)
    yield Mistake("norm.place.pre", "block_norm.place", pre_for_post, True)

    for suffix in ("kind", "eps", "one_plus", "weight", "bias", "missing"):
        def last(port, suffix=suffix):
            if not port.model.final:
                return False
            edits = dict(norm_edits(port.model.final))
            if suffix not in edits:
                return False
            port.model.final = edits[suffix]
        yield Mistake(f"last_norm.{suffix}", "last_norm.missing head.norm.missing" if suffix == "missing" else
                      "last_norm.form", last, True)

    def last_twice(port):
        if not port.model.final:
            return False
        norm = port.model.final
        port.model.final = lambda x: norm(norm(x))
    yield Mistake("last_norm.twice", "last_norm.twice", last_twice, True)


# Feed-forward ------------------------------------------------------------------------------------

def activation_mistakes():
    for name in ("relu", "silu", "gelu", "gelu_new", "quick_gelu"):
        def plant(port, name=name):
            def edit(f):
                if f.activation in (ACTIVATIONS[name], ACTIVATIONS["solu"]):
                    return False
                f.activation = ACTIVATIONS[name]
            return port.feed_forward(edit)
        yield Mistake(f"mlp.activation.{name}", "mlp.activation", plant, True)

    def none(port):
        def edit(f):
            f.activation = identity
        return port.feed_forward(edit)
    yield Mistake("mlp.activation.none", "mlp.activation", none, True)

    def relu_squared(port):
        def edit(f):
            f.activation = lambda x: np.maximum(x, 0) ** 2
        return port.feed_forward(edit)
    yield Mistake("mlp.activation.relu_squared", "mlp.activation", relu_squared, True)


def gated(edit):
    def plant(port):
        return port.feed_forward(lambda f: edit(f) if f.up else False)
    return plant


def swapped(f):
    f.pre, f.up = f.up, f.pre


def cut_otherwise(cut):
    def edit(f):
        both = np.concatenate([f.pre.weight, f.up.weight], 1)
        bias = [np.broadcast_to(one.bias, one.weight.shape[1:]) for one in (f.pre, f.up)]
        for part, columns in zip((f.pre, f.up), cut(both.shape[1])):
            part.weight, part.bias = both[:, columns], np.concatenate(bias)[columns]
    return edit


def interleaved(n):
    return np.arange(0, n, 2), np.arange(1, n, 2)


def sharded(n):
    a, b, c, d = np.split(np.arange(n), 4)
    return np.concatenate([a, c]), np.concatenate([b, d])


def has_bias(linear):
    return not isinstance(linear.bias, float)


def no_bias(part):
    def edit(f):
        if not has_bias(getattr(f, part)):
            return False
        getattr(f, part).bias = 0.0
    return edit


def bias_times(times, part="out"):
    def edit(f):
        if not has_bias(getattr(f, part)):
            return False
        getattr(f, part).bias = getattr(f, part).bias * times
    return edit


def memory_as_transpose(part):
    def plant(port):
        stored_in_out = port.config.get("model_type") == "gpt2" or "d_vocab" in port.config
        def edit(f):
            linear = getattr(f, part)
            i, o = linear.weight.shape
            if stored_in_out:
                linear.weight = np.ascontiguousarray(linear.weight).reshape(o, i).T
            else:
                linear.weight = np.ascontiguousarray(linear.weight.T).reshape(i, o)
        return port.feed_forward(edit)
    return plant


def no_product(f):
    f.out.weight, f.out.bias = 0 * f.out.weight, 0.0


def rounded_product(f):
    """A product kept in bfloat16 between two products in float32."""
    norm = f.act_norm
    f.act_norm = lambda x: to_bfloat16(norm(x))


def to_bfloat16(x):
    bits = np.asarray(x, np.float32).view(np.uint32)
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return bits.astype(np.uint32).view(np.float32).astype(np.float64)


def feed_forward_mistakes():
    yield from activation_mistakes()
    yield Mistake("mlp.swapped", "mlp.swapped", gated(swapped), True)

    def activated_other(port):
        def run(f, t, x):
            x = t("mlp_x", x)
            act = t("mlp_pre", f.pre(x)) * f.activation(t("mlp_up", f.up(x)))
            return t("mlp_out", f.out(t("mlp_act", act + f.act_bias)))
        port.feed = run
        return port.feed_forward(lambda f: None if f.up else False)
    yield Mistake("mlp.activated_other", "mlp.activated_other mlp.swapped", activated_other, True)

    def no_gate(f):
        f.up = None
    yield Mistake("mlp.gate.missing", "mlp.gate.missing", gated(no_gate), True)
    yield Mistake("mlp.interleaved", "mlp.interleaved", gated(cut_otherwise(interleaved)), True)
    yield Mistake("mlp.sharded", "mlp.sharded", gated(cut_otherwise(sharded)), True)
    for part in ("pre", "out"):
        yield Mistake(f"mlp.bias.missing.{part}", "mlp.bias.missing",
                      lambda port, part=part: port.feed_forward(no_bias(part)), True)
    for times in (2, 4):
        yield Mistake(f"mlp.bias.times.{times}", "mlp.bias.times",
                      lambda port, times=times: port.feed_forward(bias_times(times)), True)
    for part in ("pre", "out"):
        yield Mistake(f"mlp.transposed.{part}", "mlp.transposed",
                      memory_as_transpose(part), True)
    yield Mistake("mlp.missing", "mlp.missing", lambda port: port.feed_forward(no_product), True)
    yield Mistake("mlp.rounded", "mlp.rounded precision.bf16", lambda port: port.feed_forward(rounded_product))


# Blocks --------------------------------------------------------------------------------------------

def sequential_only(run):
    def plant(port, only=None):
        if port.blocks[0].shape != "pre" or port.blocks[0].feed_forward is None:
            return False
        port.run_as(run, only)
    return plant


def from_normed(b, t, x, A, F):
    h = b.n1(x)
    r = t("residual", h + A(h))
    return r + F(b.n2(r))


def mlp_from_normed(b, t, x, A, F):
    r = t("residual", x + A(b.n1(x)))
    m = b.n2(r)
    return m + F(m)


def no_attention_residual(b, t, x, A, F):
    r = t("residual", A(b.n1(x)))
    return r + F(b.n2(r))


def original_residual(b, t, x, A, F):
    return x + F(b.n2(t("residual", x + A(b.n1(x)))))


def no_attention(b, t, x, A, F):
    A(b.n1(x))
    r = t("residual", x)
    return r + F(b.n2(r))


def block_mistakes():
    yield Mistake("block.residual.normalised", "block.residual.normalised", sequential_only(from_normed), True)
    yield Mistake("block.residual.normalised.mlp", "block.residual.normalised", sequential_only(mlp_from_normed), True)
    yield Mistake("block.residual.missing", "block.residual.missing", sequential_only(no_attention_residual), True)
    yield Mistake("block.residual.original", "block.residual.original", sequential_only(original_residual), True)
    yield Mistake("block.attention.missing", "block.attention.missing output.missing", sequential_only(no_attention), True)
    yield Mistake("block.parallel", "block.parallel", sequential_only(forward.parallel), True)

    def sequential(port):
        if port.blocks[0].shape != "parallel":
            return False
        port.run_as(forward.pre)
    yield Mistake("block.sequential", "block.sequential", sequential, True)

    def skipped(n):
        def plant(port):
            port.order.remove(n)
        return plant
    yield Mistake("block.skipped", "block.skipped", skipped(1), True)
    yield Mistake("block.last_skipped", "block.skipped", lambda port: port.order.pop() and None, True)

    def twice(port):
        port.order.insert(1, 1)
    yield Mistake("block.twice", "block.twice", twice, True)

    def other_weights(port):
        port.blocks[2] = port.blocks[1]
    yield Mistake("block.weights.other", "block.weights.other", other_weights, True)

    def exchanged(port):
        port.blocks[1], port.blocks[2] = port.blocks[2], port.blocks[1]
    yield Mistake("block.weights.exchanged", "block.weights.other", exchanged, True)

    def off_by_one(port):
        port.model.blocks = [port.blocks[max(n - 1, 0)] for n in range(len(port.blocks))]
    yield Mistake("block.weights.off_by_one", "block.weights.other", off_by_one)

    def other_mlp(port):
        if port.blocks[0].feed_forward is None:
            return False
        port.blocks[2].feed_forward = port.blocks[0].feed_forward
    yield Mistake("block.weights.other_mlp", "block.weights.other", other_mlp)


# What stands around the layers -----------------------------------------------------------------------

def ends_mistakes():
    def scaled(port):
        embed = port.model.embed
        if not linear_embedding(port):
            return False
        port.model.embed = lambda ids: embed(ids) * embed(ids).shape[-1] ** 0.5
    yield Mistake("embed.scale", "embed.scale", scaled, True)

    def unscaled(port):
        if not port.config.get("model_type", "").startswith("gemma"):
            return False
        embed = port.model.embed
        if port.config.get("torch_dtype") != "bfloat16":
            port.model.embed = lambda ids: embed(ids) / embed(ids).shape[-1] ** 0.5
        else:
            port.model.embed = lambda ids: embed(ids) / round_like(embed, ids)
    yield Mistake("embed.unscaled", "embed.scale", unscaled, True)

    for name, rows in (("missing", lambda n: None), ("from_1", lambda n: np.arange(n) + 1),
                       ("from_2", lambda n: np.arange(n) + 2), ("same", lambda n: np.zeros(n, int))):
        def positions(port, rows=rows):
            return with_positions(port, rows)
        ids = {"missing": "embed.positions.missing", "same": "embed.positions.same"}.get(name, "embed.positions.offset")
        yield Mistake(f"embed.positions.{name}", ids, positions, True)

    def head_stream(port):
        if not port.model.final or not port.model.head:
            return False
        port.head_input = "stream"
    yield Mistake("head.norm.missing", "head.norm.missing last_norm.missing", head_stream, True)

    def cap(port):
        if not port.model.head or port.model.head.softcap:
            return False
        port.model.head.softcap = 30.0
    yield Mistake("head.softcap", "head.softcap", cap, True)

    def uncapped(port):
        if not port.model.head or not port.model.head.softcap:
            return False
        port.model.head.softcap = None
    yield Mistake("head.softcap.missing", "head.softcap", uncapped, True)

    def no_bias_in_head(port):
        if not port.model.head or not has_bias(port.model.head.decoder):
            return False
        port.model.head.decoder.bias = 0.0
    yield Mistake("head.bias", "head.bias", no_bias_in_head, True)

    def scaled_logits(port):
        if not port.model.head:
            return False
        d = port.model.head.decoder.weight.shape[0]
        port.logits = lambda y: y * d ** -0.5
    yield Mistake("head.scale", "head.scale", scaled_logits, True)

    def no_transform(port):
        if not port.model.head or port.model.head.transform is identity:
            return False
        port.model.head.transform = identity
    yield Mistake("head.dense", "head.dense", no_transform, True)


def linear_embedding(port):
    """Whether the embedding is the tokens' rows alone."""
    return not has_positions(port) and not port.config.get("model_type", "").startswith(("gemma", "bert", "roberta", "distil"))


def round_like(embed, ids):
    d = embed(np.asarray(ids)).shape[-1]
    return to_bfloat16(np.array([d ** 0.5]))[0]


def has_positions(port):
    a = port.model.embed(np.array([5, 5, 5]))
    return np.abs(a[0] - a[1]).max() > 0


def with_positions(port, rows):
    """Cells of the model's own embedding function hold its tables: rows of another number are taken from there."""
    if not has_positions(port):
        return False
    table = position_table(port.model.embed)
    if table is None:
        return False
    embed, (owner, name, own) = port.model.embed, table
    def run(ids):
        n = np.asarray(ids).shape[-1]
        which = rows(n)
        first = own_first(port.config)
        changed = own.copy()
        if which is None:
            changed[:] = 0
        else:
            changed[first:first + n] = own[first + which]
        owner[name] = changed
        try:
            return embed(ids)
        finally:
            owner[name] = own
    port.model.embed = run


def own_first(config):
    return config.get("pad_token_id", 1) + 1 if config.get("model_type") == "roberta" else 0


class Cell(dict):
    """A closure's cell, written like a dict."""

    def __init__(self, cell):
        super().__init__()
        self.cell = cell

    def __setitem__(self, name, value):
        self.cell.cell_contents = value


def position_table(embed):
    """The closure's own table of positions: (owner, name, table)."""
    for name, cell in zip(embed.__code__.co_freevars, embed.__closure__ or ()):
        value = cell.cell_contents
        if name == "places":
            return Cell(cell), name, value
        if name == "b" and "wpe.weight" in value:
            dtype, own = value.tensors["wpe.weight"]
            class Owner(dict):
                def __setitem__(self, key, table, value=value, dtype=dtype):
                    value.tensors["wpe.weight"] = (dtype, table)
            return Owner(), name, own
    return None


# Attention ---------------------------------------------------------------------------------------------

def attention_mistakes():
    def scale(port):
        def edit(a):
            if a.scale == 1:
                return False
            a.scale = 1.0
        return port.attention(edit)
    yield Mistake("scale.missing", "scale.missing", scale, True)

    def causal(port):
        def edit(a):
            if not a.causal:
                return False
            a.causal = False
        return port.attention(edit)
    yield Mistake("causal.missing", "causal.missing", causal, True)

    def base(port):
        def edit(a):
            if not a.rope or callable(a.rope.frequencies) or len(a.rope.frequencies) < 3:
                return False
            theta = a.rope.frequencies
            own = 1 / theta[1]
            if not np.allclose(theta, own ** -np.arange(len(theta)), rtol=1e-6):
                return False  # scaled: another base alone is another mistake
            if abs(own ** len(theta) - 10000) < 1:
                a.rope.frequencies = 500000.0 ** (-np.arange(len(theta)) / len(theta))
            else:
                a.rope.frequencies = 10000.0 ** (-np.arange(len(theta)) / len(theta))
        return port.attention(edit)
    yield Mistake("rope.base", "rope.base rope.scaling.missing rope.scaling.kind rope.frequencies", base, True)

    def style(port):
        def edit(a):
            if not a.rope:
                return False
            a.rope.adjacent = not a.rope.adjacent
        return port.attention(edit)
    yield Mistake("rope.style", "rope.style", style, True)

    def no_rope(port):
        def edit(a):
            if not a.rope:
                return False
            a.rope = None
        return port.attention(edit)
    yield Mistake("rope.missing", "rope.missing", no_rope, True)

    def tiled(port):
        def edit(a):
            group = a.num_heads // a.num_kv_heads
            if group == 1 or a.num_kv_heads == 1:
                return False
            for part in (a.k, a.v):  # head h reads h mod H_kv: every query head has its own copy
                d = part.weight.shape[1] // a.num_kv_heads
                wanted = np.concatenate([np.arange(d) + d * (h % a.num_kv_heads) for h in range(a.num_heads)])
                part.weight = part.weight[:, wanted]
                if has_bias(part):
                    part.bias = part.bias[wanted]
            a.num_kv_heads = a.num_heads
        return port.attention(edit)
    yield Mistake("gqa.tiled", "gqa.tiled", tiled, True)

    def qk_norm(port):
        def edit(a):
            if not a.q_norm:
                return False
            a.q_norm = a.k_norm = None
        return port.attention(edit)
    yield Mistake("qk_norm.missing", "norm.missing", qk_norm, True)

    def cap(port):
        def edit(a):
            if not a.softcap:
                return False
            a.softcap = None
        return port.attention(edit)
    yield Mistake("softcap.missing", "softcap.missing", cap, True)

    def biases(port):
        def edit(a):
            if not has_bias(a.q):
                return False
            a.q.bias = a.k.bias = a.v.bias = 0.0
        return port.attention(edit)
    yield Mistake("bias.missing", "bias.missing bias.missing.q bias.missing.k bias.missing.v", biases, True)

    def window_off(by):
        def plant(port):
            found = False
            for block in port.blocks:
                if block.attention.window:
                    block.attention.window += by
                    found = True
            return found or False
        return plant
    yield Mistake("window.plus_one", "window.plus_one window.length", window_off(1), True)
    yield Mistake("window.minus_one", "window.minus_one window.length", window_off(-1), True)

    def windows_moved(port):
        windows = [block.attention.window for block in port.blocks]
        if len(set(windows)) < 2:
            return False
        for block, window in zip(port.blocks, windows[1:] + windows[:1]):
            block.attention.window = window
    yield Mistake("window.layers", "window.missing window.added window.length window.layers block.settings.other", windows_moved)

    def no_windows(port):
        if not any(block.attention.window for block in port.blocks):
            return False
        port.attention(lambda a: setattr(a, "window", None))
    yield Mistake("window.missing", "window.missing", no_windows, True)

    def bases_exchanged(port):
        ropes = [block.attention.rope for block in port.blocks]
        if any(r is None or callable(r.frequencies) for r in ropes) or len({tuple(r.frequencies) for r in ropes}) < 2:
            return False
        kinds = sorted({tuple(r.frequencies) for r in ropes})
        for block in port.blocks:
            own = tuple(block.attention.rope.frequencies)
            block.attention.rope = Rope(np.array(kinds[1] if own == kinds[0] else kinds[0]))
    yield Mistake("rope.layers", "rope.base rope.layers block.settings.other rope.scaling.missing rope.scaling.added", bases_exchanged)


def all_mistakes():
    yield from attention_mistakes()
    yield from norm_mistakes()
    yield from feed_forward_mistakes()
    yield from block_mistakes()
    yield from ends_mistakes()


def plant(model, config, mistake, kind=Port) -> Optional[Port]:
    port = kind(model, config)
    return None if mistake.plant(port) is False else port
